import dataclasses
import errno
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from sab.experiments import files, records
from sab.experiments.records import Record, RecordError


def record_of(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "experiment": "e",
        "row": "r",
        "config": {"train": {"updates": 3}},
        "seed": 0,
        "profile": "cpu",
        "metrics": {"accuracy": 0.5},
        "history": [{"update": 0, "loss": None}],
        "machine": {"cpu": "any"},
        "seconds": 1.5,
        "peak_mb": 100.0,
        "created": "2026-01-01T00:00:00+00:00",
    }
    return Record(**{**values, **changes})


def test_written_and_read_back(tmp_path: Path) -> None:
    record = record_of()
    path = records.write(record, tmp_path)
    assert path == tmp_path / "e" / "r-cpu-s0.json"
    assert records.read(path) == record
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_what_json_cannot_say_is_null(tmp_path: Path) -> None:
    record = record_of(
        metrics={"ce": math.nan, "n": 3}, history=[{"update": 1, "grad_norm": math.inf}]
    )
    found = records.read(records.write(record, tmp_path))
    assert found.metrics == {"ce": None, "n": 3}
    assert found.history == [{"update": 1, "grad_norm": None}]


def test_load_filters_and_sorts(tmp_path: Path) -> None:
    for row, profile, seed in [
        ("b", "cpu", 1),
        ("a", "smoke", 0),
        ("b", "cpu", 0),
        ("a", "cpu", 0),
    ]:
        records.write(record_of(row=row, profile=profile, seed=seed), tmp_path)
    names = [record.name for record in records.load("e", results=tmp_path)]
    assert names == ["a-cpu-s0", "a-smoke-s0", "b-cpu-s0", "b-cpu-s1"]
    assert [r.seed for r in records.load("e", "b", "cpu", tmp_path)] == [0, 1]
    assert records.load("nothing", results=tmp_path) == []


def spoil(path: Path, how: str) -> None:
    plain = json.loads(path.read_text())
    if how == "cut":
        path.write_bytes(path.read_bytes()[:40])
        return
    if how == "empty":
        path.write_bytes(b"")
        return
    if how == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
        return
    if how == "list":
        plain = []
    elif how == "missing":
        del plain["metrics"]
    elif how == "type":
        plain["seed"] = "0"
    elif how == "bool":
        plain["seed"] = False
    elif how == "metric":
        plain["metrics"]["accuracy"] = "high"
    elif how == "unknown":
        plain["surprise"] = 1
    elif how == "status":
        plain["status"] = "perhaps"
    elif how == "history":
        plain["history"] = [{"loss": 1}]
    elif how == "name":
        plain["seed"] = 5
    path.write_text(json.dumps(plain))


@pytest.mark.parametrize(
    "how",
    [
        "cut",
        "empty",
        "bytes",
        "list",
        "missing",
        "type",
        "bool",
        "metric",
        "unknown",
        "status",
        "history",
        "name",
    ],
)
def test_a_spoilt_record_says_which_and_how_to_mend(tmp_path: Path, how: str) -> None:
    path = records.write(record_of(), tmp_path)
    spoil(path, how)
    with pytest.raises(RecordError) as caught:
        records.load("e", results=tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert "restore it from git, or delete it and run its experiment again" in message
    assert path.exists()


def test_a_record_that_breaks_the_schema_is_not_written(tmp_path: Path) -> None:
    records.write(record_of(), tmp_path)
    before = records.load("e", results=tmp_path)
    with pytest.raises(RecordError, match="status"):
        records.write(record_of(status="perhaps"), tmp_path)
    assert records.load("e", results=tmp_path) == before


class FullDisk(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = records.write(record_of(), tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(files, "open", lambda *args: FullDisk(), raising=False)
    with pytest.raises(OSError, match="no space left on the disk; free some") as caught:
        records.write(record_of(seconds=9.0), tmp_path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def stop(file: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_atomic(target, stop)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_check_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_writable(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="a file is in the way of a folder"):
        files.check_writable(tmp_path / "file" / "results")
    with pytest.raises(OSError, match="a file is in the way of a folder"):
        files.check_writable(tmp_path / "file")
    usage = type("Usage", (), {"free": 3 * 2**20})
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OSError, match="only 3 MB free and a run needs 20"):
        files.check_writable(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EIO, errno.EROFS, errno.ENOTDIR])
def test_every_failure_to_write_names_a_cure(number: int) -> None:
    """``/proc/nope``, say, where no folder can be made."""
    text = files.explain(OSError(number, os.strerror(number)), Path("results"))
    assert text.startswith("results: ") and "\n" not in text
    assert text.endswith("choose another folder with --results and --runs")


def test_no_permission_is_explained() -> None:
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    text = files.explain(error, Path("results"))
    assert text == (
        "results: cannot be written (Permission denied); "
        "choose another folder with --results and --runs"
    )


def test_folders_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAB_RESULTS", "/elsewhere/results")
    monkeypatch.setenv("SAB_RUNS", "/elsewhere/runs")
    assert files.results_dir() == Path("/elsewhere/results")
    assert files.runs_dir() == Path("/elsewhere/runs")


def test_machine_names_no_host() -> None:
    facts = records.machine(torch.device("cpu"))
    assert facts["device"] == "cpu" and facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
    host = os.uname().nodename
    assert host not in facts.values()


def test_every_committed_record_can_be_read() -> None:
    folder = files.project_root() / "results"
    other = ("checkpoints", "bench")  # weights, and the benchmarks' own form
    paths = [p for p in sorted(folder.glob("*/*.json")) if p.parent.name not in other]
    assert paths
    for path in paths:
        record = records.read(path)
        assert dataclasses.asdict(record)["experiment"] == path.parent.name
