"""One call for every form of the scan, and the choice between them."""

from __future__ import annotations

import os
from typing import cast

import torch
from torch import Tensor

from sab.checks import one_of
from sab.ops.sab_scan import torch_engine
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import Engine, fused_scan
from sab.ops.sab_scan.graph import graph_scan
from sab.ops.sab_scan.reference import reference_scan
from sab.ops.sab_scan.types import Recall, SABState, ScanOptions, ScanWeights

FORMS = ("auto", "reference", "torch", "cpp", "graph")
TORCH = cast(Engine, torch_engine)


def choose_form(form: str, options: ScanOptions, device: torch.device) -> str:
    """Return the form that will run: ``"reference"``, ``"torch"``, ``"cpp"`` or ``"graph"``.

    ``"auto"`` takes the environment's ``SAB_SCAN`` where it is set and fits; else the reference
    form for sliding truncation, C++ on a CPU with a compiler, and torch operations elsewhere.

    Raises:
        ValueError: an unknown form; C++ off the CPU; a CUDA graph without CUDA.
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
        x: (T, B, input_size). weights: the parameters. state: where to start; it gets no gradient.
        options: the switches.
        lengths: (B,) int64, valid steps of each sample; ``None``: all T.
        form: ``"auto"``, ``"reference"`` (plain autograd), ``"torch"`` or ``"cpp"`` (hand-derived
            backward); see
            `choose_form`. All give the same results.
        save: of the fast forms, ``"activations"`` or ``"recompute"`` (less memory, more time).
        lazy: of the C++ form, skip scores that provably cannot enter the selection.

    Returns:
        h (T, B, n), s (T, B, n), the final state (detached), and what was recalled.

    Raises:
        ValueError: a shape does not fit, an unknown form, or a form that cannot compute these
            options.

    Source: paper section 3, Algorithm 1.
    """
    form = choose_form(form, options, x.device)
    if form == "reference":
        gates = torch.nn.functional.linear(x, weights.w_ih, weights.bias)
        return reference_scan(gates, weights.w_hh, weights.scorer, state, options, lengths)
    if form == "graph":
        return graph_scan(x, weights, state, options, lengths, TORCH)
    engine = cast(Engine, load_scan()) if form == "cpp" else TORCH
    return fused_scan(x, weights, state, options, lengths, engine, save, lazy)[:4]
