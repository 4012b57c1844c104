"""The transfer experiments beyond Table 5: what they test, and on which models."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from sab.experiments import records, tables
from sab.experiments.config import TransferConfig
from sab.experiments.rows import expand, make_run
from sab.experiments.run import Options, execute, plan
from sab.experiments.weights import export, find_weights


def test_long_rows_are_table5_s_model_further_out() -> None:
    table5 = make_run(tables.find("5"), tables.find("5").row("sab"), "cpu", 0)
    runs = expand(tables.find("transfer_long"), "cpu", seeds=[0])
    assert table5.transfer is not None
    lengths = []
    for run in runs:
        assert run.transfer is not None
        assert (run.model, run.model_config) == (table5.model, table5.model_config)
        assert (run.transfer.experiment, run.transfer.row) == ("table1", "sab_5_5_T100")
        assert run.transfer.chunk == table5.transfer.chunk
        assert run.transfer.sequences_beyond >= 8
        assert run.row == f"sab_T{run.transfer.lengths[0]}"
        lengths += list(run.transfer.lengths)
    assert lengths == sorted(lengths) and lengths[-1] == 100_000
    assert min(lengths) > max(table5.transfer.lengths)
    assert all(length % 2 == 0 for length in lengths), "k_att = 2: the phase of training"


def test_short_row_has_the_paper_s_lengths() -> None:
    (run,) = expand(tables.find("transfer_short"), "cpu", seeds=[0])
    assert run.transfer is not None and run.task_config["T"] == 20
    assert {100, 200, 300, 400, 2000, 5000} <= set(run.transfer.lengths)
    source = tables.find(run.transfer.experiment).row(run.transfer.row)
    assert source.model_config == run.model_config and source.task_config["T"] == 20


@pytest.mark.parametrize("experiment", ["transfer_long", "transfer_short", "bounded"])
def test_a_smoke_run_from_training_to_record(tmp_path: Path, experiment: str) -> None:
    options = Options(tmp_path / "results", tmp_path / "runs", "cpu", "none")
    test = plan(experiment, "smoke", seeds=[0])[0]
    assert test.transfer is not None
    source = plan(test.transfer.experiment, "smoke", [test.transfer.row], [0])[0]
    with pytest.raises(FileNotFoundError, match=r"sab run .* --row"):
        execute(test, options)
    execute(source, options)
    record = execute(test, options)
    assert record == records.read(options.results / experiment / f"{test.name}.json")
    for length in test.transfer.lengths:
        assert 0 <= record.metrics[f"accuracy_T{length}"] <= 1
        assert record.metrics[f"sequences_T{length}"] == 32

    # committed weights stand in for those of the run
    chosen = (test.transfer.experiment, test.transfer.row, "smoke", 0)
    export(*chosen, [None], options.runs, options.results)
    elsewhere = find_weights(*chosen, None, tmp_path / "nothing", options.results)
    assert elsewhere.is_relative_to(options.results / "checkpoints")
    again = execute(test, Options(options.results, tmp_path / "nothing", "cpu", "none"))
    timeless = {k: v for k, v in record.metrics.items() if not k.startswith("seconds")}
    assert {k: again.metrics[k] for k in timeless} == timeless


def test_a_bounded_row_is_table5_s_model_with_fewer_memories() -> None:
    table5 = make_run(tables.find("5"), tables.find("5").row("sab"), "cpu", 0)
    runs = expand(tables.find("bounded"), "cpu", seeds=[0])
    assert table5.transfer is not None
    kinds = set()
    for run in runs:
        assert run.transfer is not None and run.transfer.capacity is not None
        assert (run.model_config, run.task_config) == (table5.model_config, table5.task_config)
        assert run.transfer.row == table5.transfer.row
        kinds.add((run.transfer.policy, run.transfer.capacity))
    assert len(kinds) == len(runs) == 5


def test_only_a_sab_has_a_memory_to_bound(tmp_path: Path) -> None:
    options = Options(tmp_path / "results", tmp_path / "runs", "cpu", "none")
    lstm = plan("table5", "smoke", ["lstm"], [0])[0]
    assert lstm.transfer is not None
    execute(plan("table1", "smoke", [lstm.transfer.row], [0])[0], options)
    bounded = dataclasses.replace(lstm, transfer=dataclasses.replace(lstm.transfer, capacity=16))
    with pytest.raises(ValueError, match="capacity=16: only a SAB"):
        execute(bounded, options)


@pytest.mark.parametrize(
    ("changed", "message"), [({"capacity": 0}, "capacity=0"), ({"policy": "x"}, "policy='x'")]
)
def test_a_bound_is_checked(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransferConfig("table1", "sab_5_5_T100", **changed)
