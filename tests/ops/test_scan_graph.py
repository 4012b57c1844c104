"""The CUDA graph form on a machine without CUDA: what is captured, when, and what is refused.

A stand-in for the capture calls the function it was given; the equality on a GPU is in
benchmarks/gpu.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scan_cases import Case, Outcome, check_same, differentiate, draw_case, run

from sab.ops.sab_scan import ScanOptions, graph, sab_scan
from sab.ops.sab_scan.dispatch import TORCH
from sab.ops.sab_scan.graph import graph_scan


class Capture:
    """Counts captures and keeps the sample inputs."""

    def __init__(self) -> None:
        self.samples: list[tuple[torch.Tensor, ...]] = []

    def __call__(
        self, function: Callable[..., Any], samples: tuple[torch.Tensor, ...]
    ) -> Callable[..., Any]:
        self.samples.append(samples)
        function(*samples)  # as a warm-up does
        return function


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Capture:
    monkeypatch.setattr(graph, "_captured", {})
    return Capture()


def graphed(case: Case, capture: Capture) -> Outcome:
    arguments = (case.x, case.weights, case.state, case.options, case.lengths, TORCH, capture)
    return differentiate(case, Outcome(*graph_scan(*arguments)))


@pytest.mark.parametrize("initial_memory", ["empty", "zero"])
@pytest.mark.parametrize("score", ["additive", "separable"])
def test_equals_the_reference(score: str, initial_memory: str, capture: Capture) -> None:
    options = ScanOptions(k_top=2, score=score, initial_memory=initial_memory)
    for seed in range(3):
        case = draw_case(options, seed)
        check_same(run(case, "reference"), graphed(case, capture), 1e-10)
    assert len(capture.samples) == 1, "captured once, then replayed on new values"


def test_captured_anew_where_something_differs(capture: Capture) -> None:
    base = draw_case(ScanOptions(k_top=2))
    frozen = draw_case(ScanOptions(k_top=2))
    frozen.x.requires_grad_(False)
    cases = [
        base,
        draw_case(ScanOptions(k_top=3)),
        draw_case(ScanOptions(k_top=2), steps=10),
        draw_case(ScanOptions(k_top=2), batch=3),
        draw_case(ScanOptions(k_top=2), hidden=6),
        draw_case(ScanOptions(k_top=2), score_size=3),
        base.to(torch.float32),
        frozen,
    ]
    for number, case in enumerate(cases, 1):
        for _ in range(2):
            graph_scan(case.x, case.weights, case.state, case.options, None, TORCH, capture)
        assert len(capture.samples) == number
    with torch.no_grad():
        graph_scan(base.x, base.weights, base.state, base.options, None, TORCH, capture)
    assert len(capture.samples) == len(cases) + 1


def test_samples_share_nothing_with_the_model(capture: Capture) -> None:
    """A capture writes into its samples: they must not be the parameters themselves."""
    case = draw_case(ScanOptions(k_top=2))
    graphed(case, capture)
    ours = {value.data_ptr() for value in case.leaves.values()}
    assert not ours & {sample.data_ptr() for sample in capture.samples[0]}
    wanted = [value.requires_grad for value in case.leaves.values()]
    assert [sample.requires_grad for sample in capture.samples[0]] == wanted


def test_what_a_graph_cannot_take_is_refused(capture: Capture) -> None:
    case = draw_case(ScanOptions(k_top=2))
    state = sab_scan(case.x, case.weights, case.state, case.options)[2]
    for change in ({"state": state}, {"lengths": torch.tensor([9, 3])}):
        other = dataclasses.replace(case, **change)
        with pytest.raises(ValueError, match="form='graph': takes a fresh state and no lengths"):
            graphed(other, capture)
    sliding = dataclasses.replace(case, options=ScanOptions(truncation="sliding"))
    with pytest.raises(ValueError, match="truncation='sliding'"):
        graphed(sliding, capture)
    with pytest.raises(ValueError, match="form='graph': needs a CUDA device"):
        sab_scan(case.x, case.weights, case.state, case.options, form="graph")
