from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import language


def test_it_measures_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "language.json"
    small = ["--hidden", "8", "--batch", "2", "--length", "42", "--threads", "1", "--repeats", "2"]
    assert language.main([*small, "--forms", "torch", "--json", str(path)]) == 0
    lstm, sab = json.loads(path.read_text())["rows"]
    assert (lstm["form"], sab["form"], lstm["ratio_to_lstm"]) == ("lstm", "torch", 1.0)
    assert (sab["k_trunc"], sab["k_top"], sab["k_att"]) == (20, 10, 20)
    assert sab["ratio_to_lstm"] == pytest.approx(sab["ms_median"] / lstm["ms_median"], abs=1e-3)
    assert "times the LSTM" in capsys.readouterr().out


def test_wrong_options_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    for options, word in ((["--forms", "fast"], "form='fast'"), (["--repeats", "0"], "repeats=0")):
        with pytest.raises(SystemExit) as stop:
            language.main(options)
        assert stop.value.code == 2 and word in capsys.readouterr().err
