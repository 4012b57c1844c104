"""What the build does with a notebook that fails, stops half-way or gets a wrong parameter."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tools import book, notebooks
from tools.notebooks import (
    LIMIT,
    NotebookError,
    cached,
    check_seconds,
    execute,
    parse_values,
    run_all,
    seconds_file,
)
from tools.stage import figures_as_files, hide_injected

HEADER = "# %% [markdown]\n# # Title\n\n# %% tags=['parameters']\nprofile = 'records'\nseed = 0\n\n"


def chapter(folder: Path, *cells: str) -> Path:
    path = folder / "01_trial.py"
    header = HEADER.replace("'", '"')
    path.write_text(header + "\n\n".join(f"# %%\n{cell}" for cell in cells), encoding="utf-8")
    return path


def test_a_run_is_complete_and_says_nothing_of_when(tmp_path: Path) -> None:
    path = chapter(tmp_path, "print(seed)", "print(profile)")
    done = nbformat.read(execute(path, {"seed": 3}, tmp_path / "done.ipynb"), as_version=4)
    texts = [o.text for cell in done.cells for o in cell.get("outputs", ())]
    assert texts == ["3\n", "records\n"]
    assert "papermill" not in str(done.metadata) + str([c.metadata for c in done.cells])
    hide_injected(done)
    hidden = [c for c in done.cells if "remove-cell" in c.metadata.get("tags", ())]
    assert [c.metadata["tags"][0] for c in hidden] == ["injected-parameters"]


def test_a_run_keeps_the_processor_s_seconds_of_its_kernel(tmp_path: Path) -> None:
    busy = "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass"
    for name, cell, least in (("busy", busy, 1.5), ("idle", "import time\ntime.sleep(1)", 0.01)):
        target = execute(chapter(tmp_path, cell), {}, tmp_path / f"{name}.ipynb")
        assert float(seconds_file(target).read_text()) >= least


def test_pairs_are_made_by_as_many_workers_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def no_runs(chapters: list[Path], values: object, workers: int) -> dict[str, Path]:
        asked.append(workers)
        return {}

    monkeypatch.setattr(notebooks, "sources", lambda only: [])
    monkeypatch.setattr(notebooks, "run_all", no_runs)
    assert book.main(["pairs", "20", "--workers", "3"]) == 0
    assert asked == [3]


def test_a_slow_chapter_of_part_two_is_refused(tmp_path: Path) -> None:
    runs = {}
    for stem, seconds in (("19_before", 999.0), ("20_quick", LIMIT), ("26_slow", LIMIT + 1)):
        runs[stem] = tmp_path / f"{stem}.ipynb"
        seconds_file(runs[stem]).write_text(f"{seconds}\n")
    runs["25_unknown"] = tmp_path / "25_unknown.ipynb"
    with pytest.raises(NotebookError, match="too long: 26_slow: 91 s of a processor, at most 90 s"):
        check_seconds(runs)
    del runs["26_slow"]
    check_seconds(runs)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["x = 1", "raise RuntimeError('no data')"], ["cell 4", "RuntimeError", "no data"]),
        (["raise SystemExit", "print('never')"], ["cell 3"]),
        (["import os\nos._exit(7)", "print('never')"], ["cell 3", "Dead"]),
        (
            ["import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)"],
            ["cell 3", "Interrupt"],
        ),
    ],
    ids=["error", "system-exit", "dead-kernel", "interrupted"],
)
def test_a_notebook_that_does_not_reach_its_end_stops_the_build(
    tmp_path: Path, cells: list[str], words: list[str]
) -> None:
    target = tmp_path / "done.ipynb"
    with pytest.raises(NotebookError) as caught:
        execute(chapter(tmp_path, *cells), {}, target)
    for word in ["01_trial", *words]:
        assert word in str(caught.value)
    assert not target.exists(), "nothing may be cached"


def test_a_cell_whose_kernel_died_before_it_answered_is_not_done(tmp_path: Path) -> None:
    # What papermill leaves where the death is noticed late: "completed", with a count.
    source = chapter(tmp_path, "x = 1", "import os\nos._exit(7)", "print('never')")
    notebook = notebooks.convert(source)
    for number, cell in enumerate(notebook.cells[1:4], start=1):
        cell.execution_count = number
        cell.metadata["papermill"] = {"status": "completed"}
        cell.metadata["execution"] = {"shell.execute_reply": "now"} if number < 3 else {}
    dead = RuntimeError("DeadKernelError")
    words = r"stopped before cell 4 \('import os'\) was done \(2 cells were\).*DeadKernelError"
    with pytest.raises(NotebookError, match=words):
        notebooks._check_run(notebook, "01_trial", dead)


def test_an_unknown_parameter_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = chapter(tmp_path, "open('ran', 'w')")
    with pytest.raises(NotebookError, match="unknown parameter 'profil'; it has profile, seed"):
        execute(path, {"profil": "cpu"}, tmp_path / "done.ipynb")


def test_a_notebook_without_a_parameters_cell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "01_trial.py"
    path.write_text("# %%\nx = 1\n", encoding="utf-8")
    with pytest.raises(NotebookError, match="0 cells tagged 'parameters'"):
        execute(path, {}, tmp_path / "done.ipynb")


def test_values() -> None:
    assert parse_values(["profile=cpu", "seed=3", "lr=1e-3"]) == {
        "profile": "cpu",
        "seed": 3,
        "lr": 1e-3,
    }
    with pytest.raises(NotebookError, match="must be name=value"):
        parse_values(["profile"])


def test_an_unknown_chapter_is_named() -> None:
    with pytest.raises(NotebookError, match="NB=99"):
        notebooks.sources(["99"])


def test_a_second_run_is_taken_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "CACHE", tmp_path / "cache")
    path = chapter(tmp_path, "print('once')")
    first = run_all([path], {}, workers=1)["01_trial"]
    written = first.stat().st_mtime_ns
    assert run_all([path], {}, workers=1)["01_trial"] == first
    assert first.stat().st_mtime_ns == written
    # Another source, parameter or dependency is another run.
    assert cached(path, {"seed": 1}) != first
    assert cached(path, {}, shared="other") != first
    path.write_text(path.read_text() + "\nprint('twice')\n")
    assert cached(path, {}) != first


def test_pictures_become_files(tmp_path: Path) -> None:
    png = "iVBORw0KGgo="
    output = nbformat.v4.new_output(
        "display_data", {"text/html": f'<img src="data:image/png;base64,{png}" alt="a">'}
    )
    cell = nbformat.v4.new_code_cell("show(fig)", outputs=[output])
    figures_as_files(nbformat.v4.new_notebook(cells=[cell]), tmp_path)
    (written,) = tmp_path.glob("*.png")
    assert written.read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert f'src="../_static/figures/{written.name}" alt="a"' in cell.outputs[0].data["text/html"]
