"""Each chapter's two files agree, and each keeps the rules that the pipeline relies on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from sab.notebook import PROFILES
from tools.notebooks import convert, outline, parameter_names, sources
from tools.paths import NOTEBOOKS, repository, toc_files

CHAPTERS = sources()
IDS = [path.stem for path in CHAPTERS]
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=IDS)


def tagged(notebook: NotebookNode, tag: str) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", ())]


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_chapters() -> None:
    assert CHAPTERS


@each_chapter
def test_both_files_hold_the_same_cells(path: Path) -> None:
    pair = path.with_suffix(".ipynb")
    assert pair.exists(), f"{pair.name} is missing: make pairs NB={path.stem[:2]}"
    ours, theirs = outline(convert(path)), outline(nbformat.read(pair, as_version=4))
    hint = f"make pairs NB={path.stem[:2]}"
    for number, (source, made) in enumerate(zip(ours, theirs, strict=False), start=1):
        assert source == made, f"cell {number} of {path.stem} differs: {hint}"
    assert len(ours) == len(theirs), (
        f"{path.stem} has {len(ours)} cells, its pair {len(theirs)}: {hint}"
    )


def test_a_drift_in_type_source_or_tags_is_seen() -> None:
    cell = nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]})
    base = nbformat.v4.new_notebook(cells=[cell])
    for other in (
        nbformat.v4.new_markdown_cell("x = 1", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("x = 2", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("x = 1"),
    ):
        assert outline(base) != outline(nbformat.v4.new_notebook(cells=[other]))


def test_no_pair_without_its_source() -> None:
    orphans = [p.name for p in NOTEBOOKS.glob("*.ipynb") if not p.with_suffix(".py").exists()]
    assert not orphans


def test_every_chapter_is_in_the_contents() -> None:
    listed = {name.removeprefix("notebooks/") for name in toc_files() if "notebooks/" in name}
    assert listed == set(IDS)


@each_chapter
def test_the_committed_outputs_are_of_a_whole_run(path: Path) -> None:
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code_cells(notebook) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if output.output_type == "error":
                assert "raises-exception" in cell.metadata.get("tags", ())


@each_chapter
def test_the_first_code_cell_is_the_set_up_that_all_share(path: Path) -> None:
    first = code_cells(convert(path))[0]
    assert first.source == code_cells(convert(CHAPTERS[0]))[0].source
    assert first.metadata["tags"] == ["hide-input", "setup"]


def test_the_set_up_cell_fetches_this_repository_and_leaves_torch_alone() -> None:
    source = code_cells(convert(CHAPTERS[0]))[0].source
    assert re.findall(r"https://[^\"']+", source) == [repository()]
    assert 'find_spec("sab") is None' in source
    assert "tools/colab_setup.py" in source
    assert "torch" not in re.sub(r"#.*|SAB_SCAN\", \"torch", "", source)


@each_chapter
def test_the_set_up_cell_does_nothing_where_sab_imports(path: Path) -> None:
    tree = ast.parse(code_cells(convert(path))[0].source)
    kinds = {type(node) for node in tree.body}
    assert kinds == {ast.Import, ast.If}, "only imports may stand beside the `if sab is missing`"
    assert len([node for node in tree.body if isinstance(node, ast.If)]) == 1


@each_chapter
def test_parameters(path: Path) -> None:
    notebook = convert(path)
    assert {"profile", "seed"} <= set(parameter_names(notebook, path.stem))
    values: dict[str, object] = {}
    exec(tagged(notebook, "parameters")[0].source, values)
    assert values["profile"] == "records" and values["profile"] in PROFILES
    checked = [c for c in code_cells(notebook) if "notebook.parameters(profile" in c.source]
    assert checked, "the chapter must check its parameters: notebook.parameters(profile, seed)"


@each_chapter
def test_at_least_one_output_is_compared(path: Path) -> None:
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    compared = tagged(notebook, "nbval-check-output")
    assert compared, "no cell is tagged nbval-check-output"
    for cell in compared:
        text = "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream")
        results = [o for o in cell.outputs if o.output_type == "execute_result"]
        where = f"cell {cell.source.splitlines()[0]!r}"
        assert text.strip() or results, f"nothing to compare in {where}"
        # Glued floats have every digit and pictures every byte: no other machine repeats them.
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        assert kinds <= {"text/plain"}, f"glue and show belong in another cell than {where}"


@each_chapter
def test_title_kernel_and_runtime(path: Path) -> None:
    notebook = convert(path)
    headings = [
        line
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for line in re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL).splitlines()
        if line.startswith("# ")
    ]
    assert len(headings) == 1, headings
    assert headings[0].startswith(f"# {int(path.stem[:2])}. ")
    assert notebook.metadata["accelerator"] == "GPU"
    assert notebook.metadata["kernelspec"]["name"] == "python3"


@each_chapter
def test_no_output_tells_of_the_machine_it_ran_on(path: Path) -> None:
    text = path.with_suffix(".ipynb").read_text(encoding="utf-8")
    text = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", text)
    found = re.findall(r"/(?:home|root|Users|tmp|work)/[\w./-]*", text)
    assert not found, found[:5]


@each_chapter
def test_a_figure_reaches_the_page_with_alt_text(path: Path) -> None:
    """``show`` writes HTML; a bare image output would have no alternative text."""
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert "image/png" not in output.get("data", {}), cell.source[:200]


@each_chapter
def test_a_notebook_defines_little(path: Path) -> None:
    """A notebook calls into ``sab``; it holds no second implementation."""
    for cell in code_cells(convert(path)):
        if "hide-cell" in cell.metadata.get("tags", ()) or cell.source.startswith("%"):
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 30, f"{path.stem}: {node.name} has {lines} lines: move it into sab"
