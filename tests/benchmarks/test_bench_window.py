"""The window's benchmark: its own ways are right, and it writes what the chapters read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import window
from sab.ops.ema_scan import ema_scan
from sab.ops.window_attention import window_attention


@pytest.mark.parametrize("name", ["gathered", "sdpa_masked", "masked"])
def test_every_way_is_the_same_window(name: str) -> None:
    q, k, v = (x.detach() for x in window.heads_of(37))
    want = window_attention(q, k, v, 5)
    torch.testing.assert_close(window.WAYS[name](q, k, v, 5), want, atol=1e-5, rtol=0)


@pytest.mark.parametrize("masked", [False, True])
def test_halving_is_the_running_average(masked: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, alpha = torch.randn(2, 33, 3, generator=generator), torch.tensor([0.01, 0.1, 0.5])
    keep = torch.rand(2, 33, generator=generator) < 0.8 if masked else None
    want = ema_scan(x, alpha, keep=keep, form="reference")
    torch.testing.assert_close(window.halved(x, alpha, keep), want, atol=1e-6, rtol=0)


def test_parts_are_written_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    common = ["--json", str(path), "--repeats", "1", "--length", "64", "--window", "4"]
    common += ["--lengths", "16,32", "--longest", "16", "--steps", "20", "--batches", "1,2"]
    for part in window.PARTS:
        assert window.main(["--part", part, *common]) == 0
    found = json.loads(path.read_text())
    assert set(found) == set(window.PARTS)
    assert {row["form"] for row in found["attention"]["rows"]} == set(window.WAYS)
    kept = {(row["form"], row["length"]): row["kept_mb"] for row in found["memory"]["rows"]}
    assert ("masked", 32) not in kept and kept["blocked", 32] > 1.8 * kept["blocked", 16]
    scans = [(row["form"], row["masked"], row["batch"]) for row in found["scan"]["rows"]]
    assert len(scans) == len(set(scans)) == 2 * 8
    assert {row["form"] for row in found["layers"]["rows"]} >= {"REA", "listing", "full attention"}
    assert all(row["ms_median"] > 0 for row in found["layers"]["rows"])
    forms = {(row["whole"], row["form"], row["length"]) for row in found["inputs"]["rows"]}
    assert len(forms) == len(found["inputs"]["rows"]) == 3 * 2 * 2


def test_the_committed_record_meets_its_bars() -> None:
    found = json.loads((window.measure.BENCH / "window.json").read_text())
    ms = {row["form"]: row["ms_median"] for row in found["attention"]["rows"]}
    assert found["attention"]["rows"][0]["length"] == 4096
    assert ms["masked"] > 15 * ms["blocked"]
    scan = {
        (row["form"], row["masked"]): row["ms_median"]
        for row in found["scan"]["rows"]
        if row["batch"] == 1
    }
    for masked in (False, True):
        assert scan["reference", masked] > 5 * scan["parallel", masked]
