"""Which form of the scan runs, and that every preset runs and learns in its own."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.models.sab import SAB, SABConfig
from sab.ops.sab_scan import FORMS, ScanOptions, dispatch
from sab.ops.sab_scan.dispatch import choose_form

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SMALL: dict[str, Any] = {"input_size": 3, "hidden_size": 6, "output_size": 4}


def draw(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(seed: int = 0, **settings: Any) -> SAB:
    torch.manual_seed(seed)
    return SAB(SABConfig(**{**SMALL, **settings})).double()


def test_chosen_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAB_SCAN", raising=False)
    monkeypatch.setattr(dispatch, "load_scan", lambda: object())
    block, sliding = ScanOptions(), ScanOptions(truncation="sliding")
    assert choose_form("auto", block, CPU) == "cpp"
    assert choose_form("auto", block, CUDA) == "torch"
    assert choose_form("auto", sliding, CPU) == "reference"
    assert choose_form("auto", dataclasses.replace(sliding, k_trunc=None), CPU) == "cpp"
    for form in ("reference", "torch", "cpp"):
        assert choose_form(form, block, CPU) == form
    with pytest.raises(ValueError, match="form='cpp': runs on the CPU only"):
        choose_form("cpp", block, CUDA)
    with pytest.raises(ValueError, match="form='fast': must be one of 'auto'"):
        choose_form("fast", block, CPU)


def test_a_cuda_graph_needs_cuda() -> None:
    with pytest.raises(ValueError, match="form='graph': needs a CUDA device"):
        choose_form("graph", ScanOptions(), CPU)
    assert choose_form("graph", ScanOptions(), CUDA) == "graph"


def test_environment_chooses_where_the_form_is_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "load_scan", lambda: object())
    block, sliding = ScanOptions(), ScanOptions(truncation="sliding")
    for value in ("reference", "torch", "cpp"):
        monkeypatch.setenv("SAB_SCAN", value)
        assert choose_form("auto", block, CPU) == value
        assert choose_form("auto", sliding, CPU) == "reference", "what only it can compute"
        assert choose_form("torch", block, CPU) == "torch", "a form asked for by name wins"
    monkeypatch.setenv("SAB_SCAN", "cpp")
    assert choose_form("auto", block, CUDA) == "torch", "a wish, not a demand"
    monkeypatch.setenv("SAB_SCAN", "graph")
    assert choose_form("auto", block, CPU) == "torch"
    monkeypatch.setenv("SAB_SCAN", "")
    assert choose_form("auto", block, CPU) == "cpp"
    monkeypatch.setenv("SAB_SCAN", "gpu")
    with pytest.raises(ValueError, match="SAB_SCAN='gpu': must be one of 'auto', 'reference'"):
        choose_form("auto", block, CPU)


def test_no_compiler_gives_the_torch_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAB_SCAN", raising=False)
    monkeypatch.setattr(dispatch, "load_scan", lambda: None)
    for form in ("auto", "cpp"):
        assert choose_form(form, ScanOptions(), CPU) == "torch"


def ran(model: SAB) -> str:
    y, _ = model(draw(1, 3, 3))
    nodes, names = [y.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in names:
            names.add(node)
            nodes += [parent for parent, _ in node.next_functions]
    return "fused" if any("_Scan" in node.name() for node in names) else "reference"


def test_the_chosen_form_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAB_SCAN", raising=False)
    assert [ran(make(form=form)) for form in FORMS if form not in ("auto", "graph")] == [
        "reference",
        "fused",
        "fused",
    ]
    assert ran(make()) == "fused"
    assert ran(SAB(SABConfig.literal(**SMALL)).double()) == "reference"
    monkeypatch.setenv("SAB_SCAN", "reference")
    assert ran(make()) == "reference"
    assert ran(make(form="torch")) == "fused"


def test_presets_run_and_learn_something(caplog: pytest.LogCaptureFixture) -> None:
    """Every preset takes a step of training in its own form, and the loss falls."""
    caplog.set_level(logging.WARNING)
    x, target = draw(4, 8, 3), draw(4, 8, 4, seed=1)
    for config in (SABConfig(**SMALL), SABConfig.literal(**SMALL), SABConfig.released(**SMALL)):
        torch.manual_seed(0)
        model = SAB(config).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        losses = []
        for _ in range(30):
            loss = (model(x)[0] - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.9 * losses[0]
    assert not caplog.records
