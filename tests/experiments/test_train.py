import errno
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sab.experiments import records, weights
from sab.experiments import train as engine
from sab.experiments.config import RunConfig
from sab.experiments.progression import GIVE_UP, Norms
from sab.experiments.train import Trainer, train
from tests.interrupted import Stop, fixed, stop_after

Small = Callable[..., RunConfig]


@pytest.mark.parametrize("model", ["lstm", "sab"])
def test_it_learns_the_easiest_copy(small: Small, tmp_path: Path, model: str) -> None:
    run = small(
        model=model,
        model_config={"hidden_size": 32},
        task_config={"T": 1, "length": 1, "symbols": 3},
        train={"updates": 300, "lr": 1e-2, "clip": 1.0, "eval_every": 25, "solved_at": 0.99},
    )
    record = train(run, tmp_path, progress="none")
    assert record.metrics["accuracy"] > 0.95
    assert record.status == "solved"
    assert record.metrics["updates"] < 300
    assert [e["accuracy"] >= 0.99 for e in record.history[-3:]] == [True] * 3
    assert record.metrics["solved_update"] == record.history[-1]["update"]


def test_the_record_describes_the_run(small: Small, tmp_path: Path) -> None:
    run = small(seed=3)
    record = train(run, tmp_path, progress="none")
    assert records.read(records.write(record, tmp_path / "results")) == record
    assert record.config == run.resolved()
    assert [e["update"] for e in record.history] == [0, 6, 12, 18, 24]
    first, *others = record.history
    assert first["loss"] is None and first["grad_norm"] is None
    for entry in others:
        assert 0 < entry["grad_norm"] <= entry["grad_norm_max"]
        assert entry["loss"] > 0 and len(entry["positions"]) == 3
    assert record.metrics["grad_norm_max"] == max(e["grad_norm_max"] for e in others)
    assert record.metrics["test_sequences"] == 16
    best = max(record.history, key=lambda e: e["accuracy"])
    assert record.metrics["held_out_accuracy"] == best["accuracy"]
    assert record.metrics["best_update"] == best["update"]
    places = [record.metrics[f"accuracy_p{i}"] for i in (1, 2, 3)]
    assert sum(places) / 3 == pytest.approx(record.metrics["accuracy"], abs=1e-4)


def test_seeds_decide(small: Small, tmp_path: Path) -> None:
    first, second, other = (
        fixed(train(small(seed=seed), tmp_path / name, progress="none"))
        for seed, name in ((1, "a"), (1, "b"), (2, "c"))
    )
    assert first == second
    assert first[1] != other[1]


@pytest.mark.parametrize("model", ["lstm", "sab", "rea"])
def test_what_is_kept_for_backward_grows_with_the_batch_and_disturbs_nothing(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    one, two = (
        train(small(model=model, train={"batch_size": size}), tmp_path / str(size), progress="none")
        for size in (8, 16)
    )
    assert 1.5 < two.metrics["kept_mb"] / one.metrics["kept_mb"] < 2.1  # the weights don't grow
    trainer = Trainer(small(model=model), tmp_path / "c", torch.device("cpu"))
    drawn = trainer.feed.state().clone()
    state = torch.random.get_rng_state()
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    assert engine.kept_mb(trainer.model, trainer.task, trainer.feed.sample(), trainer.device) > 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(trainer.feed.state(), drawn)
    assert all(torch.equal(v, before[k]) for k, v in trainer.model.state_dict().items())
    assert all(p.grad is None for p in trainer.parameters)
    monkeypatch.setattr(engine, "kept_mb", lambda *_: 0.0)
    without = train(small(model=model, train={"batch_size": 8}), tmp_path / "d", progress="none")
    assert without.history[-1]["loss"] == one.history[-1]["loss"]
    assert without.metrics["accuracy"] == one.metrics["accuracy"]


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "lookup", "task_config": {}, "model": "lookup", "model_config": {"mode": "hard"}},
        {
            "task": "dates",
            "task_config": {},
            "model": "seq2seq",
            "model_config": {"hidden_size": 8, "embed_size": 4, "longest": 11, "dropout": 0.5},
        },
        {
            "task": "babi",
            "task_config": {"world": "one fact"},
            "model": "memn2n",
            "model_config": {"hidden_size": 4, "noise": 0.5},
        },
    ],
    ids=["choices", "dropout", "empty memories"],
)
def test_what_a_model_draws_comes_from_the_seed(
    small: Small, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Not from whatever torch's own stream stands at, which is left as it was."""
    found = []
    for at, seed in enumerate((0, 0, 1)):
        torch.manual_seed(at)
        before = torch.random.get_rng_state()
        found.append(fixed(train(small(**changes, seed=seed), tmp_path / str(at), progress="none")))
        assert torch.equal(torch.random.get_rng_state(), before)
    assert found[0] == found[1]
    # Whether the stream reaches the model at all: the same data and weights, other draws.
    run = small(**changes)
    losses = []
    for at in range(2):
        trainer = Trainer(run, tmp_path / f"draws{at}", torch.device("cpu"))
        torch.manual_seed(at)
        trainer.step()
        losses.append([p.detach().clone() for p in trainer.parameters])
    assert any(not torch.equal(a, b) for a, b in zip(*losses, strict=True))


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_a_model_with_an_objective_of_its_own(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Draws and running mean belong to the run: taken up again, it has the same numbers."""
    run = small(
        task="lookup",
        task_config={"items": 3},
        model="lookup",
        model_config={"mode": mode},
        train={"updates": 90, "lr": 0.05, "eval_every": 30, "checkpoint_every": 15},
    )
    whole = train(run, tmp_path / "a", progress="none")
    assert whole.metrics["accuracy"] > 0.6 and whole.metrics["kept_mb"] > 0
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 50)
        train(run, tmp_path / "b", progress="none")
    assert fixed(train(run, tmp_path / "b", progress="none")) == fixed(whole)
    trainer = Trainer(run, tmp_path / "c", torch.device("cpu"))
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    engine.kept_mb(trainer.model, trainer.task, trainer.feed.sample(), trainer.device)
    assert all(torch.equal(v, before[k]) for k, v in trainer.model.state_dict().items())


def test_the_norm_is_taken_before_clipping(small: Small, tmp_path: Path) -> None:
    loose = train(small(train={"clip": None}), tmp_path / "a", progress="none")
    tight = train(small(train={"clip": 1e-3}), tmp_path / "b", progress="none")
    first = [record.history[1]["grad_norm_max"] for record in (loose, tight)]
    assert first[1] > 1e-3
    assert first[0] == pytest.approx(first[1], rel=0.5)
    assert loose.history[-1] != tight.history[-1]


def test_the_schedule_reaches_the_optimiser(small: Small, tmp_path: Path) -> None:
    settings = {"schedule": "step", "drop_at": (0.5,), "lr": 0.01}
    record = train(small(train=settings), tmp_path, progress="none")
    assert [e["lr"] for e in record.history[1:]] == pytest.approx([0.01, 0.01, 0.001, 0.001])


def test_a_plateau_drops_and_patience_stops(small: Small, tmp_path: Path) -> None:
    still = {"lr": 1e-12, "updates": 200, "eval_every": 2}
    drops = {"schedule": "plateau", "plateau": 3}
    record = train(small(train={**still, **drops, "updates": 20}), tmp_path / "a", progress="none")
    assert record.history[-1]["lr"] == pytest.approx(1e-12 * 0.1**3)
    record = train(small(train={**still, "patience": 5}), tmp_path / "b", progress="none")
    assert record.metrics["updates"] == 10
    assert record.status == "finished"


def test_no_model_is_chosen_while_it_warms_up(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory network's linear start: its held-out loss may be lowest before it has a softmax."""
    losses = iter([0.1, 0.1, 0.5, 0.4, 0.6, 0.3])
    monkeypatch.setattr(engine, "evaluate", lambda *_: ({"ce": next(losses)}, []))
    run = small(
        task="babi",
        task_config={"world": "one fact"},
        model="memn2n",
        model_config={"hidden_size": 4, "linear_start": 12},
        train={"solved_at": 0.2, "solved_times": 2, "patience": 3},
    )
    record = train(run, tmp_path, progress="none")
    assert [entry["ce"] for entry in record.history] == [0.1, 0.1, 0.5, 0.4, 0.6]
    assert record.metrics["best_update"] == 18 and record.metrics["held_out_ce"] == 0.4
    _, chosen = weights.read_weights(tmp_path / "best.npz")
    assert chosen["linear_left"] == 0


@pytest.mark.parametrize("model", ["lstm", "sab"])
@pytest.mark.parametrize("at", [0, 3, 7, 15, 23])
def test_resuming_gives_the_same_numbers(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, model: str
) -> None:
    run = small(model=model, train={"schedule": "cosine", "snapshots": (0, 5, 20)})
    undisturbed = train(run, tmp_path / "a", progress="none")
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, at)
        train(run, tmp_path / "b", progress="none")
    resumed = train(run, tmp_path / "b", progress="none")
    assert fixed(resumed) == fixed(undisturbed)
    for name in ("best.npz", "u000000.npz", "u000005.npz", "u000020.npz"):
        (_, one), (_, two) = (weights.read_weights(tmp_path / k / name) for k in "ab")
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one)


def test_resume_can_be_declined(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 15)
        train(small(), tmp_path, progress="none")
    steps = 0
    whole = Trainer.step

    def counted(self: Trainer) -> None:
        nonlocal steps
        steps += 1
        whole(self)

    monkeypatch.setattr(Trainer, "step", counted)
    train(small(), tmp_path, resume=False, progress="none")
    assert steps == 24


KILLED = """
import sys, torch
from pathlib import Path
from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.train import train
from sab.experiments import records
torch.set_num_threads(1)
config = TrainConfig(updates=60, batch_size=16, eval_every=10, eval_batches=2, test_batches=2,
                     log_every=3, checkpoint_every=4, solved_at=None)
run = RunConfig("e", "r", "copy", "sab", {"T": 4}, {"hidden_size": 16}, config)
record = train(run, Path(sys.argv[1]) / "run", progress="lines")
records.write(record, Path(sys.argv[1]))
"""


def test_a_killed_process_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, tmp_path / "whole"], env=environment, check=True, timeout=120)
    process = subprocess.Popen(
        [*command, tmp_path / "killed"], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if " 30/60 " in line:
            break
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert not (tmp_path / "killed" / "e").exists()
    assert (tmp_path / "killed" / "run" / "checkpoint.pt").exists()
    again = subprocess.run(
        [*command, tmp_path / "killed"],
        env=environment,
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert " 20/60 " not in again.stderr and " 60/60 " in again.stderr
    one, two = (records.read(tmp_path / k / "e" / "r-cpu-s0.json") for k in ("whole", "killed"))
    assert fixed(one) == fixed(two)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "flip", "other"])
def test_a_damaged_checkpoint_says_how_to_mend(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 10)
        train(small(), tmp_path, progress="none")
    path = tmp_path / weights.CHECKPOINT
    if damage == "other":
        torch.save({"format": 0}, path)
    else:
        whole = path.read_bytes()
        half = len(whole) // 2
        flipped = whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]
        spoilt = {"cut": whole[:half], "empty": b"", "text": b"not one", "flip": flipped}
        path.write_bytes(spoilt[damage])
    before = path.read_bytes()
    with pytest.raises(weights.CheckpointError) as caught:
        train(small(), tmp_path, progress="none")
    assert str(path) in str(caught.value)
    assert f"add --fresh or delete {path}" in str(caught.value)
    assert path.read_bytes() == before


def test_a_checkpoint_of_other_settings_is_refused(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 10)
        train(small(), tmp_path, progress="none")
    with pytest.raises(weights.CheckpointError, match=r"train\.lr: 0\.003 → 0\.5"):
        train(small(train={"lr": 0.5}), tmp_path, progress="none")


def test_a_disk_that_fills_up_loses_nothing(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(small(), tmp_path / "a", progress="none")
    sync = os.fsync
    calls = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 3:  # the write test, then two checkpoints
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"checkpoint\.pt: no space left on the disk"):
            train(small(), tmp_path / "b", progress="none")
    left = [p.name for p in (tmp_path / "b").iterdir()]
    assert left == ["checkpoint.pt"]
    assert fixed(train(small(), tmp_path / "b", progress="none")) == fixed(whole)


def test_gradients_that_are_not_finite_are_skipped_then_given_up(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = torch.nn.utils.clip_grad_norm_
    calls = []

    def sometimes(parameters: Any, limit: float) -> torch.Tensor:
        calls.append(1)
        norm = clip(parameters, limit)
        return norm if len(calls) % 4 else torch.tensor(torch.inf)

    monkeypatch.setattr(engine.nn.utils, "clip_grad_norm_", sometimes)
    record = train(small(), tmp_path / "a", progress="none")
    assert record.metrics["skipped_updates"] == 6
    assert record.status == "finished"
    monkeypatch.setattr(
        engine.nn.utils, "clip_grad_norm_", lambda p, limit: torch.tensor(torch.nan)
    )
    record = train(small(train={"updates": 500}), tmp_path / "b", progress="none")
    assert record.status == "diverged"
    assert record.metrics["updates"] == GIVE_UP


class ReadsAtOnce(Trainer):
    """Waits for the norm at every update, and leaves out the step where it is not finite."""

    def descend(self, norm: torch.Tensor) -> None:
        value = float(norm)
        if math.isfinite(value):
            self.optimiser.step()
        self.at.count(value)


@pytest.mark.parametrize("log_every", [1, 5, 100])
@pytest.mark.parametrize("bad", [0, 3])
def test_norms_read_late_give_the_same_record(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_every: int, bad: int
) -> None:
    clip = torch.nn.utils.clip_grad_norm_
    calls: list[int] = []

    def every_few(parameters: Any, limit: float) -> torch.Tensor:
        calls.append(1)
        norm = clip(parameters, limit)
        return torch.tensor(torch.nan) if bad and len(calls) % bad == 0 else norm

    monkeypatch.setattr(engine.nn.utils, "clip_grad_norm_", every_few)
    run = small(model="sab", train={"log_every": log_every, "checkpoint_every": 7, "clip": 0.1})
    late = fixed(train(run, tmp_path / "late", progress="none"))
    monkeypatch.setattr(engine, "Trainer", ReadsAtOnce)
    calls.clear()
    assert fixed(train(run, tmp_path / "at once", progress="none")) == late
    assert late[0]["skipped_updates"] == (8 if bad else 0)


def test_an_update_reads_nothing_from_the_device(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(small(train={"log_every": 6}), tmp_path, torch.device("cpu"))
    batch = trainer.feed.next(0)
    monkeypatch.setattr(trainer.feed, "next", lambda update: batch)
    read: list[str] = []
    for name in ("item", "tolist", "__float__", "__bool__"):
        plain = getattr(torch.Tensor, name)

        def noted(self: Any, *rest: Any, name: str = name, plain: Any = plain) -> Any:
            read.append(name)
            return plain(self, *rest)

        monkeypatch.setattr(torch.Tensor, name, noted)
    for _ in range(3):  # the fourth update is one before which a checkpoint is written
        trainer.step()
    assert read == []
    trainer.at.update = 5
    trainer.step()
    assert read == ["item", "tolist"]  # the loss, and all norms at once
    assert trainer.at.window.norms == 4


def test_norms_come_out_once_and_in_order() -> None:
    norms = Norms()
    for value in (3.0, float("inf"), 1.0):
        norms.add(torch.tensor(value))
    assert norms.read() == [3.0, float("inf"), 1.0]
    assert norms.read() == []


def test_data_streams_do_not_meet(small: Small, tmp_path: Path) -> None:
    run = small(task_config={"T": 2})
    feed = Trainer(run, tmp_path, torch.device("cpu")).feed
    training = [feed.next(update)[0].y for update in range(24)]
    test = [batch.y for batch, _ in feed.test()]
    held_out = [batch.y for batch, _ in feed.held_out()]
    seen = {tuple(row.tolist()) for y in training for row in y}
    for batch in (*test, *held_out):
        assert not seen & {tuple(row.tolist()) for row in batch}
        seen |= {tuple(row.tolist()) for row in batch}


def test_building_a_model_leaves_the_global_stream_alone(small: Small) -> None:
    torch.manual_seed(7)
    want = torch.rand(3)
    torch.manual_seed(7)
    weights.build_model(small())
    assert torch.equal(torch.rand(3), want)


def test_vanished_gradients_are_zero_while_training(small: Small, tmp_path: Path) -> None:
    seen = []

    class Watched(Trainer):
        def step(self) -> None:
            seen.append(torch.tensor(1e-40).mul(1.0).item())
            super().step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "Trainer", Watched)
        train(small(), tmp_path, progress="none")
    assert set(seen) == {0.0}
    assert torch.tensor(1e-40).mul(1.0).item() > 0.0


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert engine.pick_device().type == "cpu"
    with pytest.raises(ValueError, match="device='cuda': this machine has none"):
        engine.pick_device("cuda")
    with pytest.raises(ValueError, match="device='tpu'"):
        engine.pick_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert engine.pick_device().type == "cuda"


def test_progress_lines(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.perf_counter()
    train(small(), tmp_path, progress="lines")
    assert time.perf_counter() - started < 60
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["6/24", "12/24", "18/24", "24/24"]
    assert all("accuracy" in line and "grad_norm" in line for line in lines)
    with pytest.raises(ValueError, match="progress='loud'"):
        train(small(), tmp_path, progress="loud")
