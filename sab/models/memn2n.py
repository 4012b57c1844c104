"""End-to-end memory network: a story as a memory that is only read (Sukhbaatar et al. 2015).

Each sentence is stored twice: as what is compared with the question (the A memory) and as what is
read out (the C memory). A hop reads once; the next one asks with what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sab.checks import finite_float, one_of, positive_int, shape
from sab.ops.attention import attention_weights, check_mask
from sab.ops.word_order import bag_weights, position_weights, sentence_vectors

TYINGS = ("adjacent", "layerwise")
ENCODINGS = {"position": position_weights, "bag": bag_weights}


@dataclass(frozen=True)
class MemN2NConfig:
    """Settings of `MemN2N`.

    Attributes:
        input_size: words of the longest sentence.
        hidden_size: d, width of every vector.
        output_size: V, numbers of words (0 is none); answers are words.
        hops: K, reads one after the other.
        tying: ``"adjacent"``: one hop's C is the next one's A, the question uses the first A and
            the answer the last C. ``"layerwise"``: all hops share one A and one C, and a linear map
            takes the query from hop to hop.
        encoding: ``"position"``: word order counts; ``"bag"``: it does not.
        temporal: whether a sentence's age is learned.
        memory: sentences at most.
        noise: share of empty memories put between the sentences while training.
        linear_start: updates at the start during which scores are used without softmax.
        spread: standard deviation of the weights at the start.
    """

    input_size: int = 6
    hidden_size: int = 20
    output_size: int = 20
    hops: int = 3
    tying: str = "adjacent"
    encoding: str = "position"
    temporal: bool = True
    memory: int = 50
    noise: float = 0.1
    linear_start: int = 0
    spread: float = 0.1

    def __post_init__(self) -> None:
        """Refuse settings out of range (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size", "hops", "memory"):
            positive_int(name, getattr(self, name))
        one_of("tying", self.tying, TYINGS)
        one_of("encoding", self.encoding, ENCODINGS)
        finite_float("noise", self.noise, 0.0, 1.0)
        positive_int("linear_start", self.linear_start, 0)
        finite_float("spread", self.spread, 0.0)

    @property
    def most_ages(self) -> int:
        """Different ages of a sentence, those that empty memories make greater among them."""
        return self.memory + round(self.noise * self.memory)


class Hops(NamedTuple):
    """What `MemN2N.hops` returns.

    Attributes:
        logits: (B, V).
        weights: (B, K, S), attention of each hop over the sentences, newest first.
    """

    logits: Tensor
    weights: Tensor


def ages(present: Tensor, most: int) -> Tensor:
    """Ages of the sentences with empty memories in between: which of ``most`` places they take.

    Args:
        present: (B, S) bool, True at sentences, which stand first.
        most: empty memories among a full table's S; fewer sentences get a like share.

    Returns:
        (B, S) int64, increasing; without empty memories 0, 1, 2 …
    """
    count = present.sum(1)
    spare = (count * most / present.shape[1]).round().long()
    total = present.shape[1] + most
    places = torch.arange(total, device=present.device)
    luck = torch.rand(len(present), total, device=present.device)
    luck = luck.masked_fill(places >= (count + spare)[:, None], 2.0)  # beyond: never taken early
    taken = torch.zeros_like(luck, dtype=torch.bool)
    taken.scatter_(1, luck.argsort(1), places < count[:, None])
    order = (~taken).to(torch.int8).argsort(dim=1, stable=True)  # those taken, in order, first
    return order[:, : present.shape[1]]


class MemN2N(nn.Module):
    """Questions about a story: ``q ← q + Σ_n softmax(aᵀq)_n c_n`` at each hop, then ``y = W q``.

    Shapes: x (B, 1 + S, input_size) int64, row 0 the question, then the sentences, newest first, 0
    where there is no word → logits (B, V), and ``None`` for the state.
    """

    linear_left: Tensor

    def __init__(self, config: MemN2NConfig | None = None) -> None:
        """Draw the word vectors from ``config``."""
        super().__init__()
        self.config = config or MemN2NConfig()
        c = self.config
        adjacent = c.tying == "adjacent"
        # Adjacent: A¹=B, C¹=A², …, Cᴷ=Wᵀ. Layer-wise: A, C, B, W.
        self.count = c.hops + 1 if adjacent else 4
        self.words = nn.Parameter(c.spread * torch.randn(c.output_size, self.count * c.hidden_size))
        kinds = c.hops + 1 if adjacent else 2
        self.ages = nn.Parameter(c.spread * torch.randn(c.most_ages, kinds, c.hidden_size))
        self.between = None if adjacent else nn.Linear(c.hidden_size, c.hidden_size, bias=False)
        self.register_buffer("linear_left", torch.tensor(float(c.linear_start)))

    @property
    def warming_up(self) -> bool:
        """Whether scores are still used without softmax: a trainer chooses no such model."""
        return bool(self.linear_left > 0)

    def _vectors(self, x: Tensor, present: Tensor) -> Tensor:
        """Every row of the table by every set of word vectors: (B, 1 + S, count, d)."""
        weights = ENCODINGS[self.config.encoding](present, self.config.hidden_size)
        return sentence_vectors(x, self.words, weights.to(self.words.dtype))

    def _check(self, x: Tensor) -> Tensor:
        """Where words are: (B, 1 + S, W); see `forward` for the errors."""
        shape("x", x, (None, None, self.config.input_size))
        if x.dtype != torch.int64:
            raise ValueError(f"x has dtype {x.dtype}: must be torch.int64, numbers of words")
        if x.shape[0] < 1 or not 2 <= x.shape[1] <= 1 + self.config.memory:
            raise ValueError(f"x has shape {tuple(x.shape)}: needs a question, a row for it and "
                             f"1 to {self.config.memory} for sentences")  # fmt: skip
        present = x > 0
        if not bool(present[:, 0].any(-1).all()):
            raise ValueError("x: row 0 of a sample has no word: each needs a question")
        return present

    def hops(self, x: Tensor) -> Hops:
        """Answer, and say where each hop looked; see `forward` for arguments and errors."""
        present = self._check(x)
        c = self.config
        told = present[:, 1:].any(-1)
        check_mask(told.float(), told)
        vectors = self._vectors(x, present)
        stored = vectors[:, 1:]
        if c.temporal:
            most = c.most_ages - c.memory if self.training else 0
            empty = round(most * told.shape[1] / c.memory)
            old = self.ages[ages(told, empty)] if empty else self.ages[: told.shape[1]]
            kinds = self.ages.shape[1]
            stored = torch.cat([stored[:, :, :kinds] + old, stored[:, :, kinds:]], 2)
        linear = self.warming_up
        if self.training and linear:
            self.linear_left -= 1
        adjacent = c.tying == "adjacent"
        query = vectors[:, 0, 0 if adjacent else 2]
        looked = []
        for k in range(c.hops):
            a, out = (k, k + 1) if adjacent else (0, 1)
            scores = (stored[:, :, a] @ query[:, :, None])[..., 0]
            weights = scores * told if linear else attention_weights(scores, told)
            read = (weights[:, None] @ stored[:, :, out])[:, 0]
            query = read + (query if self.between is None else self.between(query))
            looked.append(weights)
        answers = self.words.view(c.output_size, self.count, c.hidden_size)[:, -1]
        return Hops(query @ answers.T, torch.stack(looked, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Logits (B, V) of the answer.

        Args:
            x: (B, 1 + S, input_size) int64, see the class. Rows and words of padding stand last.

        Raises:
            ValueError: a shape or a number does not fit, or a sample has no question or no
                sentence.
        """
        return self.hops(x).logits, None
