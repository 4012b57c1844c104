"""What a notebook needs and nothing else: set-up, parameters, glue, figures with their provenance.

A notebook imports this module after its set-up cell. Everything here displays; nothing computes.
"""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sab.experiments.claims import Verdict
    from sab.experiments.records import Record

ROOT = Path(__file__).resolve().parents[1]
"""The clone's root: where ``results/`` and ``book/`` are."""

PROFILES = ("records", "smoke", "cpu", "paper")
"""``records`` reads the committed results; the others run the experiment again at that size."""

GLUE_PREFIX = "application/papermill.record/"
"""The website takes outputs with this prefix as named values; Jupyter and Colab show nothing."""


def setup(seed: int = 0) -> torch.device:
    """Seed torch and numpy, set the house style, and choose the device.

    Args:
        seed: the seed of both global generators, at least 0.

    Returns:
        ``cuda`` where there is one, else ``mps``, else ``cpu``.

    Raises:
        ValueError: ``seed`` is not an integer of at least 0.
    """
    from sab.checks import positive_int
    from sab.figures.style import use_style

    positive_int("seed", seed, minimum=0)
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    use_style()
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def parameters(profile: str, seed: int = 0) -> None:
    """Check a notebook's parameters before anything runs.

    Raises:
        ValueError: ``profile`` is not one of `PROFILES`, or ``seed`` is not an integer of at
            least 0.
    """
    from sab.checks import one_of, positive_int

    one_of("profile", profile, PROFILES)
    positive_int("seed", seed, minimum=0)


def read_or_run(
    experiment: str, profile: str = "records", row: str | None = None, seed: int | None = None
) -> list[Record]:
    """Return an experiment's records: the committed ones, or those of runs made now.

    New records go to ``runs/notebook/``, never to ``results/``; a second call finds them there.

    Args:
        experiment: its name, as ``sab list`` prints it.
        profile: one of `PROFILES`; ``records`` reads ``results/`` and runs nothing.
        row: only this row.
        seed: only this seed.

    Raises:
        ValueError: an unknown name; no record where one was to be read; or a run failed.
    """
    from sab.checks import one_of
    from sab.experiments import records, run

    one_of("profile", profile, PROFILES)
    if profile == "records":
        found = records.load(experiment, row)
    else:
        rows = None if row is None else [row]
        runs = run.plan(experiment, profile, rows, None if seed is None else [seed])
        folder = str(run.runs_dir() / "notebook")
        options = run.Options.of(folder, None, progress="none")
        errors = run.run_all(run.missing(runs, options.results), options)
        if errors:
            raise ValueError("; ".join(errors))
        found = records.load(experiment, row, profile, options.results)
    found = [record for record in found if seed in (None, record.seed)]
    if not found:
        wanted = f"experiment={experiment!r}, row={row!r}, seed={seed!r}"
        raise ValueError(f"{wanted}: no record; make it with: sab run {experiment}")
    return found


def largest(experiment: str, profile: str = "records") -> list[Record]:
    """As `read_or_run`, of the largest profile alone; an empty list where there is no record."""
    from sab.experiments import records
    from sab.experiments.claims import COUNTING

    if profile != "records" or records.load(experiment):
        found = read_or_run(experiment, profile)
        best = next(p for p in (*COUNTING, "smoke") if any(r.profile == p for r in found))
        return [record for record in found if record.profile == best]
    return []


def glue(name: str, value: object) -> None:
    """Name a value, so that prose can quote it: ``{glue:text}`name:.1f```.

    Six lines stand in for ``myst_nb.glue``, so that Colab needs no website tools.

    Args:
        name: letters, digits, ``-`` and ``_``; once in a notebook.
        value: a finite or infinite number, or a text; numpy and torch scalars are unwrapped, and
            anything else is refused.

    Raises:
        ValueError: the name is malformed, or the value is neither a number nor a text.
    """
    from IPython.display import display

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise ValueError(f"name={name!r}: must be a letter, then letters, digits, - and _")
    if isinstance(value, np.generic) or (isinstance(value, torch.Tensor) and value.numel() == 1):
        value = value.item()
    if not isinstance(value, int | float | str):
        raise ValueError(f"value={value!r} of glue {name!r}: must be a number or a text")
    record = {f"{GLUE_PREFIX}text/plain": repr(value)}
    display(record, raw=True, metadata={"scrapbook": {"name": name, "mime_prefix": GLUE_PREFIX}})


def show(
    fig: Figure,
    caption: str | None = None,
    source: Any = None,
    *,
    alt: str | None = None,
    dpi: int = 150,
) -> None:
    """Display a figure with its alternative text, caption and provenance, then close it.

    Args:
        fig: a matplotlib figure; ``sab.figures`` sets ``fig.sab_alt``.
        caption: one or two sentences of plain text.
        source: where its numbers come from: a record, a list of records, or a text. ``None`` says
            that the cell computed them.
        alt: what a reader who can't see the figure needs; default ``fig.sab_alt``.
        dpi: dots per inch of the PNG; the page shows an inch as 100 px.

    Raises:
        ValueError: there is no alternative text.
    """
    from IPython.display import display

    image, told = _image(fig, alt, dpi)
    display(
        {
            "text/html": f'<figure class="sab-figure">{image}{_caption(caption, source)}</figure>',
            "text/plain": f"[figure: {told}]",
        },
        raw=True,
    )


def show_stepper(
    fig: Figure,
    data: Mapping[str, Any],
    caption: str | None = None,
    source: Any = None,
    *,
    alt: str | None = None,
) -> None:
    """Display a figure that becomes a stepper through ``data`` where the website's script runs.

    Without the script (in Jupyter, on Colab, on GitHub, with JavaScript off) the figure stays.

    Args:
        fig: as in `show`.
        data: what ``book/_static/attention_stepper.js`` reads; see
            ``sab.analysis.attention.as_plain``.
        caption: as in `show`, and so are ``source`` and ``alt``.
        source: where the numbers come from.
        alt: what a reader who can't see the figure needs.

    Raises:
        ValueError: there is no alternative text.
    """
    from IPython.display import display

    image, told = _image(fig, alt, 150)
    plain = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    display(
        {
            "text/html": (
                '<figure class="sab-figure sab-stepper">'
                '<link rel="stylesheet" href="../_static/attention_stepper.css">'
                f'<div class="sab-still">{image}</div>'
                f'<script type="application/json">{plain}</script>'
                f"{_caption(caption, source)}"
                '<script defer src="../_static/attention_stepper.js"></script></figure>'
            ),
            "text/plain": f"[figure: {told}]",
        },
        raw=True,
    )


def _image(fig: Figure, alt: str | None, dpi: int) -> tuple[str, str]:
    """Return a figure as an HTML image, and its alternative text; close the figure."""
    import matplotlib.pyplot as plt

    alt = alt or getattr(fig, "sab_alt", None)
    if not alt or not alt.strip():
        raise ValueError("alt=None: must be a text (pass alt=…, or set it with with_alt(fig, …))")
    buffer = io.BytesIO()
    # An opaque ground keeps axes and labels readable on the dark page too.
    ground = fig.get_facecolor() if fig.patch.get_alpha() != 0 else "white"
    fig.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight", facecolor=ground)
    plt.close(fig)
    png = buffer.getvalue()
    width = int.from_bytes(png[16:20], "big")
    height = int.from_bytes(png[20:24], "big")
    scale = 100 / dpi  # an inch is 100 px: seven inches fill the page's column
    image = (
        f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}" '
        f'alt="{html.escape(alt, quote=True)}" width="{round(width * scale)}" '
        f'height="{round(height * scale)}" style="max-width:100%;height:auto">'
    )
    return image, alt


def show_table(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str | None = None,
    source: Any = None,
) -> None:
    """Display a table with its caption and provenance; it scrolls sideways on a phone.

    Args:
        header: the column names.
        rows: cells as they are to be read (format numbers before); ``None`` is an empty cell.
        caption: one or two sentences of plain text.
        source: as in `show`.

    Raises:
        ValueError: a row's length differs from the header's.
    """
    from IPython.display import display

    lines = [list(row) for row in rows]
    for line in lines:
        if len(line) != len(header):
            raise ValueError(f"rows: a row has {len(line)} cells: must have {len(header)}")

    def is_number(value: Any) -> bool:
        return re.match(r"^[−+-]?[\d.,]+", str(value)) is not None

    def cells(values: Iterable[Any], tag: str) -> str:
        texts = ["" if value is None else html.escape(str(value)) for value in values]
        pairs = zip(texts, classes, strict=True)
        return "<tr>" + "".join(f"<{tag}{kind}>{text}</{tag}>" for text, kind in pairs) + "</tr>"

    # Columns of numbers line up on the right, words on the left.
    columns = [
        [v for v in column if v not in (None, "", "–", "—")] for column in zip(*lines, strict=True)
    ]
    numeric = [bool(column) and all(map(is_number, column)) for column in columns]
    numeric = numeric or [False] * len(header)
    classes = [' class="sab-number"' if number else "" for number in numeric]
    body = "".join(cells(line, "td") for line in lines)
    plain = "\n".join(" | ".join("" if v is None else str(v) for v in r) for r in [header, *lines])
    display(
        {
            "text/html": (
                '<figure class="sab-table"><div class="sab-scroll" tabindex="0"><table>'
                f"<thead>{cells(header, 'th')}</thead><tbody>{body}</tbody></table></div>"
                f"{_caption(caption, source)}</figure>"
            ),
            "text/plain": plain,
        },
        raw=True,
    )


def show_claims(
    found: Iterable[Verdict],
    caption: str,
    source: Any = "Computed from book/claims.yaml and the records.",
) -> None:
    """Display claims with the paper's number, ours (95 % interval), seeds a side, and the verdict.

    Args:
        found: verdicts, as `sab.experiments.claims.verdicts` returns them.
        caption: as in `show_table`; what the numbers of ours are is added to it.
        source: as in `show`.
    """
    from sab.experiments import report

    note = "Of a comparison, ours is the difference; ± is 95 %; it needs two seeds of every run."
    rows = [report.claim_cells(verdict) for verdict in found]
    show_table(report.CLAIM_HEAD, rows, f"{caption} {note}", source)


def provenance(source: Any = None) -> str:
    """Say in one sentence where numbers come from.

    Args:
        source: ``None``, a text, a record, or a list of records (objects or mappings with
            ``experiment``, ``row``, ``profile``, ``seed`` and ``version``).

    Raises:
        ValueError: ``source`` is an empty list.
    """
    if source is None:
        return "Computed in this cell."
    if isinstance(source, str):
        return source
    records = [source] if isinstance(source, Mapping) or hasattr(source, "seed") else list(source)
    if not records:
        raise ValueError("source=[]: must be a record, a text or None; no record was found")

    def values(key: str) -> list[Any]:
        got = {r.get(key) if isinstance(r, Mapping) else getattr(r, key, None) for r in records}
        return sorted((v for v in got if v is not None), key=lambda v: (str(type(v)), v))

    count = len(records)
    parts = [f"{count} record{'s' if count > 1 else ''} of {', '.join(values('experiment'))}"]
    rows = values("row")
    if len(rows) <= 4:
        parts.append(f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows))}")
    else:
        parts.append(f"{len(rows)} rows")
    for key, plural in (("profile", "profiles"), ("seed", "seeds"), ("version", "versions")):
        got = values(key)
        if got:
            parts.append(f"{plural if len(got) > 1 else key} {', '.join(map(str, got))}")
    return "From " + "; ".join(parts) + "."


def _caption(caption: str | None, source: Any) -> str:
    text = f"{html.escape(caption)} " if caption else ""
    origin = html.escape(provenance(source))
    return f'<figcaption>{text}<span class="sab-source">{origin}</span></figcaption>'


def on_colab() -> bool:
    """Return whether this kernel is Google Colab's."""
    return "COLAB_RELEASE_TAG" in os.environ
