"""Notebook pairs and their execution.

The source of a chapter is ``notebooks/NN_name.py``. Its ``.ipynb`` is made from it, one way, with
the outputs of a run. A run is cached under the hash of all it depends on, so that a second build
with nothing changed runs nothing.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from tools.paths import CACHE, NOTEBOOKS, ROOT

Value = int | float | str | bool

LIMITED = range(20, 27)  # Part II: the chapters whose live cells have a limit
LIMIT = 90.0  # seconds of a processor a chapter, its kernel's start with them
HANGING = 600  # seconds after which a cell of a chapter as committed is taken to hang

ENVIRONMENT = {
    # One thread a notebook: two run at a time, and sums do not depend on the number of threads.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
    "PYTHONWARNINGS": "default",
    # A folder of the build's own: a user's start-up files do not run in the book's kernels.
    "IPYTHONDIR": str(CACHE / "ipython"),
}
KERNEL_CONFIG = """\
c = get_config()  # noqa: F821
c.IPKernelApp.log_level = 40  # no notice that a kernel talks TCP on this machine
"""


class NotebookError(RuntimeError):
    """A notebook that is malformed, failed or was interrupted; the message names the cell."""


def environment() -> dict[str, str]:
    """Return the environment of every kernel, with the folder it needs made."""
    profile = CACHE / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(KERNEL_CONFIG, encoding="utf-8")
    return {**os.environ, **ENVIRONMENT}


def sources(only: Iterable[str] = ()) -> list[Path]:
    """Return the chapters' ``.py`` files in order, or those whose name starts with one of ``only``.

    Raises:
        NotebookError: a name in ``only`` fits no chapter.
    """
    found = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
    wanted = [name.removesuffix(".py").removesuffix(".ipynb") for name in only]
    for name in wanted:
        if not any(path.stem.startswith(name) for path in found):
            names = ", ".join(path.stem for path in found)
            raise NotebookError(f"NB={name}: no such notebook; there are {names}")
    return [p for p in found if not wanted or any(p.stem.startswith(name) for name in wanted)]


def convert(source: Path) -> NotebookNode:
    """Return the notebook of a py:percent file, without outputs; ids are stable over runs."""
    notebook = jupytext.read(source)
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"{source.stem[:2]}-{index:03d}"
        if cell.cell_type == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook.metadata.pop("jupytext", None)
    # What an executed notebook says of its kernel, less the version of the Python that ran it.
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def outline(notebook: NotebookNode) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (type, source, tags) of every cell: what both files of a pair must share."""
    return [
        (cell.cell_type, cell.source.strip(), tuple(cell.metadata.get("tags", ())))
        for cell in notebook.cells
    ]


def parameter_names(notebook: NotebookNode, name: str) -> list[str]:
    """Return the names assigned in the cell tagged ``parameters``.

    Raises:
        NotebookError: there is not exactly one such cell.
    """
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    if len(cells) != 1:
        raise NotebookError(f"{name}: {len(cells)} cells tagged 'parameters': must be exactly one")
    names: list[str] = []
    for node in ast.parse(cells[0].source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def check_parameters(notebook: NotebookNode, name: str, values: Mapping[str, Value]) -> None:
    """Refuse a parameter that the notebook does not have; papermill would ignore it.

    Raises:
        NotebookError: an unknown name.
    """
    known = parameter_names(notebook, name)
    for key in values:
        if key not in known:
            raise NotebookError(f"{name}: unknown parameter {key!r}; it has {', '.join(known)}")


def dependencies() -> str:
    """Return the hash of what every notebook depends on beside its own cells."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    folders = [(ROOT / "sab", ("*.py", "*.cpp", "*.h")), (ROOT / "results", ("*.json",))]
    files = [path for folder, kinds in folders for kind in kinds for path in folder.rglob(kind)]
    files += [ROOT / "book" / "claims.yaml", ROOT / "constraints.txt", Path(__file__)]
    for path in sorted(files):
        if path.is_file():
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def cached(source: Path, values: Mapping[str, Value], shared: str | None = None) -> Path:
    """Return where the executed notebook is, or will be, kept."""
    digest = hashlib.sha256((shared or dependencies()).encode())
    digest.update(repr(sorted(values.items())).encode() + source.read_bytes())
    return CACHE / f"{source.stem}-{digest.hexdigest()[:16]}.ipynb"


def execute(source: Path, values: Mapping[str, Value], target: Path) -> Path:
    """Run one notebook from the first cell to the last and store it at ``target``.

    Beside it, under `seconds_file`, is stored what it took of a processor. That is the kernel's own
    time, which does not grow where other programs hold the cores.

    Raises:
        NotebookError: a cell failed or hangs, the kernel died, or the run stopped before the last
            cell.
    """
    import papermill

    os.environ.update(environment())
    name = source.stem
    notebook = convert(source)
    check_parameters(notebook, name, values)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        before, after = Path(folder) / "before.ipynb", Path(folder) / "after.ipynb"
        nbformat.write(notebook, before)
        problem: BaseException | None = None
        spent = _children_seconds()
        try:
            papermill.execute_notebook(
                before,
                after,
                parameters=dict(values),
                kernel_name="python3",
                cwd=folder,
                progress_bar=False,
                log_output=False,
                start_timeout=120,
                # Other parameters may ask for runs of hours.
                execution_timeout=None if values else HANGING,
            )
        except (Exception, KeyboardInterrupt) as error:
            problem = error
        spent = _children_seconds() - spent
        done = nbformat.read(after, as_version=4) if after.exists() else notebook
        _check_run(done, name, problem)
        partial = target.with_suffix(f".{os.getpid()}.part")
        nbformat.write(_tidy(done), partial)
        partial.replace(target)
        seconds_file(target).write_text(f"{spent:.1f}\n", encoding="utf-8")
    return target


def _children_seconds() -> float:
    """Processor's seconds of all child processes that have ended, kernels among them."""
    times = os.times()
    return times.children_user + times.children_system


def seconds_file(executed: Path) -> Path:
    """Where the processor's seconds of a stored run are."""
    return executed.with_suffix(".seconds")


def check_seconds(executed: Mapping[str, Path]) -> None:
    """Refuse runs of Part II's chapters that took more of a processor than they may.

    Args:
        executed: chapter → its stored run, as `run_all` returns them.

    Raises:
        NotebookError: one took longer; the message names all that did.
    """
    slow = []
    for stem, path in executed.items():
        if int(stem[:2]) in LIMITED and seconds_file(path).exists():
            seconds = float(seconds_file(path).read_text(encoding="utf-8"))
            if seconds > LIMIT:
                slow.append(f"{stem}: {seconds:.0f} s of a processor, at most {LIMIT:.0f} s")
    if slow:
        raise NotebookError("live cells take too long: " + "; ".join(slow))


def _timed(source: Path, values: Mapping[str, Value], target: Path) -> float:
    """Execute a notebook and return the seconds it took."""
    start = time.perf_counter()
    execute(source, values, target)
    return time.perf_counter() - start


def _check_run(notebook: NotebookNode, name: str, problem: BaseException | None) -> None:
    """Raise where the run did not reach its end; papermill is silent on a ``SystemExit``."""
    reached = 0
    # papermill adds cells of its own; a reader counts those of the source.
    added = {"papermill-error-cell-tag", "injected-parameters"}
    own = [cell for cell in notebook.cells if not added & set(cell.metadata.get("tags", ()))]
    for number, cell in enumerate(own, start=1):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        expected = "raises-exception" in cell.metadata.get("tags", ())
        first = cell.source.strip().splitlines()[0]
        for output in cell.outputs:
            if output.output_type == "error" and not expected:
                raise NotebookError(
                    f"{name}: cell {number} ({first!r}) failed: {output.ename}: {output.evalue}"
                )
        # papermill calls a cell completed even where the kernel died in it, before it answered.
        answered = "shell.execute_reply" in cell.metadata.get("execution", {})
        status = cell.metadata.get("papermill", {}).get("status")
        if cell.execution_count is None or not answered or status not in (None, "completed"):
            reason = f"{type(problem).__name__}: {problem}" if problem else "no error was reported"
            raise NotebookError(
                f"{name}: stopped before cell {number} ({first!r}) was done "
                f"({reached} cells were): {reason}"
            )
        reached += 1
    if problem is not None:
        raise NotebookError(f"{name}: {type(problem).__name__}: {problem}")


def _tidy(notebook: NotebookNode) -> NotebookNode:
    """Drop timings and merge streams, so that a second run of the same code is the same file."""
    notebook.metadata.pop("papermill", None)
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if not cell.metadata.get("tags", True):
            cell.metadata.pop("tags")
        if cell.cell_type != "code":
            continue
        merged: list[NotebookNode] = []
        for output in cell.outputs:
            last: Any = merged[-1] if merged else NotebookNode(output_type=None)
            streams = output.output_type == "stream" == last.output_type
            if streams and last.name == output.name:
                last.text += output.text
                continue
            if output.output_type == "error":  # terminal colours and this machine's paths
                output.traceback = [f"{output.ename}: {output.evalue}"]
            merged.append(output)
        cell.outputs = merged
    return notebook


def run_all(
    chapters: list[Path], values: Mapping[str, Value], workers: int = 2, again: bool = False
) -> dict[str, Path]:
    """Return the executed notebook of each chapter, running those that are not cached.

    Args:
        chapters: the chapters' ``.py`` files.
        values: parameter → value.
        workers: notebooks that run at a time.
        again: run those that are cached too. Their new runs are kept beside the cached ones, which
            stay what the website is built from.

    Raises:
        NotebookError: the first notebook that fails stops those not yet started.
    """
    shared = dependencies()
    targets = {path.stem: cached(path, values, shared) for path in chapters}
    if again:
        for stem, target in targets.items():
            if target.exists():
                targets[stem] = CACHE / "again" / f"{stem}.ipynb"
                targets[stem].unlink(missing_ok=True)
    missing = [path for path in chapters if not targets[path.stem].exists()]
    print(f"notebooks: {len(chapters)}, {len(missing)} to run", flush=True)
    if missing:
        with ProcessPoolExecutor(max_workers=workers) as pool:
            jobs = {pool.submit(_timed, p, values, targets[p.stem]): p for p in missing}
            try:
                for job in as_completed(jobs):
                    stem, seconds = jobs[job].stem, job.result()
                    cpu = float(seconds_file(targets[stem]).read_text(encoding="utf-8"))
                    print(
                        f"  ran {stem} in {seconds:.0f} s, {cpu:.0f} s of a processor", flush=True
                    )
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    _prune(targets)
    return targets


def _prune(targets: Mapping[str, Path], keep: int = 4) -> None:
    """Keep the newest few runs of each chapter."""
    for stem in targets:
        runs = sorted(CACHE.glob(f"{stem}-*.ipynb"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in runs[keep:]:
            if old != targets[stem]:
                old.unlink(missing_ok=True)
                seconds_file(old).unlink(missing_ok=True)


def write_pairs(only: Iterable[str] = (), workers: int = 2) -> None:
    """Make the ``.ipynb`` of each chapter from its ``.py``, with the outputs of a run.

    Raises:
        NotebookError: a notebook failed, or one of Part II took too long (see `check_seconds`).
    """
    chapters = sources(only)
    runs = run_all(chapters, {}, workers)
    check_seconds(runs)
    for path, executed in zip(chapters, runs.values(), strict=True):
        text = executed.read_text(encoding="utf-8")
        pair = path.with_suffix(".ipynb")
        if not pair.exists() or pair.read_text(encoding="utf-8") != text:
            pair.write_text(text, encoding="utf-8")
            print(f"  wrote {pair.relative_to(ROOT)}")


def parse_values(pairs: Iterable[str]) -> dict[str, Value]:
    """Turn ``name=value`` into parameters; a value is a Python literal or else a text.

    Raises:
        NotebookError: no ``=``, or a malformed name.
    """
    values: dict[str, Value] = {}
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise NotebookError(f"parameter {pair!r}: must be name=value")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values
