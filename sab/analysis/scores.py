"""What the seeds of a table's rows reached, ready to be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sab.experiments.records import Record
from sab.experiments.statistics import estimate

MISSING = "–"


def by_row(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by their row, in the order in which rows come."""
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(record.row, []).append(record)
    return rows


def values(records: Iterable[Record], metric: str, scale: float = 1.0) -> list[float]:
    """The metric of every record that has it, times ``scale``; ``"peak_mb"`` is one, too."""
    found = []
    for record in records:
        value = record.peak_mb if metric == "peak_mb" else record.metrics.get(metric)
        if value is not None:
            found.append(scale * float(value))
    return found


def mean(records: Iterable[Record], metric: str, scale: float = 1.0) -> float:
    """Mean of `values`; NaN where there is none."""
    found = values(records, metric, scale)
    return sum(found) / len(found) if found else float("nan")


def told(records: Sequence[Record], metric: str, scale: float = 1.0, digits: int = 1) -> str:
    """``mean ± half width of its 95 % interval``; the values themselves of one or two seeds.

    The interval of two seeds is some ten times their distance and says nothing. Values that read
    the same stand once; – where there is none.
    """
    found = values(records, metric, scale)
    texts = [f"{value:,.{digits}f}" for value in found]
    if len(set(texts)) < 2:
        return texts[0] if texts else MISSING
    if len(found) < 3:
        return "; ".join(texts)
    summary = estimate(found)
    return f"{summary.mean:,.{digits}f} ± {summary.halfwidth:,.{digits}f}"


def lines(
    rows: Iterable[tuple[str, str]],
    found: Mapping[str, Sequence[Record]],
    columns: Iterable[tuple[str, float, int]],
) -> tuple[list[tuple[str, ...]], str]:
    """A table's lines: the title of a row, its metrics, how many seeds.

    Args:
        rows: names and titles, in order.
        found: from `by_row`.
        columns: metric, what it is multiplied by, digits.

    Returns:
        The lines of the rows that have records, and a sentence that names the others, or "".
    """
    columns = list(columns)
    made, without = [], []
    for name, title in rows:
        mine = found.get(name, [])
        if not mine:
            without.append(title)
            continue
        cells = [told(mine, metric, scale, digits) for metric, scale, digits in columns]
        made.append((title, *cells, str(len(mine))))
    return made, f" Not run: {'; '.join(without)}." if without else ""
