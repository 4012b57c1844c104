"""LSTM with full self-attention over its own past states: the paper's dense baseline.

Source: paper section 4, Tables 1 to 3 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sab.checks import finite_float, one_of, positive_int
from sab.models.lstm import check_input
from sab.models.sab import SABLayer
from sab.ops.attentive_scan import OPTIONS, attentive_scan
from sab.ops.sab_scan import FORMS, SABState, initial_state


@dataclass(frozen=True)
class AttentiveLSTMConfig:
    """Settings of `AttentiveLSTM`.

    Attributes:
        input_size: width of the input.
        hidden_size: width n of the state.
        output_size: width of the read-out.
        score_size: width d of the scorer; ``None``: hidden_size.
        k_trunc: steps of sequential backpropagation; ``None`` is full BPTT. Reads are never cut.
        forget_bias: added to the forget gate's bias at the start.
        form: which form computes it, named as in `SABConfig`; ``"graph"`` runs as ``"torch"``.
    """

    input_size: int = 10
    hidden_size: int = 128
    output_size: int = 10
    score_size: int | None = None
    k_trunc: int | None = None
    forget_bias: float = 1.0
    form: str = "auto"

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and unknown names (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size"):
            positive_int(name, getattr(self, name))
        for name in ("score_size", "k_trunc"):
            if getattr(self, name) is not None:
                positive_int(name, getattr(self, name))
        finite_float("forget_bias", self.forget_bias)
        one_of("form", self.form, FORMS)


@dataclass(frozen=True)
class DenseRecall:
    """What was recalled at each step, over every state written.

    Attributes:
        weights: (B, T, N) over the N states; the last T columns are the states of this call.
    """

    weights: Tensor

    def matrix(self, length: int | None = None) -> Tensor:
        """Weights (B, T, length) over the states written by this call."""
        steps = self.weights.shape[1]
        return self.weights[:, :, self.weights.shape[2] - steps :][:, :, :length]


class AttentiveLSTM(nn.Module):
    """LSTM that adds a softmax-weighted sum of all its past states to its hidden state.

    The read-out is SAB's. Shapes: x (B, T, input_size) → logits (B, T, output_size).
    """

    def __init__(self, config: AttentiveLSTMConfig | None = None) -> None:
        """Build the cell, the scorer and the read-out from ``config``."""
        super().__init__()
        self.config = config = config or AttentiveLSTMConfig()
        self.layer = SABLayer(  # the same parameters; only the reading differs
            config.input_size,
            config.hidden_size,
            score_size=config.score_size,
            forget_bias=config.forget_bias,
        )
        self.v1 = nn.Linear(config.hidden_size, config.output_size)
        self.v2 = nn.Linear(config.hidden_size, config.output_size, bias=False)

    def init_state(self, batch: int) -> SABState:
        """A fresh state for ``batch`` samples (ValueError if it is not a positive integer)."""
        return initial_state(batch, self.config.hidden_size, OPTIONS, self.v1.weight)

    def forward(
        self,
        x: Tensor,
        state: SABState | None = None,
        lengths: Tensor | None = None,
        return_recall: bool = False,
    ) -> Any:
        """Run the model over a sequence.

        Args:
            x: (B, T, input_size).
            state: where to start; a fresh one if ``None``; it gets no gradient.
            lengths: (B,) int64, valid steps of each sample; ``None``: all T.
            return_recall: also return the weights; computed with a graph, since they are not kept
                without one.

        Returns:
            Logits (B, T, output_size), the final state[, DenseRecall].

        Raises:
            ValueError: a shape or a length does not fit.
        """
        check_input(x, self.config.input_size, lengths)
        if state is None:
            state = self.init_state(x.shape[0])
        settings = (lengths, self.config.k_trunc, self.config.form)
        with torch.set_grad_enabled(torch.is_grad_enabled() or return_recall):
            h, s, state, alpha = attentive_scan(
                x.transpose(0, 1), self.layer.weights, state, *settings
            )
        y = (self.v1(h) + self.v2(s)).transpose(0, 1)
        if not return_recall:
            return y, state
        assert alpha is not None
        return y, state, DenseRecall(alpha.detach().transpose(0, 1))
