"""nbval on stored runs: what it lets pass and what not."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tools import book, notebooks
from tools.notebooks import execute
from tools.replay import Replay, ReplayError, compare

CHAPTER = """\
# %% [markdown]
# # Title

# %% tags=["parameters"]
seed = 0

# %% tags=["nbval-check-output"]
print("seed", seed)
seed + 1

# %%
print("not compared")
"""
COMPARED, FREE = 2, 3  # places of the cells


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("executed")
    source = folder / "01_trial.py"
    source.write_text(CHAPTER, encoding="utf-8")
    return execute(source, {}, folder / "01_trial-0123.ipynb")


@pytest.fixture
def pair(tmp_path: Path, executed: Path) -> tuple[Path, Path]:
    """A committed notebook and a run of it."""
    committed, run = tmp_path / "01_trial.ipynb", tmp_path / "run.ipynb"
    for path in (committed, run):
        path.write_bytes(executed.read_bytes())
    return committed, run


def changed(path: Path, cell: int, output: int | None, **values: object) -> None:
    """Change an output of a stored notebook, or with ``None`` the cell itself."""
    notebook = nbformat.read(path, as_version=4)
    place = notebook.cells[cell] if output is None else notebook.cells[cell].outputs[output]
    place.update(values)
    nbformat.write(notebook, path)


def result(committed: Path, run: Path) -> int:
    return compare([committed], {committed.stem: run})


def test_a_notebook_agrees_with_its_own_run(
    pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    assert result(*pair) == 0
    assert "3 passed" in capfd.readouterr().out, "every code cell is compared"


@pytest.mark.parametrize(
    ("cell", "output", "values", "words"),
    [
        (COMPARED, 0, {"text": "seed 1\n"}, "mismatch 'stdout'"),
        (COMPARED, 1, {"data": {"text/plain": "2"}}, "mismatch 'text/plain'"),
        (COMPARED, 1, {"data": {"text/html": "1"}}, "Missing output fields"),
        (COMPARED, None, {"outputs": []}, "Unexpected output fields"),
        (FREE, None, {"source": "print('other code')"}, "is not the one that ran"),
    ],
)
def test_another_output_or_source_is_found(
    pair: tuple[Path, Path],
    capfd: pytest.CaptureFixture[str],
    cell: int,
    output: int | None,
    values: dict[str, object],
    words: str,
) -> None:
    changed(pair[0], cell, output, **values)
    assert result(*pair) != 0
    assert words in capfd.readouterr().out


def test_an_untagged_cell_may_print_something_else(pair: tuple[Path, Path]) -> None:
    changed(pair[0], FREE, 0, text="another\n")
    assert result(*pair) == 0


def test_a_run_that_failed_or_ended_early_is_found(
    pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    committed, run = pair
    whole = nbformat.read(run, as_version=4)
    error = nbformat.v4.new_output("error", ename="OSError", evalue="no disk", traceback=["here"])
    changed(run, FREE, None, outputs=[error])
    assert result(committed, run) != 0
    assert "Cell execution caused an exception" in capfd.readouterr().out
    whole.cells.pop()
    nbformat.write(whole, run)
    assert result(committed, run) != 0
    assert "code cell 3 is not in the run, which ends before it" in capfd.readouterr().out


def test_a_chapter_without_a_run_is_not_passed_over(pair: tuple[Path, Path]) -> None:
    assert compare([pair[0]], {}) != 0


def test_cells_that_papermill_injected_are_not_the_notebook_s() -> None:
    injected = nbformat.v4.new_code_cell("seed = 3", metadata={"tags": ["injected-parameters"]})
    own = nbformat.v4.new_code_cell("print(seed)")
    replay = Replay(nbformat.v4.new_notebook(cells=[injected, own]))
    assert replay.execute_cell_input("print(seed)") == "0"
    with pytest.raises(ReplayError, match="code cell 2 is not in the run"):
        replay.execute_cell_input("print(seed)")


def test_outputs_are_compared_with_a_new_run_that_the_website_uses_where_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notebooks, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    log = tmp_path / "log"  # the cell prints how often it ran
    source = tmp_path / "01_trial.py"
    counting = f'with open("{log}", "a") as log:\n    log.write("x")\n    print(log.tell())'
    source.write_text(CHAPTER.replace('print("seed", seed)\nseed + 1', counting))
    committed = source.with_suffix(".ipynb")
    nbformat.write(notebooks.convert(source), committed)
    once = nbformat.v4.new_output("stream", text="1\n")
    changed(committed, COMPARED, None, outputs=[once], execution_count=2)

    assert book.main(["nbval", "--workers", "1"]) == 0
    cached = notebooks.cached(source, {})
    kept = cached.read_bytes()
    assert "1\\n" in kept.decode(), "the website is built from this run"
    assert book.main(["nbval", "--workers", "1"]) == 1
    assert "mismatch 'stdout'" in capfd.readouterr().out
    assert log.read_text() == "xx", "a cached run is not what the outputs are compared with"
    assert cached.read_bytes() == kept, "and stays what the website is built from"
