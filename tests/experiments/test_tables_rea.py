"""Part III's tables: equal sizes, equal recipes, the source's recipe where it says so."""

from __future__ import annotations

import math

import pytest

from sab.experiments import claims, tables
from sab.experiments.rows import expand, make_run, seeds_of
from sab.experiments.weights import build_model
from sab.tasks import registry as tasks


@pytest.mark.parametrize("name", ["rea_quick", "rea_table", "rea_table_1024"])
def test_systems_of_a_table_have_as_many_parameters(name: str) -> None:
    item = tables.find(name)
    runs = {
        row.name: make_run(item, row, "cpu", 0)
        for row in item.rows
        if not row.name.startswith("gru")  # three matrices where the average has a vector
    }
    count = {
        key: sum(p.numel() for p in build_model(run).parameters()) for key, run in runs.items()
    }
    middle = sorted(count.values())[len(count) // 2]
    assert all(abs(n / middle - 1) < 0.08 for n in count.values()), count
    assert len({run.train for run in runs.values()}) == 1
    assert len({str(run.task_config) for run in runs.values()}) == 1


def test_every_length_has_the_source_s_base_rate() -> None:
    varied = ("rea_alpha", "rea_window", "rea_depth")
    for name in ("rea_quick", "rea_table", "rea_table_1024", *varied):
        for row in tables.find(name).rows:
            task = tasks.build("events", row.task_config)
            assert task.baselines()["accuracy"] == pytest.approx(0.723, abs=0.01), row.name
    base = tables.find("rea_ablation").row("base").task_config
    assert tables.find("rea_window").rows[0].task_config == base
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
    for row in ("padded", "padded_unseen"):  # as in the source: padding behind the log, read there
        task = tasks.build("events", item.row(row).task_config)
        assert task.side == "right" and task.read_at == "row_end"  # type: ignore[attr-defined]


def test_two_cores_run_what_a_claim_or_a_chapter_reads() -> None:
    assert expand(tables.find("rea_table"), "cpu") == []
    assert len(expand(tables.find("rea_table"), "paper")) == 5 * len(tables.find("rea_table").rows)
    item = tables.find("rea_table_1024")
    runs = expand(item, "cpu")
    means = {f"{key}_mean" for key in ("full", "window", "rea", "rea_slow", "gru")}
    assert {run.row for run in runs} == means | {"full_last", "rea_slow_last"}
    assert [run.train.updates for run in runs if run.row == "gru_mean"] == [100]
    assert seeds_of(item.row("gru_mean"), "paper") == 5
    assert make_run(item, item.row("gru_mean"), "paper", 0).train.updates == 2000
    assert [run.row for run in expand(item, "cpu", ["window_last"])] == ["window_last"]


def test_every_cure_runs_at_the_rate_that_needs_one() -> None:
    runs = {row.name: make_run(tables.find("rea_depth"), row, "cpu", 0) for row in
            tables.find("rea_depth").rows}  # fmt: skip
    gentle = runs.pop("written_lr2")
    assert gentle.train.lr == 1e-2 and {run.train.lr for run in runs.values()} == {3e-2}
    assert gentle.model_config == runs["written"].model_config
    assert {run.train.solved_at for run in runs.values()} == {None}
    assert all(seeds_of(row, "cpu") == 3 for row in tables.find("rea_depth").rows)


def test_claims_about_these_tables_have_runs() -> None:
    ours = [claim for claim in claims.load() if claim.source.startswith("REA")]
    for claim in ours:
        for reference in claim.references():
            experiment, _, row = reference.partition("/")
            if experiment == "bench":
                continue
            assert seeds_of(tables.find(experiment).row(row), "cpu") > 0, claim.id
    found = {claim.id: claim for claim in ours}
    for name, ratio in {"rea-full-memory": 7.6 / 4.8, "rea-rea-memory": 5.1 / 7.6}.items():
        claim = found[name]
        assert claim.metric == "kept_mb" and claim.log and claim.kind == "difference"
        assert claim.value == pytest.approx(math.log10(ratio), abs=5e-4)


def test_models_beside_sab_do_not_look_ahead() -> None:
    for name in ("rea_copy", "rea_adding"):
        for row in tables.find(name).rows:
            assert row.model == "sab" or row.model_config["causal"]
