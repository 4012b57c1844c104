"""Character-level language modelling (paper, sections 4, 7.2, 7.3 and 7.5, Tables 2 and 6).

The text is cut into sequences of ``T`` characters that do not overlap. At each step the model sees
one character and says the next; every character of a part is predicted exactly once. The paper
leaves open whether a sequence starts from nothing or from the state the last one left: ``carry``
says which of h, c and the memory go on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import one_of, positive_int
from sab.tasks.base import Batch
from sab.tasks.text import CORPORA, Corpus, corpus

ALPHABETS = {"ptb": 50, "text8": 27, "books": 27}  # so that a plan needs no data
IGNORED = -100  # a target that does not count: beyond the text's end
CARRIED = ("h", "c", "memory")


@dataclass(frozen=True)
class CharLMTask:
    """Say the next character.

    Args:
        corpus: see `sab.tasks.text.corpus`; ``"file"`` reads ``path``.
        T: characters of a sequence; 100 on PTB and 180 on text8 in the paper.
        path: a UTF-8 file, for ``corpus="file"``.
        carry: what of the state goes on to the next sequence: some of ``"h"``, ``"c"`` and
            ``"memory"``; empty: every sequence starts from nothing, and their order is drawn.
        memories: memories carried at most, the newest.

    Raises:
        ValueError: a setting is out of range. The text itself is read when it is first needed.
    """

    corpus: str = "ptb"
    T: int = 100
    path: str = ""
    carry: tuple[str, ...] = ()
    memories: int = 20

    def __post_init__(self) -> None:
        one_of("corpus", self.corpus, CORPORA)
        positive_int("T", self.T)
        positive_int("memories", self.memories)
        object.__setattr__(self, "carry", tuple(self.carry))
        for name in self.carry:
            one_of("carry", name, CARRIED)

    @property
    def text(self) -> Corpus:
        """The corpus.

        Raises:
            ValueError, DataError: it cannot be read.
        """
        return corpus(self.corpus, self.path)

    @property
    def output_size(self) -> int:
        """Symbols of the alphabet."""
        return ALPHABETS.get(self.corpus) or len(self.text.alphabet)

    @property
    def input_size(self) -> int:
        """One feature a symbol."""
        return self.output_size

    @property
    def steps(self) -> int:
        """Length of a sequence."""
        return self.T

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by bits per character; less is better."""
        return ("bpc", "min")

    @property
    def about(self) -> str:
        """What was read, for the record."""
        return self.text.about

    def prepare(self) -> None:
        """Read the text, fetching it if need be.

        Raises:
            ValueError, DataError: it cannot be.
        """
        found = len(self.text.alphabet)
        if found != self.output_size:
            raise ValueError(f"corpus={self.corpus!r}: has {found} symbols, not {self.output_size}")

    def sequences(self, part: str) -> int:
        """Sequences of a part; the last may be short."""
        return math.ceil(len(self.text.parts[part]) / self.T)

    def take(self, part: str, which: Tensor) -> Batch:
        """Return sequences ``which (B,)`` of a part.

        Returns:
            x (B, T, symbols) float32, one-hot, the character before each target; y (B, T) int64,
            `IGNORED` beyond the text's end.
        """
        text = self.text
        codes = text.parts[part]
        place = which[:, None] * self.T + torch.arange(self.T)
        inside = place < len(codes)
        y = codes[place.clamp(max=len(codes) - 1)].long()
        before = codes[(place - 1).clamp(0, len(codes) - 1)].long()
        before = torch.where(place == 0, text.start, before)
        x = functional.one_hot(before, self.input_size).float()
        return Batch(x, torch.where(inside, y, IGNORED))

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw training sequences.

        Raises:
            ValueError: ``batch_size`` is not a positive integer, or the text cannot be read.
        """
        positive_int("batch_size", batch_size)
        which = torch.randint(self.sequences("train"), (batch_size,), generator=generator)
        return self.take("train", which)

    def weight(self, y: Tensor) -> int:
        """Characters of a batch."""
        return int((y != IGNORED).sum())

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a character."""
        return functional.cross_entropy(
            outputs.flatten(0, 1), y.flatten(), ignore_index=IGNORED, reduction="mean"
        )

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``bpc``: bits a character; ``accuracy``: characters that got the largest logit.

        Both are means over the batch's characters: weigh batches by `weight`.
        """
        counted = y != IGNORED
        right = (outputs.argmax(-1) == y)[counted]
        return {
            "bpc": self.loss(outputs, y).item() / math.log(2),
            "accuracy": right.float().mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """What no memory and no look at the last character reach: the training part's frequencies.

        ``bpc``: of the test part; ``accuracy``: always the most frequent symbol.
        """
        counts, tested = (
            torch.bincount(self.text.parts[part].long(), minlength=self.output_size).double()
            for part in ("train", "test")
        )
        bits = -(counts / counts.sum()).clamp_min(1e-30).log2()
        share = tested / tested.sum()
        return {"bpc": float(share @ bits), "accuracy": float(share[counts.argmax()])}
