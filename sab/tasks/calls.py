"""What did that call return? A long log of tool calls, and a question at its end (REA's 6.3).

Each step is a call and its result: one of ``tools`` tools with one of ``results`` results, a type
of event each. The tool 0 is called once, in the first quarter; the others are called all the time.
The last step asks what the call of tool 0 returned. That this will be asked is known from the
start, so a summary can prepare for it; what the history's length does to it is the question.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import finite_float, positive_int
from sab.tasks.base import Batch


@dataclass(frozen=True)
class CallsTask:
    """Say what the one call of tool 0 returned.

    Args:
        T: length of the history in steps, the question included; at least 4.
        tools: kinds of tool, at least 2.
        results: kinds of result, at least 2.
        shortest: the shortest history as a share of ``T``; a batch's length is drawn from there to
            ``T``. ``None``: all have length ``T``.

    Raises:
        ValueError: a setting is out of range.
    """

    T: int = 128
    tools: int = 8
    results: int = 4
    shortest: float | None = None

    def __post_init__(self) -> None:
        positive_int("T", self.T, 4)
        positive_int("tools", self.tools, 2)
        positive_int("results", self.results, 2)
        if self.shortest is not None:
            finite_float("shortest", self.shortest, 0.0, 1.0)

    @property
    def input_size(self) -> int:
        """One feature a call with its result, and one for the question."""
        return self.tools * self.results + 1

    @property
    def output_size(self) -> int:
        """Results."""
        return self.results

    @property
    def steps(self) -> int:
        """Length of the longest history."""
        return self.T

    @property
    def length(self) -> int:
        """Answers, at the end."""
        return 1

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the accuracy; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw ``x (B, N, input_size)`` float32, one-hot, and ``y (B, 1)`` int64, N at most T.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        steps = self.T
        if self.shortest is not None:
            least = max(4, round(self.shortest * self.T))
            steps = int(torch.randint(least, self.T + 1, (1,), generator=generator))
        kinds = self.tools * self.results
        calls = torch.randint(self.results, kinds, (batch_size, steps), generator=generator)
        answer = torch.randint(self.results, (batch_size, 1), generator=generator)
        early = max(1, (steps - 1) // 4)
        at = torch.randint(early, (batch_size, 1), generator=generator)
        calls.scatter_(1, at, answer)  # the types of tool 0 are its results
        calls[:, -1] = kinds
        return Batch(functional.one_hot(calls, kinds + 1).float(), answer)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats of the last step's logits, from outputs (B, N, results)."""
        return functional.cross_entropy(outputs[:, -1], y[:, 0])

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``accuracy`` of the answer, and ``ce``, its cross-entropy in nats."""
        right = outputs[:, -1].argmax(-1) == y[:, 0]
        return {"accuracy": right.float().mean().item(), "ce": self.loss(outputs, y).item()}

    def baselines(self) -> dict[str, float]:
        """A guess among the results."""
        return {"accuracy": 1 / self.results, "ce": log(self.results)}
