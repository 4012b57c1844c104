"""Tables on logs and patches: equal sizes, one recipe; similar lengths together; whole metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sab.experiments import tables
from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.evaluate import evaluate
from sab.experiments.feed import Finite, buckets, by_length
from sab.experiments.rows import make_run
from sab.experiments.run import Options, execute, plan
from sab.experiments.train import train
from sab.experiments.transfer import numbers, stream
from sab.experiments.weights import build_model
from sab.models.rea import REA
from sab.tasks.calls import CallsTask
from sab.tasks.logs import LogsTask
from tests.interrupted import Stop, fixed, stop_after

SMALL = {"fifth", "bag"}  # meant to be smaller


@pytest.mark.parametrize("name", ["rea_adfa", "rea_hdfs", "rea_anomaly", "rea_patches"])
def test_systems_have_as_many_parameters_and_one_recipe(name: str) -> None:
    item = tables.find(name)
    runs = {row.name: make_run(item, row, "cpu", 0) for row in item.rows}
    count = {
        key: sum(p.numel() for p in build_model(run).parameters())
        for key, run in runs.items()
        if key not in SMALL
    }
    middle = sorted(count.values())[len(count) // 2]
    assert all(abs(n / middle - 1) < 0.12 for n in count.values()), count
    recipes = {(run.train.lr, run.train.clip, run.train.schedule) for run in runs.values()}
    assert recipes <= {(3e-3, 1.0, "cosine"), (3e-2, 1.0, "cosine")}
    if "fifth" in runs:
        small = sum(p.numel() for p in build_model(runs["fifth"]).parameters())
        assert small <= count["bilstm"] / 5


def test_only_one_row_reads_whole_traces() -> None:
    runs = [
        make_run(tables.find("rea_adfa"), row, "cpu", 0) for row in tables.find("rea_adfa").rows
    ]
    longest = {run.row: run.resolved()["task_config"]["longest"] for run in runs}
    assert longest.pop("rea_whole") == 4494 and set(longest.values()) == {2048}


def test_anomaly_models_do_not_look_ahead() -> None:
    for row in tables.find("rea_anomaly").rows:
        assert row.model == "lstm" or row.model_config["causal"]


@pytest.mark.parametrize(("count", "size"), [(100, 8), (7, 16), (64, 16), (129, 16)])
def test_an_epoch_has_every_sequence_once_among_its_like(count: int, size: int) -> None:
    lengths = torch.randint(1, 500, (count,), generator=torch.Generator().manual_seed(count))
    epochs = [buckets(lengths, size, 3, epoch) for epoch in range(2)]
    for batches in epochs:
        assert torch.equal(torch.cat(batches).sort().values, torch.arange(count))
        assert len(batches) == -(-count // size) and max(map(len, batches)) == min(size, count)
    if count > size:
        assert [b.tolist() for b in epochs[0]] != [b.tolist() for b in epochs[1]]
    again = buckets(lengths, size, 3, 1)
    assert [b.tolist() for b in again] == [b.tolist() for b in epochs[1]]


def test_batches_of_similar_lengths_are_little_padded() -> None:
    lengths = torch.randint(20, 2000, (512,), generator=torch.Generator().manual_seed(1))
    steps = sum(len(b) * int(lengths[b].max()) for b in buckets(lengths, 16, 0, 0))
    plain = sum(len(b) * int(lengths[b].max()) for b in torch.arange(512).split(16))
    assert steps < 1.2 * int(lengths.sum()) < 1.6 * int(lengths.sum()) < plain


def test_evaluation_has_every_sequence_once_within_bounds() -> None:
    lengths = torch.tensor([5, 100, 3, 80, 7, 60, 2, 300])
    batches = by_length(lengths, most=3, steps=160)
    assert torch.equal(torch.cat(batches).sort().values, torch.arange(8))
    assert [lengths[b].tolist() for b in batches] == [[2, 3, 5], [7, 60], [80], [100], [300]]
    assert [len(b) for b in by_length(torch.ones(5, dtype=torch.int64), most=2)] == [2, 2, 1]


def run(**train_settings: object) -> RunConfig:
    settings = {"updates": 30, "batch_size": 16, "eval_every": 15, "checkpoint_every": 10}
    return RunConfig(
        "try", "x", "logs", "bag", {"source": "made"},
        train=TrainConfig(**{**settings, "solved_at": None, "lr": 0.1, **train_settings}),  # type: ignore[arg-type]
    )  # fmt: skip


def test_areas_are_of_the_whole_part_and_not_of_batches() -> None:
    task = LogsTask("made")
    model = build_model(run())
    found = evaluate(model, task, Finite(task, run()).test(), torch.device("cpu"))[0]
    batch = task.take("test", torch.arange(task.sequences("test")))
    outputs = model(batch.x)[0]
    want = task.metrics(outputs, batch.y) | task.overall(task.scored(outputs, batch.y))
    assert found == pytest.approx(want)


def test_a_bag_cannot_tell_made_attacks_and_a_resumed_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack has the same events in another order."""
    record = train(run(), tmp_path / "a", progress="none")
    assert 0.3 < record.metrics["roc_auc"] < 0.75
    assert record.metrics["step_seconds"] > 0 and "made" in record.config["data"]
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 17)
        train(run(), tmp_path / "b", progress="none")
    assert fixed(train(run(), tmp_path / "b", progress="none")) == fixed(record)


def test_histories_are_streamed_in_constant_memory(tmp_path: Path) -> None:
    options = Options(tmp_path / "results", tmp_path / "runs", "cpu", "none")
    held = {}
    for name in ("rea", "lstm", "sab", "full"):
        (source,) = plan("rea_calls", "smoke", [name], [0])
        (test,) = plan("rea_stream", "smoke", [name], [0])
        execute(source, options)
        metrics = execute(test, options).metrics
        held[name] = [metrics.get(f"held_T{length}") for length in (10, 20, 40)]
        assert all(0 <= metrics[f"accuracy_T{length}"] <= 1 for length in (10, 20, 40))
    # two layers: keys and values of a window of 8 and the step itself, and a state, of width 16
    assert held["rea"] == [2 * (2 * 9 * 16 + 16)] * 3
    assert held["lstm"] == [2 * 16] * 3
    grown = [value or 0.0 for value in held["sab"]]
    assert 0 < grown[0] < grown[1] < grown[2]
    assert held["full"] == [None] * 3  # it carries nothing: it is given the whole history


def test_streaming_is_the_batch_form() -> None:
    (source,) = plan("rea_calls", "smoke", ["rea"], [0])
    model = build_model(source).eval()
    assert isinstance(model, REA)
    x, _ = CallsTask(T=30).batch(2, torch.Generator().manual_seed(0))
    whole = model(x)[0]
    torch.testing.assert_close(stream(model.stream, x, 30, 7), whole, atol=1e-5, rtol=0)
    first, state = model.stream(x[:, :11])
    second, _ = model.stream(x[:, 11:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-5, rtol=0)
    assert numbers(state) == 2 * 2 * (2 * 9 * 16 + 16)
    with pytest.raises(ValueError, match="x has shape"):
        model.stream(x[0])
