"""State that goes on from one sequence to the next: h, c and the memory, each a choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from sab.ops.sab_scan import SABState

PARTS = ("h", "c", "memory")


def newest(state: SABState, memories: int, k_att: int) -> SABState:
    """Keep at most the ``memories`` newest; the phase of writing stays what it is.

    The step count is set back to what the memories left account for.
    """
    held = min(memories, int(state.step.max()) // k_att)
    memory = state.memory[:, state.memory.shape[1] - held :].contiguous()
    step = held * k_att + state.step % k_att
    return dataclasses.replace(state, memory=memory, step=step, buffer=None)


def _kept(values: tuple[Tensor, ...], keep: Collection[str]) -> tuple[Tensor, ...]:
    """(h, c), zeros for what is not kept."""
    pairs = zip("hc", values, strict=True)
    return tuple(value if name in keep else torch.zeros_like(value) for name, value in pairs)


def carried(state: Any, keep: Collection[str], memories: int, model: Any) -> Any:
    """What the next sequence starts from.

    Args:
        state: a model's final state: (h, c), or a `SABState`.
        keep: some of ``"h"``, ``"c"``, ``"memory"``; the others start as in a fresh state.
        memories: memories kept at most, the newest.
        model: the model; its ``config`` says how often it writes.

    Raises:
        ValueError: the model's state cannot be carried.
    """
    if isinstance(state, SABState):
        h, c = _kept((state.h, state.c), keep)
        config = model.config
        if getattr(config, "initial_memory", "empty") != "empty":
            raise ValueError(
                "carry: needs initial_memory='empty'; a zero memory belongs to a start"
            )
        limit = memories if "memory" in keep else 0
        state = newest(state, limit, getattr(config, "k_att", 1))
        return dataclasses.replace(state, h=h, c=c)
    if isinstance(state, tuple) and len(state) == 2 and all(isinstance(v, Tensor) for v in state):
        return _kept(state, keep)
    raise ValueError(f"carry: {type(model).__name__} has no state that can be carried")


def pack(state: Any) -> Any:
    """A state as plain tensors, for a checkpoint."""
    if isinstance(state, SABState):
        return {name: getattr(state, name).cpu() for name in ("h", "c", "memory", "step")}
    return None if state is None else [value.cpu() for value in state]


def unpack(packed: Any, device: torch.device) -> Any:
    """The state that `pack` packed."""
    if isinstance(packed, dict):
        moved = {n: v if n == "step" else v.to(device) for n, v in packed.items()}
        return SABState(**moved)
    return None if packed is None else tuple(value.to(device) for value in packed)
