"""The GPU script without a GPU: its refusal, and the equality routine on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu, measure
from sab.ops.sab_scan import fused


def test_without_a_gpu_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    path = tmp_path / "gpu.json"
    assert gpu.main(["--json", str(path)]) == 2
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "no GPU" in out
    assert not path.exists()


@pytest.mark.parametrize("case", list(gpu.CASES))
def test_the_torch_form_passes(case: str) -> None:
    row = gpu.compare("torch", case, "cpu")
    assert row["equal"] and row["same_selection"], row
    assert row["device"] == "cpu"
    json.dumps(row)


def test_a_wrong_gradient_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fused._Scan.backward

    def wrong(ctx: object, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        made = list(right(ctx, *grads))
        made[6] = None if made[6] is None else 1.001 * made[6]
        return tuple(made)

    monkeypatch.setattr(fused._Scan, "backward", staticmethod(wrong))
    row = gpu.compare("torch", "default", "cpu")
    assert not row["equal"] and row["where"] == "gradient of w3"
    assert row["error"] == pytest.approx(1e-3, rel=1e-3)


def test_a_form_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(measure, "say", said.append)
    rows = gpu.check_equality(["no-such-form"], "cpu")
    assert len(rows) == len(gpu.CASES) == len(said)
    assert not any(row["equal"] for row in rows)
    assert "no-such-form" in rows[0]["failed"]


def fake_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the CPU for the device, so that the rest of the script can run."""
    for name, value in {
        "is_available": lambda: True, "is_initialized": lambda: False,
        "get_device_name": lambda device=None: "CPU (a trial)",
        "reset_peak_memory_stats": lambda: None, "max_memory_allocated": lambda: 5_000_000,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(measure, "header", lambda question, threads, note: {"question": question})
    setting, check = gpu.Setting, gpu.check_equality
    monkeypatch.setattr(gpu, "Setting", lambda **kw: setting(**{**kw, "device": "cpu"}))
    monkeypatch.setattr(gpu, "check_equality", lambda forms, device: check(forms, "cpu"))


def test_the_record_grows_row_by_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_device(monkeypatch)
    monkeypatch.setattr(measure, "BENCH", tmp_path)
    sizes: list[int] = []
    write = measure.write

    def counted(path: Path, made: dict[str, Any]) -> None:
        sizes.append(len(made["rows"]))
        write(path, made)

    monkeypatch.setattr(measure, "write", counted)
    argv = ["--lengths", "6,9", "--batch", "2", "--hidden", "4", "--forms", "lstm,torch,warp"]
    assert gpu.main([*argv, "--repeats", "1", "--threads", "1"]) == 0
    got = json.loads((tmp_path / "gpu-cpu-a-trial.json").read_text())
    assert sizes == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert [row["form"] for row in got["rows"]] == ["lstm", "torch"] * 4
    assert {row["length"] for row in got["rows"]} == {6, 9}
    assert all(row["peak_mb"] == 5 and row["ms_min"] > 0 for row in got["rows"])
    assert got["missing_forms"] == ["warp"]
    assert all(row["equal"] for row in got["equality"])


def test_a_run_out_of_time_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_device(monkeypatch)
    monkeypatch.setattr(gpu, "check_equality", lambda forms, device: [])
    path = tmp_path / "gpu.json"
    argv = ["--lengths", "6", "--batch", "2", "--hidden", "4", "--max-seconds", "0"]
    assert gpu.main([*argv, "--json", str(path)]) == 0
    got = json.loads(path.read_text())
    assert got["rows"] == [] and got["cut"] == "stopped before lstm T=6 train"


def test_wrong_options(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, words in ((["--repeats", "0"], "repeats=0"), (["--lengths", "x"], "positive")):
        with pytest.raises(SystemExit) as ended:
            gpu.main(argv)
        assert ended.value.code == 2
        assert words in capsys.readouterr().err


def test_the_file_is_named_after_the_gpu() -> None:
    assert gpu.file_name("NVIDIA H200 (141 GB)") == "gpu-nvidia-h200-141-gb.json"
