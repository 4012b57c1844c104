"""Times in interleaved repeats, peak memory in a process of its own, and the JSON files."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import sab
from benchmarks.forms import Call, Setting, make_call
from sab.checks import positive_int
from sab.experiments.files import write_atomic
from sab.experiments.records import finite, machine

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "results" / "bench"
STEP = "a training step is forward, loss and backward, without an optimiser"
Say = Callable[[str], None]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def wait() -> None:
    """Let a GPU finish what was asked of it."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def interleaved(
    calls: Mapping[str, Call],
    repeats: Mapping[str, int],
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Times in seconds of each call, taken in turn, so that a slow minute hits all of them.

    Args:
        calls: what to time, by name.
        repeats: timed calls of each; those of a call with fewer are spread over the rounds.
        warmup: calls of each that do not count.
        clock: what tells the time; of one thread ``time.process_time`` leaves out what the machine
            does beside.

    Raises:
        ValueError: a count is not a positive integer.
    """
    for name in calls:
        positive_int("repeats", repeats[name])
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(warmup):
            call()
    rounds = max(repeats.values())
    for turn in range(rounds):
        for name, call in calls.items():
            if (turn * repeats[name]) % rounds >= repeats[name]:
                continue
            wait()
            begin = clock()
            call()
            wait()
            times[name].append(clock() - begin)
    return times


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Median, least and number of the times, in milliseconds."""
    return {
        "ms_median": round(1e3 * statistics.median(times), 3),
        "ms_min": round(1e3 * min(times), 3),
        "repeats": len(times),
    }


def resident_mb(peak: bool = True) -> float:
    """Memory of this process in 10⁶ bytes, all of it: the most it ever held, or what it holds."""
    key = "VmHWM:" if peak else "VmRSS:"
    try:  # unlike ru_maxrss, this does not remember the parent process
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(key):
                return float(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit / 1e6


def peak_of(setting: Setting) -> dict[str, float]:
    """Run a setting twice in a process of its own and return its memory.

    Returns:
        ``peak_mb`` (the whole process) and ``base_mb`` (python, torch, the model and the data).

    Raises:
        RuntimeError: the process failed.
    """
    argument = json.dumps(dataclasses.asdict(setting))
    environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", argument],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{setting.form}, length {setting.length}: {done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def header(
    question: str, threads: int, note: str | None = None, weights: str | None = None
) -> dict[str, Any]:
    """Where and when: machine, torch, load of the machine before the start, date, weights used."""
    torch.set_num_threads(threads)
    facts = machine(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    head: dict[str, Any] = {
        "question": question,
        "machine": facts,
        "load_before": round(os.getloadavg()[0], 2),
        "version": sab.__version__,
        "created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
    }
    if weights:
        head["weights"] = "/".join(Path(weights).with_suffix("").parts[-3:])
    if note:
        head["note"] = note
    return head


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a record whole, or not at all."""
    text = json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(Path(path), lambda file: file.write(text.encode()))


def integers(text: str) -> list[int]:
    """Positive integers in a comma-separated list (for argparse)."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be positive integers, as in 100,300")
    return values


def names(text: str) -> list[str]:
    """Names in a comma-separated list (for argparse)."""
    return [part.strip() for part in text.split(",") if part.strip()]


def add_common(parser: argparse.ArgumentParser, output: str) -> None:
    """Options that all the scripts have."""
    parser.add_argument("--hidden", type=int, default=128, help="hidden units")
    parser.add_argument("--threads", type=int, default=2, help="threads of the CPU")
    parser.add_argument("--weights", help="trained SAB weights (.npz) for --input copy")
    parser.add_argument("--json", type=Path, default=BENCH / output, help="file to write")
    parser.add_argument("--note", help="a sentence to keep in the record")


def check_weights(parser: argparse.ArgumentParser, path: str | None) -> None:
    """End with a line where a weights file was named that is not there."""
    if path is not None and not Path(path).is_file():
        parser.error(f"--weights {path}: no such file")


def main(argument: str) -> None:
    """In a process of its own: run a setting and print its memory."""
    setting = Setting(**json.loads(argument))
    torch.set_num_threads(setting.threads)
    call = make_call(setting)
    base = resident_mb()
    for _ in range(2):  # the second has the first's gradients and freed blocks beside it
        call()
    print(json.dumps({"peak_mb": round(resident_mb(), 1), "base_mb": round(base, 1)}))


if __name__ == "__main__":
    main(sys.argv[1])
