"""Neural Turing machine: a controller, and a memory that it reads and writes (Graves et al. 2014).

Every part has a gradient, so where to read and what to write is learned from examples of the task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sab.checks import finite_float, one_of, positive_int
from sab.models.controller import KINDS, Controller, Hidden, MemoryNetwork
from sab.ops import addressing


@dataclass(frozen=True)
class NTMConfig:
    """Settings of `NTM`.

    Attributes:
        input_size: width of the input.
        hidden_size: width of the controller.
        output_size: width of the read-out.
        controller: ``"lstm"`` or ``"feedforward"``.
        slots: N, rows of the memory.
        width: W, numbers a slot holds.
        heads: reading heads, and as many writing ones.
        reach: r, the farthest move along the slots in one step.
        blank: what an empty slot is filled with.
    """

    input_size: int = 10
    hidden_size: int = 100
    output_size: int = 10
    controller: str = "lstm"
    slots: int = 128
    width: int = 20
    heads: int = 1
    reach: int = 1
    blank: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse settings out of range (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size", "slots", "width", "heads"):
            positive_int(name, getattr(self, name))
        one_of("controller", self.controller, KINDS)
        positive_int("reach", self.reach, 0)
        if 2 * self.reach + 1 > self.slots:
            raise ValueError(f"reach={self.reach!r}: must be below half of slots={self.slots}")
        finite_float("blank", self.blank)


class NTMState(NamedTuple):
    """What goes on from step to step.

    Attributes:
        hidden: the controller's state.
        memory: (B, N, W).
        reads: (B, heads * W), what was read last.
        weights: (B, 2 * heads, N), where the heads are: the reading ones, then the writing ones.
    """

    hidden: Hidden
    memory: Tensor
    reads: Tensor
    weights: Tensor


class Controls(NamedTuple):
    """What the controller tells the heads: H = 2 · heads, the reading ones first.

    Attributes:
        keys: (B, H, W), in (-1, 1).
        strengths: (B, H), β, above 0.
        gates: (B, H), g: 1 by content, 0 from where the head was.
        shifts: (B, H, 2r + 1), a distribution over moves.
        sharpness: (B, H), γ, above 1.
        erase: (B, heads, W), in (0, 1); the writing heads'.
        add: (B, heads, W), in (-1, 1); the writing heads'.
    """

    keys: Tensor
    strengths: Tensor
    gates: Tensor
    shifts: Tensor
    sharpness: Tensor
    erase: Tensor
    add: Tensor


class Stages(NamedTuple):
    """The weights (B, H, N) after each stage of addressing; the last are those used."""

    content: Tensor
    gated: Tensor
    shifted: Tensor
    weights: Tensor


class Trace(NamedTuple):
    """A run step by step, for pictures: what `NTM.trace` returns, without gradients.

    Attributes:
        logits: (B, T, output_size).
        reading: (B, T, heads, N), weights of the reading heads.
        writing: (B, T, heads, N), of the writing heads.
        stages: of each step.
        controls: of each step.
        memory: (B, N, W), at the end.
    """

    logits: Tensor
    reading: Tensor
    writing: Tensor
    stages: list[Stages]
    controls: list[Controls]
    memory: Tensor


class NTM(MemoryNetwork[NTMState]):
    """Controller, heads and memory; at a step all heads look, then read, then write.

    Heads start on the first slot. The memory starts blank for every sequence.

    Shapes: x (B, T, input_size) → logits (B, T, output_size) and the `NTMState`, detached.
    """

    def __init__(self, config: NTMConfig | None = None) -> None:
        """Build controller, the heads' one linear map, and read-out from ``config``."""
        super().__init__()
        self.config = config or NTMConfig()
        c, heads = self.config, self.config.heads
        seen = c.input_size + heads * c.width
        self.controller = Controller(c.controller, seen, c.hidden_size)
        # In the order of `controls`: what shares a squashing function stands together.
        self.sizes = (
            2 * heads * c.width + heads * c.width,  # keys, add: tanh
            2 * heads + heads * c.width,  # gates, erase: sigmoid
            4 * heads,  # strengths, sharpness: softplus
            2 * heads * (2 * c.reach + 1),  # shifts: softmax
        )
        self.heads = nn.Linear(c.hidden_size, sum(self.sizes))
        self.readout = nn.Linear(c.hidden_size + heads * c.width, c.output_size)

    def start(self, batch: int, like: Tensor) -> NTMState:
        """The state before the first step, of ``like``'s type and device."""
        c = self.config
        memory = like.new_full((batch, c.slots, c.width), c.blank)
        weights = like.new_zeros(batch, 2 * c.heads, c.slots)
        weights[..., 0] = 1.0
        reads = like.new_zeros(batch, c.heads * c.width)
        return NTMState(self.controller.start(batch, like), memory, reads, weights)

    def controls(self, h: Tensor) -> Controls:
        """What the heads are told by the controller's output h (B, hidden_size)."""
        c, heads = self.config, self.config.heads
        signed, shares, positive, moves = self.heads(h).split(self.sizes, 1)
        signed = torch.tanh(signed).view(-1, 3 * heads, c.width)
        keys, add = signed.split((2 * heads, heads), 1)
        gates, erase = torch.sigmoid(shares).split((2 * heads, heads * c.width), 1)
        strengths, sharpness = functional.softplus(positive).chunk(2, 1)
        shifts = torch.softmax(moves.view(-1, 2 * heads, 2 * c.reach + 1), -1)
        erase = erase.view(-1, heads, c.width)
        return Controls(keys, strengths, gates, shifts, 1 + sharpness, erase, add)

    def address(self, memory: Tensor, previous: Tensor, controls: Controls) -> Stages:
        """The four stages of addressing, for all heads at once; see `sab.ops.addressing`."""
        content = addressing.content_weights(memory, controls.keys, controls.strengths)
        gated = addressing.interpolate(content, previous, controls.gates)
        shifted = addressing.shift(gated, controls.shifts)
        return Stages(content, gated, shifted, addressing.sharpen(shifted, controls.sharpness))

    def _step(self, x: Tensor, state: NTMState) -> tuple[Tensor, NTMState, tuple[Controls, Stages]]:
        heads = self.config.heads
        hidden = self.controller(torch.cat([x, state.reads], 1), state.hidden)
        controls = self.controls(hidden.h)
        stages = self.address(state.memory, state.weights, controls)
        reading, writing = stages.weights.split(heads, 1)
        reads = addressing.read(state.memory, reading).flatten(1)
        memory = addressing.write(state.memory, writing, controls.erase, controls.add)
        new = NTMState(hidden, memory, reads, stages.weights)
        return torch.cat([hidden.h, reads], 1), new, (controls, stages)

    @torch.no_grad()
    def trace(self, x: Tensor) -> Trace:
        """Run x (B, T, input_size) and keep what the heads did at each step.

        Raises:
            ValueError: the shape does not fit.
        """
        outputs, states, why = zip(*self._walk(x), strict=True)
        controls, stages = map(list, zip(*why, strict=True))
        weights = torch.stack([seen.weights for seen in stages], 1)
        reading, writing = weights.split(self.config.heads, 2)
        logits = self.readout(torch.stack(outputs, 1))
        return Trace(logits, reading, writing, stages, controls, states[-1].memory)
