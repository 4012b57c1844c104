"""Recursive Embedding Attention as a layer: attention in a window, a running state, a gate.

``out = x + attention(x) + gate · state(x)``. The window has the details of the neighbourhood, the
state a summary of all that came before, and a gate between 0 and 1, a scalar a position that reads
both, decides how much of the summary is let in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from sab.checks import finite_float, one_of, positive_int, shape
from sab.ops.ema_scan import DIRECTIONS, ema_scan
from sab.ops.padding import check_keep, compact, spread
from sab.ops.window_attention import FORMS, full_attention, window_attention

ATTENTIONS = ("window", "full", "none")
STATES = ("linear", "gru", "none")
STATE_INPUTS = ("stream", "attention")


@dataclass(frozen=True)
class LayerConfig:
    """Settings of `REALayer`.

    Attributes:
        dim: width D of the layer.
        heads: attention heads; must divide ``dim``.
        window: greatest distance that attention reaches, in positions.
        attention: ``"window"``, ``"full"`` (no limit) or ``"none"``.
        state: ``"linear"``: s = (1 - α) s + α x with a learned α a channel; ``"gru"``; ``"none"``.
        state_size: width of the state; another than ``dim`` puts projections around it.
        state_input: what the state sums up: ``"stream"``, the layer's input (the source, section
            3.2), or ``"attention"``, what attention made of it (the form the source turns down).
        direction: ``"forward"``, ``"reverse"`` or ``"both"`` (half their sum): where it runs.
        causal: attention does not look ahead.
        state_norm: the state passes a layer normalisation before it is gated.
        gate_start: value of the gate before training. A sigmoid never is 0; 0.02 is nearly shut.
        alpha_start: α before training (linear state).
        form: how the window is computed, ``"blocked"`` or ``"masked"``.
    """

    dim: int = 64
    heads: int = 4
    window: int = 16
    attention: str = "window"
    state: str = "linear"
    state_size: int | None = None
    state_input: str = "stream"
    direction: str = "forward"
    causal: bool = False
    state_norm: bool = True
    gate_start: float = 0.02
    alpha_start: float = 0.1
    form: str = "blocked"

    def __post_init__(self) -> None:
        """Refuse values out of range (ValueError)."""
        for name in ("dim", "heads", "window"):
            positive_int(name, getattr(self, name))
        if self.dim % self.heads:
            raise ValueError(f"heads={self.heads!r}: must divide dim={self.dim}")
        if self.state_size is not None:
            positive_int("state_size", self.state_size)
        one_of("attention", self.attention, ATTENTIONS)
        one_of("state", self.state, STATES)
        one_of("state_input", self.state_input, STATE_INPUTS)
        if self.state_input == "attention" and "none" in (self.attention, self.state):
            raise ValueError(
                f"state_input='attention': needs attention and a state, has attention="
                f"{self.attention!r}, state={self.state!r}"
            )
        one_of("direction", self.direction, DIRECTIONS)
        one_of("form", self.form, FORMS)
        for name in ("gate_start", "alpha_start"):
            if not 0 < finite_float(name, getattr(self, name)) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}: must be between 0 and 1, both excluded"
                )


class LayerState(NamedTuple):
    """What a stream keeps: the window's keys and values (B, H, ≤ window, d), the state (B, S)."""

    keys: Tensor
    values: Tensor
    memory: Tensor


def logit(p: float) -> float:
    """The number whose sigmoid is ``p``."""
    return math.log(p / (1 - p))


class REALayer(nn.Module):
    """The layer, a drop-in for self-attention: (B, N, D) → (B, N, D)."""

    def __init__(self, config: LayerConfig | None = None) -> None:
        """Build the channels that ``config`` asks for."""
        super().__init__()
        self.config = config = config or LayerConfig()
        dim = config.dim
        self.size = config.state_size or dim
        if config.attention != "none":
            self.qkv = nn.Linear(dim, 3 * dim)
            self.out = nn.Linear(dim, dim)
        if config.state != "none":
            narrow = self.size != dim
            self.down = nn.Linear(dim, self.size) if narrow else nn.Identity()
            self.up = nn.Linear(self.size, dim) if narrow else nn.Identity()
            if config.state == "linear":
                self.rate = nn.Parameter(torch.full((self.size,), logit(config.alpha_start)))
            else:
                self.cell = nn.GRU(self.size, self.size, batch_first=True)
            self.norm = nn.LayerNorm(dim) if config.state_norm else nn.Identity()
            self.gate = nn.Linear(dim if config.attention == "none" else 2 * dim, 1)
            nn.init.zeros_(self.gate.weight)
            nn.init.constant_(self.gate.bias, logit(config.gate_start))

    @property
    def alpha(self) -> Tensor:
        """Share of the new input in each channel of the linear state, (S,)."""
        return torch.sigmoid(self.rate)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """``x + attention + gate · state``.

        Args:
            x: (B, N, D).
            keep: (B, N) bool, False at padding; there the state stands still and nobody looks. Gaps
                inside a sequence are closed first: the window counts real steps.

        Raises:
            ValueError: a shape does not fit, or a sequence is empty.
        """
        return x + self.channels(x, keep)

    def channels(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """What the layer adds to ``x``; arguments and errors as `forward`."""
        shape("x", x, (None, None, self.config.dim))
        if x.shape[0] < 1 or x.shape[1] < 1:
            raise ValueError(f"x has shape {tuple(x.shape)}: no size may be 0 (an empty sequence?)")
        if keep is not None:
            check_keep(keep, x)
        attended = None if self.config.attention == "none" else self.attend(x, keep)
        seen = x if self.config.state_input == "stream" else cast(Tensor, attended)
        state = None if self.config.state == "none" else self.read(self.run(seen, keep))
        return self.fuse(x, attended, state)

    def attend(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The attention channel, (B, N, D); at padding the bias of its projection."""
        if keep is None:
            return cast(Tensor, self.out(self._attend(x, None)))
        kept = torch.arange(x.shape[1], device=x.device) < keep.sum(1, keepdim=True)
        mixed = spread(self._attend(compact(x, keep), kept), keep)
        return cast(Tensor, self.out(mixed.masked_fill(~keep[:, :, None], 0.0)))

    def _attend(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """`attend` of sequences without gaps, before the projection."""
        config = self.config
        q, k, v = self._heads(x)
        if config.attention == "full":
            mixed = full_attention(q, k, v, keep=keep, causal=config.causal)
        else:
            mixed = window_attention(
                q, k, v, config.window, keep=keep, causal=config.causal, form=config.form
            )
        return mixed.transpose(1, 2).flatten(2)

    def _heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """(B, N, D) → queries, keys and values, each (B, H, N, d)."""
        split = self.qkv(x).unflatten(-1, (3, self.config.heads, -1))
        return tuple(split.permute(2, 0, 3, 1, 4))

    def run(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The state at every position, (B, N, S), before projection and norm."""
        inner, way = self.down(x), self.config.direction
        if self.config.state == "linear":
            return ema_scan(inner, self.alpha, keep=keep, direction=way)
        ways = DIRECTIONS[:2] if way == "both" else (way,)
        return torch.stack([self._recur(inner, keep, w == "reverse") for w in ways]).mean(0)

    def _recur(self, x: Tensor, keep: Tensor | None, reverse: bool) -> Tensor:
        """The GRU along the real steps."""
        if reverse:
            turned = self._recur(x.flip(1), None if keep is None else keep.flip(1), False)
            return turned.flip(1)
        if keep is None:
            return cast(Tensor, self.cell(x)[0])
        return spread(self.cell(compact(x, keep))[0], keep)

    def read(self, state: Tensor) -> Tensor:
        """The state as the gate and the sum see it: (…, S) → (…, D)."""
        return cast(Tensor, self.norm(self.up(state)))

    def fuse(self, x: Tensor, attended: Tensor | None, state: Tensor | None) -> Tensor:
        """Sum of the channels there are, the state behind its gate; all (…, D)."""
        if state is None:
            return torch.zeros_like(x) if attended is None else attended
        if attended is None:
            return self.opening(state) * state
        return attended + self.opening(torch.cat([attended, state], -1)) * state

    def opening(self, seen: Tensor) -> Tensor:
        """The gate, (…, 1), from the channels side by side."""
        return torch.sigmoid(self.gate(seen))

    # Streaming ----------------------------------------------------------------------------------

    def start(self, batch: int) -> LayerState:
        """An empty state for ``batch`` streams.

        Raises:
            ValueError: ``batch`` is not a positive integer, or the layer looks ahead or needs ever
                more memory, so that it cannot be streamed.
        """
        config = self.config
        positive_int("batch", batch)
        if config.attention == "full":
            raise ValueError("attention='full': needs all the past; a stream needs 'window'")
        if config.attention == "window" and not config.causal:
            raise ValueError("causal=False: the window looks ahead; a stream needs causal=True")
        if config.state != "none" and config.direction != "forward":
            raise ValueError(f"direction={config.direction!r}: a stream needs 'forward'")
        some = next(self.parameters(), torch.empty(0))
        empty = some.new_zeros(batch, config.heads, 0, config.dim // config.heads)
        return LayerState(empty, empty, some.new_zeros(batch, self.size))

    def step(self, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """One position of `channels`, in constant memory: x (B, D) → (B, D) and the next state."""
        config = self.config
        keys, values, memory = state
        attended = read = None
        if config.attention != "none":
            q, k, v = self._heads(x[:, None])
            keys, values = (
                torch.cat([old, new], 2)[:, :, -config.window - 1 :]
                for old, new in ((keys, k), (values, v))
            )
            scores = q @ keys.transpose(-2, -1) * q.shape[-1] ** -0.5
            attended = self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))[:, 0]
        if config.state != "none":
            inner = self.down(x if config.state_input == "stream" else attended)
            if config.state == "linear":
                memory = (1 - self.alpha) * memory + self.alpha * inner
            else:
                memory = self.cell(inner[:, None], memory[None])[1][0]
            read = self.read(memory)
        return self.fuse(x, attended, read), LayerState(keys, values, memory)
