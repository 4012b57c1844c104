"""The discrepancy register: its switches exist, its effects come from records."""

from dataclasses import asdict
from pathlib import Path

import pytest

from sab.experiments import records
from sab.experiments.tables import EXPERIMENTS
from sab.models.sab import SABConfig
from sab.tasks.registry import TASKS
from tools.paper_map import read
from tools.register import NOT_YET, PRESETS, discrepancies, effect_of, measured, presets

ENTRIES = read("discrepancies")
MEASURED = [entry for entry in ENTRIES if "measure" in entry]
SWITCHED = [entry for entry in ENTRIES if "switch" in entry]


def name_of(entry: dict) -> str:
    return entry["id"]


def test_numbered_without_gaps() -> None:
    assert [entry["id"] for entry in ENTRIES] == [f"D{i}" for i in range(1, len(ENTRIES) + 1)]
    assert len(ENTRIES) >= 15


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_says_something_of_its_effect(entry: dict) -> None:
    assert any(key in entry for key in ("measure", "bound", "note"))
    assert {"id", "topic", "paper", "released"} <= set(entry)


@pytest.mark.parametrize("entry", SWITCHED, ids=name_of)
def test_switch_has_the_stated_values(entry: dict) -> None:
    switch = dict(entry["switch"])
    option = switch.pop("option")
    assert switch == {name: getattr(config, option) for name, config in PRESETS.items()}
    assert len(set(switch.values())) > 1, "a switch that no preset turns"


@pytest.mark.parametrize("entry", MEASURED, ids=name_of)
def test_measuring_rows_exist(entry: dict) -> None:
    measure = entry["measure"]
    experiment = EXPERIMENTS[measure["experiment"]]
    row, base = experiment.row(measure["row"]), experiment.row(measure["against"])
    assert row != base
    metrics = TASKS[experiment.task]().baselines()
    assert measure["metric"] in metrics
    if "switch" in entry:
        option = entry["switch"]["option"]
        mine = {**asdict(SABConfig()), **row.model_config}[option]
        theirs = {**asdict(SABConfig()), **base.model_config}[option]
        assert mine != theirs, "the row does not turn this switch"


def test_bound_of_d12() -> None:
    entry = next(entry for entry in ENTRIES if entry["id"] == "D12")
    assert "0.444" in effect_of(entry)
    assert entry["bound"]["ce10"] < 0.444


def write(results: Path, row: str, profile: str, seed: int, accuracy: float) -> None:
    records.write(
        records.Record(
            experiment="learns",
            row=row,
            config={},
            seed=seed,
            profile=profile,
            metrics={"accuracy": accuracy},
            history=[],
            machine={},
            seconds=1.0,
            peak_mb=1.0,
        ),
        results,
    )


def test_effect_comes_from_records(tmp_path: Path) -> None:
    measure = MEASURED[0]["measure"]
    assert measured(measure, tmp_path) == NOT_YET
    for seed, value in enumerate((0.25, 0.35)):
        write(tmp_path, measure["row"], "cpu", seed, value)
    assert measured(measure, tmp_path) == NOT_YET, "nothing to compare with yet"
    write(tmp_path, measure["against"], "smoke", 0, 0.1)
    assert measured(measure, tmp_path) == NOT_YET, "smoke runs never count"
    write(tmp_path, measure["against"], "cpu", 0, 0.875)
    said = measured(measure, tmp_path)
    assert "30.0" in said and "2 seeds" in said and "87.5 % (1 seed)" in said


def test_pages_show_every_entry_and_option() -> None:
    page = discrepancies()
    assert all(f"### {entry['id']}: {entry['topic']}" in page for entry in ENTRIES)
    table = presets()
    for entry in SWITCHED:
        assert f"`{entry['switch']['option']}`" in table
