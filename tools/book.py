"""Build the book: ``python -m tools.book build | pairs | check | linkcheck | nbval``."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.notebooks import (
    NotebookError,
    Value,
    check_seconds,
    parse_values,
    run_all,
    sources,
    write_pairs,
)
from tools.paper_map import PageError
from tools.paths import HTML, OUT, ROOT, STAGE
from tools.stage import StageError, fingerprint, stage

STAMP = OUT / "built-from"


class BuildError(RuntimeError):
    """The website was not built; the message says why."""


def build(values: dict[str, Value], workers: int = 2) -> None:
    """Run what changed, stage it, and build the website; warnings are errors.

    Raises:
        NotebookError: a notebook failed or was interrupted.
        StageError: a page is missing.
        PageError: a generated part of a page can't be made.
        BuildError: Jupyter Book found something wrong.
    """
    start = time.perf_counter()
    stage(run_all(sources(), values, workers))
    state = fingerprint()
    if STAMP.exists() and STAMP.read_text() == state:
        print(f"website: up to date, {HTML.relative_to(ROOT)}/index.html")
        return
    shutil.rmtree(OUT, ignore_errors=True)
    _jupyter_book("-W", "--keep-going")
    STAMP.write_text(state)
    seconds = time.perf_counter() - start
    print(f"website: built in {seconds:.0f} s, {HTML.relative_to(ROOT)}/index.html")


def linkcheck(values: dict[str, Value]) -> None:
    """Ask every external address of the book whether it is there (needs the network).

    Raises:
        BuildError: one is not.
    """
    stage(run_all(sources(), values))
    _jupyter_book("--builder", "linkcheck")


def _jupyter_book(*options: str) -> None:
    command = [Path(sys.executable).with_name("jupyter-book"), "build", STAGE]
    command += ["--path-output", OUT, "--quiet", *options]
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        lines = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr).splitlines()
        marks = ("WARNING", "ERROR", "broken ")
        shown = [line for line in lines if any(mark in line for mark in marks)] or lines[-40:]
        raise BuildError("Jupyter Book stopped:\n" + "\n".join(shown))


def nbval(only: Sequence[str] = (), workers: int = 2) -> None:
    """Run the chapters again and compare the cells tagged ``nbval-check-output`` with those stored.

    The website is built from the same runs where none was cached: no chapter runs twice.

    Raises:
        NotebookError: a notebook failed, or one of Part II took too long (see `check_seconds`).
        BuildError: a committed output is another than that of the run.
    """
    from tools.replay import compare

    chapters = sources(only)
    runs = run_all(chapters, {}, workers, again=True)
    check_seconds(runs)
    if compare([path.with_suffix(".ipynb") for path in chapters], runs):
        raise BuildError("notebooks differ from what is committed (see above)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__)
    parser.add_argument("command", choices=["build", "pairs", "linkcheck", "nbval"])
    parser.add_argument("notebooks", nargs="*", help="pairs, nbval: the start of a name, as 09")
    parser.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        if options.command == "pairs":
            write_pairs(options.notebooks, options.workers)
        elif options.command == "nbval":
            nbval(options.notebooks, options.workers)
        elif options.command == "linkcheck":
            linkcheck(parse_values(options.parameter))
        else:
            build(parse_values(options.parameter), options.workers)
    except (NotebookError, StageError, PageError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; what was done is kept", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
