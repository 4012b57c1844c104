"""Multi30k's loader on a small stand-in."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
import torch
from data_files import hold

from sab.tasks import Task, build
from sab.tasks import translation as module
from sab.tasks.symbols import END, PAD, SPECIAL, UNKNOWN
from sab.tasks.translation import TranslationTask, joined, lines, vocabulary, words

ENGLISH = ["A man runs.", "A dog runs.", "The man's t-shirt is red, he runs and runs."]
GERMAN = ["Ein Mann läuft.", "Ein Hund läuft.", "Das T-Shirt des Mannes ist rot, er läuft."]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    contents = {}
    for part in ("train", "val", "test_2016_flickr"):
        for language, text in (("en", ENGLISH), ("de", GERMAN)):
            contents[f"{part}.{language}.gz"] = gzip.compress(("\n".join(text) + "\n").encode())
    hold(monkeypatch, tmp_path, "multi30k", contents)
    for cached in (module.vocabulary, module._encoded, module._kept):
        cached.cache_clear()


def test_words() -> None:
    assert words(ENGLISH[2])[:3] == ("the", "man's", "t-shirt")
    assert words("Ein Mann, größer!") == ("ein", "mann", ",", "größer", "!")
    assert joined(["ein", "mann", ",", "groß", "."]) == "ein mann, groß."
    assert lines("train", "en") == tuple(ENGLISH)


def test_pairs_are_encoded_side_by_side() -> None:
    task = TranslationTask(words=5)
    assert vocabulary("en", 5).tokens[:2] == ("runs", ".")
    assert vocabulary("de", 5).tokens[:2] == (".", "läuft")
    x, y = task.take("test", torch.tensor([0, 2]))
    english, german = (vocabulary(language, 5) for language in ("en", "de"))
    assert english.decode(x[0].tolist()) == ["a", "<unknown>", "runs", "."]
    assert german.decode(y[0].tolist())[0] == "ein" and (y == END).sum() == 2
    assert y.shape == (2, 11) and (y[0, 5:] == PAD).all() and task.weight(y) == 5 + 11
    assert UNKNOWN in x[1].tolist()
    assert task.input_size == task.output_size == 5 + len(SPECIAL)


def test_long_pairs_are_left_out_of_training_only() -> None:
    task = TranslationTask(words=5, longest=6)
    assert [task.sequences(part) for part in ("train", "valid", "test")] == [2, 3, 3]
    x, _ = task.batch(50, torch.Generator().manual_seed(0))
    assert x.shape == (50, 4)


def test_metrics_are_means_over_words() -> None:
    task = TranslationTask(words=5)
    y = task.take("valid", torch.arange(3)).y
    assert task.judged_told and torch.equal(task.teacher(y), y)
    even = torch.zeros(*y.shape, task.output_size)
    assert task.metrics(even, y)["nats"] == pytest.approx(task.baselines()["nats"])
    assert task.baselines()["nats"] == pytest.approx(math.log(9))
    perfect = 40.0 * torch.nn.functional.one_hot(y, task.output_size).float()
    assert task.metrics(perfect, y) == {"nats": pytest.approx(0.0, abs=1e-6), "accuracy": 1.0}
    perfect[0, 5:] = 0.0  # padding
    assert task.metrics(perfect, y)["accuracy"] == 1.0


def test_registered_and_refused() -> None:
    assert isinstance(build("translation"), Task)
    with pytest.raises(ValueError, match="words=0"):
        TranslationTask(words=0)
    with pytest.raises(ValueError, match="words=99: en has only"):
        TranslationTask(words=99).prepare()
    with pytest.raises(ValueError, match="part='dev'"):
        lines("dev", "en")
    with pytest.raises(ValueError, match="language='fr'"):
        lines("train", "fr")
    with pytest.raises(ValueError, match="batch_size=0"):
        TranslationTask().batch(0, torch.Generator())
