"""The layer as the source's listing has it, rebuilt from a reading of it, with each fault a switch.

The listing reached us without its operators and its indentation. Read from it: the parameters and
their starting values, the order of the operations, what is masked. Inferred: that the window is
``|i - j| <= window`` (or < : the sign is lost), that gate and state are multiplied, and that the
causal mask stands inside the branch that a padding mask opens.

Two things differ from the listing and change no number. Its state is a loop over the steps; here it
is the fast average of `sab.ops.ema_scan`. It adds a bias of N x N to the scores before the masks;
here what may be seen is one N x N mask. So the listing itself is slower and keeps more memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from sab.checks import one_of, positive_int, shape
from sab.models.rea_layer import logit
from sab.ops.ema_scan import ema_scan
from sab.ops.window_attention import band, masked_weights, window_attention

FIXES = ("alpha", "gate", "norm", "padding", "causal", "rows", "memory", "heads")
"""As written → as meant:

- ``alpha``: the sigmoid of 0.1, which is 0.525 → α starts at 0.1.
- ``gate``: weights and bias zero, a sigmoid of 0.5 → starts at 0.02, nearly shut.
- ``norm``: the state is used as it is → behind a layer normalisation.
- ``padding``: the state reads padding as if it were input → it stands still there.
- ``causal``: a padding mask switches the causal mask on → two-sided with and without one.
- ``rows``: a position that may look at nothing becomes NaN → zeros.
- ``memory``: all pairs are scored and most are hidden → only those of the window are scored.
- ``heads``: heads that do not divide the width fail at the first batch → refused when it is built.
"""


class ListingREA(nn.Module):
    """The listing's layer: (B, N, D) → (B, N, D). With every fix it is `REALayer`."""

    def __init__(
        self, dim: int, heads: int = 8, window: int = 16, *, fixes: Iterable[str] = ()
    ) -> None:
        """Build the parameters.

        Args:
            dim: width D.
            heads: attention heads. The listing divides without looking: a width that they do not
                divide fails only when the first batch is cut into heads (RuntimeError), unless
                ``heads`` is among the fixes.
            window: greatest distance that attention reaches.
            fixes: which faults are mended, from `FIXES`.

        Raises:
            ValueError: a size is no positive integer, an unknown fix; with the fix ``heads`` also
                heads that do not divide ``dim``.
        """
        super().__init__()
        for name, value in (("dim", dim), ("heads", heads), ("window", window)):
            positive_int(name, value)
        self.fixes = frozenset(one_of("fixes", fix, FIXES) for fix in fixes)
        if "heads" in self.fixes and dim % heads:
            raise ValueError(f"heads={heads!r}: must divide dim={dim}")
        self.dim, self.heads, self.window = dim, heads, window
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, dim) for _ in range(3))
        self.out_proj = nn.Linear(dim, dim)
        rate = logit(0.1) if "alpha" in self.fixes else 0.1
        self.rate = nn.Parameter(torch.full((dim,), rate))
        self.norm = nn.LayerNorm(dim) if "norm" in self.fixes else nn.Identity()
        self.gate = nn.Linear(2 * dim, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, logit(0.02) if "gate" in self.fixes else 0.0)

    @property
    def alpha(self) -> Tensor:
        """Share of the new input in each channel, (D,)."""
        return torch.sigmoid(self.rate)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """``x + attention + gate · state``; x (B, N, D), keep (B, N) bool.

        Raises:
            ValueError: the shape does not fit.
            RuntimeError: the heads do not divide the width, and nobody looked.
        """
        return x + self.channels(x, keep)

    def channels(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """What the layer adds to ``x``; arguments and errors as `forward`."""
        shape("x", x, (None, None, self.dim))
        attended = self.attend(x, keep)
        state = ema_scan(x, self.alpha, keep=keep if "padding" in self.fixes else None)
        state = self.norm(state)
        return attended + self.opening(torch.cat([attended, state], -1)) * state

    def opening(self, seen: Tensor) -> Tensor:
        """The gate, (…, 1)."""
        return torch.sigmoid(self.gate(seen))

    def attend(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The attention channel, (B, N, D)."""
        q, k, v = (
            project(x).unflatten(-1, (self.heads, self.dim // self.heads)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if "memory" in self.fixes:
            causal = keep is not None and "causal" not in self.fixes
            # The blocked form gives zeros where there is nothing to see, so it mends rows too.
            mixed = window_attention(q, k, v, self.window, keep=keep, causal=causal)
        else:
            mixed = self._all_pairs(q, k, v, keep)
        return cast(Tensor, self.out_proj(mixed.transpose(1, 2).flatten(2)))

    def _all_pairs(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """Every pair is scored, then hidden."""
        n = q.shape[2]
        causal = keep is not None and "causal" not in self.fixes
        allowed = band(n, n, self.window, causal, device=q.device)[None, None]
        if keep is not None:
            allowed = allowed & keep[:, None, None, :]
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if "rows" not in self.fixes:
            return scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v
        if keep is not None:
            allowed = allowed & keep[:, None, :, None]
        return masked_weights(scores, allowed) @ v
