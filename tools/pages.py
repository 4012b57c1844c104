"""The parts of the pages that are computed: verdicts, discrepancy register, map of the paper.

A page of ``book/`` marks a part with ``<!-- begin generated: NAME -->`` and
``<!-- end generated: NAME -->``. It is filled in the staged copy when the website is built, so a
new record changes the page and nothing is typed. ``python -m tools.pages NAME`` prints a part.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sab.experiments import claims, report
from sab.experiments.report import number
from sab.experiments.tables import find
from sab.figures import backward_panels
from sab.figures.style import save
from tools.paper_map import PageError, paper_map
from tools.register import discrepancies, presets

REGION = re.compile(
    r"<!-- begin generated: (?P<name>[a-z_]+) -->.*?<!-- end generated: (?P=name) -->", re.DOTALL
)


def verdict() -> str:
    """How many of the paper's claims are settled, by table, and the settled ones in words."""
    found = claims.of_the_paper(claims.verdicts())
    sources: dict[str, list[claims.Verdict]] = {}
    for one in found:
        sources.setdefault(one.claim.source, []).append(one)
    settled = [one for one in found if one.verdict != claims.NOT_RUN]
    begun = {one.claim.source for one in settled}
    rest = [one for one in found if one.claim.source not in begun]
    rows = {source: members for source, members in sources.items() if source in begun}
    if rest and begun:
        rows["the rest"] = rest
    rows["**all**"] = found
    lines = [
        f"| in the paper | claims | {' | '.join(claims.VERDICTS)} |",
        f"| --- | ---: |{' ---: |' * len(claims.VERDICTS)}",
    ]
    for source, members in rows.items():
        counts = claims.tally(members)
        lines.append(f"| {source} | {len(members)} | {' | '.join(map(str, counts.values()))} |")
    if settled:
        lines += ["", "| claim | paper | ours | verdict |", "| --- | ---: | ---: | --- |"]
        lines += [_settled(one) for one in settled]
    return "\n".join(lines)


def _settled(one: claims.Verdict) -> str:
    """One judged claim as a line."""
    unit = one.claim.unit
    spread = "" if one.halfwidth is None else f" ± {number(one.halfwidth, unit)}"
    ours = (
        f"{number(one.mean, unit)}{spread} {unit} (n = {'/'.join(map(str, one.n))}, {one.profile})"
    )
    paper = "–" if one.claim.value is None else f"{number(one.claim.value, unit)} {unit}"
    return f"| {one.claim.says} | {paper} | {ours} | {one.verdict} |"


def own() -> str:
    """The rows we add to the paper's: copy with a short delay."""
    lines = [line for line in report.table(find("copy")) if line.ours is not None]
    if not lines:
        return "*No records yet:* `sab run copy --profile cpu` makes them."
    rows = [f"| {line.title} | {report.ours_text(line)} |" for line in lines]
    head = f"| copy, ten symbols | {lines[0].metric}, {lines[0].unit} |"
    return "\n".join([head, "| --- | ---: |", *rows])


PICTURE = "sab-in-one-picture.png"


def picture() -> str:
    """The first screen's figure; `fill_folder` draws it."""
    alt = html.escape(str(_picture().sab_alt), quote=True)  # type: ignore[attr-defined]
    return (
        f'<figure class="sab-figure"><img src="../_static/{PICTURE}" alt="{alt}">'
        "<figcaption>The way of credit from a loss at step 16, with truncation after four steps. "
        "A diagram; the paths follow from the settings.</figcaption></figure>"
    )


@cache
def _picture() -> Figure:
    """Truncated backpropagation, and SAB reading one memory."""
    lstm: dict[str, Any] = {"k_att": 16, "k_trunc": 4, "truncation": "sliding", "reads": {}}
    panels = {
        "Truncated: credit stops after a few steps": lstm,
        "SAB: step 16 was reminded of step 4": {**lstm, "k_att": 2, "reads": {16: [4]}},
    }
    return backward_panels(panels, steps=16)


PARTS: dict[str, Callable[[], str]] = {
    "paper_map": paper_map,
    "discrepancies": discrepancies,
    "presets": presets,
    "verdict": verdict,
    "own": own,
    "picture": picture,
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
        if PICTURE in filled:
            save(_picture(), folder / "_static" / PICTURE)


if __name__ == "__main__":
    for part_name in sys.argv[1:] or PARTS:
        print(PARTS[part_name](), end="\n\n")
