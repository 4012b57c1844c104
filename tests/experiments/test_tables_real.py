"""The tables on real data: the paper's settings, what the profiles make of them, their printing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sab.cli import main
from sab.experiments import run, tables
from sab.experiments.config import RunConfig
from sab.experiments.records import Record, write
from sab.experiments.report import table
from sab.experiments.rows import make_run
from sab.experiments.tables_clipping import CLIPPINGS
from sab.experiments.tables_real import (
    BOOKS,
    CIFAR10,
    COLOURS,
    MNIST,
    NUMBERS,
    PTB,
    REAL,
    TEXT8,
)
from sab.tasks import build
from sab.tasks.pictures import VALID
from sab.tasks.text import MADE

PMNIST = {"source": "mnist", "order": "permuted"}
PIXELS = {"source": "cifar10", "order": "pixel"}


def planned(experiment: str, row: str, profile: str = "paper") -> RunConfig:
    item = tables.find(experiment)
    return make_run(item, item.row(row), profile, 0)


@pytest.mark.parametrize(
    ("experiment", "row", "task", "units", "lr", "batch", "epochs", "sequences"),
    [
        ("table2_ptb", "sab_20_10_20", {"corpus": "ptb", "T": 100}, 1000, 2e-3, 32, 100, PTB),
        ("table2_text8", "sab_10_5_10", {"corpus": "text8", "T": 180}, 1000, 2e-3, 64, 30, TEXT8),
        ("table4_pmnist", "lstm", PMNIST, 128, 1e-3, 64, 100, MNIST),
        ("table4_cifar10", "lstm", PIXELS, 128, 1e-3, 64, 100, CIFAR10),
    ],
)  # fmt: skip
def test_the_paper_s_settings(
    experiment: str,
    row: str,
    task: dict,
    units: int,
    lr: float,
    batch: int,
    epochs: int,
    sequences: int,
) -> None:
    one = planned(experiment, row)
    assert one.task_config == task
    assert one.resolved()["model_config"]["hidden_size"] == units
    assert (one.train.lr, one.train.batch_size) == (lr, batch)
    assert one.train.updates == epochs * -(-sequences // batch)
    assert one.train.patience is not None and one.train.schedule == "constant"


def test_sab_rows_are_named_by_their_numbers() -> None:
    count = 0
    for item in (*REAL, *CLIPPINGS):
        for row in item.rows:
            found = re.match(r"sab_(\d+)_(\d+)_(\d+)", row.name)
            if found:
                numbers = tuple(row.model_config[n] for n in ("k_trunc", "k_top", "k_att"))
                assert numbers == tuple(map(int, found.groups()))
                assert row.model_config["block_offset"] == int("offset0" not in row.name)
                count += 1
            found = re.match(r"(attentive_)?tbptt_(\d+)", row.name)
            if found:
                assert row.model_config["k_trunc"] == int(found[2])
    assert count > 15


@pytest.mark.parametrize("profile", ["cpu", "paper"])
def test_rows_of_a_table_share_all_but_the_model(profile: str) -> None:
    for item in (*REAL, *CLIPPINGS):
        if item.name.startswith("search"):
            continue  # a search varies the training on purpose
        runs = [make_run(item, row, profile, 0) for row in item.rows]
        for one in runs:
            if one.row.endswith("_carried"):
                assert one.task_config["carry"]
                continue
            if one.model == "transformer":
                continue
            same = {**one.resolved()["train"], "clip": 1.0}
            first = {**runs[0].resolved()["train"], "clip": 1.0}
            assert same == first and one.task_config == runs[0].task_config
            assert (one.train.clip is None) == one.row.endswith("_noclip")
            mine, theirs = (r.resolved()["model_config"]["hidden_size"] for r in (one, runs[0]))
            assert mine == theirs


def test_clipping_is_all_that_differs() -> None:
    for item in CLIPPINGS:
        for profile in ("cpu", "paper"):
            runs = {row.name: make_run(item, row, profile, 0) for row in item.rows}
            for model in ("lstm", "sab"):
                clipped, free = (runs[f"{model}_{kind}"].resolved() for kind in ("clip", "noclip"))
                assert (clipped["train"].pop("clip"), free["train"].pop("clip")) == (1.0, None)
                assert {**clipped, "row": ""} == {**free, "row": ""}
        short = make_run(item, item.row("sab_clip"), "cpu", 0)
        assert short.resolved()["model_config"]["hidden_size"] == 128
        assert short.train.updates <= 800  # a few minutes


def test_smoke_needs_no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAB_DATA", str(tmp_path))
    for item in (*REAL, *CLIPPINGS):
        for row in item.rows:
            one = make_run(item, row, "smoke", 0)
            if one.task == "charlm":
                assert one.task_config["corpus"] in MADE
            else:
                assert one.task_config["source"] == "digits"
            assert one.train.updates == 30


def test_sizes_that_a_plan_takes_for_granted() -> None:
    numbers: Any = build("charlm", {"corpus": "numbers", "T": 100})
    assert numbers.sequences("train") == NUMBERS
    colours: Any = build("charlm", {"corpus": "colours", "T": 50})
    assert (colours.sequences("train"), colours.output_size) == (COLOURS, 24)
    # characters of the training parts; PTB's is 5,017,483 with the line end before the first
    assert PTB == -(-5_017_482 // 100) and TEXT8 == 90_000_000 // 180
    assert BOOKS == -(-18_797_643 // 180)
    assert (60_000 - VALID["mnist"], 50_000 - VALID["cifar10"]) == (MNIST, CIFAR10)


def test_a_table_of_the_paper_can_have_parts(capsys: pytest.CaptureFixture[str]) -> None:
    names = [item.name for item in tables.find_all("2")]
    assert names == ["table2_adding", "table2_ptb", "table2_text8"]
    with pytest.raises(ValueError, match="experiment='2': has several parts; say which of table2"):
        tables.find("2")
    assert tables.find("table2_lm").name == "table2_ptb"
    assert main(["table", "2"]) == 0
    text = capsys.readouterr().out
    assert all(f"({name})" in text for name in names)
    assert main(["table", "4", "--format", "json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {line["paper"] for line in lines} >= {
        90.3,
        89.8,
        90.9,
        94.2,
        97.9,
        58.3,
        51.3,
        64.5,
        62.2,
    }


# Every cell the source gives, by table: experiment/row → the paper's number.
CELLS = {
    "2": {
        "table2_ptb": {
            "lstm": 1.36, "tbptt_5": 1.44, "tbptt_20": 1.40, "sab_10_5_10": 1.42,
            "sab_10_10_10": 1.40, "sab_20_5_20": 1.39, "sab_20_10_20": 1.37,
        },
        "table2_text8": {
            "lstm": 1.42, "tbptt_5": 1.56, "sab_10_5_10": 1.47, "sab_10_10_10": 1.45,
            "sab_20_5_20": 1.45, "sab_20_10_20": 1.44,
        },
    },
    "4": {
        "table4_pmnist": {
            "lstm": 90.3, "sab_20_5_20": 89.8, "sab_20_10_20": 90.9, "sab_50_10_50": 94.2,
            "transformer": 97.9,
        },
        "table4_cifar10": {
            "lstm": 58.3, "tbptt_300": 51.3, "sab_16_10_16": 64.5, "transformer": 62.2,
        },
    },
    "6": {"table6": {"attentive_tbptt_10": 1.48, "sab_10_10_10": 1.44}},
}  # fmt: skip


@pytest.mark.parametrize("number", list(CELLS))
def test_every_cell_of_the_source_has_a_verdict(
    number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {item.name for item in tables.find_all(number)}
    assert names >= set(CELLS[number])
    for name, cells in CELLS[number].items():
        lines = table(tables.find(name), None, tmp_path)
        assert {line.row: line.paper for line in lines if line.paper is not None} == cells
        for line in lines:
            assert line.verdict == ("" if line.paper is None else "not run at this scale")
    assert main(["table", number, "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for cells in CELLS[number].values():
        for value in cells.values():
            assert f"{value:g}" in text
    assert text.count("not run at this scale") >= sum(map(len, CELLS[number].values()))


@pytest.mark.parametrize(
    ("profile", "verdict"), [("cpu", "not run at this scale"), ("paper", "reproduced")]
)
def test_a_cell_needs_the_paper_s_scale(tmp_path: Path, profile: str, verdict: str) -> None:
    record = Record(
        experiment="table2_ptb",
        row="lstm",
        config={},
        seed=0,
        profile=profile,
        metrics={"bpc": 1.37},
        history=[],
        machine={},
        seconds=1.0,
        peak_mb=1.0,
    )
    write(record, tmp_path)
    line = next(
        line for line in table(tables.find("table2_ptb"), None, tmp_path) if line.row == "lstm"
    )
    assert (line.ours, line.paper, line.verdict) == (1.37, 1.36, verdict)


def test_a_reader_s_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("SAB_RUNS", str(tmp_path / "runs"))
    path = tmp_path / "My own text.txt"
    path.write_text("a rose is a rose is a rose\n" * 60, encoding="utf-8")
    command = ["run", "text", "--row", "lstm", "--profile", "smoke", "--workers", "1"]
    assert main([*command, "--progress", "none", "--text", str(path)]) == 0
    (found,) = (tmp_path / "results" / "text").glob("*.json")
    assert found.name == "lstm+text=My-own-text-smoke-s0.json"
    record = json.loads(found.read_text())
    assert record["config"]["data"].startswith("My own text.txt, 1,620 characters, SHA-256")
    path.write_text("")
    capsys.readouterr()
    assert main([*command, "--force", "--text", str(path)]) == 2
    error = capsys.readouterr().err
    assert "empty; needs at least 1,000" in error and len(error.splitlines()) == 1
    path.write_bytes(b"caf\xe9 " * 300)
    assert main([*command, "--force", "--text", str(path)]) == 2
    error = capsys.readouterr().err
    assert "not UTF-8" in error and len(error.splitlines()) == 1
    with pytest.raises(ValueError, match="copy reads no text; take sab run text"):
        run.plan("copy", "smoke", None, None, None, str(path))


def test_missing_data_is_said_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAB_DATA", str(tmp_path))
    monkeypatch.setenv("SAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("SAB_RUNS", str(tmp_path / "runs"))
    assert main(["run", "table6_books", "--row", "lstm", "--workers", "1"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "se5_text8like.txt of books: cannot be fetched" in error and "by hand" in error
