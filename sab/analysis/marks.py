"""The adding task from inside: which part of a sequence is recalled, what carries a number."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from sab.checks import one_of, positive_int, shape
from sab.models.sab import SAB
from sab.ops.sab_scan.types import SABState

SEGMENTS = (
    "before the first mark",
    "at the first mark",
    "between the marks",
    "at the second mark",
    "after it",
)
PARTS = ("memory", "chain")


def marked_steps(x: Tensor) -> Tensor:
    """Return the two marked steps (B, 2) int64, 1-based, of adding inputs ``x`` (B, T, 2).

    Raises:
        ValueError: a sequence has not exactly two marks.
    """
    shape("x", x, (None, None, 2))
    marks = x[..., 1] == 1
    counts = marks.sum(1)
    if (counts != 2).any():
        wrong = counts[counts != 2][0].item()
        raise ValueError(f"x: a sequence has {wrong} marks: must have two")
    return marks.nonzero()[:, 1].reshape(len(x), 2) + 1


def shares_by_segment(weights: Tensor, marks: Tensor, near: int = 4) -> Tensor:
    """Split the weight of reads over the `SEGMENTS` of each sequence.

    Args:
        weights: (B, T), the weight on what was written at step s + 1, as a row of
            ``Recall.matrix()``; it need not sum to 1.
        marks: (B, 2), 1-based, from `marked_steps`.
        near: a memory is *at* a mark if written at its step or less than ``near`` steps after.

    Returns:
        (B, 5), summing to the sums of ``weights``.

    Raises:
        ValueError: a shape does not fit, or ``near`` is not a positive integer.
    """
    shape("weights", weights, (None, None))
    shape("marks", marks, (len(weights), 2))
    positive_int("near", near)
    written = torch.arange(1, weights.shape[1] + 1)[None]
    first, second = marks[:, :1], marks[:, 1:]
    place = (written >= first).long() + (written >= first + near).long()
    place = torch.where(written >= second, 3 + (written >= second + near).long(), place)
    return weights.new_zeros(len(weights), len(SEGMENTS)).scatter_add(1, place, weights)


@torch.no_grad()
def swapped_answers(model: SAB, x: Tensor, step: int, part: str) -> Tensor:
    """Answer after one part of the state was swapped among the sequences, in mid-sequence.

    Sequence b goes on from ``step`` with the part of sequence b − 1, so its answer shows what that
    part carried.

    Args:
        model: a SAB.
        x: (B, T, 2).
        step: steps taken before the swap, 1 … T − 1.
        part: ``"memory"`` or ``"chain"`` (h and c).

    Returns:
        (B,), the answers at the last step.

    Raises:
        ValueError: a name is unknown or ``step`` is out of range.
    """
    one_of("part", part, PARTS)
    shape("x", x, (None, None, 2))
    if not 1 <= step < x.shape[1]:
        raise ValueError(f"step={step!r}: must be between 1 and {x.shape[1] - 1}")
    _, state = model(x[:, :step])
    names = ("memory",) if part == "memory" else ("h", "c")
    changed = {name: getattr(state, name).roll(1, 0) for name in names}
    state = dataclasses.replace(state, buffer=None, **changed)
    assert isinstance(state, SABState)
    return model(x[:, step:], state)[0][:, -1, 0]


def carried(answers: Tensor, mine: Tensor, other: Tensor) -> float:
    """How far answers follow another sequence's number instead of their own.

    Args:
        answers: (B,), answers less all that does not depend on the number.
        mine: (B,), the number of the sequence itself.
        other: (B,), the number of the sequence whose state it got.

    Returns:
        The coefficient of ``other`` in the least-squares fit of ``answers`` on ``mine``, ``other``
        and a constant: near 0 if the swapped part carries nothing, near 1 if it carries all.

    Raises:
        ValueError: shapes differ.
    """
    shape("mine", mine, tuple(answers.shape))
    shape("other", other, tuple(answers.shape))
    design = torch.stack([mine, other, torch.ones_like(mine)], 1).double()
    return torch.linalg.lstsq(design, answers.double()[:, None]).solution[1].item()
