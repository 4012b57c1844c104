"""The SAB layer and model: presets, initialisation, read-out, streaming, choice of a form."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.models.sab import SAB, SABConfig, SABLayer
from sab.ops.sab_scan import ScanOptions, sab_scan

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SMALL = {"input_size": 3, "hidden_size": 6, "output_size": 4}


def draw(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(seed: int = 0, **settings: Any) -> SAB:
    torch.manual_seed(seed)
    return SAB(SABConfig(**{**SMALL, **settings})).double()


# -- settings --------------------------------------------------------------------------------------


def test_defaults_are_the_recipe_that_learns() -> None:
    """DESIGN's recipe: (5, 5), k_att = 2, blocks at offset 0, gradient into the scorer only."""
    assert dataclasses.asdict(SABConfig()) == {
        "input_size": 10, "hidden_size": 128, "output_size": 10, "score_size": None,
        "k_top": 5, "k_att": 2, "k_trunc": 5, "truncation": "block", "block_offset": 0,
        "replay": "full", "score_gradient": "scorer", "score": "additive",
        "threshold": "k_top+1", "short_memory": "margin", "initial_memory": "empty",
        "scorer_init": "unit", "forget_bias": 1.0, "form": "auto",
    }  # fmt: skip
    assert SABConfig().options() == ScanOptions()


def changed(config: SABConfig) -> dict[str, Any]:
    base = dataclasses.asdict(SABConfig())
    return {k: v for k, v in dataclasses.asdict(config).items() if v != base[k]}


def test_presets() -> None:
    assert changed(SABConfig.literal()) == {"score_gradient": "states", "truncation": "sliding"}
    assert changed(SABConfig.released()) == {
        "score": "separable",
        "threshold": "k_top",
        "short_memory": "raw",
        "initial_memory": "zero",
        "score_gradient": "states",
        "scorer_init": "released",
        "forget_bias": 0.0,
    }
    other = SABConfig.released(k_top=3, threshold="k_top+1", hidden_size=7)
    assert (other.k_top, other.threshold, other.hidden_size) == (3, "k_top+1", 7)
    assert SABConfig.literal(k_trunc=9).k_trunc == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_size": 0}, "input_size=0: must be an integer of at least 1"),
        ({"hidden_size": 2.0}, "hidden_size=2.0: must be an integer"),
        ({"output_size": None}, "output_size=None: must be an integer"),
        ({"score_size": 0}, "score_size=0: must be an integer"),
        ({"k_top": 0}, "k_top=0: must be an integer of at least 1"),
        ({"truncation": "none"}, "truncation='none': must be one of 'block', 'sliding'"),
        ({"scorer_init": "zero"}, "scorer_init='zero': must be one of 'unit', 'released'"),
        ({"forget_bias": "1"}, "forget_bias='1': must be a finite number"),
        ({"form": "cuda"}, "form='cuda': must be one of 'auto', 'reference', 'torch', 'cpp'"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        SABConfig(**change)
    assert str(error.value).startswith(message)
    if "output_size" not in change:
        layer = {k: v for k, v in {**SMALL, **change}.items() if k != "output_size"}
        with pytest.raises(ValueError) as error:
            SABLayer(**layer)
        assert str(error.value).startswith(message)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="k_tops"):
        SABConfig(k_tops=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="k_tops"):
        SABLayer(3, 4, k_tops=3)


# -- weights ---------------------------------------------------------------------------------------


def test_initialisation() -> None:
    torch.manual_seed(0)
    unit = SABLayer(3, 100).requires_grad_(False)
    bound = 0.1
    for w in (unit.weight_ih, unit.weight_hh, unit.w1, unit.w2):
        assert w.abs().max() <= bound and w.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert unit.w3.std().item() == pytest.approx(1, rel=0.3)
    gates = unit.bias.view(4, 100)
    assert (gates[1] - 1).abs().max() <= bound and gates[[0, 2, 3]].abs().max() <= bound

    released = SABLayer(3, 100, scorer_init="released", forget_bias=0.0)
    assert released.w1.std().item() == pytest.approx(1, rel=0.1)
    assert released.w2.std().item() == pytest.approx(1, rel=0.1)
    assert released.w3.std().item() == pytest.approx(0.01, rel=0.3)
    assert released.bias.abs().max() <= bound
    separable = SABLayer(3, 100, score="separable", scorer_init="released")
    assert separable.w_memory.std().item() == pytest.approx(0.01, rel=0.3)
    assert separable.w_query.std().item() == pytest.approx(0.01, rel=0.3)
    assert SABLayer(3, 100, score="separable").w_memory.std().item() == pytest.approx(1, rel=0.3)


@pytest.mark.parametrize("score_size", [None, 2])
def test_parameters(score_size: int | None) -> None:
    d = score_size or 6
    shapes = {name: tuple(p.shape) for name, p in make(score_size=score_size).named_parameters()}
    lstm = {"weight_ih": (24, 3), "weight_hh": (24, 6), "bias": (24,)}
    scorer = {"w1": (d, 6), "w2": (d, 6), "w3": (d,)}
    layer = {f"layer.{name}": size for name, size in (lstm | scorer).items()}
    assert shapes == layer | {"v1.weight": (4, 6), "v1.bias": (4,), "v2.weight": (4, 6)}
    separable = dict(make(score="separable").layer.named_parameters())
    assert set(separable) == {*lstm, "w_memory", "w_query"}


def test_a_seed_fixes_everything() -> None:
    x = draw(2, 9, 3)
    a, b, c = make(3), make(3), make(4)
    assert torch.equal(a(x)[0], b(x)[0])
    assert not torch.equal(a(x)[0], c(x)[0])
    gradients = []
    for _ in range(2):
        a.zero_grad()
        a(x)[0].square().sum().backward()
        gradients.append([p.grad.clone() for p in a.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(list(a.parameters()))
    for first, second in zip(*gradients, strict=True):
        assert torch.equal(first, second)


def test_state_dict_round_trip(tmp_path: Path) -> None:
    x = draw(2, 9, 3)
    for settings in ({}, {"score": "separable"}, {"score_size": 2}):
        model, other = make(0, **settings), make(1, **settings)
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
        assert torch.equal(model(x)[0], other(x)[0])


# -- forward ---------------------------------------------------------------------------------------


def test_read_out() -> None:
    """y = V1 h + V2 s + b (Algorithm 1's last line but one)."""
    model = make()
    x = draw(2, 9, 3)
    y, state, recall = model(x, return_recall=True)
    h, s, layer_state = model.layer(x)
    expected = torch.einsum("bti,oi->bto", h, model.v1.weight)
    expected = expected + torch.einsum("bti,oi->bto", s, model.v2.weight) + model.v1.bias
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-13)
    assert y.shape == (2, 9, 4) and s.abs().sum() > 0
    assert torch.equal(state.memory, layer_state.memory)
    assert recall.indices.shape == (2, 9, 6)
    assert len(model(x)) == 2 and len(model.layer(x)) == 3
    assert len(model.layer(x, return_recall=True)) == 4


def test_layer_is_the_scan_batch_first() -> None:
    model = make(k_top=2)
    x = draw(2, 9, 3)
    h, s, state, recall = model.layer(x, return_recall=True)
    layer = model.layer
    expected = sab_scan(x.transpose(0, 1), layer.weights, layer.init_state(2), layer.options)
    assert torch.equal(h, expected[0].transpose(0, 1))
    assert torch.equal(s, expected[1].transpose(0, 1))
    assert torch.equal(recall.indices, expected[3].indices)
    assert torch.equal(state.h, expected[2].h)


def test_options_reach_the_scan() -> None:
    names = ScanOptions.names()
    settings: dict[str, Any] = {
        "k_top": 2, "k_att": 3, "k_trunc": 4, "truncation": "sliding", "block_offset": 1,
        "replay": "none", "score_gradient": "states", "score": "separable",
        "threshold": "k_top", "short_memory": "raw", "initial_memory": "zero",
    }  # fmt: skip
    assert set(settings) == set(names)
    assert all(value != getattr(ScanOptions(), name) for name, value in settings.items())
    assert dataclasses.asdict(make(**settings).layer.options) == settings


@pytest.mark.parametrize("form", ["reference", "torch", "cpp"])
@pytest.mark.parametrize("initial_memory", ["empty", "zero"])
def test_step_equals_the_sequence(form: str, initial_memory: str) -> None:
    layer = make(form=form, k_top=2, initial_memory=initial_memory).layer
    x = draw(3, 23, 3)
    h, s, end = layer(x)
    state = layer.init_state(3)
    for t in range(23):
        h_t, s_t, state = layer.step(x[:, t], state)
        torch.testing.assert_close(h_t, h[:, t].detach(), rtol=0, atol=1e-12)
        torch.testing.assert_close(s_t, s[:, t].detach(), rtol=0, atol=1e-12)
        assert not h_t.requires_grad
    torch.testing.assert_close(state.memory, end.memory, rtol=0, atol=1e-12)
    assert torch.equal(state.step, end.step)


def test_step_keeps_up_with_training() -> None:
    """Keys are recomputed from the memories after any change of the parameters."""
    model = make(k_top=2)
    layer = model.layer
    x = draw(2, 8, 3)
    state = layer.init_state(2)
    for t in range(6):
        *_, state = layer.step(x[:, t], state)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
    model(x)[0].square().sum().backward()
    optimizer.step()
    h, _, _ = layer.step(x[:, 6], state)
    layer.form = "reference"
    expected, _, _ = layer(x[:, 6:7], state)
    torch.testing.assert_close(h, expected[:, 0].detach(), rtol=0, atol=1e-12)


def test_lengths_and_state_go_through_the_model() -> None:
    model = make(k_top=2)
    x = draw(2, 9, 3)
    lengths = torch.tensor([9, 4])
    y, state = model(x, lengths=lengths)
    assert torch.equal(y[1, 4:], model.v1.bias.expand(5, 4))
    assert state.step.tolist() == [9, 4]
    alone, _ = model(x[1:, :4])
    torch.testing.assert_close(y[1:, :4], alone, rtol=0, atol=1e-12)
    first, middle = model(x[:, :5])
    second, _ = model(x[:, 5:], middle)
    torch.testing.assert_close(torch.cat([first, second], 1), model(x)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(draw(2, 5)), "x has shape (2, 5): must be (any, any, 3)"),
        (lambda m: m(draw(2, 5, 4)), "x has shape (2, 5, 4): must be (any, any, 3)"),
        (lambda m: m(draw(2, 0, 3)), "x has shape (2, 0, 3): needs at least one sequence"),
        (lambda m: m(draw(0, 5, 3)), "x has shape (0, 5, 3): needs at least one sequence"),
        (
            lambda m: m(draw(2, 5, 3), lengths=torch.tensor([5, 6])),
            "lengths=[5, 6]: each must be between 1 and 5",
        ),
        (
            lambda m: m(draw(2, 5, 3), lengths=torch.tensor([5])),
            "lengths has shape (1,): must be (2)",
        ),
        (
            lambda m: m(draw(2, 5, 3), m.layer.init_state(3)),
            "state.h has shape (3, 6): must be (2, 6)",
        ),
        (lambda m: m.layer.step(draw(2, 4), m.layer.init_state(2)), "x has shape (2, 4): must"),
        (lambda m: m.layer.step(draw(2, 1, 3), m.layer.init_state(2)), "x has shape (2, 1, 3)"),
        (lambda m: m.layer.init_state(0), "batch=0: must be an integer of at least 1"),
    ],
)
def test_bad_inputs_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        call(make())
    assert str(error.value).startswith(message)
