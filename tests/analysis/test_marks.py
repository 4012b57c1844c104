from __future__ import annotations

import pytest
import torch

from sab.analysis.marks import carried, marked_steps, shares_by_segment, swapped_answers
from sab.models.sab import SAB, SABConfig
from sab.tasks import AddingTask


def batch(count: int = 6, T: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    return AddingTask(T).batch(count, torch.Generator().manual_seed(0))


def test_marked_steps_are_where_the_sum_comes_from() -> None:
    x, y = batch(50)
    marks = marked_steps(x)
    assert (marks[:, 0] <= 6).all() and (marks[:, 1] > 6).all()
    assert torch.allclose(x[..., 0].gather(1, marks - 1).sum(1), y)


def test_marks_are_counted() -> None:
    x, _ = batch()
    x[2, :, 1] = 0
    with pytest.raises(ValueError, match="0 marks: must have two"):
        marked_steps(x)


def test_each_written_step_falls_into_its_segment() -> None:
    marks = torch.tensor([[3, 9]])
    places = [shares_by_segment(row[None], marks, near=2).argmax().item() for row in torch.eye(12)]
    assert places == [0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4]


def test_the_second_mark_wins_where_the_two_are_close() -> None:
    places = [
        shares_by_segment(row[None], torch.tensor([[3, 4]]), near=3).argmax().item()
        for row in torch.eye(8)
    ]
    assert places == [0, 0, 1, 3, 3, 3, 4, 4]


def test_shares_keep_the_sum() -> None:
    x, _ = batch()
    weights = torch.rand(6, 12)
    shares = shares_by_segment(weights, marked_steps(x))
    assert torch.allclose(shares.sum(1), weights.sum(1))


def test_a_swap_of_equal_sequences_changes_nothing_and_of_others_does() -> None:
    torch.manual_seed(0)
    model = SAB(SABConfig(input_size=2, output_size=1, hidden_size=8, k_top=2))
    x, _ = batch()
    with torch.no_grad():
        plain = model(x)[0][:, -1, 0]
    for part in ("memory", "chain"):
        same = swapped_answers(model, x[:1].expand(6, -1, -1), 7, part)
        assert torch.allclose(same, plain[:1].expand(6), atol=1e-6)
        assert not torch.allclose(swapped_answers(model, x, 7, part), plain, atol=1e-6)


def test_a_swap_of_both_parts_would_be_the_other_sequence() -> None:
    """The parts together are the state: memory and chain from sequence b - 1, input from b."""
    torch.manual_seed(0)
    model = SAB(SABConfig(input_size=2, output_size=1, hidden_size=8, k_top=2))
    x, _ = batch()
    x[:, 7:] = x[:1, 7:]
    with torch.no_grad():
        other = model(x)[0][:, -1, 0].roll(1, 0)
    _, state = model(x[:, :7])
    rolled = type(state)(
        state.h.roll(1, 0), state.c.roll(1, 0), state.memory.roll(1, 0), state.step
    )
    with torch.no_grad():
        assert torch.allclose(model(x[:, 7:], rolled)[0][:, -1, 0], other, atol=1e-6)


def test_errors_of_a_swap() -> None:
    model = SAB(SABConfig(input_size=2, output_size=1, hidden_size=4))
    x, _ = batch()
    with pytest.raises(ValueError, match="step=12: must be between 1 and 11"):
        swapped_answers(model, x, 12, "memory")
    with pytest.raises(ValueError, match="part='keys'"):
        swapped_answers(model, x, 3, "keys")


def test_what_is_carried_is_the_coefficient_of_the_other() -> None:
    mine, other = torch.rand(2, 500)
    assert carried(0.25 * mine + 0.75 * other + 3, mine, other) == pytest.approx(0.75, abs=1e-5)
    assert carried(mine, mine, other) == pytest.approx(0, abs=1e-5)
    with pytest.raises(ValueError, match="other"):
        carried(mine, mine, other[:3])
