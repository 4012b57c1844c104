"""What is kept of a language model is what it does, and damaged files are said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sab.analysis import excerpts
from sab.analysis.excerpts import LINES, make_excerpt, read_excerpt, write_excerpt
from sab.analysis.reading import character_bits, lines_batch
from sab.cli import main
from sab.experiments.config import RunConfig
from sab.experiments.weights import build_model
from sab.tasks import build
from sab.tasks.text import TEXT8

Keep = Callable[..., RunConfig]


def test_it_is_what_the_model_does(keep: Keep, tmp_path: Path) -> None:
    run = keep("sab", k_att=4, k_trunc=4, k_top=2)
    made = make_excerpt("text", "sab", count=20, runs=tmp_path / "runs")
    write_excerpt(made, tmp_path / "results")
    kept = read_excerpt("text", "sab", results=tmp_path / "results")
    assert kept is not None
    assert dataclasses.replace(kept, bits=made.bits, reads=made.reads) == made
    assert np.allclose(kept.bits, made.bits, atol=1e-3)
    assert np.allclose(kept.reads, made.reads, atol=1e-3)
    assert (kept.text, kept.k_att, len(kept.written)) == (LINES["colours"], 4, 20)
    batch = lines_batch(build("charlm", run.task_config), [kept.text])
    with torch.no_grad():
        outputs, _, recall = build_model(run)(batch.x, return_recall=True)
    assert np.allclose(made.bits, character_bits(outputs, batch.y)[0], atol=1e-6)
    assert np.allclose(made.reads, recall.matrix()[0], atol=1e-6)
    assert make_excerpt("text", "sab", count=20, runs=tmp_path / "runs").written == kept.written


def test_the_command_and_a_model_without_memory(
    keep: Keep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep("lstm")
    folders = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["maps", "text", "--row", "lstm", *folders]) == 0
    assert "35 characters" in capsys.readouterr().out
    kept = read_excerpt("text", "lstm", results=tmp_path / "results")
    assert kept is not None and kept.k_att == 0 and not kept.reads.any()


def test_none_and_damaged(keep: Keep, tmp_path: Path) -> None:
    assert read_excerpt("text", "sab", results=tmp_path) is None
    path = tmp_path / "maps" / "text" / "sab-cpu-s0.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"text": "abc"}')
    with pytest.raises(ValueError, match="damaged"):
        read_excerpt("text", "sab", results=tmp_path)
    with pytest.raises(FileNotFoundError):
        make_excerpt("text", "sab", runs=tmp_path / "runs")


def test_only_language_models(keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep("lstm")
    monkeypatch.setattr(excerpts, "LINES", {"ptb": "a"})
    with pytest.raises(ValueError, match="must read one of ptb"):
        make_excerpt("text", "lstm", runs=tmp_path / "runs")


def test_the_lines_fit_their_alphabets() -> None:
    for corpus in ("colours", "numbers"):
        assert set(LINES[corpus]) <= set(build("charlm", {"corpus": corpus}).text.alphabet)  # type: ignore[attr-defined]
    assert set(LINES["text8"]) <= set(TEXT8) and LINES["books"] == LINES["text8"]
    assert set(LINES["ptb"]) <= set("abcdefghijklmnopqrstuvwxyz_.'\n")
    assert max(map(len, LINES.values())) <= 100  # a segment
