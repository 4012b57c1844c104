"""A training step at the size of the paper's language model: SAB (20, 10, 20) beside the LSTM.

    python -m benchmarks.language --threads 2 --json out.json

1,000 units, batch 32, sequences of 100. The question is the ratio of the medians, in turns.
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
from benchmarks.forms import FORMS, Setting, make_call
from sab.checks import positive_int


def settings_of(args: argparse.Namespace) -> list[Setting]:
    """The LSTM, then each form of SAB asked for.

    Raises:
        ValueError: an unknown form, or a size that is not a positive integer.
    """
    return [
        Setting(
            form=form, length=args.length, batch=args.batch, hidden=args.hidden,
            threads=args.threads, k_trunc=20, k_top=10, k_att=20,
        )
        for form in ["lstm", *args.forms]
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; 2 where an option is wrong."""
    options = argparse.ArgumentParser(
        prog="benchmarks.language", description=(__doc__ or "").splitlines()[0]
    )
    options.add_argument("--length", type=int, default=100)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument(
        "--forms", type=measure.names, default=["cpp"], help=f"some of {','.join(FORMS)}"
    )
    measure.add_common(options, "language.json")
    options.set_defaults(hidden=1000)
    args = options.parse_args(argv)
    try:
        positive_int("repeats", args.repeats)
        settings = settings_of(args)
    except ValueError as error:
        options.error(str(error))
    question = f"SAB (20, 10, 20) against the LSTM, language-model size; {measure.STEP}"
    head = measure.header(question, args.threads, args.note)
    calls = {setting.form: make_call(setting) for setting in settings}
    times = measure.interleaved(calls, dict.fromkeys(calls, args.repeats))
    rows: list[dict[str, Any]] = []
    for setting in settings:
        row = {**setting.described(), **measure.summary(times[setting.form])}
        row["ratio_to_lstm"] = round(row["ms_median"] / (rows[0] if rows else row)["ms_median"], 3)
        rows.append(row)
        measure.say(
            f"{row['form']:>14}: {row['ms_median']:.0f} ms (least {row['ms_min']:.0f}), "
            f"{row['ratio_to_lstm']:.2f} times the LSTM"
        )
    measure.write(args.json, {"header": head, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
