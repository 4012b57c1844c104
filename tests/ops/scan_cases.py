"""Cases of the scan that the tests share: how they are drawn, run and compared."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sab.ops.sab_scan import Recall, SABState, ScanOptions, ScanWeights, initial_state, sab_scan

INPUTS, HIDDEN = 3, 5
FAST = ("torch", "cpp")
FORMS = ("reference", *FAST)

TIGHT = 1e-10  # what float64 forms may differ by
SETTINGS: tuple[dict[str, Any], ...] = ({}, {"save": "recompute"}, {"lazy": False})

CHOICES: dict[str, Sequence[Any]] = {
    "k_top": (1, 2, 3),
    "k_att": (1, 2, 3),
    "k_trunc": (None, 1, 3, 4),
    "block_offset": (0, 1),
    "replay": ("full", "write_step", "none"),
    "score_gradient": ("scorer", "states"),
    "score": ("additive", "separable"),
    "threshold": ("k_top+1", "k_top"),
    "short_memory": ("margin", "softmax", "raw"),
    "initial_memory": ("empty", "zero"),
}


@dataclass
class Case:
    """One scan to run: leaves, what is passed of x, and the gradients of h and s (``None``: that
    output is unused).
    """

    options: ScanOptions
    x: Tensor
    weights: ScanWeights
    state: SABState
    lengths: Tensor | None = None
    view: Callable[[Tensor], Tensor] = lambda x: x
    dh: Tensor | None = None
    ds: Tensor | None = None

    @property
    def leaves(self) -> dict[str, Tensor]:
        w = self.weights
        named = {"x": self.x, "w_ih": w.w_ih, "w_hh": w.w_hh, "bias": w.bias}
        return named | {f"scorer[{i}]": v for i, v in enumerate(w.scorer)}

    @property
    def dims(self) -> tuple[int, int]:
        steps, batch, _ = self.view(self.x).shape
        return steps, batch

    def loss(self, h: Tensor, s: Tensor) -> Tensor:
        """The scalar whose gradients at h and s are ``dh`` and ``ds``."""
        total = torch.zeros((), dtype=h.dtype)
        for out, grad in ((h, self.dh), (s, self.ds)):
            if grad is not None:
                total = total + (out * grad).sum()
        return total

    def to(self, dtype: torch.dtype) -> Case:
        """The same numbers in another precision, with leaves of their own."""

        def cast(v: Tensor) -> Tensor:
            return v.detach().to(dtype).requires_grad_()

        w, s = self.weights, self.state
        return dataclasses.replace(
            self,
            x=cast(self.x),
            weights=ScanWeights(
                cast(w.w_ih), cast(w.w_hh), cast(w.bias), tuple(cast(v) for v in w.scorer)
            ),
            state=SABState(s.h.to(dtype), s.c.to(dtype), s.memory.to(dtype), s.step),
            dh=None if self.dh is None else self.dh.to(dtype),
            ds=None if self.ds is None else self.ds.to(dtype),
        )


@dataclass
class Outcome:
    """What a scan gave, gradients included."""

    h: Tensor
    s: Tensor
    end: SABState
    recall: Recall
    grads: dict[str, Tensor] = field(default_factory=dict)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw_weights(
    options: ScanOptions,
    seed: int,
    hidden: int = HIDDEN,
    score_size: int | None = None,
    inputs: int = INPUTS,
    spread: float = 1.0,
) -> ScanWeights:
    """Large random weights, so that what is read differs from step to step; ``spread`` scales the
    scores.
    """
    source = generator(seed)

    def draw(*size: int, scale: float = 1.0) -> Tensor:
        v = torch.randn(*size, generator=source, dtype=torch.float64) * scale
        return v.requires_grad_()

    d = score_size or hidden
    if options.score == "additive":
        scorer: tuple[Tensor, ...] = (draw(d, hidden), draw(d, hidden), draw(d, scale=spread))
    else:
        scorer = (draw(hidden, scale=spread), draw(hidden, scale=spread))
    return ScanWeights(
        draw(4 * hidden, inputs), draw(4 * hidden, hidden, scale=0.6), draw(4 * hidden), scorer
    )


def draw_case(
    options: ScanOptions,
    seed: int = 0,
    steps: int = 9,
    batch: int = 2,
    hidden: int = HIDDEN,
    spread: float = 1.0,
    **more: Any,
) -> Case:
    """A float64 case with random weights, inputs, output gradients; ``more`` replaces fields."""
    score_size = more.pop("score_size", None)
    source = generator(1000 + seed)
    x = torch.randn(steps, batch, INPUTS, generator=source, dtype=torch.float64).requires_grad_()
    dh, ds = torch.randn(2, steps, batch, hidden, generator=source, dtype=torch.float64)
    state = initial_state(batch, hidden, options, like=x)
    weights = draw_weights(options, seed, hidden, score_size, spread=spread)
    case = Case(options, x, weights, state, dh=dh, ds=ds)
    return dataclasses.replace(case, **more)


def carried(options: ScanOptions, seed: int, batch: int, hidden: int = HIDDEN) -> SABState:
    """A state as a first part of unequal lengths leaves it: random, with each sample's own step and
    memories.
    """
    source = generator(2000 + seed)
    step = torch.randint(0, 6, (batch,), generator=source)
    held = step // options.k_att + options.zero_slots
    memory = torch.randn(batch, int(held.max()), hidden, generator=source, dtype=torch.float64)
    if options.zero_slots:
        memory[:, 0] = 0
    memory *= (torch.arange(memory.shape[1]) < held[:, None])[..., None]
    h, c = torch.randn(2, batch, hidden, generator=source, dtype=torch.float64)
    return SABState(h, c, memory, step)


def random_case(seed: int) -> Case:
    """A case with every switch, size and layout drawn at random."""
    pick = random.Random(seed)
    options = ScanOptions(**{name: pick.choice(values) for name, values in CHOICES.items()})
    k_trunc, k_att = options.k_trunc or 3, options.k_att
    # shorter than a block, one longer, odd, and shorter than the first write
    steps = pick.choice(sorted({1, max(1, k_att - 1), max(1, k_trunc - 1), k_trunc + 1, 7, 11}))
    batch = pick.choice((1, 2, 3))
    case = draw_case(options, seed, steps, batch, score_size=pick.choice((None, 2, 7)))
    if pick.random() < 0.5:
        case.lengths = torch.randint(1, steps + 1, (batch,), generator=generator(seed))
    if pick.random() < 0.5:
        case.state = carried(options, seed, batch)
    layout = pick.choice(("contiguous", "batch first", "strided"))
    if layout == "batch first":
        case.x = case.x.detach().transpose(0, 1).contiguous().requires_grad_()
        case.view = lambda x: x.transpose(0, 1)
    elif layout == "strided":
        wide = torch.randn(steps, batch, 2 * INPUTS, generator=generator(seed), dtype=torch.float64)
        case.x = wide.requires_grad_()
        case.view = lambda x: x[..., ::2]
    if (unused := pick.choice(("none", "none", "h", "s"))) != "none":
        setattr(case, f"d{unused}", None)
    return case


def run(case: Case, form: str, **settings: Any) -> Outcome:
    """Run ``case`` by ``form`` and differentiate."""
    x = case.view(case.x)
    out = sab_scan(x, case.weights, case.state, case.options, case.lengths, form=form, **settings)
    return differentiate(case, Outcome(*out))


def differentiate(case: Case, out: Outcome) -> Outcome:
    loss = case.loss(out.h, out.s)
    names, leaves = zip(*case.leaves.items(), strict=True)
    grads: Sequence[Tensor | None] = [None] * len(leaves)
    if loss.requires_grad:
        grads = torch.autograd.grad(loss, leaves, allow_unused=True)
    for name, leaf, grad in zip(names, leaves, grads, strict=True):
        out.grads[name] = torch.zeros_like(leaf) if grad is None else grad
    out.h, out.s = out.h.detach(), out.s.detach()
    return out


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference, relative to the largest number of ``a`` if above 1; NaN shows."""
    assert a.shape == b.shape, f"{tuple(a.shape)} against {tuple(b.shape)}"
    if a.numel() == 0:
        return 0.0
    return ((a - b).abs().max() / a.abs().max().clamp(min=1.0)).item()


def check_same(a: Outcome, b: Outcome, tolerance: float, note: object = "") -> None:
    """All of two outcomes agree: outputs, end state, recall and every gradient."""
    for name in ("indices", "steps", "tied"):
        assert torch.equal(getattr(a.recall, name), getattr(b.recall, name)), f"{name}: {note}"
    assert torch.equal(a.end.step, b.end.step), note
    pairs = {
        "h": (a.h, b.h),
        "s": (a.s, b.s),
        "weights": (a.recall.weights, b.recall.weights),
        "end.h": (a.end.h, b.end.h),
        "end.c": (a.end.c, b.end.c),
        "end.memory": (a.end.memory, b.end.memory),
    }
    pairs |= {f"d{name}": (a.grads[name], b.grads[name]) for name in a.grads}
    for name, (u, v) in pairs.items():
        error = difference(u, v)
        assert error <= tolerance, f"{name} differs by {error:.1e}: {note}"  # NaN fails too


def check_forms(case: Case, note: object = "") -> Outcome:
    """Every fast form, with every setting, equals the reference."""
    expected = run(case, "reference")
    for form in FAST:
        for settings in SETTINGS if form == "cpp" else SETTINGS[:2]:
            check_same(expected, run(case, form, **settings), TIGHT, (form, settings, note))
    return expected


def options(**changes: Any) -> ScanOptions:
    base = {"k_top": 3, "k_att": 1, "k_trunc": 4, "score_gradient": "states"}
    return ScanOptions(**{**base, **changes})


@torch.no_grad()
def scan(case: Case, form: str, **replace: Any) -> tuple[Tensor, Tensor, SABState, Recall]:
    case = dataclasses.replace(case, **replace)
    return sab_scan(case.x, case.weights, case.state, case.options, case.lengths, form=form)
