"""Every character is predicted once, and bits per character are what they should be."""

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.evaluate import evaluate
from sab.experiments.feed import Finite
from sab.tasks import CharLMTask, build
from sab.tasks.charlm import IGNORED

CPU = torch.device("cpu")


@pytest.fixture
def task(tmp_path: Path) -> CharLMTask:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{i * i} bottles, {i} more\n" for i in range(190)), encoding="utf-8")
    return CharLMTask("file", 17, str(path))


class Bigram(nn.Module):
    """Says log p(next | last), a row of a table a symbol; the start counts as its symbol."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return x @ self.logits, None


def counted(task: CharLMTask) -> tuple[str, str, Counter, Counter]:
    """Text of the training part and of the test part, and the former's pairs and firsts."""
    text = task.text
    train, test = (text.decode(text.parts[part]) for part in ("train", "test"))
    pairs = Counter(zip("\n" + train, train, strict=False))
    return train, test, pairs, Counter(a for a, _ in pairs.elements())


@pytest.mark.parametrize("T", [1, 17, 100, 10_000])
@pytest.mark.parametrize("carry", [(), ("h", "c")])
def test_bpc_of_unigram_and_bigram_models(
    task: CharLMTask, T: int, carry: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sab.experiments.feed.EVALUATED", 4)
    monkeypatch.setattr("sab.experiments.evaluate.carried", lambda *_: None)
    train, test, pairs, firsts = counted(task)
    alphabet = task.text.alphabet
    size = len(alphabet)
    smooth = {a: {b: (pairs[a, b] + 1) / (firsts[a] + size) for b in alphabet} for a in alphabet}
    table = torch.tensor([[math.log(smooth[a][b]) for b in alphabet] for a in alphabet])
    run = RunConfig(
        "e", "r", "charlm", "lstm", {"corpus": "file", "path": task.path, "T": T, "carry": carry},
        train=TrainConfig(batch_size=1, solved_at=None),
    )  # fmt: skip
    feed = Finite(build("charlm", run.task_config), run)
    metrics, _ = evaluate(Bigram(table), feed.task, feed.test(), CPU)
    want = -sum(math.log2(smooth[a][b]) for a, b in zip("\n" + test, test, strict=False)) / len(
        test
    )
    assert metrics["bpc"] == pytest.approx(want, rel=1e-5)

    share = Counter(train)
    unigram = {b: share[b] / len(train) for b in alphabet}
    row = torch.tensor([math.log(max(unigram[b], 1e-30)) for b in alphabet])
    metrics, _ = evaluate(Bigram(row.expand(size, size)), feed.task, feed.test(), CPU)
    want = -sum(math.log2(max(unigram[b], 1e-30)) for b in test) / len(test)
    assert metrics["bpc"] == pytest.approx(want, rel=1e-5)
    most = max(alphabet, key=lambda b: share[b])
    assert metrics["accuracy"] == pytest.approx(test.count(most) / len(test), rel=1e-5)
    assert task.baselines() == pytest.approx(
        {"bpc": want, "accuracy": metrics["accuracy"]}, rel=1e-6
    )


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_every_character_is_a_target_once(task: CharLMTask, part: str) -> None:
    text = task.text
    x, y = task.take(part, torch.arange(task.sequences(part)))
    assert torch.equal(y[y != IGNORED], text.parts[part].long())
    assert (y == IGNORED).sum() < task.T and (y[:-1] != IGNORED).all()
    assert x.shape == (*y.shape, task.input_size) and torch.equal(
        x.sum(2), torch.ones_like(x.sum(2))
    )
    before = x.argmax(2).flatten()[: len(text.parts[part])]
    assert before[0] == text.start
    assert torch.equal(before[1:], text.parts[part][:-1].long())
    assert task.weight(y) == len(text.parts[part])


def test_loss_and_accuracy_count_real_characters_only(task: CharLMTask) -> None:
    last = torch.tensor([task.sequences("test") - 1, task.sequences("test") + 3])
    _, y = task.take("test", last)
    counted = y[y != IGNORED]
    assert 0 < len(counted) < task.T and (y[1] == IGNORED).all()
    logits = torch.zeros(*y.shape, task.output_size)
    assert task.metrics(logits, y)["bpc"] == pytest.approx(math.log2(task.output_size), rel=1e-6)
    sure = logits.scatter(2, y.clamp_min(0)[..., None], 100.0)
    assert task.metrics(sure, y) == {"bpc": 0.0, "accuracy": 1.0}


def test_plans_need_no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAB_DATA", str(tmp_path / "nothing"))
    for corpus, size in (("ptb", 50), ("text8", 27), ("books", 27)):
        task = CharLMTask(corpus)
        assert task.input_size == task.output_size == size
    assert CharLMTask().goal == ("bpc", "min")


@pytest.mark.parametrize(
    "setting", [{"corpus": "enwik8"}, {"T": 0}, {"carry": ("s",)}, {"memories": 0}]
)
def test_bad_settings_are_named(setting: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        CharLMTask(**setting)
    with pytest.raises(ValueError, match="batch_size=0"):
        CharLMTask("numbers").batch(0, torch.Generator())


def test_a_corpus_of_other_symbols_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sab.tasks.charlm.ALPHABETS", {"numbers": 50})
    with pytest.raises(ValueError, match=r"corpus='numbers': has \d+ symbols, not 50"):
        CharLMTask("numbers").prepare()
