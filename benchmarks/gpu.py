"""On a GPU: are the forms equal, and how fast are they beside cuDNN's LSTM?

    python -m benchmarks.gpu

One prepared run of under 8 minutes: equality first, then times at T=300 and 784, written row by
row, so that a run cut short leaves what it had. Without a GPU it says so in one line and returns 2.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from benchmarks import measure
from benchmarks.forms import Setting, make_call
from sab.checks import positive_int
from sab.models.sab import SABLayer
from sab.ops.sab_scan import FORMS as SCAN_FORMS
from sab.ops.sab_scan import sab_scan

# Every path of the backward that differs in kind; sliding truncation exists in the reference alone.
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "exact score gradient, full BPTT": {"score_gradient": "states", "k_trunc": None},
    "blocks from 1, write step alone": {"block_offset": 1, "replay": "write_step"},
    "nothing replayed": {"replay": "none", "k_top": 1},
    "softmax while few": {"short_memory": "softmax", "k_att": 1, "score_gradient": "states"},
    "released": {
        "score": "separable", "threshold": "k_top", "short_memory": "raw",
        "initial_memory": "zero", "score_gradient": "states",
    },
}  # fmt: skip
TOLERANCE = 1e-9  # float64, relative to the largest entry
SIZES = {"inputs": 5, "hidden": 12, "batch": 6}


def outputs(layer: SABLayer, x: Tensor, form: str) -> dict[str, Tensor]:
    """What a form computes: h, s, the selection, and the gradient of every weight and of x."""
    x = x.detach().clone().requires_grad_()
    layer.zero_grad()
    state = layer.init_state(x.shape[1])
    h, s, _, recall = sab_scan(x, layer.weights, state, layer.options, None, form=form)
    probe = torch.linspace(-1, 1, h.numel(), device=h.device, dtype=h.dtype).view_as(h)
    torch.autograd.backward((h * probe).sum() + (s * probe.flip(0)).sum())
    made = {"h": h, "s": s, "selection": recall.indices, "gradient of x": x.grad}
    made |= {f"gradient of {name}": p.grad for name, p in layer.named_parameters()}
    return {
        name: torch.zeros(0) if value is None else value.detach().clone()
        for name, value in made.items()
    }


def compare(form: str, case: str, device: str, steps: int = 23, seed: int = 0) -> dict[str, Any]:
    """Compare a form with the reference in float64.

    Args:
        form: of the scan.
        case: one of `CASES`.
        device: where both run.
        steps: length of the sequence.
        seed: of weights and data.

    Returns:
        A row: ``error`` is the largest difference over all outputs and gradients, each relative to
        its largest entry, ``where`` names it; ``equal`` says that it is below `TOLERANCE` and that
        the same memories were selected.
    """
    torch.manual_seed(seed)
    layer = SABLayer(SIZES["inputs"], SIZES["hidden"], **CASES[case]).double().to(device)
    x = torch.randn(steps, SIZES["batch"], SIZES["inputs"], dtype=torch.float64).to(device)
    wanted, found = outputs(layer, x, "reference"), outputs(layer, x, form)
    same = torch.equal(wanted.pop("selection"), found.pop("selection"))
    errors = {"nothing": 0.0}
    for name, value in wanted.items():
        if value.shape != found[name].shape:
            errors[name] = float("inf")  # one of them has no gradient
        elif value.numel():
            scale = value.abs().max().clamp(min=1e-12)
            errors[name] = float((value - found[name]).abs().max() / scale)
    where = max(errors, key=lambda name: errors[name])
    return {
        "form": form, "case": case, "device": torch.device(device).type, "steps": steps,
        "same_selection": same, "error": errors[where], "where": where,
        "equal": same and errors[where] < TOLERANCE,
    }  # fmt: skip


def timed(setting: Setting, repeats: int) -> dict[str, Any]:
    """One row: time of a step and the device's peak memory."""
    call = make_call(setting)
    torch.cuda.reset_peak_memory_stats()
    times = measure.interleaved({setting.form: call}, {setting.form: repeats}, warmup=2)
    peak = torch.cuda.max_memory_allocated() / 1e6
    return {
        **setting.described(), **measure.summary(times[setting.form]), "peak_mb": round(peak, 1)
    }  # fmt: skip


def file_name(device_name: str) -> str:
    """``gpu-<name>.json``, the name in lower case with dashes."""
    return f"gpu-{re.sub(r'[^a-z0-9]+', '-', device_name.lower()).strip('-')}.json"


def available(forms: Sequence[str]) -> list[str]:
    """Those forms that this version of ``sab`` has."""
    return [form for form in forms if form == "lstm" or form in SCAN_FORMS]


def check_equality(forms: Sequence[str], device: str) -> list[dict[str, Any]]:
    """Rows of `compare` for each form and case; a form that fails to run is a row that says so."""
    rows: list[dict[str, Any]] = []
    for form in forms:
        for case in CASES:
            try:
                rows.append(compare(form, case, device))
            except Exception as error:  # one form's failure must not cost the others' figures
                text = f"{type(error).__name__}: {error}".splitlines()[0]
                rows.append({"form": form, "case": case, "equal": False, "failed": text})
            measure.say(f"{form}, {case}: {'equal' if rows[-1]['equal'] else rows[-1]}")
    return rows


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="benchmarks.gpu", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--lengths", type=measure.integers, default=[300, 784])
    made.add_argument("--batch", type=int, default=64)
    made.add_argument("--forms", type=measure.names, default=["lstm", "torch", "graph"])
    made.add_argument("--repeats", type=int, default=10)
    made.add_argument("--max-seconds", type=float, default=420.0, help="start nothing new after")
    measure.add_common(made, "")
    made.set_defaults(json=None)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Check, time and write; 2 without a GPU or where an option is wrong, 1 where forms differ."""
    options = parser()
    args = options.parse_args(argv)
    measure.check_weights(options, args.weights)
    forms = available(args.forms)
    sizes = {
        "batch": args.batch, "hidden": args.hidden, "threads": args.threads, "device": "cuda"
    }  # fmt: skip
    try:
        positive_int("repeats", args.repeats)
        settings = [
            Setting(form=form, length=length, mode=mode, **sizes)
            for length in args.lengths
            for mode in ("train", "infer")
            for form in forms
        ]
    except ValueError as error:
        options.error(str(error))
    if not torch.cuda.is_available():
        measure.say("no GPU here: benchmarks.gpu needs a CUDA device, nothing was measured")
        return 2
    begin = time.perf_counter()
    path = args.json or measure.BENCH / file_name(torch.cuda.get_device_name())
    head = measure.header(f"equality and time on a GPU; {measure.STEP}", args.threads, args.note)
    head |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    content: dict[str, Any] = {"header": head, "equality": [], "rows": []}
    content["missing_forms"] = [form for form in args.forms if form not in forms]
    content["equality"] = check_equality([form for form in forms if form != "lstm"], "cuda")
    measure.write(path, content)
    for setting in settings:
        if time.perf_counter() - begin > args.max_seconds:
            content["cut"] = f"stopped before {setting.form} T={setting.length} {setting.mode}"
            measure.say(content["cut"])
            break
        try:
            row = timed(setting, args.repeats)
        except Exception as error:  # what was measured before stays
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            row = {**setting.described(), "failed": text}
        content["rows"].append(row)
        measure.say(
            f"{setting.form} {setting.mode} T={setting.length}: "
            f"{row.get('ms_median', row.get('failed'))}"
        )
        measure.write(path, content)
    measure.write(path, content)
    return 0 if all(row["equal"] for row in content["equality"]) else 1


if __name__ == "__main__":
    sys.exit(main())
