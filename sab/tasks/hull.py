"""The planar convex hull as pointing (Vinyals et al. 2015, section 3.1).

The answer names the corners of the hull, counter-clockwise, from the corner that comes first in
the input; then it points at the end mark, which is the input's last element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import positive_int
from sab.tasks.base import Batch

PADDED = -1
Point = Sequence[float]


def turn(a: Point, b: Point, c: Point) -> float:
    """Twice the signed area of the triangle; above 0 if a → b → c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def convex_hull(points: Sequence[Point]) -> list[int]:
    """Return the corners' positions, counter-clockwise, the lowest position first.

    Andrew's monotone chain, O(N log N). Points on an edge are no corners.

    Raises:
        ValueError: there are fewer than three points.
    """
    if len(points) < 3:
        raise ValueError(f"points: must be at least 3, got {len(points)}")
    order = sorted(range(len(points)), key=lambda i: tuple(points[i]))

    def chain(positions: Sequence[int]) -> list[int]:
        found: list[int] = []
        for i in positions:
            while len(found) > 1 and turn(points[found[-2]], points[found[-1]], points[i]) <= 0:
                found.pop()
            found.append(i)
        return found[:-1]

    corners = chain(order) + chain(order[::-1])
    first = corners.index(min(corners))
    return corners[first:] + corners[:first]


def area(points: Sequence[Point]) -> float:
    """Area of the polygon with these corners in their order (the shoelace formula), at least 0."""
    pairs = zip(points, [*points[1:], points[0]], strict=True)
    return abs(sum(a[0] * b[1] - a[1] * b[0] for a, b in pairs)) / 2


def is_simple(points: Sequence[Point]) -> bool:
    """Return whether no two edges of the polygon cross."""
    edges = list(zip(points, [*points[1:], points[0]], strict=True))
    for i, (a, b) in enumerate(edges):
        for j in range(i + 2, len(edges) - (i == 0)):
            c, d = edges[j]
            if turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0:
                return False
    return True


@dataclass(frozen=True)
class HullTask:
    """Find the convex hull of ``length`` points, uniform in the unit square.

    Raises:
        ValueError: ``length`` is not an integer of at least 3.
    """

    length: int = 5

    def __post_init__(self) -> None:
        positive_int("length", self.length, 3)

    @property
    def input_size(self) -> int:
        """Both coordinates, and a mark that is 1 for the end."""
        return 3

    @property
    def output_size(self) -> int:
        """Elements to point at: the points and the end mark."""
        return self.length + 1

    @property
    def steps(self) -> int:
        """Elements, and pointers at most."""
        return self.length + 1

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of whole hulls that are right; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw points and their hulls.

        Returns:
            ``x (B, length+1, 3)`` float32, the end mark last, and ``y (B, length+1, 3)`` float32:
            the position to point at in each step (-1 after the end), then the element's own
            coordinates, which the area needs.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        x = torch.zeros(batch_size, self.length + 1, 3)
        points = torch.rand(batch_size, self.length, 2, generator=generator)
        x[:, :-1, :2] = points
        x[:, -1, 2] = 1.0
        y = torch.full((batch_size, self.length + 1, 3), float(PADDED))
        y[:, :, 1:] = x[:, :, :2]
        for row, cloud in enumerate(points.tolist()):
            corners = [*convex_hull(cloud), self.length]
            y[row, : len(corners), 0] = torch.tensor(corners, dtype=y.dtype)
        return Batch(x, y)

    def teacher(self, y: Tensor) -> Tensor:
        """What a model may be told while it trains: positions (B, length+1), 0 after the end."""
        return y[:, :, 0].long().clamp_min(0)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a pointer, up to the end mark."""
        target = y[:, :, 0].long().flatten()
        return functional.cross_entropy(outputs.flatten(0, 1), target, ignore_index=PADDED)

    def corners(self, outputs: Tensor) -> list[list[int]]:
        """The positions that each sample points at before the end mark."""
        answers = outputs.argmax(-1).tolist()
        end = self.length
        return [row[: row.index(end)] if end in row else row for row in answers]

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs (B, length+1, length+1)``.

        Returns:
            ``accuracy``: share of hulls with every corner right and in order;
            ``area``: mean share of the true hull's area covered, 0 for an invalid answer;
            ``invalid``: share of answers with crossing edges or fewer than three corners.
        """
        right, covered, invalid = 0, 0.0, 0
        for answer, row in zip(self.corners(outputs), y.tolist(), strict=True):
            points = [line[1:] for line in row]
            truth = [int(line[0]) for line in row if line[0] not in (PADDED, self.length)]
            right += answer == truth
            polygon = [points[i] for i in answer]
            if len(polygon) < 3 or not is_simple(polygon):
                invalid += 1
                continue
            covered += area(polygon) / area([points[i] for i in truth])
        count = len(y)
        return {"accuracy": right / count, "area": covered / count, "invalid": invalid / count}

    def baselines(self) -> dict[str, float]:
        """An upper bound on what one fixed answer reaches.

        Given k corners, every set of k positions and every cyclic order of it is equally likely:
        ``1 / (C(length, k) (k-1)!)`` each, so no fixed answer is right more often than the largest.
        """
        chances = [
            1 / (math.comb(self.length, k) * math.factorial(k - 1))
            for k in range(3, self.length + 1)
        ]
        return {"accuracy": max(chances)}
