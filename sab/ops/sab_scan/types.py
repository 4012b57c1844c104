"""What the scan's forms share: options, state, and the record of what was recalled."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sab.checks import one_of, positive_int, shape
from sab.ops.sparse_weights import candidate_count, check_rule

TRUNCATIONS = ("block", "sliding")
REPLAYS = ("full", "write_step", "none")
SCORE_GRADIENTS = ("scorer", "states")
SCORES = ("additive", "separable")
INITIAL_MEMORIES = ("empty", "zero")


@dataclass(frozen=True)
class ScanOptions:
    """The switches of a SAB layer.

    Attributes:
        k_top: memories read at most in a step.
        k_att: a state is written to the memory every ``k_att`` steps; reading happens at every
            step.
        k_trunc: steps of local backpropagation; ``None`` is full BPTT.
        truncation: ``"block"`` detaches h and c before each step t where (t − block_offset) is a
            multiple of k_trunc; ``"sliding"`` lets a source of gradient at t reach the cells
            t − k_trunc + 1 … t (reference form only).
        block_offset: 1: blocks 1…k, k+1…2k; 0: the released code's alignment, whose first block has
            k − 1 steps. With 0 and a length that k_trunc divides, the last step is a block of its
            own: a loss that is read there alone teaches one step of the chain.
        replay: ``"full"``: mental updates; ``"write_step"``: only through the cell that wrote the
            memory, into its weights and input; ``"none"``: a memory is read detached, as value and
            in the scorer.
        score_gradient: ``"states"``: exact; ``"scorer"``: memories and query are detached at the
            scorer's input.
        score: ``"additive"`` (the paper) or ``"separable"`` (the released code, D1).
        threshold: see `sab.ops.sparse_weights.sparse_weights`.
        short_memory: see `sab.ops.sparse_weights.sparse_weights`.
        initial_memory: ``"empty"`` or ``"zero"`` (the released code: one zero state, D4).

    Source: paper section 3, Algorithm 1; the book names what it leaves open.
    """

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

    def __post_init__(self) -> None:
        """Refuse unknown names and numbers out of range (ValueError)."""
        check_rule(self.k_top, self.threshold, self.short_memory)
        positive_int("k_att", self.k_att)
        if self.k_trunc is not None:
            positive_int("k_trunc", self.k_trunc)
        one_of("truncation", self.truncation, TRUNCATIONS)
        one_of("block_offset", self.block_offset, (0, 1))
        one_of("replay", self.replay, REPLAYS)
        one_of("score_gradient", self.score_gradient, SCORE_GRADIENTS)
        one_of("score", self.score, SCORES)
        one_of("initial_memory", self.initial_memory, INITIAL_MEMORIES)

    @property
    def candidates(self) -> int:
        """K, the candidates a read looks at."""
        return candidate_count(self.k_top, self.threshold)

    @property
    def zero_slots(self) -> int:
        """1 where the memory starts with a zero state, else 0."""
        return int(self.initial_memory == "zero")

    def held(self, step: Tensor | int) -> Tensor | int:
        """Memories held after ``step`` steps."""
        return step // self.k_att + self.zero_slots

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The option names, in order."""
        return tuple(field.name for field in fields(cls))


class ScanWeights(NamedTuple):
    """The parameters of a SAB layer. Gate order i, f, g, o as in `torch.nn.LSTM`.

    Attributes:
        w_ih: (4n, input_size).
        w_hh: (4n, n).
        bias: (4n,).
        scorer: (w1 (d, n), w2 (d, n), w3 (d,)), or (w_memory (n,), w_query (n,)) for the separable
            score.
    """

    w_ih: Tensor
    w_hh: Tensor
    bias: Tensor
    scorer: tuple[Tensor, ...]


def version(tensor: Tensor) -> int:
    """Return the tensor's count of changes in place; inference tensors keep none."""
    return -1 if tensor.is_inference() else tensor._version


@dataclass
class MemoryBuffer:
    """Room for memories and their keys beyond those held, so that streaming appends in place.

    Attributes:
        memory: (B, capacity, n).
        keys: (B, capacity, d).
        tag: what the keys were computed from.
        used: slots written; only the state that holds exactly these may go on writing here. −1
            where no state may.
        changes: the memories' count of changes in place after the last write.
    """

    memory: Tensor
    keys: Tensor
    tag: tuple[int, ...]
    used: int = -1
    changes: int = -1

    def wrote(self, held: Tensor, level: bool) -> None:
        """Note a write that leaves the memories ``held``; level: every sample holds as many."""
        self.used, self.changes = held.shape[1] if level else -1, version(held)

    def still_holds(self, state: SABState) -> bool:
        """Whether the state's memories are the buffer's, unchanged, and the last ones written."""
        same = state.memory.data_ptr() == self.memory.data_ptr()
        shaped = len(state.memory) == len(self.memory) and state.memory.shape[1] == self.used
        return same and shaped and version(state.memory) == self.changes


@dataclass(frozen=True)
class SABState:
    """What a scan carries from one call to the next. Everything is detached.

    Attributes:
        h: (B, n).
        c: (B, n).
        memory: (B, M, n), the memories held (rows beyond a sample's own count are zeros).
        step: (B,) int64, on the CPU: steps taken so far; it fixes the phase of writing and of
            block truncation.
        buffer: where ``memory`` is kept, with its keys, when no gradient was wanted; else ``None``.
    """

    h: Tensor
    c: Tensor
    memory: Tensor
    step: Tensor
    buffer: MemoryBuffer | None = None

    def detach(self) -> SABState:
        """Return the same values, free of any graph."""
        return SABState(
            self.h.detach(), self.c.detach(), self.memory.detach(), self.step, self.buffer
        )


@dataclass(frozen=True)
class Recall:
    """What was recalled at each step.

    Attributes:
        indices: (B, T, K) int64, the candidates' memory slots, best first; −1 where unused.
        weights: (B, T, K), 0 for the threshold candidate.
        tied: (B, T) bool, True where no gradient reaches the scores (see `SparseWeights.tied`).
        steps: (B, T, K) int64, the 1-based time step at which a slot was written; 0 for the zero
            initial memory, −1 where unused.
    """

    indices: Tensor
    weights: Tensor
    tied: Tensor
    steps: Tensor

    def matrix(self, length: int | None = None) -> Tensor:
        """Dense weights (B, T, length): column s holds what was written at step s + 1.

        The zero memory and steps beyond ``length`` (all T if ``None``) are left out.
        """
        batch, steps, _ = self.indices.shape
        length = steps if length is None else length
        out = self.weights.new_zeros(batch, steps, length + 1)
        column = torch.where((self.steps < 1) | (self.steps > length), length, self.steps - 1)
        return out.scatter_add(2, column, self.weights)[..., :length]


def written_steps(indices: Tensor, options: ScanOptions) -> Tensor:
    """The 1-based step at which each slot was written; 0 for the zero memory, −1 where unused."""
    steps = (indices + 1 - options.zero_slots) * options.k_att
    return torch.where(indices < 0, -1, steps)


def initial_state(
    batch: int, hidden_size: int, options: ScanOptions, like: Tensor | None = None
) -> SABState:
    """A fresh state: zeros, with an empty memory or one zero memory.

    Raises:
        ValueError: ``batch`` or ``hidden_size`` is not a positive integer.
    """
    positive_int("batch", batch)
    positive_int("hidden_size", hidden_size)
    kwargs: dict[str, Any] = {} if like is None else {"dtype": like.dtype, "device": like.device}
    zeros = torch.zeros(batch, hidden_size, **kwargs)
    memory = torch.zeros(batch, options.zero_slots, hidden_size, **kwargs)
    return SABState(zeros, zeros, memory, torch.zeros(batch, dtype=torch.int64))


def mask_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """Return ``x`` (T, B, …) with zeros from each sample's length on."""
    padded = torch.arange(len(x), device=x.device)[:, None] >= lengths.to(x.device)
    return x.masked_fill(padded[..., None], 0)


def check_scan(
    gates: Tensor,
    w_hh: Tensor,
    scorer: tuple[Tensor, ...],
    state: SABState,
    options: ScanOptions,
    lengths: Tensor | None,
) -> None:
    """Refuse shapes that do not fit before any work starts.

    Raises:
        ValueError: a shape, a length or the number of memories does not fit.
    """
    shape("gates", gates, (None, None, None))
    steps, batch, wide = gates.shape
    positive_int("number of steps", steps)
    if wide % 4:
        raise ValueError(f"gates has {wide} columns: must be 4 × hidden_size")
    n = wide // 4
    shape("w_hh", w_hh, (wide, n))
    if options.score == "additive":
        w1, w2, w3 = scorer
        shape("w1", w1, (None, n))
        shape("w2", w2, (w1.shape[0], n))
        shape("w3", w3, (w1.shape[0],))
    else:
        for name, weight in zip(("w_memory", "w_query"), scorer, strict=True):
            shape(name, weight, (n,))
    shape("state.h", state.h, (batch, n))
    shape("state.c", state.c, (batch, n))
    shape("state.memory", state.memory, (batch, None, n))
    shape("state.step", state.step, (batch,))
    if state.memory.shape[1] < state.step.max().item() // options.k_att + options.zero_slots:
        raise ValueError(
            f"state.memory holds {state.memory.shape[1]} memories: must be at least "
            f"{state.step.max().item() // options.k_att + options.zero_slots} after "
            f"{state.step.max().item()} steps with k_att={options.k_att}"
        )
    if lengths is not None:
        shape("lengths", lengths, (batch,))
        if lengths.min() < 1 or lengths.max() > steps:
            raise ValueError(
                f"lengths={lengths.tolist()}: each must be between 1 and the number of steps, "
                f"{steps}"
            )
