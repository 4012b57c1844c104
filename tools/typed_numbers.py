"""Results typed by hand: numbers with a unit of results, in prose, that nothing accounts for.

A number with %, BPC, points or "times faster" in the prose of a chapter or page must come from a
record, by ``glue``; or be the paper's, as a claim with its unit; or stand in
``book/typed_numbers.yaml`` with the reason why it is typed (an exercise's assumption, a source that
is no table of the paper). A typed copy of a record's number is found as well: it would stay when
the record changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sab.experiments import claims
from tools.notebooks import convert, sources
from tools.paper_map import PageError, read
from tools.paths import BOOK, ROOT

ALLOWED = "typed_numbers"  # book/typed_numbers.yaml
UNITS = {
    "%": r"\\?%|per ?cent\b",
    "points": r"(?:percentage )?points?\b",
    "BPC": r"BPC\b|bits?\b",
    "times": r"-?fold\b|(?:×|times)(?=\s+(?:as|faster|slower|more|less|fewer|longer|shorter)\b)",
}
NUMBER = re.compile(
    r"(?<![\w.,])(?P<number>\d[\d,]*(?:\.\d+)?)[\s ~]*(?:"
    + "|".join(f"(?P<u{i}>{pattern})" for i, pattern in enumerate(UNITS.values()))
    + ")"
)
# What is no prose: code, roles such as {glue:text}`x:.1%`, comments, addresses of links.
NO_PROSE = re.compile(r"```.*?```|<!--.*?-->|(?:\{[\w:-]+\})?`[^`]*`|(?<=\])\([^)]*\)", re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """A number typed in prose: its place (file below the root), value, unit and surroundings."""

    place: str
    value: float
    unit: str
    context: str


def find(text: str, place: str = "") -> list[Typed]:
    """Return every number with a unit of results in a Markdown text."""
    prose = NO_PROSE.sub("", text)
    found = []
    for match in NUMBER.finditer(prose):
        unit = next(name for i, name in enumerate(UNITS) if match[f"u{i}"])
        value = float(match["number"].replace(",", ""))
        around = prose[max(0, match.start() - 40) : match.end() + 20]
        found.append(Typed(place, value, unit, " ".join(around.split())))
    return found


def of_the_paper(known: Iterable[claims.Claim]) -> set[tuple[float, str]]:
    """Return the (value, unit) pairs that claims give, as a value or in their words."""
    pairs: set[tuple[float, str]] = set()
    for claim in known:
        if claim.value is not None and claim.unit in UNITS:
            pairs.add((abs(claim.value), claim.unit))
        pairs |= {(typed.value, typed.unit) for typed in find(claim.says)}
    return pairs


def texts() -> Iterator[tuple[str, str]]:
    """Yield (place, Markdown) of every chapter's prose and every page of ``book/``."""
    for path in sources():
        cells = convert(path).cells
        prose = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        yield path.relative_to(ROOT).as_posix(), prose
    for path in sorted(BOOK.glob("*.md")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def unexplained(
    pages: Iterable[tuple[str, str]], paper: set[tuple[float, str]], allowed: set[tuple[str, str]]
) -> list[Typed]:
    """Return the typed numbers that neither the paper's claims nor the list of reasons explains.

    Args:
        pages: (place, Markdown).
        paper: from `of_the_paper`.
        allowed: (place, text of the number with its unit, as ``12.5 %``).
    """
    typed = [one for place, text in pages for one in find(text, place)]
    return [
        one
        for one in typed
        if (one.value, one.unit) not in paper and (one.place, label(one)) not in allowed
    ]


def label(typed: Typed) -> str:
    """Write a typed number as the list of reasons does: ``12.5 %``."""
    return f"{typed.value:g} {typed.unit}"


def reasons() -> set[tuple[str, str]]:
    """Read the list of reasons.

    Raises:
        PageError: an entry lacks its place, number or reason, or its page has no such number.
    """
    found = set()
    prose = dict(texts())
    for entry in read(ALLOWED):
        if sorted(entry) != ["number", "place", "why"] or not entry["why"]:
            raise PageError(f"book/{ALLOWED}.yaml: {entry}: must have place, number and why")
        place, number = str(entry["place"]), str(entry["number"])
        if not (ROOT / place).is_file() or number not in map(label, find(prose[place])):
            raise PageError(f"book/{ALLOWED}.yaml: {place} has no {number!r}: take the entry out")
        found.add((place, number))
    return found


def check() -> list[Typed]:
    """Return what is typed by hand in the book as it stands."""
    return unexplained(texts(), of_the_paper(claims.load()), reasons())


if __name__ == "__main__":
    for one in check():
        print(f"{one.place}: {label(one)}: … {one.context} …")
