"""The REA layer: what each channel may depend on, padding, streaming, and its starting point."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from rea_cases import PLACES, alone_and_in_a_batch, features, shaken
from torch import Tensor

from sab.models.rea_layer import STATE_INPUTS, LayerConfig, REALayer

SMALL = LayerConfig(dim=6, heads=2, window=2)
KINDS = list(itertools.product(("window", "full", "none"), ("linear", "gru", "none")))
FED = [(attention, state) for attention, state in KINDS if "none" not in (attention, state)]


def layer_of(**settings: Any) -> REALayer:
    layer = shaken(REALayer(dataclasses.replace(SMALL, **settings)))
    assert isinstance(layer, REALayer)
    return layer


@pytest.mark.parametrize(("attention", "state"), KINDS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
@pytest.mark.parametrize("place", ["right", "left", "gaps"])
def test_the_rest_of_the_batch_changes_nothing(
    attention: str, state: str, direction: str, place: str
) -> None:
    layer = layer_of(attention=attention, state=state, direction=direction)
    alone, batched = alone_and_in_a_batch(layer, 6, place)
    torch.testing.assert_close(batched, alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("attention", "state"), FED)
@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("place", ["right", "left", "gaps"])
def test_nor_does_it_where_the_state_sums_attention(
    attention: str, state: str, direction: str, place: str
) -> None:
    settings = {"attention": attention, "state": state, "direction": direction}
    alone, batched = alone_and_in_a_batch(layer_of(**settings, state_input="attention"), 6, place)
    torch.testing.assert_close(batched, alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("attention", "state"), KINDS)
@pytest.mark.parametrize("place", ["right", "left", "gaps"])
def test_nan_at_padding_stays_there(attention: str, state: str, place: str) -> None:
    layer = layer_of(attention=attention, state=state, direction="both")
    at = PLACES[place]
    keep = torch.zeros(1, 11, dtype=torch.bool)
    keep[0, at] = True
    found = []
    for rubbish in (0.0, math.nan):
        x = torch.full((1, 11, 6), rubbish, dtype=torch.float64)
        x[0, at] = features(5, 6)[0]
        out = layer(x.requires_grad_(), keep)[0, at]
        wanted = [x, *layer.parameters()]
        grads = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)
        found.append([out, grads[0][0, at], *[g for g in grads[1:] if g is not None]])
    for clean, dirty in zip(*found, strict=True):
        assert torch.equal(clean, dirty)


@pytest.mark.parametrize(("attention", "state"), KINDS)
@pytest.mark.parametrize("n", [1, 2])
def test_short_logs_and_a_window_beyond_them(attention: str, state: str, n: int) -> None:
    """Length 1, and a window wider than the log: as with a window that just fits."""
    x = features(n, 6)
    wide = layer_of(attention=attention, state=state, window=50)
    fits = layer_of(attention=attention, state=state, window=max(n - 1, 1))
    assert torch.equal(wide(x), fits(x)) and torch.isfinite(wide(x)).all()


@pytest.mark.parametrize(("attention", "state"), KINDS)
def test_bad_masks_are_refused(attention: str, state: str) -> None:
    layer = layer_of(attention=attention, state=state)
    keep = torch.ones(2, 4, dtype=torch.bool)
    for bad, message in (
        (keep[:, :3], "keep has shape"),
        (keep.double(), "keep has dtype"),
        (keep & torch.tensor([[True], [False]]), "sequence 1 of the batch has no real step"),
    ):
        with pytest.raises(ValueError, match=message):
            layer(features(4, 6, 2), bad)


def reached(layer: REALayer, n: int = 9) -> Tensor:
    """(n, n) bool: does output t depend on input s?"""
    x = features(n, 6).requires_grad_()
    out = layer.channels(x)[0]
    rows = [torch.autograd.grad(out[t].sum(), x, retain_graph=True)[0][0] for t in range(n)]
    return torch.stack(rows).abs().sum(-1) > 0


@pytest.mark.parametrize("causal", [False, True])
def test_what_each_channel_reaches(causal: bool) -> None:
    steps = torch.arange(9)
    lag = steps[:, None] - steps[None, :]
    past, near = lag >= 0, lag.abs() <= 2
    whole = torch.ones_like(past)
    window = near & past if causal else near
    assert torch.equal(reached(layer_of(state="none", causal=causal)), window)
    assert torch.equal(
        reached(layer_of(state="none", attention="full", causal=causal)), past if causal else whole
    )
    for state in ("linear", "gru"):
        assert torch.equal(reached(layer_of(attention="none", state=state)), past)
        back = layer_of(attention="none", state=state, direction="reverse")
        assert torch.equal(reached(back), past.T)
        assert reached(layer_of(state=state, direction="both")).all()
        assert torch.equal(reached(layer_of(state=state, causal=causal)), window | past)
        fed = layer_of(state=state, causal=causal, state_input="attention")
        assert torch.equal(reached(fed), past if causal else lag >= -2)


@pytest.mark.parametrize("attention", ["window", "none"])
@pytest.mark.parametrize("state", ["linear", "gru", "none"])
@pytest.mark.parametrize("state_size", [None, 3])
@pytest.mark.parametrize("source", STATE_INPUTS)
def test_a_stream_is_the_batch_form(
    attention: str, state: str, state_size: int | None, source: str
) -> None:
    settings = {"attention": attention, "state": state, "state_size": state_size}
    if source == "attention" and (attention, state) not in FED:
        with pytest.raises(ValueError, match="needs attention and a state"):
            layer_of(**settings, state_input=source)
        return
    layer = layer_of(**settings, state_input=source, causal=True)
    x = features(12, 6, 2)
    want = layer.channels(x)
    now = layer.start(2)
    for t in range(12):
        out, now = layer.step(x[:, t], now)
        torch.testing.assert_close(out, want[:, t], atol=1e-12, rtol=0)
        assert now.keys.shape[2] == (min(t + 1, 3) if attention == "window" else 0)


def test_blocked_and_masked_windows_are_one_layer() -> None:
    layer = layer_of(causal=True)
    other = layer_of(causal=True, form="masked")
    x = features(30, 6, 2)
    torch.testing.assert_close(layer(x), other(x), atol=1e-12, rtol=0)


def test_gradient_is_the_derivative() -> None:
    keep = torch.tensor([[True, True, False, True], [False, True, True, True]])
    wanted: tuple[dict[str, Any], ...] = (
        {"state_size": 3, "direction": "both"},
        {"state": "gru"},
        {"state_input": "attention"},
    )
    for settings in wanted:
        layer = layer_of(**settings)
        names = [name for name, _ in layer.named_parameters()]

        def run(x: Tensor, *values: Tensor, layer: Any = layer, names: Any = names) -> Tensor:
            given = dict(zip(names, values, strict=True))
            out: Tensor = torch.func.functional_call(layer, given, (x, keep))
            return out

        inputs = (features(4, 6, 2).requires_grad_(), *layer.parameters())
        assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_where_it_starts() -> None:
    layer = REALayer()
    assert torch.allclose(layer.alpha, torch.tensor(0.1))
    x = torch.randn(2, 20, 64)
    attended, state = layer.attend(x), layer.read(layer.run(x))
    gate = layer.opening(torch.cat([attended, state], -1))
    assert torch.allclose(gate, torch.tensor(0.02))
    torch.testing.assert_close(layer(x), x + attended + 0.02 * state)
    plain = REALayer(LayerConfig(state_norm=False))
    assert plain.read(x) is x


def test_what_the_state_sums_up() -> None:
    """Of the stream or of what attention made of it, and with the same parameters."""
    x = features(7, 6, 2)
    own, fed = layer_of(), layer_of(state_input="attention")
    assert own.state_dict().keys() == fed.state_dict().keys()
    attended = fed.attend(x)
    assert torch.equal(fed.channels(x), fed.fuse(x, attended, fed.read(fed.run(attended))))
    assert torch.equal(own.channels(x), own.fuse(x, attended, own.read(own.run(x))))


def test_the_state_is_the_average_in_closed_form() -> None:
    """s_t = sum of α (1 - α)^(t - i) x_i, the equation of section 2.2 unrolled."""
    layer = REALayer(LayerConfig(dim=1, heads=1, alpha_start=0.25))
    x = torch.arange(1.0, 6.0).view(1, 5, 1)
    want = [sum(0.25 * 0.75 ** (t - i) * i for i in range(1, t + 1)) for t in range(1, 6)]
    torch.testing.assert_close(layer.run(x)[0, :, 0], torch.tensor(want))


def test_the_gate_is_one_number_a_position() -> None:
    layer = REALayer(LayerConfig(dim=8, heads=2))
    assert layer.gate.weight.shape == (1, 16)
    narrow = REALayer(LayerConfig(dim=8, heads=2, state_size=2))
    assert narrow.rate.shape == (2,) and narrow.gate.weight.shape == (1, 16)
    count = [sum(p.numel() for p in layer.parameters()) for layer in (layer, narrow)]
    assert count[1] - count[0] == (8 * 2 + 2) + (2 * 8 + 8) - 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "heads=5: must divide dim=6"),
        ({"window": 0}, "window=0"),
        ({"state": "lstm"}, "state='lstm': must be one of 'linear', 'gru', 'none'"),
        ({"attention": "sparse"}, "attention='sparse'"),
        ({"direction": "up"}, "direction='up'"),
        ({"state_input": "gate"}, "state_input='gate': must be one of 'stream', 'attention'"),
        ({"gate_start": 0.0}, "gate_start=0.0: must be between 0 and 1"),
        ({"alpha_start": 1.0}, "alpha_start=1.0: must be between 0 and 1"),
        ({"alpha_start": math.nan}, "alpha_start=nan"),
        ({"state_size": 0}, "state_size=0"),
        ({"form": "fast"}, "form='fast'"),
    ],
)
def test_settings_out_of_range(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **change)


def test_what_cannot_be_run_or_streamed() -> None:
    for x in (torch.zeros(1, 0, 6), torch.zeros(0, 3, 6), torch.zeros(1, 3, 5)):
        with pytest.raises(ValueError, match="x has shape"):
            REALayer(SMALL)(x)
    for settings, message in (
        ({"causal": False}, "looks ahead"),
        ({"attention": "full", "causal": True}, "needs all the past"),
        ({"causal": True, "direction": "both"}, "direction='both'"),
    ):
        with pytest.raises(ValueError, match=message):
            layer_of(**settings).start(1)
    with pytest.raises(ValueError, match="batch=0"):
        layer_of(causal=True).start(0)
