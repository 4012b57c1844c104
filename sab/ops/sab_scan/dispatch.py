"""One call for every form of the scan."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from sab.checks import one_of
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import fused_scan
from sab.ops.sab_scan.reference import reference_scan
from sab.ops.sab_scan.types import Recall, SABState, ScanOptions, ScanWeights

FORMS = ("auto", "reference", "torch", "cpp", "graph")


def sab_scan(
    x: Tensor,
    weights: ScanWeights,
    state: SABState,
    options: ScanOptions,
    lengths: Tensor | None = None,
    form: str = "auto",
) -> tuple[Tensor, Tensor, SABState, Recall]:
    """Run Algorithm 1 over a sequence, time first.

    Args:
        x: (T, B, input_size). weights: the parameters. state: where to start. options: the switches.
        lengths: (B,) int64, valid steps of each sample; ``None``: all T.
        form: which form computes it.

    Returns:
        h (T, B, n), s (T, B, n), the final state (detached), and what was recalled.

    Raises:
        ValueError: a shape does not fit, or an unknown form.
    """
    one_of("form", form, FORMS)
    sliding = options.truncation == "sliding" and options.k_trunc is not None
    if form == "auto":
        form = one_of("SAB_SCAN", os.environ.get("SAB_SCAN", "auto"), FORMS)
    engine = load_scan() if form in ("auto", "cpp") and not sliding and x.device.type == "cpu" else None
    if form in ("auto", "cpp") and engine is not None:
        return fused_scan(x, weights, state, options, lengths, engine)[:4]
    gates = torch.nn.functional.linear(x, weights.w_ih, weights.bias)
    return reference_scan(gates, weights.w_hh, weights.scorer, state, options, lengths)
