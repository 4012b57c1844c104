"""Networks that write a memory: against their equations, step by step; padding; errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sab.models.controller import Controller, Hidden
from sab.models.dnc import DNC, DNCConfig
from sab.models.ntm import NTM, NTMConfig
from sab.ops import addressing, allocation

Machine = NTM | DNC
SIZES: dict[str, Any] = {
    "input_size": 3,
    "hidden_size": 5,
    "output_size": 2,
    "slots": 6,
    "width": 4,
}
KINDS = ("lstm", "feedforward")


def ntm(**settings: Any) -> NTM:
    torch.manual_seed(0)
    return NTM(NTMConfig(**{**SIZES, **settings})).double()


def dnc(**settings: Any) -> DNC:
    torch.manual_seed(0)
    return DNC(DNCConfig(**{**SIZES, **settings})).double()


MACHINES: list[Any] = [
    pytest.param(make, {**more, "controller": kind}, id=f"{make.__name__}-{kind}-{len(more)}")
    for make, more in ((ntm, {}), (ntm, {"heads": 2, "reach": 2}), (dnc, {}), (dnc, {"reads": 2}))
    for kind in KINDS
]


def draw(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=source, dtype=torch.float64)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 2])
def test_the_turing_machine_by_hand(heads: int) -> None:
    """Four stages of addressing, read from the memory as it was, then write."""
    machine = ntm(heads=heads)
    x = draw(2, 4, 3)
    logits, end = machine(x)
    state = machine.start(2, x)
    memory, weights, reads = state.memory, state.weights, state.reads
    assert (weights[..., 0] == 1).all() and weights.sum() == 2 * 2 * heads
    assert (memory == 1e-6).all()
    h = c = x.new_zeros(2, 5)
    for t in range(4):
        h, c = machine.controller.layer(torch.cat([x[:, t], reads], 1), (h, c))
        told = machine.controls(h)
        content = addressing.content_weights(memory, told.keys, told.strengths)
        gated = told.gates[..., None] * content + (1 - told.gates[..., None]) * weights
        moved = addressing.shift(gated, told.shifts)
        weights = moved ** told.sharpness[..., None]
        weights = weights / weights.sum(-1, keepdim=True)
        reads = torch.cat([weights[:, i : i + 1] @ memory for i in range(heads)], 1).flatten(1)
        memory = addressing.write(memory, weights[:, heads:], told.erase, told.add)
        expected = machine.readout(torch.cat([h, reads], 1))
        torch.testing.assert_close(logits[:, t], expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(end.memory, memory, rtol=0, atol=1e-8)
    assert not any(v.requires_grad for v in (end.memory, end.reads, end.weights, *end.hidden))


@pytest.mark.parametrize("reads", [1, 2])
def test_the_neural_computer_by_hand(reads: int) -> None:
    """Free what was read, write to a free slot or by content, then read in one of three ways."""
    machine = dnc(reads=reads)
    x = draw(2, 5, 3)
    logits, end = machine(x)
    at = machine.start(2, x)
    assert not at.memory.any() and not at.reading.any() and not at.links.any()
    h = c = x.new_zeros(2, 5)
    memory, links, before, usage = at.memory, at.links, at.precedence, at.usage
    reading, writing, seen = at.reading, at.writing, at.reads
    for t in range(5):
        h, c = machine.controller.layer(torch.cat([x[:, t], seen], 1), (h, c))
        told = machine.orders(h)
        usage = allocation.used(usage, writing, allocation.retention(told.free, reading))
        free = allocation.allocation(usage)
        alike = addressing.content_weights(memory, told.keys[:, -1:], told.strengths[:, -1:])[:, 0]
        writing = told.write * (told.allocate * free + (1 - told.allocate) * alike)
        memory = addressing.write(memory, writing[:, None], told.erase, told.add)
        links = allocation.link(links, before, writing)
        before = allocation.precedence(before, writing)
        alike = addressing.content_weights(memory, told.keys[:, :-1], told.strengths[:, :-1])
        back, ahead = reading @ links, reading @ links.transpose(1, 2)
        reading = (
            told.modes[..., 0, None] * back
            + told.modes[..., 1, None] * alike
            + told.modes[..., 2, None] * ahead
        )
        seen = (reading @ memory).flatten(1)
        close(logits[:, t], machine.readout(torch.cat([h, seen], 1)))
    close(end.memory, memory)
    close(end.links, links)


@pytest.mark.parametrize(("make", "settings"), MACHINES)
def test_padding_changes_nothing(make: Any, settings: dict[str, Any]) -> None:
    """Each sample equals itself alone, and what the padding holds has no influence."""
    machine = make(**settings)
    x = draw(3, 6, 3).requires_grad_()
    lengths = torch.tensor([6, 2, 4])
    dirty = x.detach().clone()
    for b, length in enumerate(lengths.tolist()):
        dirty[b, length:] = torch.nan
    logits, end = machine(x, lengths=lengths)
    assert torch.equal(machine(dirty, lengths=lengths)[0], logits)
    loss = logits.new_zeros(())
    for b, length in enumerate(lengths.tolist()):
        alone, last = machine(x[b : b + 1, :length])
        close(logits[b : b + 1, :length], alone)
        close(end.memory[b : b + 1], last.memory)
        close(end.hidden.h[b : b + 1], last.hidden.h)
        close(logits[b, length:], machine.readout.bias.expand(6 - length, -1))
        loss = loss + (logits[b, :length] ** 2).sum()
    parameters = (*machine.parameters(),)
    gradient, *wanted = torch.autograd.grad(loss, (x, *parameters))
    again = machine(dirty.requires_grad_(), lengths=lengths)[0]
    loss = sum(((again[b, :n] ** 2).sum() for b, n in enumerate(lengths.tolist())), loss.detach())
    to_dirty, *found = torch.autograd.grad(loss, (dirty, *parameters))
    for one, other in zip((to_dirty, *found), (gradient, *wanted), strict=True):
        assert torch.equal(one, other)
    for b, length in enumerate(lengths.tolist()):
        assert (gradient[b, length:] == 0).all() and (gradient[b, :length] != 0).any()


@pytest.mark.parametrize(("make", "settings"), MACHINES)
def test_state_goes_on_and_every_weight_has_a_gradient(make: Any, settings: dict[str, Any]) -> None:
    machine = make(**settings)
    x = draw(2, 6, 3)
    whole, end = machine(x)
    first, state = machine(x[:, :2])
    rest, last = machine(x[:, 2:], state)
    close(torch.cat([first, rest], 1), whole)
    close(last.memory, end.memory)
    found = torch.autograd.grad(whole.square().sum(), list(machine.parameters()))
    assert all(gradient.isfinite().all() and gradient.any() for gradient in found)


@pytest.mark.parametrize(("make", "settings"), MACHINES)
def test_samples_and_steps_know_only_the_past(make: Any, settings: dict[str, Any]) -> None:
    machine = make(**settings)
    x = draw(3, 5, 3)
    logits, _ = machine(x)
    order = torch.tensor([2, 0, 1])
    close(machine(x[order])[0], logits[order])
    later = x.clone()
    later[:, 3:] += 1
    close(machine(later)[0][:, :3], logits[:, :3])
    assert not torch.allclose(machine(later)[0][:, 3:], logits[:, 3:])


@pytest.mark.parametrize(("make", "settings"), MACHINES)
def test_a_trace_is_the_run(make: Any, settings: dict[str, Any]) -> None:
    machine = make(**settings)
    x = draw(2, 5, 3)
    logits, end = machine(x)
    trace = machine.trace(x)
    close(trace.logits, logits)
    one = torch.ones((), dtype=torch.float64)
    if isinstance(machine, NTM):
        heads = machine.config.heads
        assert trace.reading.shape == trace.writing.shape == (2, 5, heads, 6)
        close(torch.cat([trace.reading, trace.writing], 2)[:, -1], end.weights)
        close(trace.memory, end.memory)
        for stage in (part for stages in trace.stages for part in stages):
            close(stage.sum(-1), one.expand(2, 2 * heads))
    else:
        close(trace.reading[:, -1], end.reading)
        close(trace.writing[:, -1], end.writing)
        assert (trace.usage >= 0).all() and (trace.usage <= 1).all()


def test_a_feedforward_controller_has_no_memory_of_its_own() -> None:
    controller = Controller("feedforward", 3, 5).double()
    x = draw(2, 3)
    a = controller(x, controller.start(2, x))
    b = controller(x, Hidden(draw(2, 5), draw(2, 5)))
    close(a.h, b.h)
    assert isinstance(controller.layer, nn.Linear)


def test_gradcheck_of_a_whole_step() -> None:
    for machine in (ntm(), dnc()):
        x = draw(1, 3, 3).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, m=machine: m(x)[0], (x,))


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (NTMConfig, {"slots": 0}, "slots=0: must be an integer of at least 1"),
        (NTMConfig, {"heads": 0}, "heads=0: must be an integer"),
        (NTMConfig, {"reach": 3}, "reach=3: must be below half of slots=6"),
        (NTMConfig, {"reach": -1}, "reach=-1: must be an integer of at least 0"),
        (NTMConfig, {"controller": "gru"}, "controller='gru': must be one of"),
        (NTMConfig, {"blank": float("inf")}, "blank=inf: must be a finite number"),
        (DNCConfig, {"reads": 0}, "reads=0: must be an integer"),
        (DNCConfig, {"controller": "gru"}, "controller='gru': must be one of"),
    ],
)
def test_bad_settings_are_refused(config: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        config(**{**SIZES, **change})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("make", [ntm, dnc])
@pytest.mark.parametrize(
    ("x", "lengths", "message"),
    [
        (torch.zeros(2, 5, 4), None, "x has shape (2, 5, 4): must be (any, any, 3)"),
        (torch.zeros(2, 0, 3), None, "x has shape (2, 0, 3): needs at least one sequence"),
        (torch.zeros(2, 5, 3), torch.tensor([5, 0]), "lengths=[5, 0]: each must be between"),
    ],
)
def test_bad_inputs_are_refused(make: Any, x: Tensor, lengths: Tensor | None, message: str) -> None:
    machine = make()
    with pytest.raises(ValueError) as error:
        machine(x.double(), lengths=lengths)
    assert str(error.value).startswith(message)
    if lengths is None:
        with pytest.raises(ValueError):
            machine.trace(x.double())
