"""Side by side: a training step of each form, its time and its memory.

    python -m benchmarks.scan --lengths 300 --batch 64 --hidden 128 --threads 2 \
        --forms lstm,cpp,torch,reference,released --input random --json out.json

Times are medians over interleaved repeats in one process; peak memory is that of each form's own
process, with python and torch in it (``base_mb``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure
from benchmarks.forms import FORMS, INPUTS, Setting, make_call
from sab.checks import positive_int

SLOW = ("reference", "released", "released_lean")


def compare(
    settings: Sequence[Setting], repeats: int, slow_repeats: int, say: measure.Say = measure.say
) -> list[dict[str, Any]]:
    """Rows of settings that differ in form alone.

    Args:
        settings: what to run, in turn.
        repeats: timed steps of each.
        slow_repeats: of those in `SLOW`.
        say: told of each row.
    """
    calls = {s.form: make_call(s) for s in settings}
    counts = {s.form: min(repeats, slow_repeats) if s.form in SLOW else repeats for s in settings}
    times = measure.interleaved(calls, counts)
    del calls
    rows = []
    for setting in settings:
        row = {**setting.described(), **measure.summary(times[setting.form])}
        row |= measure.peak_of(setting)
        rows.append(row)
        say(
            f"{row['form']:>14} {row['mode']} T={row['length']} {row['input']}: "
            f"{row['ms_median']:.1f} ms (least {row['ms_min']:.1f}), peak {row['peak_mb']:.0f} MB"
        )
    return rows


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="benchmarks.scan", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument(
        "--lengths", type=measure.integers, default=[300], help="steps, or copy's delay"
    )
    made.add_argument("--batch", type=int, default=64)
    made.add_argument(
        "--forms", type=measure.names, default=["lstm", "cpp", "torch", "reference", "released"],
        help=f"some of {','.join(FORMS)}",
    )  # fmt: skip
    made.add_argument("--input", choices=INPUTS, default="random")
    made.add_argument("--repeats", type=int, default=9)
    made.add_argument("--slow-repeats", type=int, default=3, help=f"of {', '.join(SLOW)}")
    measure.add_common(made, "scan.json")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; 2 where an option is wrong."""
    options = parser()
    args = options.parse_args(argv)
    measure.check_weights(options, args.weights)
    try:
        groups = [
            [
                Setting(
                    form=form, length=length, batch=args.batch, hidden=args.hidden,
                    threads=args.threads, input=args.input, weights=args.weights,
                )
                for form in args.forms
            ]
            for length in args.lengths
        ]  # fmt: skip
        positive_int("repeats", args.repeats)
        positive_int("slow-repeats", args.slow_repeats)
    except ValueError as error:
        options.error(str(error))
    question = f"one training step, form beside form; {measure.STEP}"
    head = measure.header(question, args.threads, args.note, args.weights)
    rows: list[dict[str, Any]] = []
    for group in groups:
        rows += compare(group, args.repeats, args.slow_repeats)
        measure.write(args.json, {"header": head, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
