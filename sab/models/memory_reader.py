"""An LSTM whose past states are a memory, read in hops as an end-to-end memory network reads.

Nothing that is read goes back into the LSTM: the memory serves the answer alone, so all steps are
read at once. Source: Sukhbaatar et al. 2015, sections 2.1 and 2.2, with states for sentences; the
products are divided by √n, which their matrix A could take up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sab.checks import finite_float, positive_int
from sab.models.lstm import LSTM, LSTMConfig
from sab.ops.attention import causal_mask, scaled_dot_product


@dataclass(frozen=True)
class MemoryReaderConfig:
    """Settings of `MemoryReader`.

    Attributes:
        input_size: width of the input.
        hidden_size: width n of the state, and of what is kept of it.
        output_size: width of the read-out.
        hops: reads an answer, at least 1.
        forget_bias: added to the forget gate's bias at the start.
    """

    input_size: int = 10
    hidden_size: int = 64
    output_size: int = 10
    hops: int = 2
    forget_bias: float = 1.0

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and a bias not finite (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size", "hops"):
            positive_int(name, getattr(self, name))
        finite_float("forget_bias", self.forget_bias)


class MemoryReader(nn.Module):
    """``q⁰ = h_t``, ``qᵏ = qᵏ⁻¹ + Σ_{i<t} softmax(aᵢᵀ qᵏ⁻¹ / √n) cᵢ``, ``y = V q^hops + b``.

    ``a = A h`` is what a state is found by and ``c = C h`` what it gives, the same in every hop.
    The first step has nothing to read.

    Shapes: x (B, T, input_size) → logits (B, T, output_size), and ``None`` for the state.
    """

    def __init__(self, config: MemoryReaderConfig | None = None) -> None:
        """Build the LSTM, both maps and the read-out from ``config``."""
        super().__init__()
        self.config = c = config or MemoryReaderConfig()
        self.writer = LSTM(
            LSTMConfig(c.input_size, c.hidden_size, c.output_size, forget_bias=c.forget_bias)
        )
        self.a = nn.Linear(c.hidden_size, c.hidden_size, bias=False)
        self.c = nn.Linear(c.hidden_size, c.hidden_size, bias=False)

    def read(self, h: Tensor) -> tuple[Tensor, list[Tensor]]:
        """States (B, T, n) → queries after the last hop (B, T, n); each hop's weights (B, T, T).

        Row t of the weights is over the states before t; the first row is zeros.
        """
        queries, weights = h, []
        if h.shape[1] < 2:
            return h, [h.new_zeros(*h.shape[:2], h.shape[1])] * self.config.hops
        keys, values = self.a(h[:, :-1]), self.c(h[:, :-1])
        earlier = causal_mask(h.shape[1] - 1, h.device)
        for _ in range(self.config.hops):
            found = scaled_dot_product(queries[:, 1:], keys, values, earlier)
            queries = queries + nn.functional.pad(found.output, (0, 0, 1, 0))
            weights.append(nn.functional.pad(found.weights, (0, 1, 1, 0)))
        return queries, weights

    def forward(
        self, x: Tensor, state: None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Logits (B, T, output_size), and no state.

        Args:
            x: (B, T, input_size).
            state: ``None``: every sequence starts with an empty memory.
            lengths: (B,), valid steps of each sample; outputs beyond say nothing.

        Raises:
            ValueError: a shape or a length does not fit, or a state is given.
        """
        if state is not None:
            raise ValueError("state: a memory reader starts every sequence with an empty memory")
        h, _ = self.writer.hidden(x, None, lengths)
        return self.writer.readout(self.read(h)[0]), None


def weights_of(model: MemoryReader, x: Tensor) -> Tensor:
    """Each hop's weights (hops, B, T, T) for x (B, T, input_size), without a graph."""
    with torch.no_grad():
        return torch.stack(model.read(model.writer.hidden(x)[0])[1])
