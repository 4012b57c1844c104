"""Classifier and language model of REA layers, and the two-layer BiLSTM beside them."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
import torch
from rea_cases import alone_and_in_a_batch, features, shaken
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sab.models.bilstm import BiLSTM, BiLSTMConfig
from sab.models.rea import REA, REAConfig
from sab.models.rea_layer import REALayer

TINY: dict[str, Any] = {"input_size": 5, "hidden_size": 8, "output_size": 3, "heads": 2}
TINY |= {"window": 2, "feedforward": 2}


def model_of(**settings: Any) -> REA:
    return cast(REA, shaken(REA(REAConfig(**{**TINY, **settings}))))


@pytest.mark.parametrize("readout", ["each", "mean", "max"])
@pytest.mark.parametrize("place", ["right", "left", "gaps"])
@pytest.mark.parametrize(
    ("attention", "state"),
    [*itertools.product(("window", "full", "none"), ("linear", "gru", "none"))],
)
def test_the_rest_of_the_batch_changes_nothing(
    readout: str, place: str, attention: str, state: str
) -> None:
    model = model_of(readout=readout, attention=attention, state=state, positions="sinusoid")
    alone, batched = alone_and_in_a_batch(lambda x, keep: model(x, keep)[0], 5, place)
    torch.testing.assert_close(batched, alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize("readout", ["each", "mean", "max"])
@pytest.mark.parametrize("place", ["right", "left", "gaps"])
def test_the_same_of_the_bilstm(readout: str, place: str) -> None:
    model = shaken(BiLSTM(BiLSTMConfig(5, 4, 3, readout=readout)))
    alone, batched = alone_and_in_a_batch(lambda x, keep: model(x, keep)[0], 5, place)
    torch.testing.assert_close(batched, alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize("model_class", [REA, BiLSTM])
def test_rows_of_zeros_are_padding_where_the_setting_says_so(model_class: type[nn.Module]) -> None:
    sizes: dict[str, Any] = {"input_size": 5, "hidden_size": 8, "output_size": 3}
    config_class: Any = {REA: REAConfig, BiLSTM: BiLSTMConfig}[model_class]
    config = config_class(**sizes, readout="mean", padding="zero_rows")
    model = shaken(model_class(config))
    x = features(9, 5)
    x[:, 6:] = 0
    torch.testing.assert_close(model(x)[0][:, :6], model(x[:, :6])[0], atol=1e-12, rtol=0)
    plain = shaken(model_class(config_class(**sizes, readout="mean")))
    assert not torch.allclose(plain(x)[0][:, :6], plain(x[:, :6])[0])


@pytest.mark.parametrize("positions", ["none", "sinusoid"])
@pytest.mark.parametrize("state", ["linear", "gru"])
def test_a_stream_is_the_batch_form(positions: str, state: str) -> None:
    config = REAConfig.language_model(5, **{**TINY, "output_size": 5}, state=state, layers=3)
    model = cast(REA, shaken(REA(config)))
    x = features(15, 5, 2)
    want = model(x)[0]
    now = model.start(2)
    for t in range(15):
        out, now = model.step(x[:, t], now)
        torch.testing.assert_close(out, want[:, t], atol=1e-10, rtol=0)
    assert now.steps == 15
    held = sum(part.numel() for layer in now.layers for part in layer)
    assert held == 3 * (2 * 2 * 3 * 8 + 2 * 8)  # keys and values of window + 1, and the state


def test_a_language_model_does_not_see_what_it_predicts() -> None:
    model = cast(REA, shaken(REA(REAConfig.language_model(5, **{**TINY, "output_size": 5}))))
    x = features(12, 5)
    changed = x.clone()
    changed[:, 7:] += 1
    before, after = (model(z)[0][:, :7] for z in (x, changed))
    assert torch.equal(before, after)
    assert model.config.readout == "each" and model.config.causal


def test_a_classifier_averages_real_positions() -> None:
    config = REAConfig.classifier(5, 3, hidden_size=8)
    assert config.readout == "mean" and config.padding == "zero_rows" and not config.causal
    model = shaken(REA(config))
    logits, state = model(features(6, 5))
    assert state is None and torch.equal(logits[:, 0], logits[:, 5])


def test_norm_network_and_positions_can_be_left_out() -> None:
    model = model_of(norm=False, feedforward=0, layers=1)
    x = features(6, 5)
    block = cast(Any, model.blocks[0])
    torch.testing.assert_close(model.hidden(x), block.layer(model.embed(x)))
    assert isinstance(block.layer, REALayer) and block.network is None
    assert not torch.allclose(model_of(positions="sinusoid")(x)[0], model_of()(x)[0])


def test_a_model_that_looks_at_each_position_alone() -> None:
    model = model_of(attention="none", state="none")
    x = features(6, 5)
    changed = x.clone()
    changed[:, 2] += 1
    same = (model(x)[0] == model(changed)[0]).all(-1)[0]
    assert same.tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"readout": "sum"}, "readout='sum'"),
        ({"padding": "nan"}, "padding='nan'"),
        ({"positions": "learned"}, "positions='learned'"),
        ({"layer": "mine"}, "layer='mine'"),
        ({"fixes": ("luck",)}, "fixes='luck'"),
        ({"layers": 0}, "layers=0"),
        ({"feedforward": -1}, "feedforward=-1"),
        ({"hidden_size": 9}, "heads=2: must divide dim=9"),
    ],
)
def test_settings_out_of_range(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REAConfig(**{**TINY, **change})


@pytest.mark.parametrize(
    "model", [REA(REAConfig(**TINY)), BiLSTM(BiLSTMConfig(5, 4, 3))], ids=["rea", "bilstm"]
)
def test_inputs_that_are_refused(model: nn.Module) -> None:
    for x in (torch.zeros(2, 0, 5), torch.zeros(0, 4, 5), torch.zeros(2, 4, 6)):
        with pytest.raises(ValueError, match="x has shape"):
            model(x)
    x, keep = torch.ones(2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    keep[1] = False
    with pytest.raises(ValueError, match="sequence 1 of the batch has no real step"):
        model(x, keep)
    with pytest.raises(ValueError, match="keep has shape"):
        model(x, keep[:, :3])


def test_what_cannot_be_streamed() -> None:
    for settings in ({"readout": "mean"}, {"layer": "listing"}):
        with pytest.raises(ValueError, match="must be one of"):
            model_of(causal=True, **settings).start(1)


def test_the_bilstm_is_torch_s_on_packed_sequences_with_all_gradients() -> None:
    model = BiLSTM(BiLSTMConfig(5, 4, 3)).double()
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(4, 9, 5, generator=generator, dtype=torch.float64)
    length = torch.tensor([9, 1, 6, 4])
    keep = torch.arange(9) < length[:, None]
    packed = pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
    hidden, _ = pad_packed_sequence(model.lstm(packed)[0], batch_first=True)
    parameters = list(model.parameters())
    found = []
    for logits in (model.readout(hidden), model(x, keep)[0]):
        weigh = torch.arange(float(logits.numel())).view_as(logits).double().cos()
        loss = (logits * weigh * keep[:, :, None]).sum()
        found.append((logits[keep], *torch.autograd.grad(loss, parameters)))
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_bilstm_settings() -> None:
    for change in ({"layers": 0}, {"readout": "last"}, {"padding": "left"}):
        with pytest.raises(ValueError, match=next(iter(change))):
            BiLSTMConfig(**change)
