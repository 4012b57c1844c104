"""SAB with a memory of fixed size, at inference: the paper leaves this open (section 5).

The trained layer is run in pieces of ``k_att`` steps, so that each piece writes one memory; where
more than ``capacity`` are held after it, one is forgotten. Nothing is trained.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from sab.checks import one_of, positive_int, shape
from sab.models.sab import SAB
from sab.ops.sab_scan.types import Recall, SABState

POLICIES = ("oldest", "least recalled", "redundant")
FADE = 0.99  # what a memory's count of recalls keeps from one write to the next


def redundancy(memory: Tensor) -> Tensor:
    """Distance of every memory (B, M, n) to its nearest neighbour among the others, (B, M).

    A state that brought nothing new lies close to another; of a pair the older is as close.
    """
    distance = torch.cdist(memory, memory)
    same = torch.eye(memory.shape[1], dtype=torch.bool, device=memory.device)
    return distance.masked_fill(same, torch.inf).min(2).values


class BoundedSAB:
    """A trained `SAB` that keeps at most ``capacity`` memories.

    Args:
        model: a SAB whose memory starts empty.
        capacity: memories kept, at least ``k_top`` + 1, so that the threshold has its candidate.
        policy: which memory is forgotten: ``"oldest"``; ``"least recalled"``: the one with the
            smallest fading sum of weights, the newest excepted; ``"redundant"``: the one nearest
            to another, so that only surprising states stay.

    Raises:
        ValueError: a setting is out of range.
    """

    def __init__(self, model: SAB, capacity: int, policy: str = "redundant") -> None:
        """Check and keep the settings."""
        options = model.layer.options
        positive_int("capacity", capacity, options.k_top + 1)
        one_of("policy", policy, POLICIES)
        one_of("initial_memory", options.initial_memory, ("empty",))
        self.model, self.capacity, self.policy = model, capacity, policy

    @torch.no_grad()
    def __call__(
        self, x: Tensor, state: tuple[SABState, Tensor] | None = None
    ) -> tuple[Tensor, tuple[SABState, Tensor]]:
        """Return the logits (B, T, output_size) of ``x`` (B, T, input_size), and the state.

        The state, to go on with, is the layer's and each memory's count of recalls (B, M).

        Raises:
            ValueError: ``x`` has another shape.
        """
        shape("x", x, (None, None, self.model.config.input_size))
        piece = self.model.layer.options.k_att
        held, recalled = state or (self.model.layer.init_state(len(x)), x.new_zeros(len(x), 0))
        outputs = []
        start = 0
        while start < x.shape[1]:
            stop = start + piece - int(held.step[0]) % piece  # up to the next write
            y, held, recall = self.model(x[:, start:stop], held, return_recall=True)
            outputs.append(y)
            recalled = _count(recalled, recall, held.memory.shape[1])
            if held.memory.shape[1] > self.capacity:
                held, recalled = self._forget(held, recalled)
            start = stop
        return torch.cat(outputs, 1), (held, recalled)

    def _forget(self, state: SABState, recalled: Tensor) -> tuple[SABState, Tensor]:
        """Take one memory out; the step goes back by as much, so that the count is right."""
        batch, held, n = state.memory.shape
        if self.policy == "oldest":
            out = recalled.new_zeros(batch, dtype=torch.int64)
        elif self.policy == "least recalled":
            out = recalled[:, :-1].argmin(1)
        else:
            out = redundancy(state.memory).argmin(1)
        slots = torch.arange(held - 1, device=out.device).expand(batch, -1)
        slots = slots + (slots >= out[:, None]).long()
        memory = state.memory.gather(1, slots[..., None].expand(-1, -1, n))
        step = state.step - self.model.layer.options.k_att
        kept = dataclasses.replace(state, memory=memory, step=step, buffer=None)
        return kept, recalled.gather(1, slots)


def _count(recalled: Tensor, recall: Recall, held: int) -> Tensor:
    """Fade the sums (B, M) and add the weights of a piece; a new memory begins at 0."""
    batch = len(recalled)
    grown = recalled.new_zeros(batch, held + 1)  # the last column takes what is unused
    grown[:, : recalled.shape[1]] = FADE * recalled
    slots = recall.indices.reshape(batch, -1)
    slots = torch.where(slots < 0, held, slots)
    return grown.scatter_add(1, slots, recall.weights.reshape(batch, -1))[:, :held]
