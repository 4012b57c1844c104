"""The encoder-decoder against its equations; padding, gradients, errors."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sab.models.seq2seq import BEGIN, END, PAD, Seq2Seq, Seq2SeqConfig
from sab.ops.scores import additive
from sab.tasks import symbols


def model(**settings: bool | float) -> Seq2Seq:
    torch.manual_seed(0)
    config = Seq2SeqConfig(9, 8, embed_size=3, hidden_size=5, longest=6, **settings)  # type: ignore[arg-type]
    return Seq2Seq(config).double().eval()


X = torch.tensor([[4, 5, 6, 7, 3], [8, 3, 4, 0, 0], [5, 0, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 1])
Y = torch.tensor([[3, 4, 5, END], [7, END, PAD, PAD], [6, 6, END, PAD]])


def test_tasks_and_model_mean_the_same_symbols() -> None:
    assert (PAD, BEGIN, END) == (symbols.PAD, symbols.BEGIN, symbols.END)


def test_logits_are_those_of_the_equations() -> None:
    net = model()
    logits, state, weights = net(X[:1], Y[:1], return_weights=True)
    assert state is None
    states, last = net.encoder(net.embed_source(X[:1]))
    s = torch.tanh(net.first(last[1]))
    for i, told in enumerate([BEGIN, *Y[0, :3].tolist()]):
        e = additive(states, s, net.w.weight, net.u.weight, net.v)
        alpha = torch.softmax(e, 1)
        c = (alpha[:, :, None] * states).sum(1)
        before = net.embed_target(torch.tensor([told]))
        s = net.cell(torch.cat([before, c], 1), s)
        y = net.answer(torch.tanh(net.inner(torch.cat([s, c, before], 1))))
        torch.testing.assert_close(weights[:, i], alpha, atol=1e-12, rtol=0)
        torch.testing.assert_close(logits[:, i, 2:], y[:, 2:], atol=1e-12, rtol=0)
    assert (logits[:, :, [PAD, BEGIN]] == -math.inf).all()


def test_the_first_state_has_read_everything() -> None:
    net = model()
    before = net.encode(X[:1])
    changed = X[:1].clone()
    changed[0, -1] = 8
    assert not torch.equal(before.state, net.encode(changed).state)


def test_without_attention_every_step_is_given_the_same_vector() -> None:
    net = model(attention=False)
    logits, _, weights = net(X, Y, return_weights=True)
    assert (weights == 0).all() and logits[:, :, 2:].isfinite().all()
    source = net.encode(X)
    other = source._replace(states=torch.randn_like(source.states))
    told = torch.full((3,), BEGIN)
    step = net.step(told, source.state, source)
    assert torch.equal(step.logits, net.step(told, source.state, other).logits)
    whole = net.encoder(net.embed_source(X[:1]))[1]
    torch.testing.assert_close(source.whole[:1], whole.transpose(0, 1).flatten(1))


@pytest.mark.parametrize("attention", [True, False])
def test_padding_changes_nothing(attention: bool) -> None:
    net, single = model(attention=attention), model(attention=attention)
    poisoned = X.clone()
    poisoned[1, 3:], poisoned[2, 1:] = 7, 8
    together, _, weights = net(poisoned, Y, LENGTHS, return_weights=True)
    found, _ = net(X, Y)  # lengths from the padding symbol
    assert torch.equal(together, found)
    free, _ = net(X)
    for b, n in enumerate(LENGTHS.tolist()):
        alone, _, looked = net(X[b : b + 1, :n], Y[b : b + 1], return_weights=True)
        torch.testing.assert_close(together[b], alone[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(weights[b, :, :n], looked[0], atol=1e-12, rtol=0)
        assert (weights[b, :, n:] == 0).all()
        torch.testing.assert_close(free[b], net(X[b : b + 1, :n])[0][0], atol=1e-12, rtol=0)
        single(X[b : b + 1, :n], Y[b : b + 1])[0][:, :, 2:].square().sum().backward()
    together[:, :, 2:].square().sum().backward()
    for (name, one), other in zip(net.named_parameters(), single.parameters(), strict=True):
        if one.grad is None and other.grad is None:  # without attention nothing is scored
            continue
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, atol=1e-11, rtol=0)


def test_told_its_own_choices_it_says_the_same() -> None:
    net = model()
    free, _, weights = net(X, return_weights=True)
    assert free.shape == (3, 6, 8)
    told, _, again = net(X, free.argmax(-1), return_weights=True)
    torch.testing.assert_close(free, told, atol=1e-12, rtol=0)
    torch.testing.assert_close(weights, again, atol=1e-12, rtol=0)


def test_an_answer_depends_on_the_past_only() -> None:
    net = model()
    changed = Y.clone()
    changed[0, 2] = 7
    before, after = net(X, Y)[0], net(X, changed)[0]
    assert torch.equal(before[0, :3], after[0, :3])
    assert not torch.equal(before[0, 3], after[0, 3]) and torch.equal(before[1:], after[1:])


def loss(net: Seq2Seq, y: Tensor = Y) -> Tensor:
    logits, _ = net(X, y)
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PAD)


def test_every_weight_learns_what_finite_differences_say() -> None:
    net = model()
    loss(net).backward()
    generator = torch.Generator().manual_seed(1)
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            parameter.add_(1e-6 * direction)
            high = loss(net).item()
            parameter.sub_(2e-6 * direction)
            low = loss(net).item()
            parameter.add_(1e-6 * direction)
        slope = float((parameter.grad * direction).sum())
        assert (high - low) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-9), name


def test_padding_gets_no_gradient() -> None:
    net = model()
    loss(net).backward()
    assert net.embed_source.weight.grad is not None and net.embed_target.weight.grad is not None
    assert (net.embed_source.weight.grad[PAD] == 0).all()
    longer = functional.pad(Y, (0, 3))
    assert loss(net).item() == pytest.approx(loss(net, longer).item(), abs=1e-12)


def test_dropout_in_training_only() -> None:
    net = model(dropout=0.5)
    assert torch.equal(net(X, Y)[0], net(X, Y)[0])
    net.train()
    assert not torch.equal(net(X, Y)[0], net(X, Y)[0])


def test_errors() -> None:
    with pytest.raises(ValueError, match="hidden_size=0"):
        Seq2SeqConfig(hidden_size=0)
    with pytest.raises(ValueError, match="output_size=3"):
        Seq2SeqConfig(output_size=3)
    with pytest.raises(ValueError, match=r"dropout=1\.5"):
        Seq2SeqConfig(dropout=1.5)
    with pytest.raises(ValueError, match="attention='no'"):
        Seq2SeqConfig(attention="no")  # type: ignore[arg-type]
    net = model()
    with pytest.raises(ValueError, match="x has shape"):
        net(X[0])
    with pytest.raises(ValueError, match="empty"):
        net(X[:, :0])
    with pytest.raises(ValueError, match=r"lengths=\[5, 0, 1\]"):  # a source of padding alone
        net(torch.tensor([[4, 5, 6, 7, 3], [0, 0, 0, 0, 0], [5, 0, 0, 0, 0]]))
    with pytest.raises(ValueError, match="lengths="):
        net(X, lengths=torch.tensor([6, 1, 1]))
    with pytest.raises(ValueError, match="x: must be int64 symbols between 0 and 8"):
        net(X + 5)
    with pytest.raises(ValueError, match="x: must be int64"):
        net(X.double())
    with pytest.raises(ValueError, match="x: must be int64"):
        net(X > 0)
    with pytest.raises(ValueError, match=r"lengths has dtype torch\.float32"):
        net(X, lengths=LENGTHS.float())
    with pytest.raises(ValueError, match="targets: must be int64 symbols between 0 and 7"):
        net(X, Y + 4)
    with pytest.raises(ValueError, match="targets has shape"):
        net(X, Y[:2])
