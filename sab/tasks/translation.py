"""Multi30k, English to German: image captions, each the translation of the other.

29,000 pairs to train on, 1,014 to choose the model by, 1,000 to test (the 2016 Flickr test). Words
are lower-case, with punctuation of their own; what is not among the most frequent becomes
"unknown".
"""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import one_of, positive_int
from sab.data import files
from sab.tasks.base import Batch
from sab.tasks.symbols import END, PAD, SPECIAL, Vocabulary, padded

PARTS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LANGUAGES = ("en", "de")
WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")

Words = tuple[str, ...]


def words(text: str) -> Words:
    """Lower-case words and punctuation; hyphens and apostrophes inside a word stay in it."""
    return tuple(WORD.findall(text.lower()))


def joined(tokens: list[str]) -> str:
    """Words as a text again; punctuation follows without a space."""
    return re.sub(r" ([.,;:!?)])", r"\1", " ".join(tokens))


def lines(part: str, language: str) -> tuple[str, ...]:
    """The lines of a part in a language, as they are in the file.

    Raises:
        ValueError: there is no such part or language.
        DataError: a file is missing and cannot be fetched, or is damaged.
    """
    one_of("part", part, PARTS)
    one_of("language", language, LANGUAGES)
    path = files("multi30k")[f"{PARTS[part]}.{language}.gz"]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return tuple(line.strip() for line in file)


@lru_cache(maxsize=4)
def vocabulary(language: str, count: int) -> Vocabulary:
    """The ``count`` most frequent words of the training part.

    Raises:
        ValueError: there are fewer.
        DataError: as for `lines`.
    """
    found = Vocabulary.most_frequent(map(words, lines("train", language)), count)
    if len(found.tokens) < count:
        raise ValueError(f"words={count!r}: {language} has only {len(found.tokens)}")
    return found


@lru_cache(maxsize=8)
def _encoded(part: str, language: str, count: int) -> tuple[tuple[int, ...], ...]:
    vocabulary_ = vocabulary(language, count)
    return tuple(tuple(vocabulary_.encode(words(line))) for line in lines(part, language))


@lru_cache(maxsize=8)
def _kept(part: str, count: int, longest: int) -> tuple[int, ...]:
    """Which pairs count: all, but in training only those of at most ``longest`` words."""
    pairs = zip(*(_encoded(part, language, count) for language in LANGUAGES), strict=True)
    return tuple(
        i
        for i, pair in enumerate(pairs)
        if min(map(len, pair)) > 0 and (part != "train" or max(map(len, pair)) <= longest)
    )


@dataclass(frozen=True)
class TranslationTask:
    """Translate a caption, word by word.

    Args:
        words: the most frequent words of each language that are told apart.
        longest: words of a training sentence at most; judging takes all.

    Raises:
        ValueError: a setting is out of range. The data are read when they are first needed.
    """

    words: int = 3000
    longest: int = 20

    judged_told = True  # metrics are of the next word, the ones before it being right

    def __post_init__(self) -> None:
        positive_int("words", self.words)
        positive_int("longest", self.longest)

    @property
    def input_size(self) -> int:
        """Kinds of source symbol."""
        return self.words + len(SPECIAL)

    @property
    def output_size(self) -> int:
        """Kinds of target symbol."""
        return self.words + len(SPECIAL)

    @property
    def steps(self) -> int:
        """Words of a sentence at most, and the end."""
        return self.longest + 1

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by nats a word; less is better."""
        return ("nats", "min")

    @property
    def about(self) -> str:
        """What was read, for the record."""
        return f"Multi30k en-de, {self.sequences('train')} training pairs, lower-case"

    def prepare(self) -> None:
        """Read the data, fetching them if need be.

        Raises:
            ValueError, DataError: they cannot be.
        """
        for language in LANGUAGES:
            vocabulary(language, self.words)

    def sequences(self, part: str) -> int:
        """Pairs of a part."""
        return len(_kept(part, self.words, self.longest))

    def take(self, part: str, which: Tensor) -> Batch:
        """Return pairs ``which`` (B,) of a part: x (B, N) and y (B, M) int64, y with the end."""
        kept = _kept(part, self.words, self.longest)
        rows = [kept[i] for i in which.tolist()]
        source, target = (_encoded(part, language, self.words) for language in LANGUAGES)
        return Batch(padded([source[i] for i in rows]), padded([(*target[i], END) for i in rows]))

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw training pairs.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
            DataError: the data cannot be read.
        """
        positive_int("batch_size", batch_size)
        which = torch.randint(self.sequences("train"), (batch_size,), generator=generator)
        return self.take("train", which)

    def weight(self, y: Tensor) -> int:
        """Words of a batch, the ends included."""
        return int((y != PAD).sum())

    def teacher(self, y: Tensor) -> Tensor:
        """What a model is told: the right words."""
        return y

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a word."""
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), ignore_index=PAD)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``nats``: cross-entropy a word; ``accuracy``: words that got the largest logit.

        Both are means over the batch's words, each told the right words before it: weigh batches
        by `weight`.
        """
        counted = y != PAD
        right = (outputs.argmax(-1) == y)[counted]
        return {"nats": self.loss(outputs, y).item(), "accuracy": right.float().mean().item()}

    def baselines(self) -> dict[str, float]:
        """A guess that knows neither the source nor how frequent words are."""
        return {"nats": math.log(self.output_size), "accuracy": 1 / self.output_size}
