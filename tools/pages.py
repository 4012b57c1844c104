"""The parts of the pages that are computed: verdicts, the discrepancy register, the paper map.

A page of ``book/`` marks a part with ``<!-- begin generated: NAME -->`` … ``<!-- end generated: NAME -->``. It is
filled in the staged copy when the website is built, so a new record changes the page and nothing is typed.
``python -m tools.pages NAME`` prints a part.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sab.experiments import claims, records
from sab.experiments.report import number
from sab.experiments.statistics import estimate
from sab.models.sab import SABConfig
from tools.paths import BOOK, ROOT

REGION = re.compile(
    r"<!-- begin generated: (?P<name>[a-z_]+) -->.*?<!-- end generated: (?P=name) -->", re.DOTALL
)
KINDS = {
    "section": "Sections",
    "equation": "Equations and lines of Algorithm 1",
    "figure": "Figures",
    "table": "Tables",
}
PRESETS: dict[str, SABConfig] = {
    "default": SABConfig(),
    "literal": SABConfig.literal(),
    "released": SABConfig.released(),
}
NOT_YET = "not measured yet"


class PageError(ValueError):
    """A page or one of its data files is wrong; the message says where."""


@cache
def read(name: str) -> list[dict[str, Any]]:
    """The entries of ``book/NAME.yaml``.

    Raises:
        PageError: it is not a list of entries.
    """
    entries = yaml.safe_load((BOOK / f"{name}.yaml").read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PageError(f"book/{name}.yaml: must be a list of entries")
    return entries


@cache
def repository() -> str:
    """Where the repository's files are shown: the address of its main branch."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    return f"{config['url']}/blob/{config['branch']}"


def find_symbol(reference: str) -> int:
    """Line of ``path:name`` or ``path:Class.method`` (a test: ``path::name`` works as well).

    Raises:
        PageError: there is no such file or name.
    """
    path, _, name = reference.replace("::", ":").partition(":")
    file = ROOT / path
    if not file.is_file():
        raise PageError(f"{reference}: there is no file {path}")
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    line = 1
    for part in filter(None, name.split(".")):
        node = next((node for node in body if part in _names(node)), None)
        if node is None:
            raise PageError(f"{reference}: {path} has no {part}")
        line, body = node.lineno, getattr(node, "body", [])
    return line


def _names(node: ast.stmt) -> list[str]:
    """The names a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def source_link(reference: str) -> str:
    """A Markdown link to the line that defines ``reference``."""
    line = find_symbol(reference)
    path, _, name = reference.replace("::", ":").partition(":")
    shown = name or Path(path).name
    return f"[`{shown}`]({repository()}/{path}#L{line})"


def chapter_link(name: str) -> str:
    """A link from a page of ``book/`` to the chapter ``NN_name``.

    Raises:
        PageError: there is no such chapter.
    """
    if not (ROOT / "notebooks" / f"{name}.py").is_file():
        raise PageError(f"there is no chapter notebooks/{name}.py")
    return f"[{int(name[:2])}](../notebooks/{name}.ipynb)"


# --- the map of the paper ---


def paper_map() -> str:
    """One table a kind: what the paper has, and where the book has it."""
    parts = []
    for kind, title in KINDS.items():
        lines = [f"### {title}", "", "| in the paper | chapter | source | test |", "| --- | --- | --- | --- |"]
        for entry in read("paper_map"):
            if entry["kind"] == kind:
                lines.append(f"| {' | '.join(_map_cells(entry))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _map_cells(entry: Mapping[str, Any]) -> list[str]:
    """The cells of one line of the map."""
    chapters = ", ".join(chapter_link(name) for name in entry.get("chapters", ()))
    sources = " ".join(source_link(name) for name in entry.get("sources", ()))
    tests = " ".join(source_link(name) for name in entry.get("tests", ()))
    page = f" (p. {entry['page']})" if "page" in entry else ""
    return [f"{entry['paper']}{page}", chapters or entry.get("open", "–"), sources or "–", tests or "–"]


# --- the discrepancy register ---


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
        least = (1 - entry["bound"]["accuracy_percent"] / 100) * math.log(2)
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
        A sentence, or that there are no records yet. The largest profile that has both rows is used; ``smoke`` never
        counts.
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
                texts.append(f"{number(mean.mean, '%')}{spread} % ({mean.n} seeds)")
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


# --- the verdict ---


def verdict() -> str:
    """How many of the paper's claims are settled, by table, and the settled ones in words."""
    found = claims.verdicts()
    sources: dict[str, list[claims.Verdict]] = {}
    for one in found:
        sources.setdefault(one.claim.source, []).append(one)
    lines = [
        f"| the paper's | claims | {' | '.join(claims.VERDICTS)} |",
        f"| --- | ---: |{' ---: |' * len(claims.VERDICTS)}",
    ]
    rows = {**sources, "**all**": found}
    for source, members in rows.items():
        counts = claims.tally(members)
        lines.append(f"| {source} | {len(members)} | {' | '.join(map(str, counts.values()))} |")
    settled = [one for one in found if one.verdict != claims.NOT_RUN]
    if settled:
        lines += ["", "| claim | paper | ours | verdict |", "| --- | ---: | ---: | --- |"]
        lines += [_settled(one) for one in settled]
    return "\n".join(lines)


def _settled(one: claims.Verdict) -> str:
    """One judged claim as a line."""
    unit = one.claim.unit
    spread = "" if one.halfwidth is None else f" ± {number(one.halfwidth, unit)}"
    ours = f"{number(one.mean, unit)}{spread} {unit} (n = {'/'.join(map(str, one.n))}, {one.profile})"
    paper = "–" if one.claim.value is None else f"{number(one.claim.value, unit)} {unit}"
    return f"| {one.claim.says} | {paper} | {ours} | {one.verdict} |"


PARTS: dict[str, Callable[[], str]] = {
    "paper_map": paper_map,
    "discrepancies": discrepancies,
    "presets": presets,
    "verdict": verdict,
}


def fill(text: str) -> str:
    """Replace every generated part of a page.

    Raises:
        PageError: a part has an unknown name, or a mark has no partner.
    """

    def part(match: re.Match[str]) -> str:
        if match["name"] not in PARTS:
            raise PageError(f"generated part {match['name']!r}: must be one of {', '.join(PARTS)}")
        return PARTS[match["name"]]()

    filled = REGION.sub(part, text)
    if "generated: " in filled and re.search(r"<!-- (begin|end) generated", filled):
        raise PageError("a generated part has no matching begin or end")
    return filled


def fill_folder(folder: Path) -> None:
    """Fill the generated parts of every page in ``folder``.

    Raises:
        PageError: see `fill`; the message names the page.
    """
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            filled = fill(text)
        except ValueError as error:
            raise PageError(f"{path.name}: {error}") from None
        if filled != text:
            path.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    for part_name in sys.argv[1:] or PARTS:
        print(PARTS[part_name](), end="\n\n")
