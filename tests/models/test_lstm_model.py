"""The LSTM baseline: `torch.nn.LSTM`, with truncation as detaching by hand would do it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sab.models.lstm import LSTM, LSTMConfig

SIZES = {"input_size": 3, "hidden_size": 6, "output_size": 4}
STEPS, BATCH = 11, 4


def make(dtype: torch.dtype = torch.float64, **settings: Any) -> LSTM:
    torch.manual_seed(0)
    return LSTM(LSTMConfig(**{**SIZES, **settings})).to(dtype)


def draw(*size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=source, dtype=torch.float64).to(dtype)


def x_and_weights(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    x = draw(BATCH, STEPS, 3, dtype=dtype).requires_grad_()
    return x, draw(BATCH, STEPS, 4, seed=1, dtype=dtype)


def gradients(loss: Tensor, model: nn.Module, x: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(loss, [x, *model.parameters()], retain_graph=True)
    return list(found)


def close(a: Tensor, b: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_equals_torch(dtype: torch.dtype, tolerance: float) -> None:
    model = make(dtype)
    theirs = nn.LSTM(3, 6, batch_first=True).to(dtype)
    theirs.load_state_dict(model.lstm.state_dict())
    x, w = x_and_weights(dtype)
    logits, (h, c) = model(x)
    out, (h_n, c_n) = theirs(x)
    expected = model.readout(out)
    close(logits, expected, tolerance)
    close(h, h_n[0], tolerance)
    close(c, c_n[0], tolerance)
    ours = torch.autograd.grad((logits * w).sum(), [x, *model.lstm.parameters()])
    reference = torch.autograd.grad((expected * w).sum(), [x, *theirs.parameters()])
    for a, b in zip(ours, reference, strict=True):
        close(a, b, 10 * tolerance)  # sums over steps and batch
    assert not h.requires_grad and not c.requires_grad


@pytest.mark.parametrize("k", [1, 2, 3, 4, 10, 11, 30])
def test_tbptt_is_detaching_every_k_steps(k: int) -> None:
    """Blocks 1…k, k+1…2k: the state is detached after every k-th step, and no value changes."""
    model = make(k_trunc=k)
    x, w = x_and_weights()
    logits, _ = model(x)
    cell = nn.LSTMCell(3, 6).double()
    for name, value in model.lstm.named_parameters():
        setattr(cell, name.removesuffix("_l0"), value)
    h = c = x.new_zeros(BATCH, 6)
    outputs = []
    for t in range(STEPS):
        if t % k == 0:
            h, c = h.detach(), c.detach()
        h, c = cell(x[:, t], (h, c))
        outputs.append(h)
    expected = model.readout(torch.stack(outputs, 1))
    close(logits, expected, 1e-12)
    close(logits, make()(x)[0], 1e-12)
    for a, b in zip(
        gradients((logits * w).sum(), model, x),
        gradients((expected * w).sum(), model, x),
        strict=True,
    ):
        close(a, b, 1e-11)
    (dx,) = torch.autograd.grad(logits[:, 6].sum(), x)
    reached = [t for t in range(STEPS) if dx[:, t].any()]
    assert reached == list(range(6 // k * k, 7))


@pytest.mark.parametrize("k_trunc", [None, 3, 4])
def test_padding(k_trunc: int | None) -> None:
    """Each sample equals itself alone, padded hidden states are zeros, garbage has no influence."""
    model = make(k_trunc=k_trunc)
    lengths = torch.tensor([11, 4, 1, 8])
    x, w = x_and_weights()
    hidden, (h, c) = model.hidden(x, lengths=lengths)
    logits, _ = model(x, lengths=lengths)
    both = gradients((logits * w).sum(), model, x)
    total = [torch.zeros_like(g) for g in both[1:]]
    for b, length in enumerate(lengths.tolist()):
        alone, (h_b, c_b) = model.hidden(x[b : b + 1, :length])
        close(hidden[b : b + 1, :length], alone, 1e-12)
        close(h[b : b + 1], h_b, 1e-12)
        close(c[b : b + 1], c_b, 1e-12)
        assert (hidden[b, length:] == 0).all() and (both[0][b, length:] == 0).all()
        # a padded step reads out zeros: its loss touches the read-out's bias alone
        loss = (model.readout(alone) * w[b : b + 1, :length]).sum()
        loss = loss + (model.readout.bias * w[b, length:]).sum()
        mine = gradients(loss, model, x)
        close(both[0][b, :length], mine[0][b, :length], 1e-11)
        total = [t + g for t, g in zip(total, mine[1:], strict=True)]
    for a, b_ in zip(both[1:], total, strict=True):
        close(a, b_, 1e-11)
    dirty = x.detach().clone()
    for b, length in enumerate(lengths.tolist()):
        dirty[b, length:] = torch.nan
    assert torch.equal(model(dirty, lengths=lengths)[0], logits)


@pytest.mark.parametrize("k_trunc", [None, 4])
def test_carried_state(k_trunc: int | None) -> None:
    model = make(k_trunc=k_trunc)
    x, _ = x_and_weights()
    whole, end = model(x)
    for cuts in ((4,), (1, 7)):
        state, found = None, []
        for start, stop in zip((0, *cuts), (*cuts, STEPS), strict=True):
            logits, state = model(x[:, start:stop], state)
            found.append(logits)
        close(torch.cat(found, 1), whole, 1e-12)
        assert state is not None
        for a, b in zip(state, end, strict=True):
            close(a, b, 1e-12)
    h = draw(BATCH, 6, seed=2).requires_grad_()
    logits, _ = model(x, (h, h))
    assert torch.autograd.grad(logits.sum(), h, allow_unused=True) == (None,)
    assert not torch.equal(logits, whole)


def test_samples_may_be_split_at_different_steps() -> None:
    model = make()
    x, _ = x_and_weights()
    whole, _ = model(x)
    first = torch.tensor([7, 2, 5, 1])
    _, state = model(x[:, :7], lengths=first)
    rest = torch.zeros(BATCH, 10, 3, dtype=torch.float64)
    for b, done in enumerate(first.tolist()):
        rest[b, : STEPS - done] = x[b, done:].detach()
    logits, _ = model(rest, state, STEPS - first)
    for b, done in enumerate(first.tolist()):
        close(logits[b, : STEPS - done], whole[b, done:], 1e-12)


def test_forget_bias() -> None:
    plain, shifted = make(forget_bias=0.0), make(forget_bias=2.5)
    before, after = (dict(m.lstm.named_parameters())["bias_ih_l0"] for m in (plain, shifted))
    expected = torch.zeros(24, dtype=torch.float64)
    expected[6:12] = 2.5  # gate order i, f, g, o
    close(after - before, expected, 1e-6)
    assert LSTMConfig().forget_bias == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_size": 0}, "input_size=0: must be an integer of at least 1"),
        ({"hidden_size": 1.5}, "hidden_size=1.5: must be an integer"),
        ({"output_size": -2}, "output_size=-2: must be an integer"),
        ({"k_trunc": 0}, "k_trunc=0: must be an integer of at least 1"),
        ({"forget_bias": float("nan")}, "forget_bias=nan: must be a finite number"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        LSTMConfig(**{**SIZES, **change})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("x", "lengths", "message"),
    [
        (torch.zeros(2, 5), None, "x has shape (2, 5): must be (any, any, 3)"),
        (torch.zeros(2, 5, 4), None, "x has shape (2, 5, 4): must be (any, any, 3)"),
        (torch.zeros(0, 5, 3), None, "x has shape (0, 5, 3): needs at least one sequence"),
        (torch.zeros(2, 0, 3), None, "x has shape (2, 0, 3): needs at least one sequence"),
        (torch.zeros(2, 5, 3), torch.tensor([5]), "lengths has shape (1,): must be (2)"),
        (torch.zeros(2, 5, 3), torch.tensor([5, 0]), "lengths=[5, 0]: each must be between 1"),
        (torch.zeros(2, 5, 3), torch.tensor([6, 5]), "lengths=[6, 5]: each must be between 1"),
    ],
)
def test_bad_inputs_are_refused(x: Tensor, lengths: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError) as error:
        make(torch.float32)(x, lengths=lengths)
    assert str(error.value).startswith(message)
