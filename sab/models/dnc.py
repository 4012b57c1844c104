"""Differentiable neural computer: the Turing machine's successor (Graves et al. 2016).

Instead of moving along the slots, it writes where memory is free, and reads in the order of
writing. One head writes; reading heads are as many as wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sab.checks import one_of, positive_int
from sab.models.controller import KINDS, Controller, Hidden, MemoryNetwork
from sab.ops import addressing, allocation

MODES = ("backward", "content", "forward")


@dataclass(frozen=True)
class DNCConfig:
    """Settings of `DNC`.

    Attributes:
        input_size: width of the input.
        hidden_size: width of the controller.
        output_size: width of the read-out.
        controller: ``"lstm"`` or ``"feedforward"``.
        slots: N, rows of the memory.
        width: W, numbers a slot holds.
        reads: R, reading heads.
    """

    input_size: int = 10
    hidden_size: int = 64
    output_size: int = 10
    controller: str = "lstm"
    slots: int = 32
    width: int = 16
    reads: int = 1

    def __post_init__(self) -> None:
        """Refuse settings out of range (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size", "slots", "width", "reads"):
            positive_int(name, getattr(self, name))
        one_of("controller", self.controller, KINDS)


class DNCState(NamedTuple):
    """What goes on from step to step.

    Attributes:
        hidden: the controller's state.
        memory: (B, N, W).
        reads: (B, R * W), what was read last.
        reading: (B, R, N), weights of the reading heads.
        writing: (B, N), of the writing head.
        usage: (B, N).
        precedence: (B, N).
        links: (B, N, N).
    """

    hidden: Hidden
    memory: Tensor
    reads: Tensor
    reading: Tensor
    writing: Tensor
    usage: Tensor
    precedence: Tensor
    links: Tensor


class Orders(NamedTuple):
    """What the controller tells the heads (the paper's interface vector).

    Attributes:
        keys: (B, R + 1, W), of the reading heads, then of the writing one.
        strengths: (B, R + 1), β, at least 1.
        free: (B, R), whether what was read is free now.
        allocate: (B, 1), write to a free slot (1) or by content (0).
        write: (B, 1), whether to write at all.
        erase: (B, 1, W), in (0, 1).
        add: (B, 1, W).
        modes: (B, R, 3), a distribution over backward, content, forward.
    """

    keys: Tensor
    strengths: Tensor
    free: Tensor
    allocate: Tensor
    write: Tensor
    erase: Tensor
    add: Tensor
    modes: Tensor


class Trace(NamedTuple):
    """A run step by step, for pictures: what `DNC.trace` returns, without gradients.

    Attributes:
        logits: (B, T, output_size).
        reading: (B, T, R, N).
        writing: (B, T, N).
        usage: (B, T, N).
        orders: of each step.
    """

    logits: Tensor
    reading: Tensor
    writing: Tensor
    usage: Tensor
    orders: list[Orders]


class DNC(MemoryNetwork[DNCState]):
    """Controller, one writing and R reading heads; at a step it writes, then reads.

    Shapes: x (B, T, input_size) → logits (B, T, output_size) and the `DNCState`, detached.
    """

    def __init__(self, config: DNCConfig | None = None) -> None:
        """Build controller, the heads' one linear map, and read-out from ``config``."""
        super().__init__()
        self.config = config or DNCConfig()
        c = self.config
        self.controller = Controller(c.controller, c.input_size + c.reads * c.width, c.hidden_size)
        self.sizes = (
            (c.reads + 1) * c.width,  # keys
            c.reads + 1,  # strengths
            c.reads + 2 + c.width,  # free, allocate, write, erase: sigmoid
            c.width,  # add
            3 * c.reads,  # modes
        )
        self.heads = nn.Linear(c.hidden_size, sum(self.sizes))
        self.readout = nn.Linear(c.hidden_size + c.reads * c.width, c.output_size)

    def start(self, batch: int, like: Tensor) -> DNCState:
        """The state before the first step: an empty memory, of ``like``'s type and device."""
        c = self.config
        none = like.new_zeros(batch, c.slots)
        return DNCState(
            hidden=self.controller.start(batch, like),
            memory=like.new_zeros(batch, c.slots, c.width),
            reads=like.new_zeros(batch, c.reads * c.width),
            reading=like.new_zeros(batch, c.reads, c.slots),
            writing=none,
            usage=none,
            precedence=none,
            links=like.new_zeros(batch, c.slots, c.slots),
        )

    def orders(self, h: Tensor) -> Orders:
        """What the heads are told by the controller's output h (B, hidden_size)."""
        c = self.config
        keys, strengths, shares, add, modes = self.heads(h).split(self.sizes, 1)
        free, allocate, write, erase = torch.sigmoid(shares).split((c.reads, 1, 1, c.width), 1)
        return Orders(
            keys=keys.view(-1, c.reads + 1, c.width),
            strengths=1 + functional.softplus(strengths),
            free=free,
            allocate=allocate,
            write=write,
            erase=erase[:, None],
            add=add[:, None],
            modes=torch.softmax(modes.view(-1, c.reads, 3), -1),
        )

    def _write(self, state: DNCState, told: Orders) -> tuple[Tensor, Tensor, Tensor]:
        """Where is written (B, N), the new memory and the usage that decided it."""
        heads = self.config.reads
        kept = allocation.retention(told.free, state.reading)
        usage = allocation.used(state.usage, state.writing, kept)
        content = addressing.content_weights(
            state.memory, told.keys[:, heads:], told.strengths[:, heads:]
        )
        place = torch.lerp(content[:, 0], allocation.allocation(usage), told.allocate)
        writing = told.write * place
        memory = addressing.write(state.memory, writing[:, None], told.erase, told.add)
        return writing, memory, usage

    def _step(self, x: Tensor, state: DNCState) -> tuple[Tensor, DNCState, Orders]:
        heads = self.config.reads
        hidden = self.controller(torch.cat([x, state.reads], 1), state.hidden)
        told = self.orders(hidden.h)
        writing, memory, usage = self._write(state, told)
        links = allocation.link(state.links, state.precedence, writing)
        content = addressing.content_weights(
            memory, told.keys[:, :heads], told.strengths[:, :heads]
        )
        back = allocation.follow(links, state.reading, "backward")
        ahead = allocation.follow(links, state.reading, "forward")
        ways = torch.stack([back, content, ahead], 2)  # (B, R, 3, N), as MODES
        reading = (told.modes[:, :, None] @ ways)[:, :, 0]
        reads = addressing.read(memory, reading).flatten(1)
        before = allocation.precedence(state.precedence, writing)
        new = DNCState(hidden, memory, reads, reading, writing, usage, before, links)
        return torch.cat([hidden.h, reads], 1), new, told

    @torch.no_grad()
    def trace(self, x: Tensor) -> Trace:
        """Run x (B, T, input_size) and keep what the heads did at each step.

        Raises:
            ValueError: the shape does not fit.
        """
        outputs, states, orders = zip(*self._walk(x), strict=True)
        return Trace(
            self.readout(torch.stack(outputs, 1)),
            torch.stack([at.reading for at in states], 1),
            torch.stack([at.writing for at in states], 1),
            torch.stack([at.usage for at in states], 1),
            list(orders),
        )
