"""Where a training step's time goes: cell, scores, the rest of a read, backward.

    python -m benchmarks.parts --lengths 300 --threads 2 --json results/bench/parts.json

A part is a difference of two measured steps. With a k_att beyond the length nothing is ever stored,
so that is the cell alone; larger k_att hold fewer memories.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure
from benchmarks.forms import Setting, make_call
from sab.checks import positive_int

K_ATT = (1, 2, 4, 8)


def steps(setting: Setting, repeats: int) -> list[dict[str, Any]]:
    """Rows of one form and length: every k_att of `K_ATT`, and none stored; forward and whole."""
    chosen = {}
    for k_att in (*K_ATT, setting.steps + 1):
        for mode in ("infer", "train"):
            one = dataclasses.replace(setting, k_att=k_att, mode=mode)
            chosen[f"{k_att} {mode}"] = one
    calls = {name: make_call(one) for name, one in chosen.items()}
    times = measure.interleaved(calls, dict.fromkeys(calls, repeats))
    return [
        {
            **one.described(),
            **measure.summary(times[name]),
            "stores": one.k_att <= one.steps,
        }
        for name, one in chosen.items()
    ]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="benchmarks.parts", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--lengths", type=measure.integers, default=[300])
    made.add_argument("--batch", type=int, default=64)
    made.add_argument("--forms", type=measure.names, default=["cpp", "cpp_eager", "torch"])
    made.add_argument("--repeats", type=int, default=5)
    measure.add_common(made, "parts.json")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; 2 where an option is wrong."""
    options = parser()
    args = options.parse_args(argv)
    sizes = {"batch": args.batch, "hidden": args.hidden, "threads": args.threads}
    try:
        positive_int("repeats", args.repeats)
        settings = [Setting(form=f, length=n, **sizes) for n in args.lengths for f in args.forms]
    except ValueError as error:
        options.error(str(error))
    head = measure.header("where the time of a training step goes", args.threads, args.note)
    rows: list[dict[str, Any]] = []
    for setting in settings:
        rows += steps(setting, args.repeats)
        for row in rows[-2 * len(K_ATT) - 2 :]:
            measure.say(
                f"{row['form']} T={row['length']} k_att {row['k_att']} {row['mode']}: "
                f"{row['ms_median']:.1f} ms"
            )
        measure.write(args.json, {"header": head, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
