"""Part III's tables: equal sizes, equal recipes, the source's recipe where it says so."""

from __future__ import annotations

import pytest

from sab.experiments import tables
from sab.experiments.rows import make_run
from sab.experiments.weights import build_model
from sab.tasks import registry as tasks


@pytest.mark.parametrize("name", ["rea_quick", "rea_table", "rea_table_1024"])
def test_systems_of_a_table_have_as_many_parameters(name: str) -> None:
    item = tables.find(name)
    runs = {row.name: make_run(item, row, "cpu", 0) for row in item.rows}
    count = {
        key: sum(p.numel() for p in build_model(run).parameters())
        for key, run in runs.items()
        if not key.startswith("gru")  # a GRU has three matrices where the average has a vector
    }
    middle = sorted(count.values())[len(count) // 2]
    assert all(abs(n / middle - 1) < 0.08 for n in count.values()), count
    assert len({run.train for run in runs.values()}) == 1
    assert len({str(run.task_config) for run in runs.values()}) == 1


def test_every_length_has_the_source_s_base_rate() -> None:
    for name in ("rea_quick", "rea_table", "rea_table_1024", "rea_alpha"):
        for row in tables.find(name).rows:
            task = tasks.build("events", row.task_config)
            assert task.baselines()["accuracy"] == pytest.approx(0.723, abs=0.01), row.name
    source = tasks.build("events", tables.find("rea_table_1024").rows[0].task_config)
    assert source == tasks.build("events")


def test_the_ablation_turns_one_switch_at_a_time() -> None:
    item = tables.find("rea_ablation")
    base = make_run(item, item.row("base"), "cpu", 0).resolved()
    changed = {
        row.name: {
            key: value
            for key, value in make_run(item, row, "cpu", 0).resolved()["model_config"].items()
            if value != base["model_config"][key]
        }
        for row in item.rows
    }
    assert changed["base"] == {}
    assert changed["gate_half"] == {"gate_start": 0.5}
    assert changed["no_norm"] == {"state_norm": False}
    assert changed["gru"] == {"state": "gru"}
    assert changed["listing"] == {"layer": "listing", "norm": False}
    assert changed["padded_unseen"] == {} and changed["padded"] == {"padding": "zero_rows"}


def test_models_beside_sab_do_not_look_ahead() -> None:
    for name in ("rea_copy", "rea_adding"):
        for row in tables.find(name).rows:
            assert row.model == "sab" or row.model_config["causal"]
