"""The staged copy of the book: executed notebooks, figures as files, MathJax beside the pages."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.paths import BOOK, ROOT, STAGE, toc_files

MATHJAX_PARTS = ("tex-chtml-full.js", "output/chtml/fonts/woff-v2")
EXAMPLES = Path("tests/examples")
IMAGE = re.compile(r'src="data:image/png;base64,([A-Za-z0-9+/=\s]+)"')


class StageError(RuntimeError):
    """The book can't be staged; the message says what is missing."""


def stage(executed: Mapping[str, Path]) -> None:
    """Fill ``_build/site`` with what Jupyter Book reads.

    Args:
        executed: chapter name → its executed notebook.

    Raises:
        StageError: a page of ``_toc.yml`` or MathJax is missing.
        PageError: a page has a generated part that can't be made.
    """
    from tools.pages import fill_folder

    missing = [
        name
        for name in toc_files()
        if name.removeprefix("notebooks/") not in executed
        and not any((ROOT / f"{name}{suffix}").exists() for suffix in (".md", ".rst"))
    ]
    if missing:
        raise StageError(f"_toc.yml names pages that do not exist: {', '.join(missing)}")
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(BOOK, STAGE / "book", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    # Pages show these by literalinclude: what stands on a page is what is tested.
    shutil.copytree(ROOT / EXAMPLES, STAGE / EXAMPLES, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, STAGE / name)
    fill_folder(STAGE / "book")
    copy_mathjax(STAGE / "book" / "_static" / "mathjax")
    figures = STAGE / "book" / "_static" / "figures"
    figures.mkdir(parents=True)
    (STAGE / "notebooks").mkdir()
    for name, path in executed.items():
        notebook = nbformat.read(path, as_version=4)
        hide_injected(notebook)
        name_setup(notebook)
        figures_as_files(notebook, figures)
        nbformat.write(notebook, STAGE / "notebooks" / f"{name}.ipynb")


def hide_injected(notebook: NotebookNode) -> None:
    """Keep the cell that papermill injects off the website."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags and "remove-cell" not in tags:
            cell.metadata["tags"] = [*tags, "remove-cell"]


def name_setup(notebook: NotebookNode) -> None:
    """Say on the folded set-up cell who needs it."""
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []):
            cell.metadata["mystnb"] = {
                "code_prompt_show": "Set-up (needed on Colab only)",
                "code_prompt_hide": "Set-up (needed on Colab only)",
            }


def figures_as_files(notebook: NotebookNode, folder: Path) -> None:
    """Move the pictures of ``sab.notebook.show`` out of the page, which then loads them lazily."""

    def store(match: re.Match[str]) -> str:
        png = base64.b64decode(match[1])
        name = f"{hashlib.sha256(png).hexdigest()[:20]}.png"
        (folder / name).write_bytes(png)
        return f'loading="lazy" src="../_static/figures/{name}"'

    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                data["text/html"] = IMAGE.sub(store, data["text/html"])


def copy_mathjax(folder: Path) -> None:
    """Copy the part of MathJax 3 that the pages load out of the installed package (1.7 MB).

    Raises:
        StageError: the package is not installed, or has another layout.
    """
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise StageError("sphinx-mathjax-offline is missing: pip install -e '.[book]'")
    source = Path(spec.origin).parent / "static" / "mathjax"
    for part in MATHJAX_PARTS:
        if not (source / part).exists():
            raise StageError(f"sphinx-mathjax-offline has no {part}")
        target = folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, target)
        else:
            shutil.copy(source / part, target)


def fingerprint() -> str:
    """Return the hash of the staged tree: the website is up to date if it was built from it."""
    digest = hashlib.sha256((ROOT / "constraints.txt").read_bytes())
    for path in sorted(p for p in STAGE.rglob("*") if p.is_file()):
        digest.update(path.relative_to(STAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
