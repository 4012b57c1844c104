"""What a window and a running state cost: blocked against masked, scan against loop, by length.

    python -m benchmarks.window --part attention --length 4096 --window 64

Five parts, each in `results/bench/window.json`: ``attention`` (one length, all ways to compute a
window), ``memory`` (what the backward pass keeps, by length), ``scan`` (the running average, with
and without a mask, and a GRU), ``layers`` (whole layers by length), ``inputs`` (a state that sums
up the stream or what attention made of it, as a layer and in a classifier of two). Times are of
forward and backward, taken in turn; of one thread they are the processor's own, so that what else
the machine does counts less. Memory is what automatic differentiation keeps, in 10⁶ bytes.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import measure
from sab.models.rea import REA, REAConfig
from sab.models.rea_layer import STATE_INPUTS, LayerConfig, REALayer
from sab.models.rea_listing import ListingREA
from sab.ops.ema_scan import ema_scan, linear_scan
from sab.ops.kept import kept_for_backward
from sab.ops.window_attention import band, full_attention, window_attention

HEADS, WIDTH = 4, 16
PARTS = ("attention", "memory", "scan", "layers", "inputs")
Way = Callable[..., Tensor]  # (q, k, v, window)


def gathered(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Crop by indexing: each position's neighbours are copied side by side, O(N · window) memory.

    Shapes as `sab.ops.window_attention`; without padding.
    """
    n = q.shape[2]
    near = torch.arange(n)[:, None] + torch.arange(-window, window + 1)[None, :]  # (N, 2w + 1)
    inside = (near >= 0) & (near < n)
    near = near.clamp(0, n - 1)
    scores = (q[..., None, :] * k[:, :, near]).sum(-1) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~inside, -torch.inf).softmax(-1)
    return (weights[..., None] * v[:, :, near]).sum(-2)


def sdpa_masked(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """The library's fused attention with the window as a mask."""
    n = q.shape[2]
    mask = band(n, n, window, False, device=q.device)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


WAYS: dict[str, Way] = {
    "blocked": functools.partial(window_attention, form="blocked"),
    "masked": functools.partial(window_attention, form="masked"),
    "sdpa_masked": sdpa_masked,
    "gathered": gathered,
    "full": lambda q, k, v, window: full_attention(q, k, v),
}


def step(call: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Forward and backward."""
    for x in inputs:
        x.grad = None
    call(*inputs).sum().backward()


def answers_of(model: REA, x: Tensor) -> Tensor:
    """A classifier's logits."""
    return model(x)[0]


def total(call: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Sum of what the call gives."""
    return call(*inputs).sum()


def states_of(cell: nn.GRU, x: Tensor) -> Tensor:
    """All hidden states."""
    states: Tensor = cell(x)[0]
    return states


def halved(x: Tensor, alpha: Tensor, keep: Tensor | None = None) -> Tensor:
    """The running average by halving at every length; `ema_scan` goes in blocks from `LONG` on."""
    share = alpha.expand_as(x)
    if keep is not None:
        gap = ~keep[:, :, None]
        share, x = share.masked_fill(gap, 0.0), x.masked_fill(gap, 0.0)
    return linear_scan(1 - share, share * x)


def heads_of(n: int) -> list[Tensor]:
    """Queries, keys and values of one sequence."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, HEADS, n, WIDTH)
    return [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]


def timed(
    calls: Mapping[str, Callable[[], Any]], repeats: Mapping[str, int], threads: int = 1
) -> list[dict[str, Any]]:
    """One row a call: its name and times; of one thread, the processor's time."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times = measure.interleaved(calls, repeats, clock=clock)
    return [{"form": name, **measure.summary(values)} for name, values in times.items()]


def attention(args: argparse.Namespace) -> list[dict[str, Any]]:
    """All ways at one length."""
    inputs = heads_of(args.length)
    calls = {
        name: functools.partial(step, functools.partial(way, window=args.window), *inputs)
        for name, way in WAYS.items()
    }
    slow = ("masked", "gathered")
    counts = {name: min(args.repeats, 3) if name in slow else args.repeats for name in calls}
    sizes = {"length": args.length, "window": args.window, "heads": HEADS, "width": WIDTH}
    return [{**row, **sizes} for row in timed(calls, counts, args.threads)]


def memory(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What the backward pass keeps, by length."""
    rows = []
    for n in args.lengths:
        for name, way in WAYS.items():
            if name in ("masked", "gathered") and n > args.longest:
                continue
            call = functools.partial(way, *heads_of(n), args.window)
            kept = kept_for_backward(functools.partial(total, call))
            rows.append({"form": name, "length": n, "window": args.window, "kept_mb": kept})
    return rows


def scan(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The running average and a GRU, by batch."""
    rows = []
    for batch in args.batches:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(batch, args.steps, args.channels, generator=generator).requires_grad_()
        alpha = torch.full((args.channels,), 0.1, requires_grad=True)
        keep = torch.rand(batch, args.steps, generator=generator) < 0.8
        cell = nn.GRU(args.channels, args.channels, batch_first=True)
        for masked in (False, True):
            forms = ("parallel", "reference") if masked else ("parallel", "reference", "fft")
            runs: dict[str, Callable[..., Tensor]] = {
                form: functools.partial(ema_scan, keep=keep if masked else None, form=form)
                for form in forms
            }
            runs["halving"] = functools.partial(halved, keep=keep if masked else None)
            calls = {n: functools.partial(step, run, x, alpha) for n, run in runs.items()}
            if not masked:
                calls["gru"] = functools.partial(step, functools.partial(states_of, cell), x)
            counts = {n: min(args.repeats, 3) if n == "gru" else args.repeats for n in calls}
            sizes = {"batch": batch, "steps": args.steps, "channels": args.channels}
            rows += [
                {**row, "masked": masked, **sizes} for row in timed(calls, counts, args.threads)
            ]
    return rows


def layers(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Whole layers of width 64 by length: time and what the backward pass keeps."""
    torch.manual_seed(0)
    whole: dict[str, nn.Module] = {
        "full attention": REALayer(LayerConfig(attention="full", state="none")),
        "window, masked": REALayer(LayerConfig(state="none", form="masked")),
        "window, blocked": REALayer(LayerConfig(state="none")),
        "REA": REALayer(),
        "REA, GRU state": REALayer(LayerConfig(state="gru")),
        "listing": ListingREA(64, 4),
    }
    rows = []
    for n in args.lengths:
        x = torch.randn(1, n, 64)
        here = {
            name: layer
            for name, layer in whole.items()
            if n <= args.longest or name not in ("window, masked", "listing")
        }
        calls = {name: functools.partial(step, layer, x) for name, layer in here.items()}
        for row in timed(calls, dict.fromkeys(calls, min(args.repeats, 3)), args.threads):
            layer = here[row["form"]]
            kept = kept_for_backward(functools.partial(total, layer, x))
            rows.append({**row, "length": n, "kept_mb": kept})
    return rows


def inputs(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What the state sums up: time and what the backward pass keeps, by length."""
    wholes: dict[str, dict[str, Callable[..., Tensor]]] = {
        "layer": {kind: REALayer(LayerConfig(state_input=kind)) for kind in STATE_INPUTS}
    }
    for name, padding in (("classifier", "none"), ("classifier, mask", "zero_rows")):
        wholes[name] = {
            kind: functools.partial(
                answers_of, REA(REAConfig.classifier(64, 2, state_input=kind, padding=padding))
            )
            for kind in STATE_INPUTS
        }
    rows = []
    for n in args.lengths:
        x = torch.randn(1, n, 64).requires_grad_()
        for whole, forms in wholes.items():
            calls = {kind: functools.partial(step, call, x) for kind, call in forms.items()}
            for row in timed(calls, dict.fromkeys(calls, args.repeats), args.threads):
                kept = kept_for_backward(functools.partial(total, forms[row["form"]], x))
                rows.append({**row, "whole": whole, "length": n, "kept_mb": kept})
    return rows


MEASURES: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "attention": attention,
    "memory": memory,
    "scan": scan,
    "layers": layers,
    "inputs": inputs,
}


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="benchmarks.window", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--part", choices=(*PARTS, "all"), default="all")
    made.add_argument("--length", type=int, default=4096, help="of the part attention")
    made.add_argument("--window", type=int, default=64)
    made.add_argument(
        "--lengths", type=measure.integers, default=[256, 512, 1024, 2048, 4096, 8192]
    )
    made.add_argument("--longest", type=int, default=4096, help="for what keeps all pairs")
    made.add_argument("--steps", type=int, default=8192, help="of the part scan")
    made.add_argument("--channels", type=int, default=64)
    made.add_argument("--batches", type=measure.integers, default=[1, 8])
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--threads", type=int, default=1, help="threads of the CPU")
    made.add_argument("--json", type=Path, default=measure.BENCH / "window.json", help="file")
    made.add_argument("--note", help="a sentence to keep in the record")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; parts that are not measured now stay as the file has them."""
    args = parser().parse_args(argv)
    found = json.loads(args.json.read_text()) if args.json.is_file() else {}
    for part in PARTS if args.part == "all" else (args.part,):
        head = measure.header(f"a window and a running state: {part}", args.threads, args.note)
        rows = MEASURES[part](args)
        found[part] = {"header": head, "rows": rows}
        for row in rows:
            measure.say(" ".join(f"{key}={value}" for key, value in row.items()))
        measure.write(args.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
