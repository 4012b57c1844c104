"""The simulation of D5: right without the fault, and with it what the old layout does."""

import pytest
import torch

from sab.analysis.mixed_thresholds import foreign, mixed, mixed_weights, run_mixed
from sab.models.sab import SAB, SABConfig
from sab.ops.sparse_weights import sparse_weights

SMALL = {"input_size": 3, "hidden_size": 6, "output_size": 4, "k_top": 2}


def model_of(**settings: object) -> SAB:
    torch.manual_seed(1)
    config = SABConfig(**{**SMALL, "form": "reference", **settings})  # type: ignore[arg-type]
    return SAB(config).double()


def test_layout() -> None:
    thresholds = torch.tensor([10.0, 20.0, 30.0])
    assert mixed(thresholds, 2).tolist() == [[10, 20], [30, 10], [20, 30]]
    # With as many memories as sequences every row is the batch itself.
    assert mixed(thresholds, 3).tolist() == [[10, 20, 30]] * 3
    assert foreign(1, 7) == 0.0
    assert foreign(3, 3) == pytest.approx(2 / 3)
    assert foreign(3, 2) == pytest.approx(4 / 6)
    with pytest.raises(ValueError, match="memories=0"):
        mixed(thresholds, 0)
    with pytest.raises(ValueError, match="thresholds"):
        mixed(thresholds[None], 2)


def test_weights_by_hand() -> None:
    scores = torch.tensor([[4.0, 3.0, 1.0, 0.0], [9.0, 8.0, 6.0, 5.0]])
    # Thresholds 1 and 6, laid out as [1, 6, 1, 6] in both rows (4 memories, 2 sequences).
    weights = mixed_weights(scores, 2)
    torch.testing.assert_close(weights[0], torch.tensor([1.0, 0.0, 0.0, 0.0]))
    torch.testing.assert_close(weights[1], torch.tensor([8.0, 2.0, 5.0, 0.0]) / 15)
    # A sequence that meets only higher thresholds reads nothing; alone in its batch it is right.
    low = torch.tensor([[1.0, 0.5, 0.2, 0.1], [9.0, 8.0, 7.0, 6.0]])
    assert mixed_weights(low, 1)[0].tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-5)
    assert mixed_weights(low.flip(1), 1)[0].sum() == 0.0
    torch.testing.assert_close(mixed_weights(low[:1], 2), sparse_weights(low[:1], 2).dense(4))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"score_gradient": "states", "block_offset": 1, "k_att": 1},
        {"k_trunc": None, "short_memory": "softmax"},
        {
            "score": "separable",
            "threshold": "k_top",
            "short_memory": "raw",
            "initial_memory": "zero",
            "score_gradient": "states",
        },
    ],
    ids=["default", "states", "softmax", "released"],
)
def test_without_the_fault_it_is_the_model(settings: dict[str, object]) -> None:
    model = model_of(**settings)
    x = torch.randn(4, 17, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    outcome = []
    for logits in (model(x)[0], run_mixed(model, x, mix=False).logits):
        model.zero_grad()
        (logits**2).sum().backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        assert len(gradients) == len(list(model.parameters()))
        outcome.append([logits.detach(), *gradients])
    for ours, theirs in zip(*outcome, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-9, atol=1e-11)


def test_with_it_sequences_depend_on_their_neighbours() -> None:
    model = model_of()
    x = torch.randn(5, 20, 3, dtype=torch.float64)
    with torch.no_grad():
        alone = run_mixed(model, x[:1])
        among = run_mixed(model, x)
        torch.testing.assert_close(alone.logits, model(x[:1])[0], rtol=1e-5, atol=1e-6)
    assert (alone.logits - among.logits[:1]).abs().max() > 1e-3
    assert (among.read[:, :4] == -1).all() and (among.read[:, 6:] >= 0).all()
    assert (alone.read[0, 6:] <= 2).all() and (among.read > 2).any()
    assert foreign(5, 4) > 0.7


def test_refused() -> None:
    x = torch.zeros(1, 5, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="replay='none'"):
        run_mixed(model_of(replay="none"), x)
    with pytest.raises(ValueError, match="x"):
        run_mixed(model_of(), x[..., :2])
