"""Logs as tasks: who goes where, padding, whole-part metrics in closed form, nothing leaks."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import pytest
import torch
from data_files import hold

from sab.data.fetch import held
from sab.tasks import logs
from sab.tasks.logs import LogsTask, NextEventTask, distinct, numbered
from sab.tasks.traces import Log, roc_auc


def log(*events: int, attack: bool = False, name: str = "") -> Log:
    return Log(torch.tensor(events), attack, name)


def test_identical_logs_count_once_and_contradictions_not_at_all() -> None:
    found = distinct(
        [
            log(1, 2),
            log(3),
            log(1, 2),
            log(4, attack=True),
            log(3, attack=True),
            log(4, attack=True),
        ]
    )
    assert [(one.events.tolist(), one.attack) for one in found] == [([1, 2], False), ([4], True)]


def test_logs_that_begin_alike_are_one() -> None:
    begun = [log(1, 2, 3), log(1, 2, 4), log(2), log(1, 2, 5, 6)]
    assert [one.events.tolist() for one in distinct(begun, 2)] == [[1, 2, 3], [2]]
    assert distinct([*begun, log(1, 2, attack=True)], 2) == [begun[2]]


def test_every_crop_has_the_same_logs_in_the_same_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """From `SAME` events on; rows that differ in their crop are compared on one test part."""
    monkeypatch.setattr(logs, "SAME", 12)
    logs.load.cache_clear()
    parts = [
        {part: [one.name for one in LogsTask("made", longest=longest).of(part)] for part in
         ("train", "valid", "test")}
        for longest in (12, 25, 4494)
    ]  # fmt: skip
    logs.load.cache_clear()
    assert parts[0] == parts[1] == parts[2]
    cropped = LogsTask("made", longest=5)
    contents = [{tuple(one.events.tolist()) for one in cropped.of(part)} for part in parts[0]]
    assert not contents[0] & contents[2] and not contents[0] & contents[1]


def test_events_are_numbered_by_how_often_training_has_them() -> None:
    known = [log(7, 7, 7, 2, 2, 9), log(7, 5)]
    assert [one.events.tolist() for one in numbered([log(7, 2, 5, 9, 4, 12)], known, 4)] == [
        [1, 2, 3, 4, 4, 4]  # 5 and 9 stand once each; the smaller number comes first
    ]
    assert numbered([log(7, 2)], known, 40)[0].events.tolist() == [1, 2]


def test_parts_share_no_log_and_both_classes_are_everywhere() -> None:
    task = LogsTask("made")
    parts = {part: task.of(part) for part in ("train", "valid", "test")}
    names = [one.name for part in parts.values() for one in part]
    assert len(set(names)) == len(names) == 320
    contents = [{tuple(one.events.tolist()) for one in part} for part in parts.values()]
    assert not contents[0] & contents[2] and not contents[0] & contents[1]
    for part in parts.values():
        share = sum(one.attack for one in part) / len(part)
        assert share == pytest.approx(logs.ATTACKS["made"], abs=0.02)
    assert all(not one.attack for one in NextEventTask("made").of("train"))
    assert any(one.attack for one in NextEventTask("made").of("valid"))


@pytest.mark.parametrize("source", ["made", "adfa", "hdfs"])
def test_what_is_said_of_the_data_without_them_is_right(source: str) -> None:
    if source != "made" and not held(logs.READERS[source][1] or ""):
        return  # nothing to compare with here
    task = LogsTask(source)
    every = [one for part in ("train", "valid", "test") for one in task.of(part)]
    mean = sum(len(one.events) for one in every) / len(every)
    assert logs.TYPICAL[source] == round(mean)
    share = sum(one.attack for one in every) / len(every)
    assert logs.ATTACKS[source] == pytest.approx(share, abs=5e-5)
    assert logs.TRAINED[source] == task.sequences("train")
    assert logs.NORMAL[source] == NextEventTask(source).sequences("train")
    assert f"{len(every):,} distinct logs" in task.about


def test_a_batch_holds_the_logs_and_nothing_behind_them() -> None:
    task = LogsTask("made", longest=30)
    which = torch.tensor([3, 0, 7])
    x, y = task.take("train", which)
    chosen = [task.of("train")[i] for i in which.tolist()]
    lengths = [len(one.events) for one in chosen]
    assert x.shape == (3, max(lengths), 64) and x.dtype == torch.float32
    assert task.lengths("train")[which].tolist() == lengths and max(lengths) <= 30
    for row, one in enumerate(chosen):
        assert torch.equal(x[row, : lengths[row]].argmax(-1) + 1, one.events)
        assert x[row].sum(-1).tolist() == [1.0] * lengths[row] + [0.0] * (
            len(x[row]) - lengths[row]
        )
        assert y[row].tolist() == [int(one.attack), lengths[row] - 1]
    assert "cropped to their first 30 events" in task.about


def test_metrics_of_logits_put_in_by_hand() -> None:
    task = LogsTask("made")
    y = torch.tensor([[1, 2], [0, 0], [1, 1], [0, 2]])
    outputs = torch.full((4, 3, 2), 9.0)  # what stands elsewhere does not count
    for row, (label_odds, at) in enumerate(zip([2.0, -1.0, -3.0, 1.0], y[:, 1], strict=True)):
        outputs[row, at] = torch.tensor([0.0, label_odds])
    found = task.metrics(outputs, y)
    want = [math.log1p(math.exp(-2)), math.log1p(math.exp(-1)), math.log1p(math.exp(3)),
            math.log1p(math.exp(1))]  # fmt: skip
    assert found["ce"] == pytest.approx(sum(want) / 4)
    assert found["accuracy"] == 0.5 and task.weight(y) == 4
    scored = torch.cat([task.scored(outputs[:2], y[:2]), task.scored(outputs[2:], y[2:])])
    # attacks at 2 and -3, normal at -1 and 1: the first beats both, the second none
    assert task.overall(scored) == {"roc_auc": 0.5, "f1": 0.5, "balanced_accuracy": 0.5}
    blind = task.baselines()
    assert blind["f1"] == pytest.approx(2 * 0.25 / 1.25) and blind["accuracy"] == 0.75


def test_the_surprise_is_the_mean_over_a_log_s_own_events() -> None:
    task = NextEventTask("made")
    x, y = task.take("valid", torch.tensor([0, 1, 2]))
    lengths = (x.sum(-1) > 0).sum(1)
    assert ((y[:, 1:] >= 0).sum(1) == lengths - 1).all() and y.shape == x.shape[:2]
    outputs = torch.zeros(*x.shape[:2], 64)
    surprise = task.surprise(outputs, y)
    torch.testing.assert_close(surprise, torch.full((3,), math.log(64)))
    sure = torch.full_like(outputs, -30.0)
    for row in range(3):
        for step in range(int(lengths[row]) - 1):
            sure[row, step, y[row, step + 1]] = 30.0
    assert task.surprise(sure, y).max() < 1e-6
    wide = torch.cat([sure, torch.randn(3, 5, 64)], 1)  # more padding changes nothing
    torch.testing.assert_close(
        task.surprise(wide, torch.cat([y, torch.full((3, 5), -1)], 1)), task.surprise(sure, y)
    )


def test_anomalies_are_judged_by_surprise_and_chosen_by_normal_logs() -> None:
    task = NextEventTask("made")
    x, y = task.take("valid", torch.arange(task.sequences("valid")))
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(*x.shape[:2], 64, generator=generator)
    found = task.metrics(outputs, y)
    normal = y[:, 0] == 0
    assert found["ce"] == pytest.approx(task.surprise(outputs, y)[normal].mean().item(), rel=1e-5)
    changed = outputs.clone()
    changed[~normal] += torch.randn_like(changed[~normal])
    assert task.metrics(changed, y) == found and task.weight(y) == int(normal.sum())
    scored = task.scored(outputs, y)
    assert task.overall(scored)["roc_auc"] == pytest.approx(
        roc_auc(task.surprise(outputs, y), y[:, 0])
    )
    assert task.goal == ("ce", "min") and task.baselines()["ce"] == pytest.approx(math.log(64))


def test_real_logs_are_read_from_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(12):
            folder = "Attack_Data_Master/A" if number % 3 == 0 else "Training_Data_Master"
            archive.writestr(f"ADFA-LD/{folder}/{number}.txt", f"6 6 {number + 1} 3")
    hold(monkeypatch, tmp_path, "adfa_ld", {"ADFA-LD.zip": path.read_bytes()})
    task = LogsTask("adfa", longest=3)
    task.prepare()
    assert sum(task.sequences(part) for part in ("train", "valid", "test")) == 12
    assert task.lengths("train").tolist() == [3] * task.sequences("train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "bgl"}, "source='bgl': must be one of"),
        ({"longest": 1}, "longest=1: must be"),
        ({"types": 1}, "types=1: must be"),
    ],
)
def test_what_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LogsTask(**change)
