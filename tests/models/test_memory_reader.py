"""The memory reader against its equations, step by step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sab.models.memory_reader import MemoryReader, MemoryReaderConfig, weights_of


def model(hops: int = 2) -> MemoryReader:
    torch.manual_seed(0)
    return MemoryReader(MemoryReaderConfig(3, 5, 4, hops)).double()


X = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("hops", [1, 3])
def test_answers_are_those_of_the_equations(hops: int) -> None:
    net = model(hops)
    logits, state = net(X)
    assert state is None
    h, _ = net.writer.lstm(X)
    every = weights_of(net, X)
    assert every.shape == (hops, 2, 6, 6)
    for b in range(2):
        for t in range(6):
            q = h[b, t]
            for k in range(hops):
                if t:
                    a, c = h[b, :t] @ net.a.weight.T, h[b, :t] @ net.c.weight.T
                    p = torch.softmax(a @ q / math.sqrt(5), 0)
                    torch.testing.assert_close(every[k, b, t, :t], p.detach())
                    q = q + p @ c
                assert (every[k, b, t, t:] == 0).all()
            torch.testing.assert_close(logits[b, t], net.writer.readout(q), atol=1e-12, rtol=0)


def test_nothing_reads_the_future() -> None:
    net = model()
    changed = X.clone()
    changed[:, 4:] += 1.0
    torch.testing.assert_close(net(X)[0][:, :4], net(changed)[0][:, :4], atol=1e-14, rtol=0)


@pytest.mark.parametrize("rubbish", [1e3, math.nan])
def test_padding_changes_nothing(rubbish: float) -> None:
    net, single = model(), model()
    changed = X.clone()
    changed[1, 3:] = rubbish
    changed.requires_grad_()
    padded = net(changed, lengths=torch.tensor([6, 3]))[0]
    for b, n in enumerate((6, 3)):
        alone = single(X[b : b + 1, :n])[0]
        torch.testing.assert_close(padded[b, :n], alone[0], atol=1e-12, rtol=0)
        alone.square().sum().backward()
    (padded[0].square().sum() + padded[1, :3].square().sum()).backward()
    for (name, one), other in zip(net.named_parameters(), single.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, atol=1e-11, rtol=0)
    assert changed.grad is not None and (changed.grad[1, 3:] == 0).all()


def test_every_weight_learns_what_finite_differences_say() -> None:
    net = model()
    parameters = dict(net.named_parameters())
    names = list(parameters)

    def loss(*values: Tensor) -> Tensor:
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(net, named, (X,))[0].pow(2).mean()

    assert torch.autograd.gradcheck(loss, tuple(parameters.values()), fast_mode=True)
    loss(*parameters.values()).backward()
    for name, parameter in parameters.items():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name


def test_one_step_has_nothing_to_read() -> None:
    net = model()
    logits, _ = net(X[:, :1])
    h, _ = net.writer.lstm(X[:, :1])
    torch.testing.assert_close(logits, net.writer.readout(h))
    assert (weights_of(net, X[:, :1]) == 0).all()


def test_errors() -> None:
    with pytest.raises(ValueError, match="hops=0"):
        MemoryReaderConfig(hops=0)
    with pytest.raises(ValueError, match="x has shape"):
        model()(X[..., :2])
    with pytest.raises(ValueError, match="state: a memory reader"):
        model()(X, 1)
    with pytest.raises(ValueError, match="lengths="):
        model()(X, lengths=torch.tensor([7, 1]))
