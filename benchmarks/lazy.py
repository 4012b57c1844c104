"""How many scores lazy retrieval skips, and what that saves.

    python -m benchmarks.lazy --lengths 300,5000 --weights FILE --json out.json

Rows: the copy task (trained weights where a file is named) and random tokens. Counts come from the
C++ form itself; times are of a forward pass without a graph, lazy beside eager, in turn.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from benchmarks import measure
from benchmarks.forms import Setting, batch_of, make_call, sab_model, with_form
from sab.checks import positive_int
from sab.ops.sab_scan import Recall
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import fused_scan


def counted(setting: Setting, lazy: bool) -> tuple[Tensor, Recall]:
    """(2,) scores computed and scores held, over the whole batch, and what was recalled.

    Raises:
        RuntimeError: the C++ form cannot be built here.
    """
    engine = load_scan()
    if engine is None:
        raise RuntimeError("the C++ form cannot be built here, and no other form is lazy")
    layer = sab_model(setting).layer
    x, _ = batch_of(setting)
    with torch.no_grad():
        out = fused_scan(
            x.transpose(0, 1), layer.weights, layer.init_state(setting.batch), layer.options, None,
            engine, lazy=lazy,
        )  # fmt: skip
    return out[4], out[3]


def row(setting: Setting, repeats: int) -> dict[str, Any]:
    """One row: counts, and times with lazy retrieval on and off.

    Raises:
        RuntimeError: the two differ in what they recall, or the C++ form cannot be built.
    """
    counts, recall = counted(setting, lazy=True)
    _, eager = counted(setting, lazy=False)
    if not torch.equal(recall.indices, eager.indices):
        raise RuntimeError(f"{setting}: lazy retrieval selected other memories")
    pair = {form: make_call(with_form(setting, form)) for form in ("cpp", "cpp_eager")}
    times = measure.interleaved(pair, dict.fromkeys(pair, repeats), warmup=0)
    computed, held = counts.tolist()
    return {
        **setting.described(), "computed": computed, "held": held,
        "skipped": round(1 - computed / held, 5) if held else 0.0,
        "ms_lazy": measure.summary(times["cpp"])["ms_median"],
        "ms_eager": measure.summary(times["cpp_eager"])["ms_median"], "repeats": repeats,
    }  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="benchmarks.lazy", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--lengths", type=measure.integers, default=[300, 5000])
    made.add_argument("--batch", type=int, default=32)
    made.add_argument("--repeats", type=int, default=3)
    measure.add_common(made, "lazy.json")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; 2 where an option is wrong or there is no compiler."""
    options = parser()
    args = options.parse_args(argv)
    measure.check_weights(options, args.weights)
    sizes = {"batch": args.batch, "hidden": args.hidden, "threads": args.threads}
    cases: list[tuple[str, str | None]] = [("random", None), ("copy", None)]
    if args.weights:
        cases += [("random", args.weights), ("copy", args.weights)]
    try:
        positive_int("repeats", args.repeats)
        settings = [
            Setting(form="cpp", length=n, input=source, mode="infer", weights=weights, **sizes)
            for n in args.lengths
            for source, weights in cases
        ]
    except ValueError as error:
        options.error(str(error))
    head = measure.header("scores that lazy retrieval skips", args.threads, args.note, args.weights)
    if load_scan() is None:
        measure.say("lazy retrieval needs the C++ form, and there is no compiler here")
        return 2
    rows = []
    for setting in settings:
        rows.append(row(setting, args.repeats))
        last = rows[-1]
        measure.say(
            f"{last['input']} T={last['length']} ({last['weights']}): skipped "
            f"{100 * last['skipped']:.1f} %, {last['ms_lazy']:.0f} ms beside {last['ms_eager']:.0f}"
        )
        measure.write(args.json, {"header": head, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
