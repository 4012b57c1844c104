"""What is staged for Jupyter Book: MathJax without its surplus, the set-up cell's label."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tools import stage as staging
from tools.stage import StageError, copy_mathjax, name_setup, stage


def test_mathjax_is_one_script_and_its_fonts(tmp_path: Path) -> None:
    copy_mathjax(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".js", ".woff"}
    assert [path.name for path in files if path.suffix == ".js"] == ["tex-chtml-full.js"]
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_a_package_of_another_layout_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MATHJAX_PARTS", ("tex-none.js",))
    with pytest.raises(StageError, match=r"has no tex-none\.js"):
        copy_mathjax(tmp_path)


def test_a_page_of_the_contents_that_is_missing_is_named() -> None:
    with pytest.raises(StageError, match=r"do not exist: .*notebooks/01_introduction"):
        stage({})


def test_the_set_up_cell_says_who_needs_it() -> None:
    cell = nbformat.v4.new_code_cell("import os", metadata={"tags": ["hide-input", "setup"]})
    name_setup(nbformat.v4.new_notebook(cells=[cell]))
    assert "Colab" in cell.metadata["mystnb"]["code_prompt_show"]
