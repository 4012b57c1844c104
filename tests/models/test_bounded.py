from __future__ import annotations

import pytest
import torch

from sab.models.bounded import POLICIES, BoundedSAB, redundancy
from sab.models.sab import SAB, SABConfig
from sab.tasks import CopyTask


def small(k_att: int = 2) -> SAB:
    torch.manual_seed(0)
    return SAB(SABConfig(hidden_size=8, k_top=2, k_att=k_att)).double()


def sequence(T: int = 12, count: int = 3) -> torch.Tensor:
    task = CopyTask(T=T, length=4)
    return task.batch(count, torch.Generator().manual_seed(0)).x.double()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("k_att", [1, 2, 3])
def test_with_room_for_all_it_is_the_model(policy: str, k_att: int) -> None:
    model, x = small(k_att), sequence()
    with torch.no_grad():
        want = model(x)[0]
    assert torch.allclose(BoundedSAB(model, 100, policy)(x)[0], want, atol=1e-10)


@pytest.mark.parametrize("policy", POLICIES)
def test_it_never_holds_more_than_its_capacity(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, held = small(), []
    bounded = BoundedSAB(model, 4, policy)
    forget = bounded._forget

    def watched(state, recalled):  # type: ignore[no-untyped-def]
        kept, counts = forget(state, recalled)
        held.append((kept.memory.shape[1], counts.shape[1], int(kept.step[0]) // 2))
        return kept, counts

    monkeypatch.setattr(bounded, "_forget", watched)
    bounded(sequence())
    assert held and set(held) == {(4, 4, 4)}


def test_the_oldest_is_a_window() -> None:
    """By hand: the same scan, with the memory cut to its newest before every write."""
    model, x = small(), sequence()
    state = model.layer.init_state(len(x))
    outputs = []
    for start in range(0, x.shape[1], 2):
        with torch.no_grad():
            y, state = model(x[:, start : start + 2], state)
        outputs.append(y)
        if state.memory.shape[1] > 5:
            kept = state.memory[:, 1:].clone()
            state = type(state)(state.h, state.c, kept, torch.full_like(state.step, 10))
    assert torch.allclose(BoundedSAB(model, 5, "oldest")(x)[0], torch.cat(outputs, 1), atol=1e-10)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut", [1, 6, 7])
def test_it_can_be_streamed(policy: str, cut: int) -> None:
    bounded, x = BoundedSAB(small(), 4, policy), sequence()
    first, state = bounded(x[:, :cut])
    second, _ = bounded(x[:, cut:], state)
    assert torch.allclose(torch.cat([first, second], 1), bounded(x)[0], atol=1e-10)


def test_a_copy_is_redundant_and_a_loner_is_not() -> None:
    memory = torch.tensor([[[0.0, 0.0], [5.0, 5.0], [0.1, 0.0], [9.0, 0.0]]])
    assert redundancy(memory).argsort()[0].tolist()[:2] == [0, 2]
    assert redundancy(memory)[0, 3] > 6


def test_the_least_recalled_goes_and_the_newest_stays() -> None:
    model = small()
    state = model.layer.init_state(1)
    memory = torch.arange(4.0).double()[None, :, None].expand(1, 4, 8).clone()
    state = type(state)(state.h, state.c, memory, torch.tensor([8]))
    counts = torch.tensor([[0.5, 0.1, 0.7, 0.0]]).double()
    kept, left = BoundedSAB(model, 3, "least recalled")._forget(state, counts)
    assert kept.memory[0, :, 0].tolist() == [0.0, 2.0, 3.0]
    assert left[0].tolist() == pytest.approx([0.5, 0.7, 0.0])


@pytest.mark.parametrize(
    ("capacity", "policy", "message"),
    [(2, "oldest", "capacity=2"), (5, "newest", "policy='newest'")],
)
def test_errors(capacity: int, policy: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BoundedSAB(small(), capacity, policy)


def test_a_zero_memory_is_refused() -> None:
    model = SAB(SABConfig(hidden_size=8, k_top=2, initial_memory="zero"))
    with pytest.raises(ValueError, match="initial_memory='zero'"):
        BoundedSAB(model, 8)
