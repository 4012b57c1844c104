"""Results typed by hand: numbers with a unit of results, in prose, that nothing accounts for.

A number with %, BPC, points or "times faster" in the prose or in a caption of a chapter, in a page,
the README or the changelog must come from a record, by ``glue``; or be the paper's, as a claim with
its unit, in a paragraph that names its source; or stand in ``book/typed_numbers.yaml`` with the
reason why it is typed (an exercise's assumption, a source that is no table of the paper). A typed
copy of a record's number is found as well: it would stay when the record changes.
"""

from __future__ import annotations

import ast
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
# What is no prose: code, roles such as {glue:text}`x:.1%`, comments, tags, addresses of links; and
# "95 % interval" is how an interval is called, no result.
NO_PROSE = re.compile(
    r"```.*?```|<!--.*?-->|</?[a-z][^<>]*>|(?:\{(?!cite)[\w:-]+\})?`[^`]*`|(?<=\])\([^)]*\)"
    r"|\b95 % (?=intervals?\b|over\b)",
    re.DOTALL,
)
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")
# A number of the paper needs one of these beside it, or it may as well be ours.
SOURCE = re.compile(
    r"\b(?:papers?|Tables? \d|the table|published|articles?|abstract|appendix|released?)\b|\{cite",
    re.IGNORECASE,
)
CAPTIONS = ("caption", "alt", "source")  # arguments that the reader sees as text
SHOWS = {"show": 1, "show_claims": 1, "show_stepper": 2, "show_table": 2}  # what stands before one
FRONT = ("README.md", "CHANGELOG.md")  # all they quote is ours


@dataclass(frozen=True)
class Typed:
    """A number typed in prose: its place (file below the root), value, unit and surroundings."""

    place: str
    value: float
    unit: str
    context: str


def find(text: str, place: str = "") -> list[Typed]:
    """Return every number with a unit of results in a Markdown text."""
    return _in(NO_PROSE.sub("", text), place)


def _in(prose: str, place: str) -> list[Typed]:
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


def _words(node: ast.AST) -> str:
    """The text of a string in code; what is computed stands as "…"."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "…"
    between = "" if isinstance(node, ast.JoinedStr) else " "
    return between.join(filter(None, map(_words, ast.iter_child_nodes(node))))


def captions(code: str) -> list[str]:
    """Return the texts of captions, alt texts and sources that a cell writes out.

    Raises:
        SyntaxError: the cell is no Python.
    """
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            found += [_words(word.value) for word in node.keywords if word.arg in CAPTIONS]
            if isinstance(node.func, ast.Name) and node.func.id in SHOWS:
                found += map(_words, node.args[SHOWS[node.func.id] :])
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Yield (place, Markdown) of all that is read.

    Every chapter's prose and captions, every page of ``book/``, the README and the changelog.
    """
    for path in sources():
        parts = []
        for cell in convert(path).cells:
            if cell.cell_type == "markdown":
                parts.append(cell.source)
            elif cell.cell_type == "code":
                parts += captions(cell.source)
        yield path.relative_to(ROOT).as_posix(), "\n\n".join(parts)
    for path in (*sorted(BOOK.glob("*.md")), *(ROOT / name for name in FRONT)):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def unexplained(
    pages: Iterable[tuple[str, str]], paper: set[tuple[float, str]], allowed: set[tuple[str, str]]
) -> list[Typed]:
    """Return the typed numbers that neither the paper's claims nor the list of reasons explains.

    A claim explains a number only where the paragraph names its source, and never in the README or
    the changelog.

    Args:
        pages: (place, Markdown).
        paper: from `of_the_paper`.
        allowed: (place, text of the number with its unit, as ``12.5 %``).
    """
    left = []
    for place, text in pages:
        for paragraph in PARAGRAPH.split(NO_PROSE.sub("", text)):
            quoted = paper if place not in FRONT and SOURCE.search(paragraph) else set()
            left += [
                one
                for one in _in(paragraph, place)
                if (one.value, one.unit) not in quoted and (place, label(one)) not in allowed
            ]
    return left


def label(typed: Typed) -> str:
    """Write a typed number as the list of reasons does: ``12.5 %``."""
    return f"{typed.value:g} {typed.unit}"


def reasons(pages: Iterable[tuple[str, str]] | None = None) -> set[tuple[str, str]]:
    """Read the list of reasons for numbers in ``pages``; ``None``: in `texts`.

    Raises:
        PageError: an entry lacks its place, number or reason, or its page has no such number.
    """
    found = set()
    prose = dict(texts() if pages is None else pages)
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
    pages = list(texts())
    return unexplained(pages, of_the_paper(claims.load()), reasons(pages))


if __name__ == "__main__":
    for one in check():
        print(f"{one.place}: {label(one)}: … {one.context} …")
