"""Texts as numbers: a vocabulary, and batches of sequences padded to one length.

The first four symbols have a meaning: padding, beginning, end and "unknown".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their numbers; `SPECIAL` come first, then ``tokens`` from 4 on."""

    tokens: tuple[str, ...]

    @classmethod
    def most_frequent(cls, texts: Iterable[Sequence[str]], count: int) -> Vocabulary:
        """The ``count`` most frequent tokens; ties go by the alphabet."""
        counted = Counter(token for text in texts for token in text)
        order = sorted(counted, key=lambda token: (-counted[token], token))
        return cls(tuple(order[:count]))

    def __len__(self) -> int:
        """Symbols, the special ones among them."""
        return len(SPECIAL) + len(self.tokens)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Token → number."""
        return {token: i for i, token in enumerate(self.tokens, start=len(SPECIAL))}

    def encode(self, text: Sequence[str]) -> list[int]:
        """Numbers of the tokens; `UNKNOWN` where there is none."""
        return [self.numbers.get(token, UNKNOWN) for token in text]

    def decode(self, symbols: Iterable[int]) -> list[str]:
        """Tokens up to `END`, without padding."""
        found = []
        for symbol in symbols:
            if symbol == END:
                break
            if symbol not in (PAD, BEGIN):
                found.append((*SPECIAL, *self.tokens)[symbol])
        return found


def padded(rows: Sequence[Sequence[int]], longest: int | None = None) -> Tensor:
    """Rows as one int64 tensor (B, longest), `PAD` behind them; ``None``: the longest row's length.

    Raises:
        ValueError: there is no row, or one is longer than ``longest``.
    """
    if not rows:
        raise ValueError("rows=[]: must hold at least one")
    size = max(map(len, rows))
    if longest is not None and size > longest:
        raise ValueError(f"longest={longest!r}: a row has {size} symbols")
    found = torch.full((len(rows), longest or size), PAD, dtype=torch.int64)
    for i, row in enumerate(rows):
        found[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return found
