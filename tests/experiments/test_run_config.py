import json
import math
from typing import Any

import pytest

from sab.experiments.config import RunConfig, TrainConfig, TransferConfig, model_settings, set_field


def run_of(**changes: Any) -> RunConfig:
    return RunConfig(**{"experiment": "e", "row": "r", "task": "copy", "model": "lstm", **changes})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("updates", 0),
        ("updates", 1.5),
        ("updates", True),
        ("batch_size", 0),
        ("lr", 0.0),
        ("lr", math.nan),
        ("clip", -1.0),
        ("schedule", "linear"),
        ("lr_factor", 2.0),
        ("solved_at", "high"),
        ("patience", 0),
        ("eval_every", 0),
        ("drop_at", (0.9, 0.5)),
        ("drop_at", (1.5,)),
        ("snapshots", (0, 6000)),
        ("snapshots", 3),
        ("log_every", 0),
    ],
)
def test_bad_training_settings_are_named(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{setting}="):
        TrainConfig(**{setting: value})


def test_schedules() -> None:
    constant = TrainConfig(updates=100, lr=1.0)
    assert constant.lr_at(1) == constant.lr_at(100, drops=3) == 1.0
    step = TrainConfig(updates=100, lr=1.0, schedule="step", drop_at=(0.5, 0.8), lr_factor=0.1)
    assert [step.lr_at(u) for u in (1, 50, 51, 80, 81, 100)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )
    cosine = TrainConfig(updates=100, lr=1.0, schedule="cosine", lr_factor=0.1)
    assert cosine.lr_at(1) == pytest.approx(1.0)
    assert cosine.lr_at(51) == pytest.approx(0.55)
    rates = [cosine.lr_at(u) for u in range(1, 101)]
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0.1
    plateau = TrainConfig(lr=1.0, schedule="plateau")
    assert [plateau.lr_at(9, drops=d) for d in (0, 1, 2)] == pytest.approx([1, 0.1, 0.01])


def test_streams_are_disjoint_and_fixed() -> None:
    names = ("init", "train", "valid", "test")
    seeds = [run_of(seed=seed).stream(name) for seed in range(50) for name in names]
    assert len(set(seeds)) == 200
    # a change here would silently change every run
    assert run_of(seed=0).stream("train") == 3605818860


def test_resolved_fills_everything_in_and_comes_back() -> None:
    run = run_of(
        task_config={"T": 7},
        model_config={"k_trunc": 5},
        train=TrainConfig(updates=10, snapshots=(0, 5)),
        seed=4,
    )
    plain = run.resolved()
    assert plain["task_config"] == {"T": 7, "symbols": 8, "length": 10, "encoding": "onehot"}
    assert plain["model_config"]["k_trunc"] == 5
    assert plain["model_config"]["input_size"] == plain["model_config"]["output_size"] == 10
    again = RunConfig.from_dict(json.loads(json.dumps(plain)))
    assert again.resolved() == plain
    assert again.train == run.train


def test_sizes_follow_the_task() -> None:
    adding = run_of(task="adding", train=TrainConfig(solved_at=None))
    assert model_settings(adding).input_size == 2
    assert model_settings(adding).output_size == 1
    assert model_settings(run_of(task_config={"encoding": "scalar"})).input_size == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "lstn"}, "did you mean 'lstm'"),
        ({"task": "adin"}, "did you mean 'adding'"),
        ({"profile": "fast"}, "profile='fast'"),
        ({"row": "a/b"}, "row='a/b'"),
        ({"seed": -1}, "seed=-1"),
        ({"model_config": {"k_trun": 3}}, "did you mean 'k_trunc'"),
        ({"model": "sab", "model_config": {"k_top": 0}}, "k_top=0"),
        ({"task_config": {"T": 0}}, "T=0"),
        ({"train": TrainConfig(solved_at=0.1)}, "solved_at=0.1"),
        ({"task": "adding"}, "solved_at=0.999"),
    ],
)
def test_bad_runs_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_of(**changes)


def test_a_config_that_is_no_run() -> None:
    plain = run_of().resolved()
    del plain["train"]
    with pytest.raises(ValueError, match="does not describe a run"):
        RunConfig.from_dict(plain)


def test_set_field_finds_its_owner() -> None:
    run = run_of(model="sab")
    assert set_field(run, "k_top", 3).model_config == {"k_top": 3}
    assert set_field(run, "T", 7).task_config == {"T": 7}
    assert set_field(run, "train.lr", 0.5).train.lr == 0.5
    with pytest.raises(KeyError):
        set_field(run, "task.lr", 0.5)
    with pytest.raises(KeyError):
        set_field(run, "nonsense", 0.5)
    with pytest.raises(ValueError, match="lr='x'"):
        set_field(run, "lr", "x")
    test = run_of(transfer=TransferConfig("table1", "lstm_T100"))
    assert set_field(test, "sequences", 8).transfer.sequences == 8  # type: ignore[union-attr]


def test_bad_transfer_settings() -> None:
    with pytest.raises(ValueError, match="sequences=0"):
        TransferConfig("a", "b", sequences=0)
    with pytest.raises(ValueError, match="lengths=0"):
        TransferConfig("a", "b", lengths=(100, 0))
