"""Tables from records alone: paper, released variant, ours, verdict."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sab.experiments import records
from sab.experiments.claims import COUNTING, NOT_RUN, Claim, Evidence, Verdict, judge
from sab.experiments.claims import load as load_claims
from sab.experiments.rows import Experiment, Row, profile_named
from sab.experiments.statistics import estimate
from sab.tasks import registry as tasks

PERCENT = ("accuracy", "string_accuracy")


@dataclass(frozen=True)
class Line:
    """One line of a table; ``None`` where there is no number.

    ``ours`` and ``halfwidth`` (95 % over ``n`` seeds) and ``released`` are in ``unit``, as
    ``paper`` is.
    """

    row: str
    title: str
    metric: str
    unit: str
    paper: float | None
    released: float | None
    ours: float | None
    halfwidth: float | None
    n: int
    profile: str
    verdict: str


def _claims_of(experiment: Experiment, row: Row, claims: list[Claim]) -> list[Claim]:
    place = f"{experiment.name}/{row.name}"
    cells = [claim for claim in claims if claim.kind in ("value", "rank")]
    return [claim for claim in cells if fnmatchcase(place, claim.run.partition(":")[0])]


def _line(
    experiment: Experiment, row: Row, claim: Claim | None, profile: str, evidence: Evidence
) -> Line:
    place = f"{experiment.name}/{row.name}"
    metric = tasks.TASKS[experiment.task]().goal[0]
    unit = "%" if metric in PERCENT else ""
    if claim is not None:
        metric = claim.run.partition(":")[2] or claim.metric
        unit = claim.unit
    scale = 100.0 if unit == "%" else 1.0
    ours = [scale * v for v in evidence.values(place, profile, metric)]
    verdict = ""
    if claim is not None:
        verdict = judge(claim, evidence).verdict if profile in COUNTING else NOT_RUN
    released = evidence.values(row.released, profile, metric) if row.released else []
    mine = estimate(ours) if ours else None
    return Line(
        row=row.name,
        title=row.title,
        metric=metric,
        unit=unit,
        paper=None if claim is None else claim.value,
        released=scale * estimate(released).mean if released else None,
        ours=mine.mean if mine else None,
        halfwidth=mine.halfwidth if mine else None,
        n=mine.n if mine else 0,
        profile=profile if mine else "",
        verdict=verdict,
    )


def table(
    experiment: Experiment, profile: str | None = None, results: Path | None = None
) -> list[Line]:
    """Return the lines of a table from its records: a line a claim, or a line a row without claims.

    Args:
        experiment: which table.
        profile: whose records; by default the largest profile that has any.
        results: where records are.

    Raises:
        ValueError: the profile is unknown or a record cannot be used.
    """
    evidence = Evidence(results)
    if profile is None:
        have = {record.profile for record in records.load(experiment.name, results=results)}
        profile = next((name for name in (*COUNTING, "smoke") if name in have), "cpu")
    profile_named(profile)
    claims = load_claims()
    lines = []
    for row in experiment.rows:
        cells: list[Claim | None] = [*_claims_of(experiment, row, claims)]
        for claim in cells or [None]:
            lines.append(_line(experiment, row, claim, profile, evidence))
    return lines


def number(value: float | None, unit: str) -> str:
    """Write a number as a table shows it: one decimal for per cent, two for BPC, else 3 digits."""
    if value is None:
        return "–"
    digits = {"%": 1, "points": 1, "BPC": 2}.get(unit)
    return f"{value:.3g}" if digits is None else f"{value:.{digits}f}"


def ours_text(line: Line) -> str:
    """Our mean, its interval, the number of seeds and the profile."""
    if line.ours is None:
        return "–"
    spread = "" if line.halfwidth is None else f" ± {number(line.halfwidth, line.unit)}"
    return f"{number(line.ours, line.unit)}{spread} (n={line.n}, {line.profile})"


def short_cells(line: Line | None) -> tuple[str, str, str]:
    """The paper's number, ours ("not run" without a record) and the verdict; dashes for no line."""
    if line is None:
        return "–", "–", "–"
    ours = "not run" if line.ours is None else ours_text(line)
    return number(line.paper, line.unit), ours, line.verdict or "–"


def ours_of(verdict: Verdict) -> str:
    """Our number with its 95 % interval and unit; of a comparison, the difference with its sign."""
    if verdict.mean is None:
        return "–"
    signed = verdict.claim.kind not in ("value", "rank")
    unit = verdict.claim.unit
    if signed and unit == "%":
        unit = "points"
    digits = {"%": 1, "points": 1, "BPC": 3, "log10": 2, "nats": 3, "MB": 0}.get(unit)

    def told(value: float, sign: str) -> str:
        return f"{value:{sign}.3g}" if digits is None else f"{value:{sign}.{digits}f}"

    spread = "" if verdict.halfwidth is None else f" ± {told(verdict.halfwidth, '')}"
    return f"{told(verdict.mean, '+' if signed else '')}{spread} {unit}".rstrip()


CLAIM_HEAD = ("claim", "paper", "ours", "seeds", "verdict")


def claim_cells(verdict: Verdict) -> tuple[str, ...]:
    """The texts of one claim, in the order of ``CLAIM_HEAD``."""
    claim = verdict.claim
    sign = "+" if claim.kind in ("difference", "at_least") else ""
    digits = ".2f" if claim.unit == "BPC" else "g"
    paper = "–" if claim.value is None else f"{claim.value:{sign}{digits}} {claim.unit}".rstrip()
    paper = f"{paper} or more" if claim.kind == "at_least" else paper
    seeds = ", ".join(map(str, verdict.n)) or "–"
    return claim.says, paper, ours_of(verdict), seeds, verdict.verdict


HEAD = ("row", "metric", "paper", "released variant", "ours (mean ± 95 %)", "verdict")


def cells_of(line: Line) -> tuple[str, ...]:
    """The texts of one line, in the order of ``HEAD``."""
    metric = f"{line.metric}, {line.unit}" if line.unit else line.metric
    numbers = [number(value, line.unit) for value in (line.paper, line.released)]
    return (line.title, metric, *numbers, ours_text(line), line.verdict or "–")


def render(lines: list[Line], form: str = "text") -> str:
    """Write the table as aligned ``"text"``, ``"markdown"`` or ``"json"``."""
    if form == "json":
        return json.dumps(
            [dataclasses.asdict(line) for line in lines], indent=1, ensure_ascii=False
        )
    rows = [HEAD, *(cells_of(line) for line in lines)]
    if form == "markdown":
        texts = ["| " + " | ".join(cells) + " |" for cells in rows]
        return "\n".join([texts[0], "| --- | --- | ---: | ---: | ---: | --- |", *texts[1:]])
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    )
