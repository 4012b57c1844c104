"""Questions about a story: bAbI's tasks, or small worlds of our own (Weston et al. 2015).

A question becomes a table of word numbers, one row a sentence: row 0 is the question, row 1 the
sentence told last, row 2 the one before it, and so on. 0 fills what is left of a row or a table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from sab import data
from sab.checks import one_of, positive_int
from sab.data.babi import TASKS, file_name
from sab.data.fetch import data_dir
from sab.tasks.base import Batch
from sab.tasks.stories import WORLDS, Question, parse, tell

# Task: words of the longest sentence, words known (both files of a task), so a plan needs no data.
SIZES = {
    1: (6, 19), 2: (6, 33), 3: (7, 34), 4: (7, 14), 5: (7, 39), 6: (6, 35), 7: (6, 43), 8: (6, 45),
    9: (7, 23), 10: (9, 24), 11: (8, 26), 12: (8, 20), 13: (8, 26), 14: (8, 25), 15: (5, 17),
    16: (4, 17), 17: (11, 18), 18: (9, 18), 19: (10, 31), 20: (7, 35),
}  # fmt: skip
MADE_SIZES = {"one fact": (5, 18), "two facts": (5, 22)}
MADE = {"train": 1000, "valid": 200, "test": 1000}  # questions of a made world
HELD_OUT = 0.1  # of the training questions, the last; Sukhbaatar et al. 2015, section 4.2


@dataclass(frozen=True)
class Library:
    """A task's questions and its words.

    Attributes:
        words: known words, sorted; word i has number i + 1.
        questions: part → its questions.
        about: what was read, for the record.
    """

    words: tuple[str, ...]
    questions: dict[str, list[Question]]
    about: str

    def numbers(self) -> dict[str, int]:
        """Word → number."""
        return {word: i for i, word in enumerate(self.words, 1)}


def known_words(questions: Sequence[Question]) -> tuple[str, ...]:
    """Every word of the stories, questions and answers, sorted."""
    found: set[str] = set()
    for question in questions:
        found |= {question.answer, *question.words}
        for sentence in question.story:
            found |= set(sentence)
    return tuple(sorted(found))


@lru_cache(maxsize=8)
def _from_files(task: int, folder: Path) -> Library:
    paths = data.files("babi")
    read = {
        part: parse(paths[file_name(task, part)].read_text(), file_name(task, part))
        for part in ("train", "test")
    }
    cut = round(len(read["train"]) * (1 - HELD_OUT))
    parts = {"train": read["train"][:cut], "valid": read["train"][cut:], "test": read["test"]}
    return Library(known_words([*read["train"], *read["test"]]), parts, f"bAbI en-1k, task {task}")


@lru_cache(maxsize=4)
def _made(world: str, sentences: int) -> Library:
    parts = {
        part: parse(tell(world, count, seed, sentences))
        for seed, (part, count) in enumerate(MADE.items())
    }
    words = known_words([question for questions in parts.values() for question in questions])
    return Library(words, parts, f"made stories, {world}, {sentences} sentences")


def as_table(
    question: Question, numbers: dict[str, int], words: int, memory: int
) -> tuple[Tensor, int]:
    """A question as numbers.

    Args:
        question: what is asked, and what was told.
        numbers: word → number.
        words: columns.
        memory: sentences kept at most, the newest.

    Returns:
        (1 + memory, words) int64, and the answer's number.

    Raises:
        ValueError: a word is not known, or a sentence has more words than there are columns.
    """
    table = torch.zeros(1 + memory, words, dtype=torch.int64)
    for row, sentence in enumerate([question.words, *reversed(question.story[-memory:])]):
        if len(sentence) > words:
            raise ValueError(f"sentence={' '.join(sentence)!r}: must have at most {words} words")
        for column, word in enumerate(sentence):
            if word not in numbers:
                raise ValueError(f"word={word!r}: is not in the vocabulary")
            table[row, column] = numbers[word]
    return table, numbers[question.answer]


@dataclass(frozen=True)
class BabiTask:
    """Answer questions about stories with one word.

    Args:
        task: of bAbI's twenty.
        world: ``""`` reads bAbI; ``"one fact"`` or ``"two facts"`` makes stories, and no file is
            needed.
        sentences: of a made story.
        memory: sentences kept at most, the newest.

    Raises:
        ValueError: a setting is out of range. Files are read when they are first needed.
    """

    task: int = 1
    world: str = ""
    sentences: int = 8
    memory: int = 50

    def __post_init__(self) -> None:
        one_of("task", self.task, TASKS)
        one_of("world", self.world, ("", *WORLDS))
        positive_int("sentences", self.sentences, 3)
        positive_int("memory", self.memory)

    @property
    def library(self) -> Library:
        """Questions and words.

        Raises:
            DataError: the files are not here and cannot be fetched.
            ValueError: a file breaks the format.
        """
        if self.world:
            return _made(self.world, self.sentences)
        return _from_files(self.task, data_dir())

    @property
    def _sizes(self) -> tuple[int, int]:
        return MADE_SIZES[self.world] if self.world else SIZES[self.task]

    @property
    def input_size(self) -> int:
        """Columns: words of the longest sentence."""
        return self._sizes[0]

    @property
    def output_size(self) -> int:
        """Numbers of words: the known ones, and 0."""
        return self._sizes[1] + 1

    @property
    def steps(self) -> int:
        """Rows: the question and the sentences."""
        return 1 + self.memory

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the cross-entropy: on few held-out questions accuracies tie."""
        return ("ce", "min")

    @property
    def about(self) -> str:
        """What was read, for the record."""
        return self.library.about

    def prepare(self) -> None:
        """Read the questions, fetching them if need be.

        Raises:
            ValueError, DataError: they cannot be read, or have more words than they should.
        """
        found = len(self.library.words)
        if found != self._sizes[1]:
            raise ValueError(f"{self.about}: has {found} words, not {self._sizes[1]}")

    def sequences(self, part: str) -> int:
        """Questions of a part: ``"train"``, ``"valid"`` or ``"test"``."""
        return len(self.library.questions[part])

    def take(self, part: str, which: Tensor) -> Batch:
        """Questions ``which (B,)``: x (B, rows, words) int64, y (B,) int64, the answers' numbers.

        There are as many rows as the longest story of these needs.
        """
        x, y = _tables(data_dir(), self)[part]
        x = x[which]
        rows = int(x.any(2).any(0).sum())
        return Batch(x[:, :rows], y[which])

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw training questions.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        count = self.sequences("train")
        return self.take("train", torch.randint(count, (batch_size,), generator=generator))

    def weight(self, y: Tensor) -> int:
        """Questions of a batch."""
        return len(y)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats of logits ``outputs (B, words known)``."""
        return functional.cross_entropy(outputs, y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``accuracy``: share of right answers; ``ce``: nats."""
        return {
            "accuracy": (outputs.argmax(-1) == y).float().mean().item(),
            "ce": self.loss(outputs, y).item(),
        }

    def baselines(self) -> dict[str, float]:
        """The training part's answers without the story, on the test part.

        ``accuracy``: always the most frequent; ``ce``: their frequencies, one added to each word's.
        """
        asked = self.library.questions
        counts = Counter(question.answer for question in asked["train"])
        often = counts.most_common(1)[0][0]
        total = sum(counts.values()) + len(self.library.words)
        tested = [question.answer for question in asked["test"]]
        nats = [-math.log((counts[answer] + 1) / total) for answer in tested]
        return {
            "accuracy": sum(answer == often for answer in tested) / len(tested),
            "ce": sum(nats) / len(nats),
        }


@lru_cache(maxsize=8)
def _tables(folder: Path, task: BabiTask) -> dict[str, tuple[Tensor, Tensor]]:
    """Every part as one tensor."""
    library = task.library
    numbers = library.numbers()
    parts = {}
    for part, questions in library.questions.items():
        rows = [as_table(q, numbers, task.input_size, task.memory) for q in questions]
        parts[part] = torch.stack([row[0] for row in rows]), torch.tensor([row[1] for row in rows])
    return parts
