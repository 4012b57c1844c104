"""The torch form captured in a CUDA graph: the whole loop, forward and backward, launched at once.

A step of the loop is some thirty small kernels, so on a GPU most of its time goes into launching
them. With static shapes the launches are recorded once and replayed. A machine without a GPU never
gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sab.ops.sab_scan.fused import Engine, fused_scan
from sab.ops.sab_scan.types import (
    Recall,
    SABState,
    ScanOptions,
    ScanWeights,
    initial_state,
)

Capture = Callable[[Callable[..., Any], tuple[Tensor, ...]], Callable[..., Any]]


class GraphedScan:
    """The scan from a fresh state at one shape, captured.

    The outputs live in the graph's own memory: the next call of the same object overwrites them.
    """

    def __init__(
        self,
        x: Tensor,
        weights: ScanWeights,
        options: ScanOptions,
        engine: Engine,
        capture: Capture | None = None,
    ) -> None:
        """Capture the scan for inputs like ``x`` (T, B, input_size) and ``weights``.

        ``capture`` stands in for `torch.cuda.make_graphed_callables`.
        """
        self.options = options
        hidden = weights.w_hh.shape[1]

        def scan(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
            w_ih, w_hh, bias, *scorer = parameters
            state = initial_state(x.shape[1], hidden, options, w_hh)
            held = ScanWeights(w_ih, w_hh, bias, tuple(scorer))
            h, s, end, recall, _ = fused_scan(x, held, state, options, None, engine, stream=False)
            return (
                h,
                s,
                end.h,
                end.c,
                end.memory,
                recall.indices,
                recall.weights,
                recall.tied,
                recall.steps,
            )

        parameters = (weights.w_ih, weights.w_hh, weights.bias, *weights.scorer)
        samples = [p.detach().clone().requires_grad_(p.requires_grad) for p in (x, *parameters)]
        make: Capture = capture or torch.cuda.make_graphed_callables
        self.run: Callable[..., Any] = make(scan, tuple(samples))

    def __call__(self, x: Tensor, weights: ScanWeights) -> tuple[Tensor, Tensor, SABState, Recall]:
        """Replay on new values: h (T, B, n), s (T, B, n), the final state, what was recalled."""
        outputs = self.run(x, weights.w_ih, weights.w_hh, weights.bias, *weights.scorer)
        h, s, h_end, c_end, memory, indices, alpha, tied, steps = outputs
        step = torch.full((x.shape[1],), x.shape[0])
        return h, s, SABState(h_end, c_end, memory, step), Recall(indices, alpha, tied, steps)


_captured: dict[tuple[Any, ...], GraphedScan] = {}


def graph_scan(
    x: Tensor,
    weights: ScanWeights,
    state: SABState,
    options: ScanOptions,
    lengths: Tensor | None,
    engine: Engine,
    capture: Capture | None = None,
) -> tuple[Tensor, Tensor, SABState, Recall]:
    """Run the captured scan, capturing it on the first call with these shapes and options.

    Args:
        x: (T, B, input_size), on a CUDA device.
        weights: the parameters.
        state: a fresh one.
        options: the switches.
        lengths: must be ``None``.
        engine: the torch engine.
        capture: stands in for `torch.cuda.make_graphed_callables`.

    Returns:
        As `sab_scan`; the next call with the same shapes and options overwrites the tensors.

    Raises:
        ValueError: a carried state or padding lengths, which a captured graph cannot take.
    """
    if bool(state.step.any()) or lengths is not None:
        raise ValueError("form='graph': takes a fresh state and no lengths; use form='torch'")
    needs = (x.requires_grad, weights.w_hh.requires_grad, torch.is_grad_enabled())
    shapes = (tuple(x.shape), tuple(weights.w_hh.shape), tuple(weights.scorer[0].shape))
    key = (shapes, x.dtype, x.device, options, needs)
    if key not in _captured:
        _captured[key] = GraphedScan(x, weights, options, engine, capture)
    return _captured[key](x, weights)
