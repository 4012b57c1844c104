"""What is measured: turns, medians, memory of a process of its own, and the files."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import everything, lazy, measure, parts, scaling, scan
from benchmarks.forms import FORMS, Setting, batch_of, build, make_call, sab_model
from sab.experiments.config import RunConfig
from sab.experiments.weights import save_weights
from sab.models.sab import SAB, SABConfig
from sab.ops.sab_scan.cpp import load_scan

SMALL: dict[str, Any] = {"batch": 3, "hidden": 8, "threads": 1}
TINY = ["--hidden", "8", "--threads", "1"]


def test_calls_take_turns_and_slow_ones_are_spread() -> None:
    seen: list[str] = []
    calls = {name: lambda name=name: seen.append(name) for name in "ab"}
    times = measure.interleaved(calls, {"a": 4, "b": 2}, warmup=1)
    assert seen == [*"ab", *"ab", "a", *"ab", "a"]
    assert [len(times[name]) for name in "ab"] == [4, 2]
    with pytest.raises(ValueError, match="repeats=0"):
        measure.interleaved(calls, {"a": 1, "b": 0})


def test_times_are_wall_times() -> None:
    times = measure.interleaved({"nap": lambda: time.sleep(0.02)}, {"nap": 3})
    got = measure.summary(times["nap"])
    assert got["ms_median"] >= got["ms_min"] >= 20
    assert got["repeats"] == 3
    own = measure.interleaved(
        {"nap": lambda: time.sleep(0.02)}, {"nap": 3}, clock=time.process_time
    )
    assert measure.summary(own["nap"])["ms_min"] < 15  # asleep, the processor does other things


@pytest.mark.parametrize("form", ["lstm", "cpp_recompute", "torch", "reference", "released_lean"])
@pytest.mark.parametrize("source", ["random", "copy"])
def test_a_training_step_gives_every_weight_its_gradient(form: str, source: str) -> None:
    setting = Setting(form=form, length=14, input=source, **SMALL)
    module = build(setting)
    loss = make_call(setting, module)()
    assert torch.isfinite(loss)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in module.parameters())
    x, y = batch_of(setting)
    assert x.shape == (3, setting.steps, 10) and y.shape == (3, setting.steps)
    assert setting.steps == (34 if source == "copy" else 14)


def test_forms_of_the_same_model_agree() -> None:
    losses = {
        form: make_call(Setting(form=form, length=20, **SMALL))().item()
        for form in ("cpp", "cpp_recompute", "cpp_eager", "torch", "reference")
    }
    for value in losses.values():
        assert value == pytest.approx(losses["reference"], abs=1e-6)


def test_inference_keeps_no_graph() -> None:
    logits = make_call(Setting(form="torch", length=6, mode="infer", **SMALL))()
    assert logits.shape == (3, 6, 10) and not logits.requires_grad


def test_memory_is_that_of_the_form_s_own_process() -> None:
    small = measure.peak_of(Setting(form="released", length=10, **SMALL))
    large = measure.peak_of(Setting(form="released", length=150, batch=8, hidden=64, threads=1))
    # at every step the squashed pairs of query and memory are kept: 2 n floats a memory
    kept = sum(t // 2 + 1 for t in range(150)) * 8 * 128 * 4 / 1e6
    assert small["peak_mb"] >= small["base_mb"] > 50
    assert large["peak_mb"] - large["base_mb"] > kept
    assert small["peak_mb"] - small["base_mb"] < kept


def weights_file(folder: Path, hidden: int = 8) -> Path:
    config = {"hidden_size": hidden}
    run = RunConfig(experiment="copy", row="trial", task="copy", model="sab", model_config=config)
    path = folder / "best.npz"
    torch.manual_seed(3)
    save_weights(path, run, SAB(SABConfig(hidden_size=hidden)).state_dict())
    return path


def test_trained_weights_are_taken(tmp_path: Path) -> None:
    path = str(weights_file(tmp_path))
    setting = Setting(form="cpp", length=9, input="copy", weights=path, **SMALL)
    torch.manual_seed(3)
    for name, value in SAB(SABConfig(hidden_size=8)).state_dict().items():
        assert torch.equal(sab_model(setting).state_dict()[name], value)
    assert setting.described()["weights"] == "trained"
    assert (
        Setting(form="lstm", length=9, weights=path, **SMALL).described()["weights"] == "untrained"
    )
    other = Setting(form="cpp", length=9, weights=path, batch=3, hidden=16, threads=1)
    with pytest.raises(ValueError, match="must be"):
        sab_model(other)


def test_scan_writes_rows_that_name_their_setting(tmp_path: Path) -> None:
    path = tmp_path / "scan.json"
    argv = ["--lengths", "12", "--batch", "3", "--forms", "lstm,torch", "--repeats", "2"]
    assert scan.main([*argv, *TINY, "--note", "a trial", "--json", str(path)]) == 0
    got = json.loads(path.read_text())
    assert {"machine", "created", "load_before", "version"} <= set(got["header"])
    assert got["header"]["note"] == "a trial"
    assert got["header"]["machine"]["torch"] == torch.__version__
    assert [row["form"] for row in got["rows"]] == ["lstm", "torch"]
    for row in got["rows"]:
        assert (row["length"], row["batch"], row["hidden"], row["threads"]) == (12, 3, 8, 1)
        assert row["input"] == "random" and row["repeats"] == 2
        assert 0 < row["ms_min"] <= row["ms_median"] and row["peak_mb"] >= row["base_mb"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--lengths", "0"], "must be positive integers"),
        (["--forms", "gru"], "form='gru'"),
        (["--repeats", "0"], "repeats=0"),
        (["--weights", "/no/such/file.npz"], "no such file"),
        (["--input", "noise"], "invalid choice"),
        (["--batch", "-1"], "batch=-1"),
    ],
)
def test_wrong_options_end_with_a_line(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        scan.main(argv)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_lengths_beyond_a_form_s_reach_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "peak_of", lambda setting: {"peak_mb": 1.0, "base_mb": 1.0})
    settings = [Setting(form=f, length=n, **SMALL) for n in (8, 4) for f in ("lstm", "torch")]
    rows = scaling.curve(settings, {"torch": 4}, 0.1, say=lambda text: None)
    assert [(r["form"], r["length"]) for r in rows] == [("lstm", 4), ("torch", 4), ("lstm", 8)]


@pytest.mark.parametrize("form", ["lstm", "torch"])
def test_streaming_gives_what_one_pass_gives(form: str) -> None:
    setting = Setting(form=form, length=23, mode="infer", **SMALL)
    row = scaling.stream(setting, chunk=5)
    assert row["steps_done"] == [5, 10, 15, 20, 23]
    assert row["seconds"] == sorted(row["seconds"])
    assert len(row["resident_mb"]) == 5 and max(row["resident_mb"]) <= row["peak_mb"]
    with pytest.raises(ValueError, match="chunk=0"):
        scaling.stream(setting, chunk=0)


def test_evaluation_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = str(weights_file(tmp_path))
    setting = Setting(form="torch", length=9, input="copy", mode="infer", weights=path, **SMALL)
    row = scaling.apart("evaluate", setting, 1)
    assert row["weights"] == "trained" and 0 <= row["accuracy"] <= 1 and row["peak_mb"] > 50
    here = scaling.evaluate(setting)
    assert row["accuracy"] == here["accuracy"]
    with pytest.raises(RuntimeError, match="evaluate cpp"):
        scaling.apart("evaluate", Setting(form="cpp", length=9, weights="/none", **SMALL), 1)


needs_compiler = pytest.mark.skipif(load_scan() is None, reason="no compiler: nothing is lazy")


@needs_compiler
def test_lazy_counts(tmp_path: Path) -> None:
    setting = Setting(form="cpp", length=200, input="copy", mode="infer", **SMALL)
    counts, _ = lazy.counted(setting, lazy=True)
    every, _ = lazy.counted(setting, lazy=False)
    held = sum((t - 1) // 2 for t in range(1, setting.steps + 1)) * setting.batch
    assert every.tolist() == [held, held]
    assert counts[1] == held and 0 < counts[0] < held, "blanks hardly move the query"
    path = tmp_path / "lazy.json"
    argv = ["--lengths", "60", "--batch", "3", "--repeats", "1", "--json", str(path), *TINY]
    assert lazy.main([*argv, "--weights", str(weights_file(tmp_path))]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [(row["input"], row["weights"]) for row in rows] == [
        ("random", "untrained"), ("copy", "untrained"), ("random", "trained"), ("copy", "trained")
    ]  # fmt: skip
    for row in rows:
        assert 0 <= row["skipped"] < 1 and row["skipped"] == pytest.approx(
            1 - row["computed"] / row["held"], abs=1e-5
        )


def test_parts_measure_every_k_att(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    argv = ["--lengths", "12", "--batch", "2", "--forms", "torch", "--repeats", "1"]
    assert parts.main([*argv, *TINY, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [row["k_att"] for row in rows if row["mode"] == "train"] == [*parts.K_ATT, 13]
    assert [row["stores"] for row in rows][-2:] == [False, False]


def test_the_whole_set_names_its_files(tmp_path: Path) -> None:
    made = everything.commands("cpu", tmp_path, "w.npz", None)
    targets = [Path(line[line.index("--json") + 1]).name for line in made]
    assert targets == [
        "scan-random.json",
        "scan-copy.json",
        "scaling.json",
        "lazy.json",
        "parts.json",
    ]
    assert [("--weights" in line) for line in made] == [False, True, True, True, False]
    assert len(everything.commands("cpu", tmp_path, None, None)) == 4
    for size, compiler in itertools.product(everything.SIZES, (True, False)):
        for name, *rest in everything.commands(size, tmp_path, "w.npz", "n", compiler):
            module = {"scan": scan, "scaling": scaling, "lazy": lazy, "parts": parts}[name]
            args = module.parser().parse_args(rest)  # an unknown option would end the test
            assert args.note == "n"
            forms = set(getattr(args, "forms", ["cpp"]))
            assert forms <= set(FORMS)
            assert any(form.startswith("cpp") for form in forms) == compiler
