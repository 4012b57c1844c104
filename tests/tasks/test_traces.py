"""Readers of real logs, on files made here; and on the real ones where ``SAB_DATA`` has them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from sab.data import data_dir
from sab.tasks.traces import (
    ADFA,
    HDFS,
    Log,
    adfa,
    f1,
    hdfs,
    made,
    pad,
    recall_at,
    roc_auc,
    split,
)


def small_archive(folder: Path, text: str = "6 6 63") -> None:
    path = folder / ADFA
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ADFA-LD/Training_Data_Master/UTD-0001.txt", text)
        archive.writestr("ADFA-LD/Validation_Data_Master/UVD-0001.txt", "3 4")
        archive.writestr("ADFA-LD/Attack_Data_Master/Adduser_1/UAD-1.txt", "5 5 5 7 ")
        archive.writestr("ADFA-LD/Attack_Data_Master/Adduser_1/empty.txt", "")
        archive.writestr("ADFA-LD/readme.txt", "about this")


def test_adfa(tmp_path: Path) -> None:
    small_archive(tmp_path)
    logs = adfa(tmp_path)
    assert [(log.events.tolist(), log.attack) for log in logs] == [
        ([5, 5, 5, 7], True),
        ([6, 6, 63], False),
        ([3, 4], False),
    ]


def test_hdfs(tmp_path: Path) -> None:
    for name, text in zip(HDFS, ("5 22 11 \n5 5\n", "9 9 9\n"), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    logs = hdfs(tmp_path)
    assert [(log.events.tolist(), log.attack) for log in logs] == [
        ([5, 22, 11], False),
        ([5, 5], False),
        ([9, 9, 9], True),
    ]


def test_what_is_missing_or_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAB_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"ADFA-LD\.zip: not there; set SAB_DATA"):
        adfa()
    small_archive(tmp_path, "6 six")
    with pytest.raises(ValueError, match=r"UTD-0001\.txt: must hold integers"):
        adfa()


def test_split_is_by_log_and_by_class() -> None:
    logs = [Log(torch.tensor([i]), i < 20, str(i)) for i in range(100)]
    train, test = split(logs, 0.3, seed=1)
    assert len(test) == 30 and sum(log.attack for log in test) == 6
    assert {log.name for log in train}.isdisjoint(log.name for log in test)
    assert len({log.name for log in train + test}) == 100
    assert [log.name for log in split(logs, 0.3, seed=1)[1]] == [log.name for log in test]
    with pytest.raises(ValueError, match="test=2"):
        split(logs, 2)


def test_pad() -> None:
    logs = [Log(torch.tensor([1, 3, 9]), True, "a"), Log(torch.tensor([2]), False, "b")]
    x, labels = pad(logs, 4)
    assert x.argmax(-1)[0].tolist() == [0, 2, 3] and labels.tolist() == [1, 0]
    assert x.sum(-1).tolist() == [[1, 1, 1], [1, 0, 0]]
    with pytest.raises(ValueError, match="at least one log"):
        pad([], 4)


def test_roc_auc_counts_pairs() -> None:
    scores = torch.tensor([0.1, 0.4, 0.4, 0.8, 0.4])
    labels = torch.tensor([0, 0, 1, 1, 0])
    pairs = [(p, n) for p in scores[labels == 1] for n in scores[labels == 0]]
    want = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs) / len(pairs)
    assert roc_auc(scores, labels) == pytest.approx(want)
    assert roc_auc(-scores, labels) == pytest.approx(1 - want)
    with pytest.raises(ValueError, match="both classes"):
        roc_auc(scores, torch.ones(5))


def test_recall_at_a_rate_of_false_alarms() -> None:
    scores = torch.tensor([9.0, 5, 3, 1, 8, 7, 4, 2, 0, 6])
    labels = torch.tensor([1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    # negatives from above: 8 7 6 4 2 0; none may lie above the threshold, one may, two may …
    want = {0.0: 0.25, 0.17: 0.25, 0.34: 0.25, 0.5: 0.5, 0.7: 0.75, 0.9: 1.0, 1.0: 1.0}
    assert {rate: recall_at(scores, labels, rate) for rate in want} == want
    with pytest.raises(ValueError, match="both classes"):
        recall_at(scores, torch.zeros(10), 0.1)
    with pytest.raises(ValueError, match="false_alarms=2"):
        recall_at(scores, labels, 2)


def test_made_logs_are_the_same_every_time() -> None:
    one, two = made(count=40), made(count=40)
    assert all(torch.equal(a.events, b.events) for a, b in zip(one, two, strict=True))
    assert sum(log.attack for log in one) == 10
    assert all(20 <= len(log.events) <= 60 and log.events.min() >= 1 for log in one)
    # an attack goes backwards for a while: more steps of -1 (mod 8) than slips alone make
    back = {kind: [] for kind in (False, True)}  # type: dict[bool, list[float]]
    for log in made():
        step = (log.events[4:12] - log.events[3:11]) % 8
        back[log.attack].append((step == 7).float().mean().item())
    means = {kind: sum(found) / len(found) for kind, found in back.items()}
    assert means[True] > 0.7 > 0.2 > means[False]


def test_f1() -> None:
    guessed, labels = torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 1, 0])
    assert f1(guessed, labels) == pytest.approx(0.5)
    assert f1(torch.zeros(4), labels) == 0.0 and f1(torch.zeros(4), torch.zeros(4)) == 0.0
    assert f1(labels, labels) == 1.0


def has(name: str) -> bool:
    return (data_dir() / name).is_file()


def test_the_real_archives_hold_what_their_papers_say() -> None:
    """Where the data are; elsewhere there is nothing to check."""
    if has(ADFA):
        logs = adfa()
        assert sum(not log.attack for log in logs) == 833 + 4372
        assert sum(log.attack for log in logs) == 746
        assert max(len(log.events) for log in logs) == 4494
    if all(has(name) for name in HDFS):
        assert len({log.attack for log in hdfs()}) == 2
