import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sab.cli import main, value_of
from sab.experiments import files, records, tables
from sab.experiments.train import Trainer

SMALL = ["--set", "updates=12", "--set", "hidden_size=8", "--set", "eval_every=6"]
ROW = ["run", "copy", "--row", "lstm_T20", "--profile", "smoke", "--workers", "1"]


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.set_num_threads(1)
    monkeypatch.setenv("SAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("SAB_RUNS", str(tmp_path / "runs"))
    return tmp_path


def sab(*arguments: str) -> int:
    """Run the command; an argparse error counts as its exit code."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


def only_record(folder: Path) -> Path:
    (path,) = (folder / "results").glob("*/*.json")
    return path


def test_run_then_table_list_show(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sab(*ROW) == 0
    record = records.read(only_record(folders))
    assert record.name == "lstm_T20-smoke-s0"
    assert "1 runs, 0 with a record, 1 to do" in capsys.readouterr().out
    assert sab(*ROW) == 0
    assert "1 runs, 1 with a record, 0 to do" in capsys.readouterr().out
    assert not (folders / "runs" / "copy" / record.name / "checkpoint.pt").exists()

    assert sab("table", "copy") == 0
    table = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", table[0])[:3] == ["row", "metric", "paper"]
    line = next(line for line in table if line.startswith("LSTM, full BPTT"))
    assert f"{100 * record.metrics['accuracy']:.1f} (n=1, smoke)" in line

    assert sab("show", "copy", "--row", "lstm_T20", "--seed", "0", "--history") == 0
    shown = capsys.readouterr().out
    assert "lstm_T20-smoke-s0" in shown and '"update": 30' in shown
    assert sab("show", str(only_record(folders))) == 0
    assert sab("list") == 0
    assert "table1" in capsys.readouterr().out
    assert sab("list", "copy") == 0
    assert "sab_5_5_T20" in capsys.readouterr().out


def test_two_rows_of_smoke_make_table_1_from_nothing(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"sab_5_5_T100", "lstm_T100"}  # the whole table takes a minute and more
    assert not (folders / "results").exists()
    chosen = [part for name in sorted(names) for part in ("--row", name)]
    assert sab("run", "table1", *chosen, "--profile", "smoke", "--workers", "1") == 0
    capsys.readouterr()
    assert sab("table", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {record.row for record in records.load("table1")} == names
    for row in tables.find("table1").rows:
        mine = [line for line in lines if re.split(r"\s{2,}", line)[0] == row.title]
        assert mine, f"no line for {row.name}"
        for line in mine:  # smoke shows that it runs, and judges nothing
            assert ("(n=1, smoke)" in line) == (row.name in names)
            assert "reproduced" not in line and "partly" not in line


def test_a_changed_field_gets_a_record_of_its_own(folders: Path) -> None:
    assert sab(*ROW, *SMALL) == 0
    record = records.read(only_record(folders))
    assert record.row == "lstm_T20+updates=12+hidden_size=8+eval_every=6"
    assert record.config["train"]["updates"] == 12
    assert record.config["model_config"]["hidden_size"] == 8


def test_force_runs_again(folders: Path) -> None:
    assert sab(*ROW, *SMALL) == 0
    first = only_record(folders).stat().st_mtime_ns
    assert sab(*ROW, *SMALL, "--force") == 0
    assert only_record(folders).stat().st_mtime_ns > first


def test_dry_run_trains_nothing(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sab("run", "copy", "--dry-run", "--seed", "0", "--set", "k_trunc=3") == 0
    out = capsys.readouterr().out
    assert "copy sab_5_5_T20+k_trunc=3-cpu-s0: about" in out
    assert out.count(" min\n") == 3
    assert not (folders / "results").exists() and not (folders / "runs").exists()


def test_set_leaves_out_rows_without_the_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert sab("run", "copy", "--dry-run", "--seed", "0", "--set", "k_top=3") == 0
    out = capsys.readouterr().out
    assert "1 runs" in out and "sab_5_5_T20+k_top=3" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "coppy"], "experiment='coppy'.*did you mean 'copy'"),
        (["run", "copy", "--row", "sab_5_5"], "row='sab_5_5'.*did you mean 'sab_5_5_T20'"),
        (["run", "copy", "--profile", "cpuu"], "profile='cpuu'.*did you mean 'cpu'"),
        (["run", "copy", "--set", "T=0"], "T=0: must be an integer of at least 1"),
        (["run", "copy", "--set", "k_top=0"], "k_top=0: must be an integer of at least 1"),
        (["run", "copy", "--set", "k_tpo=3"], "k_tpo=3: no such field.*did you mean 'k_top'"),
        (["run", "copy", "--set", "lr"], "must be field=value"),
        (["run", "copy", "--set", "lr=-1"], "lr=-1"),
        (["run", "copy", "--set", "lr=fast"], "lr='fast'"),
        (["run", "copy", "--set", "schedule=linear"], "schedule='linear'"),
        (["run", "copy", "--seed", "-1"], "seed=-1"),
        (["run", "copy", "--seed", "one"], "invalid int value: 'one'"),
        (["run", "copy", "--workers", "0"], "workers=0"),
        (["run", "copy", "--scheduler", "tcp://x:1"], "needs --executor dask"),
        (["run", "copy", "--executor", "slurm"], "invalid choice: 'slurm'"),
        (["runn", "copy"], "invalid choice: 'runn'.*did you mean 'run'"),
        (["table", "table7"], "experiment='table7'"),
        (["table", "1", "--profile", "big"], "profile='big'"),
        (["show", "copy"], "no such record; make it with: sab run copy"),
        (["show", "nothing.json"], "nothing.json: no such record"),
        (["export", "copy", "--row", "lstm_T20"], "no such weights.*sab run copy --row lstm_T20"),
        ([], "required: command"),
    ],
)
def test_what_the_user_can_mend(
    arguments: list[str], message: str, folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sab(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("sab: ")
    assert re.search(message, error)
    assert not (folders / "results").exists()


def test_no_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert sab(*ROW, "--device", "cuda") == 2
    assert "device='cuda': this machine has none" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["results", "runs"])
def test_an_unwritable_folder_is_found_before_training(
    name: str, folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folders / name).write_text("in the way")
    monkeypatch.setattr(Trainer, "step", lambda self: pytest.fail("training has started"))
    assert sab(*ROW) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "a file is in the way of a folder" in error
    assert (folders / name).read_text() == "in the way"


def test_a_full_disk_is_found_before_training(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = type("Usage", (), {"free": 2**20})
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: usage)
    monkeypatch.setattr(Trainer, "step", lambda self: pytest.fail("training has started"))
    assert sab(*ROW) == 2
    assert "only 1 MB free" in capsys.readouterr().err


def test_a_disk_that_fills_up_while_a_run_ends(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace = os.replace

    def full(source: Path, target: Path) -> None:
        if str(target).endswith(".json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert sab(*ROW) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "no space left on the disk; free some and give the same command again" in error
    monkeypatch.setattr(Trainer, "step", lambda self: pytest.fail("trained twice"))
    assert sab(*ROW) == 0
    assert records.read(only_record(folders)).metrics["updates"] == 30


def test_a_corrupted_record_stops_the_plan(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sab(*ROW) == 0
    path = only_record(folders)
    path.write_text(path.read_text()[:100])
    for command in (ROW, ["table", "copy"], ["show", "copy"], ["show", str(path)]):
        capsys.readouterr()
        assert sab(*command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and str(path) in error and "restore it from git" in error
    path.unlink()
    assert sab(*ROW) == 0


def test_a_corrupted_checkpoint(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders / "runs" / "copy" / "lstm_T20-smoke-s0"
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").write_bytes(b"nonsense")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", lambda self: pytest.fail("training has started"))
        assert sab(*ROW) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "damaged checkpoint" in error and "--fresh" in error
    assert (folder / "checkpoint.pt").read_bytes() == b"nonsense"
    assert sab(*ROW, "--fresh") == 0


def test_corrupted_weights(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sab.experiments import weights

    assert sab(*ROW) == 0
    path = folders / "runs" / "copy" / "lstm_T20-smoke-s0" / "best.npz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(weights.CheckpointError, match="damaged weights"):
        weights.load_model("copy", "lstm_T20", "smoke")


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(self: Trainer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "step", stop)
    assert sab(*ROW) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_export_keeps_what_can_be_loaded(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sab.experiments import weights

    assert sab("run", "copy", "--row", "sab_5_5_T20", "--profile", "smoke", "--workers", "1") == 0
    arguments = ["--row", "sab_5_5_T20", "--profile", "smoke"]
    assert sab("export", "copy", *arguments) == 0
    assert sab("export", "copy", *arguments, "--update", "0") == 0
    folder = folders / "results" / "checkpoints" / "copy" / "sab_5_5_T20-smoke-s0"
    assert sorted(p.name for p in folder.iterdir()) == ["best.npz", "u000000.npz"]
    shutil.rmtree(folders / "runs")
    model, run = weights.load_model("copy", "sab_5_5_T20", "smoke", update=0)
    fresh = weights.build_model(run)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), fresh.parameters(), strict=True)
    )
    # records are found beside the exported weights
    assert len(records.load("copy")) == 1


def test_json_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert sab("table", "1", "--format", "json") == 0
    lines = json.loads(capsys.readouterr().out)
    cell = next(
        line for line in lines if line["row"] == "lstm_T300" and line["metric"] == "accuracy"
    )
    assert cell["paper"] == 35.9 and cell["ours"] is None
    assert cell["verdict"] == "not run at this scale"
    assert sab("table", "3", "--format", "markdown") == 0
    assert capsys.readouterr().out.startswith("| row | metric | paper |")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m sab.cli list table1 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("Table 1") and done.stderr == ""


def test_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAB_TRACEBACK", "1")
    with pytest.raises(ValueError, match="experiment='coppy'"):
        main(["run", "coppy"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3e-3", 0.003),
        ("none", None),
        ("True", True),
        ("states", "states"),
        ("(0, 5)", (0, 5)),
        ("-1", -1),
        ("k_top+1", "k_top+1"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert value_of(text) == value
