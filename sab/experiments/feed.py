"""Where a run's batches come from: drawn afresh, or the epochs of a finite data set.

A finite task has ``sequences(part)``, ``take(part, which)`` and ``weight(y)`` (see
`sab.tasks.charlm` and `sab.tasks.images`) beside what every task has. Its batch of an update is a
function of the seed and the update's number, so a resumed run needs no more than that. Where its
sequences differ in length, ``lengths(part)`` says how, and batches are made of similar ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from sab.experiments.config import RunConfig
from sab.tasks.base import Batch, Task

EVALUATED = 256  # sequences of a finite data set at once, without a graph
EVALUATED_STEPS = 32_768  # the same where lengths differ: steps of a batch, padding counted
POOL = 8  # batches whose sequences are sorted by length together


def draw(task: Task, count: int, size: int, seed: int) -> list[Batch]:
    """Draw ``count`` batches of ``size`` from a stream of its own."""
    generator = torch.Generator().manual_seed(seed)
    return [task.batch(size, generator) for _ in range(count)]


def is_finite(task: Any) -> bool:
    """Whether a task has a finite data set behind it."""
    return all(hasattr(task, name) for name in ("sequences", "take", "weight"))


@lru_cache(maxsize=4)
def permutation(sequences: int, seed: int, epoch: int) -> Tensor:
    """The order of an epoch, (sequences,) int64."""
    mixed = (seed * 1_000_003 + epoch) % 2**63
    return torch.randperm(sequences, generator=torch.Generator().manual_seed(mixed))


def shuffled(sequences: int, size: int, seed: int, update: int) -> Tensor:
    """The sequences of ``update`` (0-based): epochs in a row, each in its own order.

    Every sequence comes once an epoch; a batch may end one epoch and begin the next.
    """
    places = torch.arange(update * size, (update + 1) * size)
    epochs = places // sequences
    parts = [
        permutation(sequences, seed, int(epoch))[places[epochs == epoch] % sequences]
        for epoch in epochs.unique()
    ]
    return torch.cat(parts)


def buckets(lengths: Tensor, size: int, seed: int, epoch: int) -> list[Tensor]:
    """The batches of an epoch where lengths (sequences,) differ: every sequence once.

    The epoch's order is cut into pools of `POOL` batches; a pool is sorted by length and cut into
    batches, and these come in an order of their own. So batches are little padded, and which
    sequences meet still changes from epoch to epoch.
    """
    order = permutation(len(lengths), seed, epoch)
    batches: list[Tensor] = []
    for pool in order.split(POOL * size):
        batches += pool[lengths[pool].argsort(stable=True)].split(size)
    return [batches[i] for i in permutation(len(batches), seed + 1, epoch).tolist()]


def by_length(lengths: Tensor, most: int = EVALUATED, steps: int = EVALUATED_STEPS) -> list[Tensor]:
    """Every sequence once, short ones first, in batches of at most ``most`` sequences.

    A batch has no more than ``steps`` steps, its padding counted; or one sequence.
    """
    order = lengths.argsort(stable=True)
    batches, start = [], 0
    for at in range(1, len(order) + 1):
        full = at - start == most or at == len(order)
        if full or (at - start + 1) * int(lengths[order[at]]) > steps:
            batches.append(order[start:at])
            start = at
    return batches


def streamed(sequences: int, size: int, update: int, whole: bool = False) -> tuple[Tensor, bool]:
    """The sequences of ``update`` where each row goes on from the one before it.

    The text is read at ``size`` places at once. ``whole``: as many updates as cover every sequence,
    the last of which may ask for some that do not exist (their targets do not count); else the rest
    that does not fill a row is left out.

    Returns:
        the numbers (size,), and whether the rows start anew.

    Raises:
        ValueError: there are fewer sequences than rows.
    """
    length = -(-sequences // size) if whole else sequences // size
    if length < 1:
        raise ValueError(f"batch_size={size}: the text has only {sequences} sequences to read from")
    step = update % length
    which = torch.arange(size) * length + step
    return which, step == 0


class Drawn:
    """Batches made afresh from the run's random streams."""

    def __init__(self, task: Task, run: RunConfig) -> None:
        """``run`` says the seed and the sizes."""
        self.task, self.run, self.size = task, run, run.train.batch_size
        self.generator = torch.Generator().manual_seed(run.stream("train"))
        self.fixed = draw(task, run.train.eval_batches, self.size, run.stream("valid"))
        self.tested = run.train.test_batches * self.size
        self.sequences: int | None = None

    def next(self, update: int) -> tuple[Batch, bool]:
        """The batch of ``update`` (0-based), and that it starts from nothing."""
        return self.task.batch(self.size, self.generator), True

    def sample(self) -> Batch:
        """A batch as large as those of training, without a draw from their stream."""
        return self.fixed[0]

    def held_out(self) -> Iterable[tuple[Batch, bool]]:
        """The held-out batches, the same every time."""
        return ((batch, True) for batch in self.fixed)

    def test(self) -> Iterable[tuple[Batch, bool]]:
        """Fresh test batches, drawn one by one."""
        found = draw(self.task, self.run.train.test_batches, self.size, self.run.stream("test"))
        return ((batch, True) for batch in found)

    def state(self) -> Any:
        """What a checkpoint keeps."""
        return self.generator.get_state()

    def restore(self, state: Any) -> None:
        """Go on from what `state` gave."""
        self.generator.set_state(state)


class Finite:
    """The epochs of a data set; its validation and its test part whole, each in order."""

    def __init__(self, task: Any, run: RunConfig) -> None:
        """``run`` says the seed and the batch size.

        Raises:
            ValueError: state is to be carried and there are fewer sequences than rows.
        """
        self.task, self.size = task, run.train.batch_size
        self.seed = run.stream("train")
        self.carried = bool(getattr(task, "carry", ()))
        self.sequences = task.sequences("train")
        self.tested = task.sequences("test")
        self.lengths = task.lengths("train") if hasattr(task, "lengths") else None
        self.epoch: tuple[int, list[Tensor]] = (-1, [])
        self.next(0)

    def next(self, update: int) -> tuple[Batch, bool]:
        """The batch of ``update`` (0-based), and whether it starts from nothing."""
        if self.lengths is not None:
            which, fresh = self.bucket(self.lengths, update), True
        elif self.carried:
            which, fresh = streamed(self.sequences, self.size, update)
        else:
            which, fresh = shuffled(self.sequences, self.size, self.seed, update), True
        return self.task.take("train", which), fresh

    def sample(self) -> Batch:
        """The first batch of training."""
        return self.next(0)[0]

    def bucket(self, lengths: Tensor, update: int) -> Tensor:
        """The sequences of ``update`` (0-based), of similar lengths."""
        epoch, at = divmod(update, -(-len(lengths) // self.size))
        if self.epoch[0] != epoch:
            self.epoch = (epoch, buckets(lengths, self.size, self.seed, epoch))
        return self.epoch[1][at]

    def part(self, name: str) -> Iterator[tuple[Batch, bool]]:
        """Every sequence of a part once."""
        if self.lengths is not None:
            for which in by_length(self.task.lengths(name)):
                yield self.task.take(name, which), True
            return
        count = self.task.sequences(name)
        size = min(EVALUATED, count)
        for i in range(-(-count // size)):
            if self.carried:
                which, fresh = streamed(count, size, i, whole=True)
            else:
                which, fresh = torch.arange(i * size, min((i + 1) * size, count)), True
            yield self.task.take(name, which), fresh

    def held_out(self) -> Iterator[tuple[Batch, bool]]:
        """The validation part."""
        return self.part("valid")

    def test(self) -> Iterator[tuple[Batch, bool]]:
        """The test part."""
        return self.part("test")

    def state(self) -> Any:
        """Nothing: an update's number says its batch."""
        return None

    def restore(self, state: Any) -> None:
        """Nothing to take up."""


Feed = Drawn | Finite


def make_feed(task: Any, run: RunConfig) -> Feed:
    """Return the feed that fits the task."""
    return Finite(task, run) if is_finite(task) else Drawn(task, run)
