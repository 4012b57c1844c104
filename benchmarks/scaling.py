"""Time and peak memory against length, in training, inference and streaming.

    python -m benchmarks.scaling --threads 2 --json results/bench/scaling.json

Training: batch 64. Inference: batch 32, a forward pass without a graph. Streaming: the state is
carried from chunk to chunk, in a process of its own, and each chunk is timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks import measure
from benchmarks.forms import FORMS, INPUTS, PlainLSTM, Setting, batch_of, build
from benchmarks.scan import compare
from sab.checks import positive_int
from sab.tasks.copy import CopyTask

# A form is measured up to this many steps: beyond, it needs minutes or more memory than most have.
MOST_TRAIN = {"released": 300, "released_lean": 300, "reference": 200, "torch": 800}
MOST_INFER = {"released": 500, "released_lean": 500, "reference": 300, "torch": 1000}


def curve(
    settings: Sequence[Setting], most: dict[str, int], budget: float, say: measure.Say = measure.say
) -> list[dict[str, Any]]:
    """Rows of settings of many lengths, each length's forms side by side, short ones more often.

    Args:
        settings: in any order; those longer than ``most`` allows their form are left out.
        most: form → steps.
        budget: seconds for a length's timed calls, about; at least two of each form.
        say: told of each row.
    """
    rows = []
    for length in sorted({s.length for s in settings}):
        group = [s for s in settings if s.length == length and length <= most.get(s.form, length)]
        if not group:
            continue
        begin = time.perf_counter()
        slow = max(1, length // 100) * len(group)
        repeats = max(2, min(9, int(budget / (0.2 * slow))))
        rows += compare(group, repeats, min(repeats, 3), say)
        say(f"length {length}: {time.perf_counter() - begin:.0f} s")
    return rows


def evaluate(setting: Setting) -> dict[str, Any]:
    """Accuracy of a model on one batch of the copy task, its time and the process's peak memory."""
    x, y = batch_of(setting)
    module = build(setting)
    begin = time.perf_counter()
    with torch.no_grad():
        logits = module(x)
    seconds = time.perf_counter() - begin
    accuracy = CopyTask(T=setting.length).metrics(logits, y)["accuracy"]
    return {
        **setting.described(), "seconds": round(seconds, 3), "accuracy": round(accuracy, 4),
        "peak_mb": round(measure.resident_mb(), 1),
    }  # fmt: skip


def stream(setting: Setting, chunk: int) -> dict[str, Any]:
    """Carry the state through ``length`` steps, chunk by chunk.

    Returns:
        The setting, ``steps_done`` and the cumulative ``seconds`` and ``resident_mb`` of this
        process after each chunk, and its ``peak_mb``.

    Raises:
        ValueError: ``chunk`` is not a positive integer.
    """
    positive_int("chunk", chunk)
    module: Any = build(setting)
    x, _ = batch_of(setting)
    done, seconds, resident = [], [], []
    state: Any = None
    begin = time.perf_counter()
    with torch.no_grad():
        for start in range(0, x.shape[1], chunk):
            piece = x[:, start : start + chunk]
            if isinstance(module, PlainLSTM):
                _, state = module.lstm(piece, state)
            else:
                _, state = module.model(piece, state)
            done.append(start + piece.shape[1])
            seconds.append(round(time.perf_counter() - begin, 4))
            resident.append(round(measure.resident_mb(peak=False), 1))
    return {
        **setting.described(), "chunk": chunk, "steps_done": done, "seconds": seconds,
        "resident_mb": resident, "peak_mb": round(measure.resident_mb(), 1),
    }  # fmt: skip


def apart(what: str, setting: Setting, chunk: int) -> dict[str, Any]:
    """Run ``evaluate`` or ``stream`` in a process of its own.

    Raises:
        RuntimeError: the process failed.
    """
    argument = json.dumps([what, dataclasses.asdict(setting), chunk])
    environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--apart", argument],
        cwd=measure.ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{what} {setting.form}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="benchmarks.scaling", description=(__doc__ or "").splitlines()[0]
    )
    lengths = measure.integers
    made.add_argument("--train", type=lengths, default=[50, 100, 200, 300, 400, 800])
    made.add_argument("--infer", type=lengths, default=[100, 300, 500, 1000, 2000, 5000])
    made.add_argument("--stream", type=int, default=20000, help="steps of the streamed sequence")
    made.add_argument("--chunk", type=int, default=500, help="steps a chunk of it")
    made.add_argument("--evaluate", type=lengths, default=[5000], help="delays of the copy task")
    made.add_argument("--batch", type=int, default=64, help="of training")
    made.add_argument("--infer-batch", type=int, default=32)
    made.add_argument("--stream-batch", type=int, default=8)
    made.add_argument(
        "--forms", type=measure.names, default=["lstm", "cpp", "torch", "released"],
        help=f"some of {','.join(FORMS)}",
    )  # fmt: skip
    made.add_argument("--input", choices=INPUTS, default="random", help="of training and inference")
    made.add_argument("--budget", type=float, default=6.0, help="seconds a length, about")
    made.add_argument("--apart", help=argparse.SUPPRESS)
    measure.add_common(made, "scaling.json")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; 2 where an option is wrong."""
    options = parser()
    args = options.parse_args(argv)
    if args.apart:
        what, plain, chunk = json.loads(args.apart)
        one = Setting(**plain)
        torch.set_num_threads(one.threads)
        made = stream(one, chunk) if what == "stream" else evaluate(one)
        print(json.dumps(made))
        return 0
    measure.check_weights(options, args.weights)

    def setting(form: str, length: int, batch: int, mode: str, source: str) -> Setting:
        return Setting(
            form=form, length=length, batch=batch, hidden=args.hidden, threads=args.threads,
            input=source, mode=mode, weights=args.weights if source == "copy" else None,
        )  # fmt: skip

    source = args.input
    try:
        positive_int("chunk", args.chunk)
        training = [
            setting(f, n, args.batch, "train", source) for n in args.train for f in args.forms
        ]
        inference = [
            setting(f, n, args.infer_batch, "infer", source) for n in args.infer for f in args.forms
        ]
        fast = "cpp" if "cpp" in args.forms else "torch"
        carried = [f for f in ("lstm", fast) if f in args.forms]
        streams = [setting(f, args.stream, args.stream_batch, "infer", source) for f in carried]
        copies = [setting(fast, n, args.infer_batch, "infer", "copy") for n in args.evaluate]
    except ValueError as error:
        options.error(str(error))
    question = f"time and memory against length; {measure.STEP}"
    content: dict[str, Any] = {
        "header": measure.header(question, args.threads, args.note, args.weights)
    }
    content |= {"training": [], "inference": [], "streaming": [], "evaluation": []}
    content["training"] = curve(training, MOST_TRAIN, args.budget)
    measure.write(args.json, content)
    content["inference"] = curve(inference, MOST_INFER, args.budget)
    measure.write(args.json, content)
    for one in streams:
        row = apart("stream", one, args.chunk)
        content["streaming"].append(row)
        measure.say(
            f"{one.form} streamed {row['steps_done'][-1]} steps: {row['seconds'][-1]:.1f} s"
        )
        measure.write(args.json, content)
    for one in copies:
        row = apart("evaluate", one, args.chunk)
        content["evaluation"].append(row)
        measure.say(
            f"copy T={one.length}, batch {one.batch}: {row['seconds']:.1f} s, "
            f"{row['peak_mb']:.0f} MB, accuracy {row['accuracy']:.3f} ({row['weights']})"
        )
        measure.write(args.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
