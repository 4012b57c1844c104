"""The SAB model: the recurrent layer of Algorithm 1 and its read-out (paper section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from sab.checks import finite_float, one_of, positive_int, shape
from sab.models.lstm import add_forget_bias, check_input
from sab.ops.sab_scan import (
    FORMS,
    Recall,
    SABState,
    ScanOptions,
    ScanWeights,
    initial_state,
    sab_scan,
)


@dataclass(frozen=True)
class SABConfig:
    """Settings of `SAB`; the defaults are the recipe that learns the copy task.

    Attributes:
        input_size: width of the input.
        hidden_size: width n of the state.
        output_size: width of the read-out.
        score_size: width d of the scorer; ``None``: hidden_size.
        k_top … initial_memory: see `sab.ops.sab_scan.ScanOptions`.
        scorer_init: ``"unit"``: w3 (or the separable score's weights) from N(0, 1), W1 and W2 from
            U(−1/√n, 1/√n) as `torch.nn.Linear`; ``"released"``: w3 (or the separable score's
            weights) from N(0, 0.01²), W1 and W2 from N(0, 1).
        forget_bias: added to the forget gate's bias at the start.
        form: which form of the scan computes it: ``"auto"``, ``"reference"``, ``"torch"``,
            ``"cpp"`` or ``"graph"``; see `sab.ops.sab_scan.sab_scan`.
    """

    input_size: int = 10
    hidden_size: int = 128
    output_size: int = 10
    score_size: int | None = None
    k_top: int = 5
    k_att: int = 2
    k_trunc: int | None = 5
    truncation: str = "block"
    block_offset: int = 0
    replay: str = "full"
    score_gradient: str = "scorer"
    score: str = "additive"
    threshold: str = "k_top+1"
    short_memory: str = "margin"
    initial_memory: str = "empty"
    scorer_init: str = "unit"
    forget_bias: float = 1.0
    form: str = "auto"

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and unknown names (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size"):
            positive_int(name, getattr(self, name))
        if self.score_size is not None:
            positive_int("score_size", self.score_size)
        one_of("scorer_init", self.scorer_init, ("unit", "released"))
        finite_float("forget_bias", self.forget_bias)
        one_of("form", self.form, FORMS)
        self.options()

    def options(self) -> ScanOptions:
        """The scan's switches."""
        return ScanOptions(**{name: getattr(self, name) for name in ScanOptions.names()})

    @classmethod
    def literal(cls, **settings: Any) -> SABConfig:
        """The paper to the letter: exact score gradient and sliding truncation.

        The margin rule holds from two memories on, as in the defaults.
        """
        return cls(**{"score_gradient": "states", "truncation": "sliding", **settings})

    @classmethod
    def released(cls, **settings: Any) -> SABConfig:
        """The released code, switch by switch (register D1–D4, D6, D7 and the initialisation)."""
        preset = {
            "score": "separable",
            "threshold": "k_top",
            "short_memory": "raw",
            "initial_memory": "zero",
            "block_offset": 0,
            "score_gradient": "states",
            "scorer_init": "released",
            "forget_bias": 0.0,
        }
        return cls(**{**preset, **settings})


class SABLayer(nn.Module):
    """The recurrent layer of Algorithm 1.

    Shapes: x (B, T, input_size) → h (B, T, n), s (B, T, n) and the final `SABState`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        score_size: int | None = None,
        scorer_init: str = "unit",
        forget_bias: float = 1.0,
        form: str = "auto",
        **options: Any,
    ) -> None:
        """Build the weights.

        Args:
            input_size: see `SABConfig`, as for the next five.
            hidden_size: width n of the state.
            score_size: width d of the scorer; ``None``: hidden_size.
            scorer_init: ``"unit"`` or ``"released"``.
            forget_bias: added to the forget gate's bias.
            form: ``"auto"``, ``"reference"``, ``"torch"``, ``"cpp"`` or ``"graph"``.
            **options: switches of `sab.ops.sab_scan.ScanOptions`.

        Raises:
            ValueError: a size or a switch is out of range.
            TypeError: an unknown option.
        """
        super().__init__()
        positive_int("input_size", input_size)
        n = positive_int("hidden_size", hidden_size)
        d = n if score_size is None else positive_int("score_size", score_size)
        one_of("scorer_init", scorer_init, ("unit", "released"))
        self.input_size, self.hidden_size = input_size, hidden_size
        self.options = ScanOptions(**options)
        self.form = one_of("form", form, FORMS)
        bound = n**-0.5
        self.weight_ih = nn.Parameter(torch.empty(4 * n, input_size).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(4 * n, n).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(4 * n).uniform_(-bound, bound))
        add_forget_bias(self.bias, finite_float("forget_bias", forget_bias))
        unit = scorer_init == "unit"
        if self.options.score == "additive":
            self.w1 = nn.Parameter(torch.empty(d, n))
            self.w2 = nn.Parameter(torch.empty(d, n))
            self.w3 = nn.Parameter(torch.empty(d))
            for w in (self.w1, self.w2):
                if unit:
                    nn.init.uniform_(w, -bound, bound)
                else:
                    nn.init.normal_(w)
            nn.init.normal_(self.w3, std=1.0 if unit else 0.01)
        else:
            self.w_memory = nn.Parameter(torch.empty(n))
            self.w_query = nn.Parameter(torch.empty(n))
            for w in (self.w_memory, self.w_query):
                nn.init.normal_(w, std=1.0 if unit else 0.01)

    @property
    def weights(self) -> ScanWeights:
        """The parameters as the scan takes them."""
        if self.options.score == "additive":
            scorer: tuple[Tensor, ...] = (self.w1, self.w2, self.w3)
        else:
            scorer = (self.w_memory, self.w_query)
        return ScanWeights(self.weight_ih, self.weight_hh, self.bias, scorer)

    def init_state(self, batch: int) -> SABState:
        """A fresh state for ``batch`` samples (ValueError if it is not a positive integer)."""
        return initial_state(batch, self.hidden_size, self.options, self.weight_hh)

    @overload
    def forward(
        self,
        x: Tensor,
        state: SABState | None = ...,
        lengths: Tensor | None = ...,
        return_recall: Literal[False] = ...,
    ) -> tuple[Tensor, Tensor, SABState]: ...

    @overload
    def forward(
        self,
        x: Tensor,
        state: SABState | None = ...,
        lengths: Tensor | None = ...,
        *,
        return_recall: Literal[True],
    ) -> tuple[Tensor, Tensor, SABState, Recall]: ...

    def forward(
        self,
        x: Tensor,
        state: SABState | None = None,
        lengths: Tensor | None = None,
        return_recall: bool = False,
    ) -> Any:
        """Run the layer over a sequence.

        Args:
            x: (B, T, input_size).
            state: where to start; a fresh one if ``None``; it gets no gradient.
            lengths: (B,) int64, valid steps of each sample; outputs beyond are zeros.
            return_recall: also return what was recalled.

        Returns:
            h (B, T, n), s (B, T, n), final state[, Recall].

        Raises:
            ValueError: a shape or a length does not fit.
        """
        check_input(x, self.input_size, lengths)
        if state is None:
            state = self.init_state(x.shape[0])
        h, s, state, recall = sab_scan(
            x.transpose(0, 1), self.weights, state, self.options, lengths, form=self.form
        )
        h, s = h.transpose(0, 1), s.transpose(0, 1)
        return (h, s, state, recall) if return_recall else (h, s, state)

    def step(self, x: Tensor, state: SABState) -> tuple[Tensor, Tensor, SABState]:
        """One step without a graph, for streaming; equal to the sequence form.

        Args:
            x: (B, input_size).
            state: from `init_state` or an earlier call.

        Returns:
            h (B, n), s (B, n), the next state.

        Raises:
            ValueError: a shape does not fit.
        """
        shape("x", x, (None, self.input_size))
        with torch.no_grad():
            h, s, state = self.forward(x[:, None], state)
        return h[:, 0], s[:, 0], state


class SAB(nn.Module):
    """SAB with its read-out ``y = V1 h + V2 s + b`` (Algorithm 1's last line but one).

    Shapes: x (B, T, input_size) → logits (B, T, output_size).
    """

    def __init__(self, config: SABConfig | None = None) -> None:
        """Build the layer and the read-out from ``config``."""
        super().__init__()
        self.config = config = config or SABConfig()
        self.layer = SABLayer(
            config.input_size,
            config.hidden_size,
            score_size=config.score_size,
            scorer_init=config.scorer_init,
            forget_bias=config.forget_bias,
            form=config.form,
            **{name: getattr(config, name) for name in ScanOptions.names()},
        )
        self.v1 = nn.Linear(config.hidden_size, config.output_size)
        self.v2 = nn.Linear(config.hidden_size, config.output_size, bias=False)

    def forward(
        self,
        x: Tensor,
        state: SABState | None = None,
        lengths: Tensor | None = None,
        return_recall: bool = False,
    ) -> Any:
        """Logits (B, T, output_size), the final state[, Recall].

        Arguments and errors as `SABLayer.forward`.
        """
        h, s, state, recall = self.layer(x, state, lengths, return_recall=True)
        # Time-major: the layer's outputs are transposed views, which a product would copy back.
        y = (self.v1(h.transpose(0, 1)) + self.v2(s.transpose(0, 1))).transpose(0, 1)
        return (y, state, recall) if return_recall else (y, state)
