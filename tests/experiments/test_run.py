import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed import LocalCluster

from sab.experiments import cluster, records, run, tables, weights
from sab.experiments.config import RunConfig
from sab.experiments.files import locked
from sab.experiments.records import Record
from sab.experiments.run import Options, run_all
from sab.experiments.transfer import batch_for, stream, transfer
from sab.tasks import CopyTask

Small = Callable[..., RunConfig]
Folders = tuple[Path, Path]


def options(folders: Folders, **rest: Any) -> Options:
    return Options(*folders, progress="none", **rest)


def fixed(record: Record) -> dict[str, float]:
    times = ("seconds_per_update", "step_seconds")
    return {k: v for k, v in record.metrics.items() if k not in times}


def test_plan_finds_what_is_missing(folders: Folders) -> None:
    runs = run.plan("copy", "smoke")
    assert [one.row for one in runs] == ["sab_5_5_T20", "tbptt_5_T20", "lstm_T20"]
    assert run.missing(runs, folders[0]) == runs
    assert run_all(runs[2:], options(folders), workers=1) == []
    assert run.missing(runs, folders[0]) == runs[:2]


def test_changes_reach_the_run_and_its_name() -> None:
    (one,) = run.plan("copy", "smoke", ["lstm_T20"], None, {"lr": 0.5, "k_trunc": 3})
    assert one.train.lr == 0.5 and one.model_config["k_trunc"] == 3
    assert one.row == "lstm_T20+lr=0.5+k_trunc=3"
    (listed,) = run.plan("copy", "smoke", ["lstm_T20"], None, {"snapshots": (0, 5)})
    assert listed.row == "lstm_T20+snapshots=0_5"
    assert listed.train.snapshots == (0, 5)


def test_processes_and_this_process_agree(small: Small, folders: Folders, tmp_path: Path) -> None:
    runs = [small(seed=seed) for seed in range(2)]
    done: list[Record] = []
    assert run_all(runs, options(folders), workers=2, done=done.append) == []
    assert sorted(record.seed for record in done) == [0, 1]
    other = (tmp_path / "other", tmp_path / "other-runs")
    assert run_all(runs, options(other), workers=1) == []
    pooled, alone = (records.load("e", results=place) for place in (folders[0], other[0]))
    assert [fixed(r) for r in pooled] == [fixed(r) for r in alone]
    assert all(record.machine["threads"] == 1 for record in pooled)


def test_children_use_one_thread_and_the_parent_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with run.one_thread_children():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_a_run_here_uses_one_thread_and_gives_the_others_back(
    small: Small, folders: Folders
) -> None:
    torch.set_num_threads(2)
    assert run_all([small()], options(folders), workers=1) == []
    assert torch.get_num_threads() == 2
    (record,) = records.load("e", results=folders[0])
    assert record.machine["threads"] == 1


def test_troubles_that_are_not_the_program_s_are_lines(small: Small) -> None:
    errors: list[str] = []

    def fails(error: Exception) -> Callable[[], Record]:
        def result() -> Record:
            raise error

        return result

    for error in (OSError("full"), torch.OutOfMemoryError("x"), BrokenProcessPool("x")):
        run.collect(small(), fails(error), lambda record: None, errors)
    assert [line.partition("r-cpu-s0: ")[2].partition(";")[0] for line in errors] == [
        "full",
        "too large for the device",
        "its process was killed (memory?)",
    ]
    with pytest.raises(ZeroDivisionError):
        run.collect(small(), fails(ZeroDivisionError()), lambda record: None, errors)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_does_not_stop_the_others(
    small: Small, folders: Folders, workers: int
) -> None:
    runs = [small(seed=seed) for seed in range(2)]
    blocked = folders[0] / "e" / "r-cpu-s0.json"
    blocked.mkdir(parents=True)  # its record cannot take this place
    errors = run_all(runs, options(folders), workers=workers)
    assert len(errors) == 1
    assert errors[0].startswith("e r-cpu-s0: ") and str(blocked) in errors[0]
    found = sorted(path.name for path in blocked.parent.glob("*.json") if path.is_file())
    assert found == ["r-cpu-s1.json"]


def test_two_processes_do_not_share_a_run(small: Small, folders: Folders) -> None:
    one = small()
    folder = folders[1] / "e" / one.name
    with locked(folder):
        (error,) = run_all([one], options(folders), workers=1)
    assert f"{folder}: another process is at this run" in error
    assert run_all([one], options(folders), workers=1) == []


def test_fresh_forgets_the_checkpoint_and_the_weights(small: Small, folders: Folders) -> None:
    one = small(train={"snapshots": (0, 5)})
    assert run_all([one], options(folders), workers=1) == []
    folder = folders[1] / "e" / one.name
    (folder / weights.CHECKPOINT).write_bytes(b"nonsense")
    other = small()
    assert run_all([other], options(folders, fresh=True), workers=1) == []
    assert [path.name for path in folder.glob("[!.]*")] == ["best.npz"]


def test_an_interrupted_pool_ends_at_once(small: Small, folders: Folders) -> None:
    endless = {"updates": 10**6, "eval_every": 50, "checkpoint_every": 50}
    runs = [small(seed=seed, train=endless) for seed in range(2)]

    def interrupt() -> None:
        while not list(folders[1].rglob(weights.CHECKPOINT)):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        run_all(runs, options(folders), workers=2)
    assert set(multiprocessing.active_children()) == before
    assert not folders[0].exists() or not list(folders[0].rglob("*.json"))


def test_dask_gives_the_same_records_and_weights(
    small: Small, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.tempfile, "gettempdir", lambda: str(tmp_path / "far"))
    runs = [small(seed=seed) for seed in range(2)]
    done: list[Record] = []
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as local:
        address = local.scheduler_address
        errors = run_all(
            runs, options(folders), executor="dask", scheduler=address, done=done.append
        )
    assert errors == [] and len(done) == 2
    other = (tmp_path / "other", tmp_path / "other-runs")
    assert run_all(runs, options(other), workers=1) == []
    far, near = (records.load("e", results=place) for place in (folders[0], other[0]))
    assert [fixed(r) for r in far] == [fixed(r) for r in near]
    for one in runs:
        (_, a), (_, b) = (
            weights.read_weights(place / "e" / one.name / "best.npz")
            for place in (folders[1], other[1])
        )
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert not list((tmp_path / "far").rglob("*.pt"))


def test_no_scheduler_is_said(
    small: Small, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", "1s")
    with pytest.raises(ValueError, match=r"scheduler='tcp://127\.0\.0\.1:9': no Dask scheduler"):
        run_all([small()], options(folders), executor="dask", scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize("name", list(tables.EXPERIMENTS))
def test_estimates_are_minutes_and_learn_from_records(name: str, folders: Folders) -> None:
    runs = run.plan(name, "cpu", None, [0])
    first = [run.estimate(one, folders[0]) for one in runs]
    assert all(0.01 < minutes < 600 for minutes in first)


def test_an_estimate_uses_a_record(small: Small, folders: Folders) -> None:
    one = small()
    assert run_all([one], options(folders), workers=1) == []
    (record,) = records.load("e", results=folders[0])
    each = record.metrics["seconds_per_update"]
    assert run.estimate(one, folders[0]) == pytest.approx(each * 24 / 60)


@pytest.mark.parametrize("model", ["lstm", "sab"])
def test_streaming_is_the_whole_sequence(small: Small, model: str) -> None:
    one = small(model=model)
    net = weights.build_model(one).double().eval()
    task = CopyTask(T=12, length=3, symbols=3)
    x = task.batch(4, torch.Generator().manual_seed(0)).x.double()
    with torch.no_grad():
        whole = net(x)[0]
    for chunk in (1, 5, 7, 18, 100):
        for keep in (3, 10):
            torch.testing.assert_close(
                stream(net, x, keep, chunk), whole[:, -keep:], rtol=1e-10, atol=1e-12
            )


def test_fewer_sequences_at_once_where_they_are_long() -> None:
    (one,) = run.plan("table5", "cpu", ["sab"], [0])
    assert one.transfer is not None
    sizes = [batch_for(one.transfer, length) for length in (100, 2000, 5000, 1_000_000)]
    assert sizes == [64, 64, 25, 1]


def test_saved_models_are_tested_at_other_lengths(folders: Folders) -> None:
    (test,) = run.plan("table5", "smoke", ["lstm"])
    errors = run_all([test], options(folders), workers=1)
    assert len(errors) == 1
    assert "sab run table1 --row lstm_T100 --seed 0 --profile smoke" in errors[0]
    trained = run.plan("table1", "smoke", ["lstm_T100"])
    assert run_all([*trained, test], options(folders), workers=1) == []
    (record,) = records.load("table5", results=folders[0])
    for length in (10, 20, 40):
        assert record.metrics[f"sequences_T{length}"] == 32
        assert 0 <= record.metrics[f"accuracy_T{length}"] <= 1
        assert record.metrics[f"halfwidth_T{length}"] >= 0
    assert record.config["source"]["row"] == "lstm_T100"
    again = transfer(test, folders[1], folders[0], progress="none")
    same = [name for name in record.metrics if not name.startswith("seconds")]
    assert [again.metrics[name] for name in same] == [record.metrics[name] for name in same]


def test_a_model_comes_back_from_its_file_as_good_as_it_was(small: Small, folders: Folders) -> None:
    settings = {"updates": 300, "lr": 1e-2, "clip": 1.0, "eval_every": 50, "test_batches": 64}
    one = small(task_config={"T": 1, "length": 1, "symbols": 3}, train=settings)
    assert run_all([one], options(folders), workers=1) == []
    (record,) = records.load("e", results=folders[0])
    net, again = weights.load_model("e", "r", "cpu", 0, None, folders[1], folders[0])
    assert again.resolved() == one.resolved()
    task = CopyTask(T=1, length=1, symbols=3)
    x, y = task.batch(512, torch.Generator().manual_seed(5))
    accuracy = task.metrics(stream(net, x, 3, 100), y)["accuracy"]
    assert record.metrics["accuracy"] > 0.9
    assert accuracy == pytest.approx(record.metrics["accuracy"], abs=0.05)
