"""A translator's report: sentences with their alignment, BLEU only where sacrebleu is."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
import torch

from sab.analysis import translation
from sab.cli import main
from sab.experiments import tables
from sab.experiments.rows import make_run
from sab.experiments.weights import build_model, save_weights
from sab.models.seq2seq import Seq2Seq
from sab.tasks import translation as module
from sab.tasks.translation import TranslationTask

ENGLISH = ["A man is riding a bicycle.", "Two dogs are playing in the snow.", "The sun is red."]
GERMAN = ["Ein Mann fährt Fahrrad.", "Zwei Hunde spielen im Schnee.", "Die Sonne ist rot."]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    held = {}
    for part in ("train", "val", "test_2016_flickr"):
        for language, text in (("en", ENGLISH), ("de", GERMAN)):
            path = tmp_path / f"{part}.{language}.gz"
            path.write_bytes(gzip.compress(("\n".join(text) + "\n").encode()))
            held[path.name] = path
    monkeypatch.setattr(module, "files", lambda name: held)
    for cached in (module.vocabulary, module._encoded, module._kept):
        cached.cache_clear()
    item = tables.find("multi30k")
    row = item.rows[0]
    small = {"words": 10}
    run = make_run(item, type(row)(**{**vars(row), "task_config": small}), "smoke", 0)
    save_weights(
        tmp_path / "runs" / "multi30k" / run.name / "best.npz", run, build_model(run).state_dict()
    )
    return tmp_path


def arguments(folder: Path, *more: str) -> list[str]:
    where = ["--runs", str(folder / "runs"), "--results", str(folder / "results")]
    return ["translate", "multi30k", "--row", "attention", "--profile", "smoke", *where, *more]


def test_report_without_bleu(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(folder, "--no-bleu", "--width", "2")) == 0
    path = translation.path_of("multi30k", "attention", "smoke", 0, folder / "results")
    assert str(path) in capsys.readouterr().out
    plain = translation.read(path)
    assert plain["bleu"] == {} and plain["width"] == 2
    for name in ("greedy", "beam"):
        group = plain["sentences"][name]
        assert [one.source for one in group] == [
            list(module.words(text)) for text in translation.SENTENCES
        ]
        for one in group:
            assert len(one.weights) in (len(one.answer), len(one.answer) + 1)
            sums = torch.tensor(one.weights).sum(1)
            torch.testing.assert_close(sums, torch.ones_like(sums), atol=2e-3, rtol=0)
            assert one.text == module.joined(one.answer)
    beams, singles = plain["sentences"]["beam"], plain["sentences"]["greedy"]
    assert all(a.score >= b.score for a, b in zip(beams, singles, strict=True))


def test_without_sacrebleu_nothing_is_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    assert main(arguments(folder)) == 2
    assert "pip install 'sab[translation]'" in capsys.readouterr().err
    assert not (folder / "results").exists()
    with pytest.raises(ValueError, match="needs sacrebleu"):
        translation.bleu(["a"], ["a"])


def test_bleu_of_known_texts() -> None:
    pytest.importorskip("sacrebleu", reason="an extra of its own: sab[translation]")
    same = translation.bleu(GERMAN, GERMAN)
    assert same.score == pytest.approx(100.0) and "case:lc" in same.signature
    assert translation.bleu([text.lower() for text in GERMAN], GERMAN).score == pytest.approx(100)
    assert translation.bleu(GERMAN[1:] + GERMAN[:1], GERMAN).score < 10
    with pytest.raises(ValueError, match="answers: must be 3 texts"):
        translation.bleu(GERMAN[:2], GERMAN)


def test_each_text_alone_is_as_in_company(folder: Path) -> None:
    from sab.experiments.weights import load_model

    found = load_model("multi30k", "attention", "smoke", 0, runs=folder / "runs")[0]
    assert isinstance(found, Seq2Seq)
    task = TranslationTask(words=10)
    together = translation.translate(found, task, ENGLISH, 3)
    for i, text in enumerate(ENGLISH):
        (alone,) = translation.translate(found, task, [text], 3)
        assert alone.answer == together[i].answer
        assert alone.score == pytest.approx(together[i].score, abs=1e-5)


def test_errors(folder: Path) -> None:
    model = Seq2Seq()
    with pytest.raises(ValueError, match="width=0"):
        translation.translate(model, TranslationTask(words=10), ENGLISH, 0)
    with pytest.raises(ValueError, match="number 1 is empty"):
        translation.translate(model, TranslationTask(words=10), ["a man", " "])
    assert main([*arguments(folder, "--no-bleu")[:3], "nothing"]) == 2
    path = folder / "broken.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        translation.read(path)
