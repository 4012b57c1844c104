"""One call for every form of the scan, and the choice between them."""

from __future__ import annotations

import os
from typing import cast

import torch
from torch import Tensor

from sab.checks import one_of, shape
from sab.ops.sab_scan import torch_engine
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import SAVES, Engine, check_fast, fused_scan
from sab.ops.sab_scan.graph import graph_scan
from sab.ops.sab_scan.reference import reference_scan
from sab.ops.sab_scan.types import Recall, SABState, ScanOptions, ScanWeights, mask_padding

FORMS = ("auto", "reference", "torch", "cpp", "graph")
TORCH = cast(Engine, torch_engine)


def choose_form(form: str, options: ScanOptions, device: torch.device) -> str:
    """Return the form that will run: ``"reference"``, ``"torch"``, ``"cpp"`` or ``"graph"``.

    ``"auto"`` takes the reference form for sliding truncation. Otherwise it takes the form that
    the environment's ``SAB_SCAN`` names, if the device can run it; else C++ on a CPU and torch
    operations elsewhere. C++ without a compiler becomes the torch form. ``"graph"`` is taken only
    where it is asked for.

    Args:
        form: one of ``FORMS``: ``"auto"``, ``"reference"``, ``"torch"``, ``"cpp"``, ``"graph"``.
        options: the scan's switches; only the truncation counts here.
        device: where the input is.

    Raises:
        ValueError: an unknown form (also in ``SAB_SCAN``), C++ off the CPU, or a CUDA graph
            without CUDA.
    """
    one_of("form", form, FORMS)
    asked = form
    if form == "auto":
        form = one_of("SAB_SCAN", os.environ.get("SAB_SCAN") or "auto", FORMS)
        if options.truncation == "sliding" and options.k_trunc is not None:
            return "reference"
    if form == "auto" or (asked == "auto" and form == "cpp"):
        form = "cpp" if device.type == "cpu" else "torch"
    if asked == "auto" and form == "graph" and device.type != "cuda":
        form = "torch"
    if form in ("torch", "cpp", "graph"):
        check_fast(options)
    if form == "cpp":
        if device.type != "cpu":
            raise ValueError(f"form='cpp': runs on the CPU only, x is on {device}; take 'torch'")
        return "cpp" if load_scan() is not None else "torch"
    if form == "graph" and device.type != "cuda":
        raise ValueError(f"form='graph': needs a CUDA device, x is on {device}; take 'torch'")
    return form


def sab_scan(
    x: Tensor,
    weights: ScanWeights,
    state: SABState,
    options: ScanOptions,
    lengths: Tensor | None = None,
    form: str = "auto",
    save: str = "activations",
    lazy: bool = True,
) -> tuple[Tensor, Tensor, SABState, Recall]:
    """Run Algorithm 1 over a sequence, time first.

    Args:
        x: (T, B, input_size).
        weights: the parameters.
        state: where to start; it gets no gradient.
        options: the switches.
        lengths: (B,) int64, valid steps of each sample; ``None``: all T.
        form: ``"auto"`` (see `choose_form`), ``"reference"`` (plain autograd), or one with a
            hand-derived backward: ``"torch"`` (CPU and GPU), ``"cpp"`` (CPU) or ``"graph"`` (the
            torch form in a CUDA graph; fresh state, no lengths, see `graph_scan`). All give the
            same results.
        save: of the torch and C++ forms, ``"activations"`` or ``"recompute"`` (less memory between
            the passes, more time; the backward pass itself needs as much).
        lazy: of the C++ form, skip scores that provably cannot enter the selection.

    Returns:
        h (T, B, n), s (T, B, n), the final state (detached), and what was recalled.

    Raises:
        ValueError: a shape does not fit, an unknown form, or a form that cannot compute these
            options.

    Source: paper section 3, Algorithm 1.
    """
    form = choose_form(form, options, x.device)
    one_of("save", save, SAVES)
    if lengths is not None:  # what is padded must not reach even a product with zero
        shape("lengths", lengths, (x.shape[1],))
        x = mask_padding(x, lengths)
    if form == "reference":
        gates = torch.nn.functional.linear(x, weights.w_ih, weights.bias)
        return reference_scan(gates, weights.w_hh, weights.scorer, state, options, lengths)
    if form == "graph":
        return graph_scan(x, weights, state, options, lengths, TORCH)
    engine = cast(Engine, load_scan()) if form == "cpp" else TORCH
    return fused_scan(x, weights, state, options, lengths, engine, save, lazy)[:4]
