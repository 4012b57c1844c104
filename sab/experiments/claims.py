"""The paper's claims against our records; every verdict is computed.

``book/claims.yaml`` holds a claim a number or comparison. A reference is ``experiment/row`` or
``experiment/row:metric``, or a plain number; a row with ``*`` is the best of those that fit.
``bench/file/part/key=value,…:metric`` is the one row of a benchmark that has these values: a
measurement, one number, which counts for the profile ``cpu``.

Kinds, and what counts:

- ``value``: ``run`` has ``value``. Reproduced within ``within``, partly within three times that.
- ``order``: ``better`` beats ``worse``. Reproduced if the 95 % interval of the difference excludes
  0; partly if only the means say so, or a side has one seed and so no interval.
- ``difference``: ``run`` − ``minus`` is ``value``. As ``value``; also partly if the 95 % interval
  excludes 0 on the paper's side.
- ``close``: ``run`` and ``to`` differ by at most ``within``; partly at most three times that.
- ``at_least``: ``run`` − ``minus`` is ``value`` or more. As ``order``, of the distance to
  ``value``; between benchmarks it holds or not.
- ``rank``: ``run`` is ``better_than`` and ``worse_than`` others of its column, for a metric without
  a unit. Reproduced if every ordering is, partly if more than half hold in the means.

``scale: paper`` says that a claim needs the paper's sizes and epochs: smaller records can be
compared with each other, but not with its number.

``log: true`` compares logarithms to the base 10. Records of the profile ``smoke`` never count; of
the others the largest profile that has every row of the claim does. Without: not run at this scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from sab.experiments import records
from sab.experiments.files import project_root, results_dir
from sab.experiments.statistics import Side, difference, estimate

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
NOT_RUN = "not run at this scale"
VERDICTS = (REPRODUCED, PARTLY, NOT, NOT_RUN)
COUNTING = ("paper", "cpu")  # profiles that count, the larger first
BENCH, MEASURED = "bench", "cpu"  # a folder of results, and the profile its numbers count for
NEEDS = {
    "value": ("run", "value", "within"),
    "order": ("better", "worse"),
    "difference": ("run", "minus", "value", "within"),
    "close": ("run", "to", "within"),
    "at_least": ("run", "minus", "value"),
    "rank": ("run", "value"),
}


@dataclass(frozen=True)
class Claim:
    """One number or comparison of the paper.

    Args:
        id: short name. source: table or section. page: of the arXiv version's PDF, or ``None``.
        says: the claim in words.
        kind: see the module.
        metric: of references that name none.
        unit: ``"%"`` and ``"points"`` compare hundred times the metric.
        goal: ``"max"`` or ``"min"``: which way is better.
        log: compare logarithms.
        scale: ``"paper"``: only records of that profile count; ``"any"``: see the module.
        value, within, run, minus, to, better, worse, better_than, worse_than: see the module.
    """

    id: str
    source: str
    page: int | None
    says: str
    kind: str
    metric: str = "accuracy"
    unit: str = "%"
    goal: str = "max"
    log: bool = False
    scale: str = "any"
    value: float | None = None
    within: float | None = None
    run: str = ""
    minus: str | float = ""
    to: str | float = ""
    better: str = ""
    worse: str | float = ""
    better_than: tuple[str, ...] = ()
    worse_than: tuple[str, ...] = ()

    def references(self) -> list[str]:
        """Every row the claim needs, as ``experiment/row``."""
        named = [self.run, self.minus, self.to, self.better, self.worse]
        named += [*self.better_than, *self.worse_than]
        return [str(n).partition(":")[0] for n in named if n != "" and isinstance(n, str)]


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    ``mean`` and ``halfwidth`` (95 %, ``None`` for single seeds) are in the claim's unit: of the
    run for ``value`` and ``rank``, of the difference for the other kinds. ``n`` is the number of
    seeds of each side.
    """

    claim: Claim
    verdict: str
    mean: float | None = None
    halfwidth: float | None = None
    n: tuple[int, ...] = ()
    profile: str = ""
    note: str = ""


def load(path: Path | None = None) -> list[Claim]:
    """Read the claims.

    Raises:
        FileNotFoundError: there is no such file (the package is used outside its checkout).
        ValueError: an entry lacks a field, has an unknown one, or its id stands twice.
    """
    path = path or project_root() / "book" / "claims.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no claims here; run from a checkout of the book")
    stamp = path.stat()
    return list(_load(path, stamp.st_mtime_ns, stamp.st_size))


@lru_cache(maxsize=4)
def _load(path: Path, changed: int, size: int) -> tuple[Claim, ...]:
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML ({error})") from None
    found = tuple(_claim(entry, path) for entry in entries)
    ids = [claim.id for claim in found]
    for name in ids:
        if ids.count(name) > 1:
            raise ValueError(f"{path}: the id {name!r} stands {ids.count(name)} times")
    return found


def _claim(entry: Mapping[str, Any], path: Path) -> Claim:
    values = dict(entry)
    for name in ("better_than", "worse_than"):
        values[name] = tuple(values.get(name, ()))
    name = f"{path}: claim {entry.get('id', '?')!r}"
    try:
        claim = Claim(**values)
    except TypeError as error:
        raise ValueError(f"{name}: {str(error).replace('Claim.__init__()', '').strip()}") from None
    if claim.kind not in NEEDS:
        raise ValueError(f"{name}: kind {claim.kind!r} must be one of {', '.join(NEEDS)}")
    if claim.scale not in ("any", "paper"):
        raise ValueError(f"{name}: scale {claim.scale!r} must be one of any, paper")
    lacks = [need for need in NEEDS[claim.kind] if getattr(claim, need) in ("", None)]
    if lacks:
        raise ValueError(f"{name}: lacks {', '.join(lacks)}")
    return claim


@dataclass
class Evidence:
    """The records that claims are judged by, read once."""

    results: Path | None = None
    seen: dict[str, list[records.Record]] = field(default_factory=dict)

    def values(self, reference: str, profile: str, metric: str, goal: str = "max") -> list[float]:
        """One number a seed of ``experiment/row[:metric]``; empty where there are no records.

        A row with ``*`` stands for the best, by its mean, of all that fit.
        """
        place, _, own = reference.partition(":")
        experiment, _, pattern = place.partition("/")
        if experiment == BENCH:
            return self.measured(pattern, own or metric) if profile == MEASURED else []
        if experiment not in self.seen:
            self.seen[experiment] = records.load(experiment, results=self.results)
        rows: dict[str, list[float]] = {}
        for record in self.seen[experiment]:
            named = own or metric
            value = record.peak_mb if named == "peak_mb" else record.metrics.get(named)
            if record.profile == profile and value is not None and fnmatchcase(record.row, pattern):
                rows.setdefault(record.row, []).append(float(value))
        best = max if goal == "max" else min
        return best(rows.values(), key=lambda values: estimate(values).mean, default=[])

    def measured(self, place: str, metric: str) -> list[float]:
        """The number of one row of a benchmark, ``file/part/key=value,…``; empty without a file.

        Raises:
            ValueError: no row, or more than one, has these values.
        """
        name, part, wanted = place.split("/")
        path = (self.results or results_dir()) / BENCH / f"{name}.json"
        if not path.is_file():
            return []
        rows = json.loads(path.read_text(encoding="utf-8"))[part]["rows"]
        values = dict(pair.split("=") for pair in wanted.split(","))
        found = [row for row in rows if all(str(row.get(k)) == v for k, v in values.items())]
        if len(found) != 1:
            raise ValueError(f"{BENCH}/{place}: {len(found)} rows of {path} fit: must be one")
        return [float(found[0][metric])]

    def sides(self, claim: Claim, references: Iterable[str | float], profile: str) -> list[Side]:
        """The values of each reference in the claim's unit; a plain number stands for itself."""
        scale = 100.0 if claim.unit in ("%", "points") else 1.0
        told = (lambda v: math.log10(max(v, 1e-300))) if claim.log else float
        sides: list[Side] = []
        for reference in references:
            if isinstance(reference, str):
                found = self.values(reference, profile, claim.metric, claim.goal)
                sides.append([told(scale * v) for v in found])
            else:
                sides.append(told(reference))
        return sides


def _near(gap: float, within: float) -> str:
    slack = 1e-9 * (1 + abs(within))  # 99.9 - 98.9 is a hair more than 1 in binary
    if abs(gap) <= within + slack:
        return REPRODUCED
    return PARTLY if abs(gap) <= 3 * within + slack else NOT


def _ordered(gap: float, halfwidth: float | None) -> str:
    if gap <= 0:
        return NOT
    return REPRODUCED if halfwidth is not None and gap > halfwidth else PARTLY


def _judge(claim: Claim, evidence: Evidence, profile: str) -> Verdict | None:
    """Judge by one profile; ``None`` where it lacks a row."""
    sign = 1.0 if claim.goal == "max" else -1.0
    members: dict[str, list[str | float]] = {
        "value": [claim.run],
        "order": [claim.better, claim.worse],
        "difference": [claim.run, claim.minus],
        "close": [claim.run, claim.to],
        "at_least": [claim.run, claim.minus],
        "rank": [claim.run, *claim.better_than, *claim.worse_than],
    }
    sides = evidence.sides(claim, members[claim.kind], profile)
    runs = [side for side in sides if not isinstance(side, float)]
    if not all(runs):
        return None
    n = tuple(len(run) for run in runs)
    if claim.kind == "rank":
        count = len(claim.better_than)
        signs = [sign] * count + [-sign] * len(claim.worse_than)
        orders = []
        for direction, side in zip(signs, sides[1:], strict=True):
            gap, half = difference(sides[0], side)
            orders.append(_ordered(direction * gap, half))
        holding = sum(order != NOT for order in orders)
        whole = all(order == REPRODUCED for order in orders)
        verdict = REPRODUCED if whole else PARTLY if 2 * holding > len(orders) else NOT
        plain = [10**v for v in runs[0]] if claim.log else runs[0]
        mine = estimate(plain)
        note = f"{holding} of {len(orders)} orderings hold in the means"
        return Verdict(claim, verdict, mine.mean, mine.halfwidth, n, profile, note)
    if claim.kind == "value":
        mine = estimate(runs[0])
        gap = mine.mean - float(claim.value or 0.0)
        note = f"{abs(gap):.3g} {'above' if gap > 0 else 'below'} the paper"
        verdict = _near(gap, float(claim.within or 0.0))
        return Verdict(claim, verdict, mine.mean, mine.halfwidth, n, profile, note)
    gap, half = difference(sides[0], sides[1])
    if claim.kind == "order":
        verdict = _ordered(sign * gap, half)
    elif claim.kind == "at_least":
        exact = all(name.startswith(f"{BENCH}/") for name in claim.references())
        verdict = _ordered(gap - float(claim.value or 0.0), 0.0 if exact else half)
    elif claim.kind == "close":
        verdict = _near(gap, float(claim.within or 0.0))
    else:
        paper = float(claim.value or 0.0)
        verdict = _near(gap - paper, float(claim.within or 0.0))
        if verdict == NOT and _ordered(math.copysign(1.0, paper) * gap, half) == REPRODUCED:
            verdict = PARTLY
    return Verdict(claim, verdict, gap, half, n, profile)


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    """Compute the verdict of a claim from the records.

    Raises:
        RecordError: a record cannot be used.
    """
    for profile in COUNTING[:1] if claim.scale == "paper" else COUNTING:
        verdict = _judge(claim, evidence, profile)
        if verdict is not None:
            return verdict
    return Verdict(claim, NOT_RUN)


def verdicts(results: Path | None = None, path: Path | None = None) -> list[Verdict]:
    """Judge every claim; in the order of the file."""
    evidence = Evidence(results)
    return [judge(claim, evidence) for claim in load(path)]


def of_the_paper(found: Sequence[Verdict]) -> list[Verdict]:
    """Keep the verdicts on SAB's paper; what Parts II and III build on makes claims too."""
    return [one for one in found if not one.claim.source.startswith(("REA", "MemN2N"))]


def tally(found: Iterable[Verdict]) -> dict[str, int]:
    """Count verdicts by kind; every kind has its number, 0 included."""
    counts = dict.fromkeys(VERDICTS, 0)
    for verdict in found:
        counts[verdict.verdict] += 1
    return counts
