"""Epochs over finite data, state carried between sequences, and exact resume of both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sab.experiments.carry import carried, newest, pack, unpack
from sab.experiments.config import RunConfig
from sab.experiments.feed import Drawn, Finite, make_feed, shuffled, streamed
from sab.experiments.train import Trainer, train
from sab.models import registry as models
from sab.tasks.pictures import Pictures
from tests.interrupted import Stop, fixed, stop_after

Small = Callable[..., RunConfig]
CPU = torch.device("cpu")


@pytest.fixture
def text(small: Small) -> Small:
    def make(**changes: Any) -> RunConfig:
        task = {"corpus": "numbers", "T": 30, **changes.pop("task_config", {})}
        return small(task="charlm", task_config=task, **changes)

    return make


@pytest.mark.parametrize(("sequences", "size"), [(10, 3), (7, 7), (5, 8), (64, 16)])
def test_every_sequence_comes_once_an_epoch(sequences: int, size: int) -> None:
    updates = [shuffled(sequences, size, 7, i) for i in range(3 * sequences)]
    assert all(len(which) == size for which in updates)
    flat = torch.cat(updates)
    for epoch in range(3):
        part = flat[epoch * sequences : (epoch + 1) * sequences]
        assert torch.equal(part.sort().values, torch.arange(sequences))
    if sequences > 7:
        assert not torch.equal(flat[:sequences], flat[sequences : 2 * sequences])
        assert not torch.equal(flat[:sequences], shuffled(sequences, sequences, 8, 0))


@pytest.mark.parametrize(("sequences", "size"), [(10, 3), (12, 4), (5, 5), (3, 2)])
def test_streams_follow_the_text(sequences: int, size: int) -> None:
    length = sequences // size
    rows = torch.stack([streamed(sequences, size, i)[0] for i in range(length)])
    assert torch.equal(rows[1:], rows[:-1] + 1)
    assert len(rows.flatten().unique()) == length * size and rows.max() < sequences
    assert [streamed(sequences, size, i)[1] for i in range(2 * length)] == (
        [True] + [False] * (length - 1)
    ) * 2
    whole = -(-sequences // size)
    every = torch.cat([streamed(sequences, size, i, whole=True)[0] for i in range(whole)])
    assert torch.equal(every.sort().values[:sequences], torch.arange(sequences))
    with pytest.raises(ValueError, match="batch_size=20"):
        streamed(10, 20, 0)


def test_the_task_decides_the_feed(small: Small, text: Small) -> None:
    for run, kind in ((small(), Drawn), (text(), Finite)):
        trainer = Trainer(run, Path("nowhere"), CPU)
        assert type(trainer.feed) is kind
        assert type(make_feed(trainer.task, run)) is kind


CARRY = {"carry": ("h", "c", "memory"), "memories": 3}


@pytest.mark.parametrize("model", ["lstm", "sab", "attentive_lstm"])
@pytest.mark.parametrize("task", [{}, CARRY])
def test_resuming_gives_the_same_numbers(
    text: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, task: dict
) -> None:
    run = text(model=model, task_config=task)
    undisturbed = train(run, tmp_path / "a", progress="none")
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 15)
        train(run, tmp_path / "b", progress="none")
    assert fixed(train(run, tmp_path / "b", progress="none")) == fixed(undisturbed)


def test_the_record_counts_epochs_and_names_the_data(text: Small, tmp_path: Path) -> None:
    record = train(text(), tmp_path, progress="none")
    count = Trainer(text(), tmp_path, CPU).feed.sequences or 0
    assert record.metrics["epochs"] == pytest.approx(24 * 8 / count, abs=1e-4)
    assert [e["epoch"] for e in record.history] == pytest.approx(
        [u * 8 / count for u in (0, 6, 12, 18, 24)], abs=1e-4
    )
    assert record.config["data"] == "numbers in words, each said twice"
    assert {"bpc", "accuracy", "held_out_bpc"} <= set(record.metrics)
    best = min(record.history, key=lambda e: e["bpc"])
    assert record.metrics["held_out_bpc"] == best["bpc"]
    assert record.metrics["test_sequences"] == -(-2954 // 30)


@pytest.mark.parametrize("model", ["lstm", "sab", "transformer"])
def test_classifiers_learn_to_tell_pictures(
    small: Small, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures of one grey a class, dark and bright."""
    labels = torch.arange(200) % 2
    noise = torch.Generator().manual_seed(0)
    pixels = (
        labels[:, None, None] * 200 + torch.randint(0, 9, (200, 64, 1), generator=noise)
    ).byte()
    parts = {"train": slice(0, 160), "valid": slice(160, 180), "test": slice(180, 200)}
    made = Pictures(
        {p: pixels[s] for p, s in parts.items()},
        {p: labels[s] for p, s in parts.items()},
        255,
        "grey",
    )
    monkeypatch.setattr("sab.tasks.images.pictures", lambda source: made)
    run = small(
        task="images",
        task_config={"source": "digits"},
        model=model,
        model_config={"hidden_size": 16},
        train={"updates": 40, "batch_size": 10, "lr": 1e-2, "clip": 1.0, "eval_every": 20},
    )
    record = train(run, tmp_path, progress="none")
    assert record.metrics["accuracy"] == 1.0
    assert record.config["data"].startswith("grey; pixels permuted, SHA-256")


def test_patience_stops_and_the_best_model_is_tested(text: Small, tmp_path: Path) -> None:
    run = text(train={"updates": 200, "lr": 1.0, "clip": None, "eval_every": 2, "patience": 3})
    record = train(run, tmp_path, progress="none")
    assert record.metrics["updates"] < 200 and record.status == "finished"
    values = [e["bpc"] for e in record.history]
    assert record.metrics["held_out_bpc"] == min(v for v in values if v is not None)


def test_what_is_carried(text: Small) -> None:
    x = torch.randn(2, 10, 4, generator=torch.Generator().manual_seed(0))
    settings = {"input_size": 4, "hidden_size": 6, "output_size": 3}
    sab = models.build("sab", settings, k_att=2, k_top=2, k_trunc=None)
    state = sab(x)[1]
    assert state.memory.shape[1] == 5
    all_of_it = carried(state, ("h", "c", "memory"), 3, sab)
    assert torch.equal(all_of_it.memory, state.memory[:, 2:])
    assert torch.equal(all_of_it.h, state.h) and torch.equal(all_of_it.c, state.c)
    assert all_of_it.step.tolist() == [6, 6]
    only_c = carried(state, ("c",), 3, sab)
    assert only_c.memory.shape[1] == 0 and not only_c.h.any() and torch.equal(only_c.c, state.c)
    lstm = models.build("lstm", settings)
    h, c = carried(lstm(x)[1], ("h",), 3, lstm)
    assert h.any() and not c.any()
    with pytest.raises(ValueError, match="Transformer has no state"):
        carried(None, ("h",), 3, models.build("transformer"))
    zero = models.build("sab", settings, initial_memory="zero")
    with pytest.raises(ValueError, match="initial_memory='empty'"):
        carried(zero(x)[1], ("h",), 3, zero)


def test_the_phase_of_writing_is_kept() -> None:
    sab = models.build("sab", input_size=4, hidden_size=6, output_size=3, k_att=3)
    x = torch.randn(2, 20, 4, generator=torch.Generator().manual_seed(1))
    state = sab(x[:, :11])[1]
    kept = newest(state, 10, 3)
    assert torch.equal(sab(x[:, 11:], kept)[0], sab(x[:, 11:], state)[0])
    assert kept.step.tolist() == [11, 11]
    cut = newest(state, 1, 3)
    assert cut.step.tolist() == [5, 5] and torch.equal(cut.memory, state.memory[:, -1:])
    again = unpack(pack(cut), CPU)
    assert torch.equal(sab(x[:, 11:], again)[0], sab(x[:, 11:], cut)[0])


def test_carrying_everything_is_the_long_sequence(text: Small) -> None:
    """With room for every memory, pieces in a row say what one long sequence says."""
    sab = models.build("sab", input_size=4, hidden_size=6, output_size=3, k_att=2, k_trunc=5)
    x = torch.randn(2, 30, 4, generator=torch.Generator().manual_seed(1))
    state, outputs = None, []
    for piece in x.split(10, 1):
        out, state = sab(piece, state)[:2] if state is not None else sab(piece)[:2]
        state = carried(state, ("h", "c", "memory"), 100, sab)
        outputs.append(out)
    assert torch.allclose(torch.cat(outputs, 1), sab(x)[0], atol=1e-6)


def test_two_rows_of_table_2_are_one_model() -> None:
    """At most four memories are held in 100 steps with k_att, so k_top 5 and 10 are one."""
    x = torch.randn(3, 100, 4, generator=torch.Generator().manual_seed(2))
    y = []
    for k_top in (5, 10):
        torch.manual_seed(0)
        model = models.build(
            "sab", input_size=4, hidden_size=8, output_size=3, k_trunc=20, k_top=k_top, k_att=20
        )
        y.append(model(x)[0])
    assert torch.equal(*y)
