"""``sab.notebook``: glue, figures with alt text, tables, provenance, parameters."""

from __future__ import annotations

import base64
import dataclasses
import re
from ast import literal_eval
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from sab import notebook
from sab.experiments.claims import Claim, Verdict


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, str], dict[str, Any]]]:
    got: list[tuple[dict[str, str], dict[str, Any]]] = []

    def display(data: dict[str, str], raw: bool = False, metadata: Any = None) -> None:
        assert raw
        got.append((data, metadata or {}))

    monkeypatch.setattr("IPython.display.display", display)
    return got


@pytest.mark.parametrize(
    ("value", "plain"),
    [(3, 3), (0.5, 0.5), ("it's", "it's"), (np.float32(0.25), 0.25), (torch.tensor([2]), 2)],
)
def test_glue_is_read_back_by_the_website(shown: list[Any], value: Any, plain: Any) -> None:
    """The website evaluates the stored text as a literal, then formats it."""
    notebook.glue("some-name", value)
    data, metadata = shown[0]
    assert list(data) == ["application/papermill.record/text/plain"]
    assert literal_eval(next(iter(data.values()))) == plain
    assert metadata["scrapbook"] == {"name": "some-name", "mime_prefix": notebook.GLUE_PREFIX}


def test_glue_is_what_myst_nb_reads() -> None:
    import myst_nb.ext.glue

    assert myst_nb.ext.glue.GLUE_PREFIX == notebook.GLUE_PREFIX


@pytest.mark.parametrize(("name", "value"), [("1st", 1), ("a b", 1), ("a", [1]), ("a", None)])
def test_glue_refuses(shown: list[Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a"):
        notebook.glue(name, value)
    assert not shown


def figure() -> Figure:
    fig = Figure(figsize=(4, 2))
    fig.subplots().plot([1, 2])
    return fig


def test_a_figure_is_shown_with_alt_text_caption_and_source(shown: list[Any]) -> None:
    records = [
        {"experiment": "copy", "row": "sab", "profile": "cpu", "seed": seed, "version": "0.1.0"}
        for seed in (1, 0)
    ]
    notebook.show(figure(), "A <line>.", records, alt='It says "up"')
    html = shown[0][0]["text/html"]
    assert 'alt="It says &quot;up&quot;"' in html
    assert "A &lt;line&gt;." in html
    assert "From 2 records of copy; row sab; profile cpu; seeds 0, 1; version 0.1.0." in html
    found = re.search(r"base64,([^\"]+)", html)
    assert found and base64.b64decode(found[1]).startswith(b"\x89PNG")


def test_the_figure_s_own_alt_text_is_used(shown: list[Any]) -> None:
    fig = figure()
    fig.sab_alt = "A line that rises"  # type: ignore[attr-defined]
    notebook.show(fig)
    assert 'alt="A line that rises"' in shown[0][0]["text/html"]
    assert "Computed in this cell." in shown[0][0]["text/html"]


@pytest.mark.parametrize("alt", [None, "", "  "])
def test_a_figure_without_alt_text_is_refused(shown: list[Any], alt: str | None) -> None:
    with pytest.raises(ValueError, match="alt"):
        notebook.show(figure(), alt=alt)
    assert not shown


def test_no_records_is_no_source() -> None:
    with pytest.raises(ValueError, match="no record was found"):
        notebook.provenance([])


def test_a_table_aligns_numbers_and_escapes(shown: list[Any]) -> None:
    notebook.show_table(["model", "T=100"], [["a<b", "99.8 ± 0.1"], ["c", None]], "Two.", "Typed.")
    html = shown[0][0]["text/html"]
    assert '<th>model</th><th class="sab-number">T=100</th>' in html
    assert "<td>a&lt;b</td>" in html and '<td class="sab-number"></td>' in html
    assert "Typed." in html


def test_claims_are_shown_with_their_verdicts(shown: list[Any]) -> None:
    claim = Claim(id="c", source="s", page=1, says="a<b", kind="order", unit="points")
    notebook.show_claims([Verdict(claim, "partly", 1.5, None, (2, 1))], "Two.")
    html, plain = shown[0][0]["text/html"], shown[0][0]["text/plain"]
    assert "a&lt;b | " not in html and "<td>a&lt;b</td>" in html
    assert plain.splitlines()[1] == "a<b | – | +1.5 points | 2, 1 | partly"
    assert "Two. Of a comparison, ours is the difference" in html and "claims.yaml" in html


def test_a_ragged_table_is_refused(shown: list[Any]) -> None:
    with pytest.raises(ValueError, match="a row has 1 cells: must have 2"):
        notebook.show_table(["a", "b"], [["x"]])
    assert not shown


@pytest.mark.parametrize(
    ("profile", "seed", "words"),
    [("big", 0, "profile='big'"), ("cpu", -1, "seed=-1"), ("cpu", True, "seed=True")],
)
def test_parameters_are_checked(profile: str, seed: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        notebook.parameters(profile, seed)


def test_committed_records_are_read_and_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sab.experiments.run.run_all", lambda *_: pytest.fail("nothing may run"))
    found = notebook.read_or_run("copy")
    assert found and {record.experiment for record in found} == {"copy"}
    with pytest.raises(ValueError, match="no record; make it with: sab run copy"):
        notebook.read_or_run("copy", row="none")


def test_the_largest_profile_is_taken_and_nothing_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sab.experiments.run.run_all", lambda *_: pytest.fail("nothing may run"))
    committed = notebook.read_or_run("copy")
    mixed = [dataclasses.replace(committed[0], profile="smoke"), *committed]
    monkeypatch.setattr("sab.experiments.records.load", lambda *_: mixed)
    assert notebook.largest("copy") == [one for one in committed if one.profile == "cpu"]
    monkeypatch.setattr("sab.experiments.records.load", lambda *_: [])
    assert notebook.largest("copy") == []


def test_a_profile_runs_once_and_leaves_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAB_RUNS", str(tmp_path))
    row = notebook.read_or_run("copy")[0].row
    found = notebook.read_or_run("copy", "smoke", row, seed=0)
    assert [(r.row, r.profile, r.seed) for r in found] == [(row, "smoke", 0)]
    assert found[0].path is not None and found[0].path.is_relative_to(tmp_path / "notebook")
    again = notebook.read_or_run("copy", "smoke", row, seed=0)
    assert [record.created for record in again] == [record.created for record in found]


def test_setup_seeds_both_generators() -> None:
    notebook.setup(4)
    first = (torch.rand(1).item(), np.random.rand())
    notebook.setup(4)
    assert (torch.rand(1).item(), np.random.rand()) == first
    with pytest.raises(ValueError, match="seed=-1"):
        notebook.setup(-1)
