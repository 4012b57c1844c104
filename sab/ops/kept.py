"""What autograd keeps: the memory that a backward pass will need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_MB = 1e6


def kept_for_backward(call: Callable[[], Any]) -> float:
    """Tensor memory that autograd keeps for the backward pass of a call, each storage once.

    Args:
        call: the forward pass; its result is dropped.

    Returns:
        10⁶ bytes.
    """
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage  # held, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
    return sum(storage.nbytes() for storage in kept.values()) / _MB
