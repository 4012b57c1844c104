"""The Transformer: what each position sees, and its size beside the LSTM's."""

import math
from typing import Any

import pytest
import torch

from sab.models.lstm import LSTM, LSTMConfig
from sab.models.registry import build
from sab.models.transformer import Transformer, TransformerConfig, count, matched_width

SMALL = {"input_size": 3, "hidden_size": 8, "output_size": 2, "layers": 2, "heads": 2}


def model_of(causal: bool = False) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SMALL, causal=causal)).double()


@pytest.mark.parametrize("causal", [False, True])
def test_who_sees_whom(causal: bool) -> None:
    model = model_of(causal)
    x = torch.randn(1, 6, 3, dtype=torch.float64, requires_grad=True)
    y, state = model(x)
    assert y.shape == (1, 6, 2) and state is None
    for t in range(6):
        (gradient,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        reached = gradient[0].abs().sum(1) > 0
        assert reached[: t + 1].all()
        assert bool(reached[t + 1 :].any()) == (not causal and t < 5)


def test_attention_is_the_textbook_s() -> None:
    model = model_of()
    block: Any = model.blocks[0]
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    seen = torch.zeros_like(x)
    at = block.norm1(x)
    for head in (slice(0, 4), slice(4, 8)):
        q, k, v = (
            part(at)[..., head]
            for part in (block.attention.query, block.attention.key, block.attention.value)
        )
        seen[..., head] = torch.softmax(q @ k.transpose(1, 2) / 2.0, 2) @ v
    mid = x + block.attention.output(seen)
    first, second = block.feed_forward[0], block.feed_forward[2]
    want = mid + second(torch.nn.functional.gelu(first(block.norm2(mid))))
    assert torch.allclose(block(x), want, atol=1e-12)


@pytest.mark.parametrize("rubbish", [1e3, math.nan])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_changes_nothing(causal: bool, rubbish: float) -> None:
    """Neither an answer nor a gradient, and it gets none itself."""
    lengths = torch.tensor([6, 2, 4])
    clean = torch.randn(3, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = clean.clone()
    for b, n in enumerate(lengths.tolist()):
        x[b, n:] = rubbish
    x.requires_grad_()
    model, single = model_of(causal), model_of(causal)
    y, _ = model(x, lengths=lengths)
    loss = torch.zeros((), dtype=torch.float64)
    for b, n in enumerate(lengths.tolist()):
        alone = clean[b : b + 1, :n].requires_grad_()
        out, _ = single(alone)
        torch.testing.assert_close(y[b, :n], out[0], atol=1e-12, rtol=0)
        out.square().sum().backward()
        loss = loss + y[b, :n].square().sum()
        clean = clean.detach()
    loss.backward()
    for (name, one), other in zip(model.named_parameters(), single.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, atol=1e-10, rtol=0)
    assert x.grad is not None and x.grad.isfinite().all()
    for b, n in enumerate(lengths.tolist()):
        assert (x.grad[b, n:] == 0).all() and (x.grad[b, :n] != 0).all()


def test_positions_tell_steps_apart() -> None:
    model = model_of()
    x = torch.randn(1, 5, 3, dtype=torch.float64)
    assert not torch.allclose(model(x)[0][:, -1], model(x.flip(1))[0][:, -1])


def test_every_parameter_gets_a_gradient() -> None:
    model = model_of()
    y, _ = model(torch.randn(2, 5, 3, dtype=torch.float64))
    y[:, -1].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize(("units", "channels"), [(128, 1), (64, 3)])
def test_as_many_parameters_as_the_lstm(units: int, channels: int) -> None:
    width = matched_width(units, channels, 10)
    lstm = count(LSTM(LSTMConfig(channels, units, 10)))
    mine = count(Transformer(TransformerConfig(channels, width, 10)))
    assert abs(mine / lstm - 1) <= 0.2
    for other in (width - 4, width + 4):
        theirs = count(Transformer(TransformerConfig(channels, other, 10)))
        assert abs(theirs / lstm - 1) >= abs(mine / lstm - 1)


def test_errors() -> None:
    with pytest.raises(ValueError, match="hidden_size=10: must be a multiple of heads=4"):
        TransformerConfig(hidden_size=10)
    with pytest.raises(ValueError, match="layers=0"):
        TransformerConfig(layers=0)
    with pytest.raises(ValueError, match="causal='yes'"):
        build("transformer", causal="yes")
    with pytest.raises(ValueError, match="units=2: no width"):
        matched_width(2, 1, 10)
    with pytest.raises(ValueError, match="x has shape"):
        build("transformer", SMALL)(torch.zeros(2, 5, 4))
    for lengths, message in (
        (torch.tensor([5, 0]), r"lengths=\[5, 0\]: each must be between 1 and 5"),
        (torch.tensor([5.0, 2.0]), "lengths has dtype torch.float32"),
        (torch.tensor([5]), "lengths has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            build("transformer", SMALL)(torch.zeros(2, 5, 3), lengths=lengths)
