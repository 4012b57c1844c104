"""The discrepancy register: paper against released code, the switch for each, and its effect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sab.analysis.ce_bound import least_ce
from sab.experiments import claims, records
from sab.experiments.report import number
from sab.experiments.statistics import estimate
from sab.models.sab import SABConfig
from tools.paper_map import read

PRESETS: dict[str, SABConfig] = {
    "default": SABConfig(),
    "literal": SABConfig.literal(),
    "released": SABConfig.released(),
}
NOT_YET = "not measured yet"


def discrepancies() -> str:
    """A summary table, then an entry each."""
    lines = ["| | about | here | effect |", "| --- | --- | --- | --- |"]
    for entry in read("discrepancies"):
        effect = effect_of(entry)
        short = effect if entry.get("measure") or entry.get("bound") else "see below"
        lines.append(f"| {entry['id']} | {entry['topic']} | {switch_of(entry)} | {short} |")
    for entry in read("discrepancies"):
        lines += ["", f"### {entry['id']}: {entry['topic']}", ""]
        points = {
            "Paper": entry["paper"],
            "Released code": entry["released"],
            "Here": switch_of(entry),
            "Effect": effect_of(entry),
        }
        lines += [f"- **{name}:** {text}." for name, text in points.items() if text != "–"]
    return "\n".join(lines)


def switch_of(entry: Mapping[str, Any]) -> str:
    """How the package lets a reader choose."""
    if "switch" in entry:
        switch = entry["switch"]
        values = {switch[name] for name in PRESETS}
        return f"`{switch['option']}`: " + " or ".join(
            f"`{value}`" for value in sorted(values, key=lambda v: v != switch["default"])
        )
    return str(entry.get("ours", "–"))


def effect_of(entry: Mapping[str, Any]) -> str:
    """The measured effect, a computed bound, or the argument; else that it is not measured yet."""
    parts = []
    if "bound" in entry:
        least = least_ce(entry["bound"]["accuracy_percent"] / 100)
        parts.append(
            f"impossible together: a wrong answer costs at least ln 2, so the cross-entropy is at "
            f"least {least:.3f}"
        )
    if "measure" in entry:
        parts.append(measured(entry["measure"]))
    if "note" in entry:
        parts.append(entry["note"])
    return "; ".join(parts) or NOT_YET


def measured(measure: Mapping[str, str], results: Path | None = None) -> str:
    """The mean of a row beside that of the row it is compared with, from the records alone.

    Args:
        measure: ``experiment``, ``row``, ``against`` (a row) and ``metric``.
        results: where records are.

    Returns:
        A sentence, or that there are no records yet. The largest profile that has both rows is
        used; ``smoke`` never counts.
    """
    found = records.load(measure["experiment"], results=results)
    for profile in claims.COUNTING:
        sides = []
        for row in (measure["row"], measure["against"]):
            mine = [r for r in found if (r.row, r.profile) == (row, profile)]
            values = [r.metrics.get(measure["metric"]) for r in mine]
            sides.append([100 * value for value in values if value is not None])
        if all(sides):
            texts = []
            for side in sides:
                mean = estimate(side)
                spread = "" if mean.halfwidth is None else f" ± {number(mean.halfwidth, '%')}"
                texts.append(
                    f"{number(mean.mean, '%')}{spread} % ({mean.n} seed{'s' if mean.n > 1 else ''})"
                )
            return f"{measure['metric']} {texts[0]} with it alone, {texts[1]} without"
    return NOT_YET


def presets() -> str:
    """The options in which the presets differ."""
    names = list(PRESETS)
    lines = [f"| option | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for option in SABConfig.__dataclass_fields__:
        values = [getattr(config, option) for config in PRESETS.values()]
        if len(set(values)) > 1:
            lines.append(f"| `{option}` | {' | '.join(f'`{value}`' for value in values)} |")
    return "\n".join(lines)
