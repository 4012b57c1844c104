"""The dense baseline: softmax over every past state, in all forms, against a loop over the
equations.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.models.attentive_lstm import AttentiveLSTM, AttentiveLSTMConfig, DenseRecall
from sab.ops.attentive_scan import OPTIONS, attentive_scan
from sab.ops.sab_scan import SABState, ScanWeights, initial_state

FORMS = ("reference", "torch", "cpp")
INPUTS, HIDDEN, WIDTH, STEPS, BATCH = 3, 5, 4, 8, 3


def draw(*size: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    source = torch.Generator().manual_seed(seed + sum(size))
    return torch.randn(*size, generator=source, dtype=torch.float64) * scale


def weights(seed: int = 0, hidden: int = HIDDEN, width: int = WIDTH) -> ScanWeights:
    return ScanWeights(
        draw(4 * hidden, INPUTS, seed=seed).requires_grad_(),
        draw(4 * hidden, hidden, seed=seed, scale=0.6).requires_grad_(),
        draw(4 * hidden, seed=seed).requires_grad_(),
        (
            draw(width, hidden, seed=seed + 1).requires_grad_(),
            draw(width, hidden, seed=seed + 2).requires_grad_(),
            draw(width, seed=seed + 3).requires_grad_(),
        ),
    )


def carried(*steps: int) -> SABState:
    """A state whose samples have taken so many steps."""
    step = torch.tensor(steps)
    memory = draw(len(steps), int(step.max()), HIDDEN, seed=9)
    memory *= (torch.arange(memory.shape[1]) < step[:, None])[..., None]
    return SABState(draw(len(steps), HIDDEN, seed=7), draw(len(steps), HIDDEN), memory, step)


def naive(
    x: Tensor, w: ScanWeights, state: SABState, lengths: Tensor | None, k_trunc: int | None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The same over Python lists, sample by sample: h, s (T, B, n), memories of each sample."""
    steps, batch, _ = x.shape
    w1, w2, w3 = w.scorer
    all_h, all_s, memories = [], [], []
    for b in range(batch):
        began = int(state.step[b])
        memory = list(state.memory[b, :began])
        h, c = state.h[b], state.c[b]
        hs, ss = [], []
        for t in range(steps if lengths is None else int(lengths[b])):
            if k_trunc is not None and (began + t) % k_trunc == 0:  # blocks 1…k, k+1…2k
                h, c = h.detach(), c.detach()
            i, f, g, o = (w.w_ih @ x[t, b] + w.w_hh @ h + w.bias).split(h.shape[0])
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            hat = o.sigmoid() * c.tanh()
            s = torch.zeros_like(hat)
            if memory:
                scores = torch.stack([w3 @ (w1 @ m + w2 @ hat).tanh() for m in memory])
                for a, m in zip(scores.softmax(0), memory, strict=True):
                    s = s + a * m
            h = hat + s
            memory.append(h)
            hs.append(h)
            ss.append(s)
        padding = [torch.zeros(h.shape[0], dtype=x.dtype)] * (steps - len(hs))
        all_h.append(torch.stack(hs + padding))
        all_s.append(torch.stack(ss + padding))
        memories.append(torch.stack(memory).detach())
    return torch.stack(all_h, 1), torch.stack(all_s, 1), memories


def close(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one step": {"steps": 1},
    "blocks of one": {"k_trunc": 1},
    "blocks of three": {"k_trunc": 3},
    "lengths": {"lengths": torch.tensor([8, 1, 5]), "k_trunc": 3},
    "carried": {"state": carried(4, 4, 4), "k_trunc": 3},
    "carried, unequal": {"state": carried(4, 0, 2), "k_trunc": 2},
    "all": {"state": carried(1, 5, 3), "lengths": torch.tensor([2, 8, 7]), "k_trunc": 3},
    "longest past, shortest future": {
        "state": carried(5, 0, 2),
        "lengths": torch.tensor([1, 8, 4]),
    },
    "one sample": {"batch": 1},
    "large keys": {"scale": 60.0},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_equals_the_equations(name: str, form: str) -> None:
    """Outputs, end state and every gradient."""
    case = {"steps": STEPS, "batch": BATCH, "k_trunc": None, "lengths": None, **CASES[name]}
    batch = case["batch"]
    x = draw(case["steps"], batch, INPUTS).requires_grad_()
    w = weights()
    if scale := case.get("scale"):
        first = (w.scorer[0].detach() * scale).requires_grad_()
        w = w._replace(scorer=(first, *w.scorer[1:]))
    state = case.get("state") or initial_state(batch, HIDDEN, OPTIONS, like=x)
    settings = (case["lengths"], case["k_trunc"])
    h, s, end, alpha = attentive_scan(x, w, state, *settings, form=form)
    h_, s_, memories = naive(x, w, state, *settings)
    close(h, h_)
    close(s, s_)
    lengths = torch.full((batch,), len(x)) if case["lengths"] is None else case["lengths"]
    assert torch.equal(end.step, state.step + lengths)
    assert not end.h.requires_grad and not end.memory.requires_grad
    for b, memory in enumerate(memories):
        close(end.memory[b, : len(memory)], memory)
        assert (end.memory[b, len(memory) :] == 0).all()
        close(end.h[b], memory[-1])
    assert alpha is not None
    # the weights give the summary back and sum to one wherever there is something to read
    close((alpha.transpose(0, 1) @ end.memory).transpose(0, 1), s)
    live = torch.arange(len(x))[:, None] < lengths
    reads = live & ((torch.arange(len(x))[:, None] + state.step) > 0)
    close(alpha.sum(2), reads.to(alpha.dtype))

    leaves = [x, w.w_ih, w.w_hh, w.bias, *w.scorer]
    dh, ds = draw(*h.shape, seed=3), draw(*h.shape, seed=4)
    ours = torch.autograd.grad((h * dh).sum() + (s * ds).sum(), leaves)
    theirs = torch.autograd.grad((h_ * dh).sum() + (s_ * ds).sum(), leaves, allow_unused=True)
    for a, b_ in zip(ours, theirs, strict=True):
        close(a, torch.zeros_like(a) if b_ is None else b_)


@pytest.mark.parametrize("form", FORMS)
def test_gradcheck(form: str) -> None:
    """Without truncation the gradient is the loss's."""
    x = draw(5, 1, INPUTS).requires_grad_()
    w = weights(hidden=2, width=2)
    state = initial_state(1, 2, OPTIONS, like=x)

    def outputs(*leaves: Tensor) -> tuple[Tensor, ...]:
        x, w_ih, w_hh, bias, *scorer = leaves
        held = ScanWeights(w_ih, w_hh, bias, tuple(scorer))
        return attentive_scan(x, held, state, form=form)[:2]

    leaves = (x, w.w_ih, w.w_hh, w.bias, *w.scorer)
    assert torch.autograd.gradcheck(outputs, leaves, fast_mode=True)


def make(form: str = "auto", **settings: Any) -> AttentiveLSTM:
    torch.manual_seed(0)
    sizes = {"input_size": INPUTS, "hidden_size": HIDDEN, "output_size": 2}
    model = AttentiveLSTM(AttentiveLSTMConfig(**{**sizes, **settings}, form=form)).double()
    with torch.no_grad():
        model.layer.weight_hh.mul_(2)
    return model


@pytest.mark.parametrize("form", FORMS)
def test_float32(form: str) -> None:
    exact = make(form)
    x = draw(BATCH, 30, INPUTS)
    y, _ = exact(x)
    small, _ = make(form).float()(x.float())
    assert small.dtype == torch.float32
    close(small.double(), y, 1e-5)


@pytest.mark.parametrize("scale", [1.0, 100.0], ids=["small keys", "some keys beyond e^80"])
@pytest.mark.parametrize("threads", [1, 2])
def test_float32_gradients_by_blocks(threads: int, scale: float) -> None:
    """Columns beyond a block of vectors and samples beyond a block of samples, ragged, carried."""
    hidden, width, batch, steps = 80, 72, 37, 60
    past = 5 + torch.arange(batch) % 3
    state = SABState(
        draw(batch, hidden, scale=0.3),
        draw(batch, hidden),
        draw(batch, 7, hidden, seed=9) * (torch.arange(7) < past[:, None])[..., None],
        past,
    )
    x, lengths = draw(steps, batch, INPUTS, seed=2), steps - torch.arange(batch) % 50
    w = weights(hidden=hidden, width=width)
    # the keys of every second column are large, so that some rows of keys are and others are not
    w1 = w.scorer[0].detach() * 0.1
    w1[::2] *= scale
    leaves = [w.w_ih, w.w_hh, w.bias, w1, *w.scorer[1:]]
    leaves = [(leaf.detach() * 0.3).requires_grad_() for leaf in leaves]
    dh, ds = draw(steps, batch, hidden, seed=3), draw(steps, batch, hidden, seed=4)
    found = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for kind, form in ((torch.float64, "torch"), (torch.float32, "cpp")):
            used = [leaf.detach().to(kind).requires_grad_() for leaf in leaves]
            held = ScanWeights(used[0], used[1], used[2], (used[3], used[4], used[5]))
            start = SABState(state.h.to(kind), state.c.to(kind), state.memory.to(kind), past)
            h, s, _, alpha = attentive_scan(x.to(kind), held, start, lengths, 7, form)
            assert alpha is not None
            loss = (h * dh.to(kind)).sum() + (s * ds.to(kind)).sum()
            found.append([h, s, alpha, *torch.autograd.grad(loss, used)])
    finally:
        torch.set_num_threads(before)
    for exact, ours in zip(*found, strict=True):
        assert ours.dtype == torch.float32
        size = float(exact.detach().square().mean().sqrt())
        torch.testing.assert_close(ours.double(), exact, rtol=1e-3, atol=1e-3 * size)


@pytest.mark.parametrize("form", FORMS)
def test_causality(form: str) -> None:
    model = make(form)
    x = draw(BATCH, STEPS, INPUTS)
    y, _, recall = model(x, return_recall=True)
    assert not recall.matrix().triu().any(), "a state reads neither itself nor the future"
    for t in (1, 5):
        other = x.clone()
        other[:, t:] = draw(BATCH, STEPS - t, INPUTS, seed=5) * 10
        changed, _ = model(other)
        assert torch.equal(y[:, :t], changed[:, :t]) and not torch.equal(y[:, t], changed[:, t])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_truncation_cuts_the_chain_and_not_the_reads(form: str, k: int) -> None:
    """Every step reads all the past, so credit goes everywhere, but through few cells."""
    x = draw(1, STEPS, INPUTS).requires_grad_()
    (full,) = torch.autograd.grad(make(form)(x)[0][0, 6].sum(), x)
    y, _ = make(form, k_trunc=k)(x)
    (cut,) = torch.autograd.grad(y[0, 6].sum(), x)
    close(y, make(form)(x)[0], 1e-12)
    assert (cut[0, :7].abs().sum(1) > 0).all() and (cut[0, 7:] == 0).all()
    assert not torch.allclose(full, cut)
    long = make(form, k_trunc=STEPS)
    close(torch.autograd.grad(long(x)[0][0, 6].sum(), x)[0], full, 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_carried_state_and_read_out(form: str) -> None:
    model = make(form)
    x = draw(BATCH, STEPS, INPUTS)
    whole, end, recall = model(x, return_recall=True)
    with torch.no_grad():
        plain, _ = model(x)
    close(plain, whole, 1e-13)
    state, found = model.init_state(BATCH), []
    for t in range(STEPS):
        y, state, part = model(x[:, t : t + 1], state, return_recall=True)
        found.append(y)
        assert part.weights.shape == (BATCH, 1, t + 1) and part.matrix().shape == (BATCH, 1, 1)
        close(part.weights[:, 0, :t], recall.matrix()[:, t, :t], 1e-12)
    close(torch.cat(found, 1), whole, 1e-12)
    close(state.memory, end.memory, 1e-12)
    # y = V1 h + V2 s + b, with h the memories and s their weighted sum
    h = end.memory
    s = recall.matrix() @ h
    expected = h @ model.v1.weight.T + model.v1.bias + s @ model.v2.weight.T
    close(whole, expected, 1e-12)


def test_dense_recall() -> None:
    recall = DenseRecall(torch.arange(24.0).view(1, 3, 8))
    assert torch.equal(recall.matrix(), recall.weights[:, :, 5:])
    assert torch.equal(recall.matrix(2), recall.weights[:, :, 5:7])


@pytest.mark.parametrize("form", FORMS)
def test_lengths(form: str) -> None:
    model = make(form, k_trunc=3)
    x = draw(BATCH, STEPS, INPUTS)
    lengths = torch.tensor([8, 3, 6])
    y, state = model(x, lengths=lengths)
    dirty = x.clone()
    for b, length in enumerate(lengths.tolist()):
        dirty[b, length:] = torch.nan
        close(y[b : b + 1, :length], model(x[b : b + 1, :length])[0], 1e-12)
        close(y[b, length:], model.v1.bias.expand(STEPS - length, 2), 1e-13)
    assert torch.equal(model(dirty, lengths=lengths)[0], y)
    assert torch.equal(state.step, lengths)


@pytest.mark.parametrize("form", ("torch", "cpp"))
def test_second_derivatives_are_refused_and_backward_repeats(form: str) -> None:
    model = make(form)
    x = draw(BATCH, STEPS, INPUTS).requires_grad_()
    loss = model(x)[0].square().sum()
    parameters = [x, *model.parameters()]
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    second = torch.autograd.grad(loss, parameters, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    (dx,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.parametrize("form", ("torch", "cpp"))
def test_no_buffer_is_read_before_it_is_written(form: str) -> None:
    torch.use_deterministic_algorithms(True)  # fills what is not initialised with NaN
    try:
        assert torch.empty(2).isnan().all()
        for name in ("all", "lengths", "plain"):
            test_equals_the_equations(name, form)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_layer_and_threads(threads: int) -> None:
    """Weights beyond the caches are multiplied by all threads at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        x = draw(BATCH, 4, INPUTS)
        lengths = torch.tensor([4, 2, 3])
        found = []
        for form in FORMS:
            config = AttentiveLSTMConfig(INPUTS, 256, 2, score_size=4, form=form)
            torch.manual_seed(0)
            model = AttentiveLSTM(config).double()
            y, _ = model(x, lengths=lengths)
            found.append([y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                close(a, b)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 0}, "hidden_size=0: must be an integer of at least 1"),
        ({"k_trunc": 0}, "k_trunc=0: must be an integer of at least 1"),
        ({"score_size": -1}, "score_size=-1: must be an integer of at least 1"),
        ({"forget_bias": float("inf")}, "forget_bias=inf: must be a finite number"),
        ({"form": "fast"}, "form='fast': must be one of 'auto'"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        dataclasses.replace(AttentiveLSTMConfig(), **change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("form", FORMS)
def test_bad_inputs_are_refused(form: str) -> None:
    model = make(form)
    with pytest.raises(ValueError, match=r"x has shape \(2, 5\): must be \(any, any, 3\)"):
        model(draw(2, 5))
    with pytest.raises(ValueError, match=r"lengths=\[5, 6\]: each must be between 1 and 5"):
        model(draw(2, 5, 3), lengths=torch.tensor([5, 6]))
    with pytest.raises(ValueError, match=r"state.h has shape \(3, 5\): must be \(2, 5\)"):
        model(draw(2, 5, 3), model.init_state(3))
    with pytest.raises(ValueError, match="k_trunc=0: must be an integer"):
        attentive_scan(draw(4, 2, 3), weights(), model.init_state(2), k_trunc=0, form=form)
