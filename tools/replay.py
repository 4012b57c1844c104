"""nbval on a run that was already made: its comparison, without running a chapter twice.

nbval starts a kernel, sends it the cells and compares what comes back with the outputs in the
file. Here a stored run answers in the kernel's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbval.plugin import IPyNbFile


class ReplayError(RuntimeError):
    """The stored run is not one of the notebook it is compared with; the message names the cell."""


class Replay:
    """What nbval asks of a kernel, answered from an executed notebook.

    Args:
        run: the executed notebook; cells that papermill injected are left out.
    """

    def __init__(self, run: NotebookNode) -> None:
        self._cells = [
            cell
            for cell in run.cells
            if cell.cell_type == "code"
            and "injected-parameters" not in cell.metadata.get("tags", ())
        ]
        self._next = 0
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        """Return the id of the next cell's run, whose messages can then be read.

        Raises:
            ReplayError: the run's next cell has another source, or there is none.
        """
        number = self._next
        if number == len(self._cells):
            raise ReplayError(f"code cell {number + 1} is not in the run, which ends before it")
        cell = self._cells[number]
        if cell.source != cell_input:
            raise ReplayError(
                f"code cell {number + 1} is not the one that ran: run the notebook again "
                "(make pairs)"
            )
        self._next += 1
        identity = str(number)
        contents = [(output.output_type, output) for output in cell.outputs]
        for kind, content in [*contents, ("status", {"execution_state": "idle"})]:
            self._messages.put(
                {"msg_type": kind, "content": content, "parent_header": {"msg_id": identity}}
            )
        return identity

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        """Return the next message; all there is of a cell is there at once."""
        return self._messages.get_nowait()

    def await_idle(self, parent_id: str, timeout: float) -> None:
        """Leave out what a cell has still said."""
        while not self._messages.empty():
            self._messages.get_nowait()

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """The reply is there."""

    def is_alive(self) -> bool:
        """A stored run does not die."""
        return True

    def interrupt(self) -> None:
        """There is nothing to interrupt."""

    def stop(self) -> None:
        """There is nothing to stop."""


class ReplayedFile(IPyNbFile):
    """A committed notebook and the run it is compared with."""

    run: Path
    kernel: Any  # nbval's own, replaced

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.compare_outputs = False  # only the cells tagged nbval-check-output: --nbval-lax

    def setup(self) -> None:
        """Put the run in the kernel's place."""
        self.kernel = Replay(nbformat.read(self.run, as_version=4))
        self.setup_sanitize_files()


class ReplayPlugin:
    """The pytest plugin that collects notebooks for which there is a run.

    Args:
        runs: the notebook's stem → its stored run.
    """

    def __init__(self, runs: Mapping[str, Path]) -> None:
        self._runs = runs

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Any:
        """Collect a notebook's cells."""
        if file_path.suffix != ".ipynb" or file_path.stem not in self._runs:
            return None
        file = ReplayedFile.from_parent(parent, path=file_path)
        file.run = self._runs[file_path.stem]
        return file


def compare(notebooks: list[Path], runs: Mapping[str, Path]) -> int:
    """Compare each notebook with its run by nbval; return pytest's exit code, 0 if all agree."""
    options = ["-q", "-p", "no:cacheprovider", "--no-header", *map(str, notebooks)]
    # nbval is imported here before pytest loads it, and has no asserts to rewrite.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main(options, plugins=[ReplayPlugin(runs)]))
