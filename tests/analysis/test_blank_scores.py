"""Scores of stored states at the answers: true to the layer, and the rules drawn from them."""

import math

import pytest
import torch

from sab.analysis.blank_scores import AnswerReads, answer_reads, crowd, period, settling
from sab.models.sab import SABLayer
from sab.ops.sparse_weights import softmax_weights, sparse_weights


def layer_of(**options: object) -> SABLayer:
    torch.manual_seed(0)
    return SABLayer(4, 8, k_top=3, **options).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("k_att", [1, 2, 3])
@pytest.mark.parametrize("form", ["reference", "torch"])
def test_scores_explain_what_was_read(k_att: int, form: str) -> None:
    layer = layer_of(k_att=k_att, form=form)
    x = torch.randn(3, 31, 4, dtype=torch.float64)
    reads = answer_reads(layer, x, 5)
    assert reads.written.tolist() == list(range(k_att, 32, k_att))
    for place, t in enumerate(range(27, 32)):
        held = (t - 1) // k_att
        assert torch.isfinite(reads.scores[:, place]).sum(1).tolist() == [held] * 3
        again = sparse_weights(reads.scores[:, place, :held], 3).dense(held)
        torch.testing.assert_close(reads.weights[:, place, :held], again)
        assert not reads.weights[:, place, held:].any()
    with torch.no_grad():
        torch.testing.assert_close(reads.h, layer(x)[0])


def made() -> AnswerReads:
    scores = torch.tensor([[[5.0, 4.0, 1.0, 6.0, -math.inf], [5.0, 4.0, 1.0, 2.0, 0.0]]])
    weights = torch.tensor([[[0.25, 0.0, 0.0, 0.75, 0.0], [0.8, 0.2, 0.0, 0.0, 0.0]]])
    return AnswerReads(scores, weights, torch.arange(2, 12, 2), torch.zeros(1, 12, 1))


def test_weight_highest_and_threshold() -> None:
    reads = made()
    torch.testing.assert_close(reads.weight(4, 8), torch.tensor([[0.75, 0.2]]))
    assert reads.highest(4, 6).tolist() == [[4.0, 4.0]]
    assert reads.highest(10, 10).tolist() == [[-math.inf, 0.0]]
    assert reads.highest(13, 20).tolist() == [[-math.inf, -math.inf]]
    assert reads.threshold(2).tolist() == [[4.0, 2.0]]
    assert reads.threshold(9).tolist() == [[1.0, 0.0]]


def test_overtaken() -> None:
    steps, share = made().overtaken(4, 10)
    assert steps.tolist() == [6, 8, 10]
    assert share.tolist() == [0.0, 0.5, 0.5]
    for cut, last in ((1, 10), (10, 10), (4, 4)):
        with pytest.raises(ValueError, match="both sides"):
            made().overtaken(cut, last)


def test_settling_and_period() -> None:
    steps = torch.arange(60.0)
    spiral = torch.stack([0.5**steps, 0 * steps], 1)
    circle = torch.stack([torch.cos(steps * math.pi / 3), torch.sin(steps * math.pi / 3)], 1)
    away = torch.stack([steps, steps], 1)
    h = torch.stack([spiral, circle, away])
    distance = settling(h)
    assert distance.shape == (3, 59)
    torch.testing.assert_close(distance[0, :3], torch.tensor([0.5, 0.25, 0.125]))
    torch.testing.assert_close(distance[2], torch.full((59,), math.sqrt(2)))
    assert period(h, longest=20).tolist() == [1, 6, 0]
    assert period(h, longest=5).tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="must have at least 90"):
        period(h, longest=30)
    with pytest.raises(ValueError, match="at least 2"):
        settling(h[:, :1])


def test_a_crowd_of_equals_is_a_threshold_and_nothing_more() -> None:
    scores = torch.tensor([[9.0, 7.0, 1.0], [3.0, 2.0, 1.0]])
    blank = torch.tensor([5.0, 4.0])
    copies = (1, 3, 10, 1000)
    sparse, soft = crowd(scores, blank, copies, k_top=2)
    for column, count in enumerate(copies):
        whole = torch.cat([blank[:, None].expand(-1, count), scores], 1)
        want = sparse_weights(whole, 2).dense(count + 3)[:, count:].sum(1)
        torch.testing.assert_close(sparse[:, column], want)
        torch.testing.assert_close(soft[:, column], softmax_weights(whole)[:, count:].sum(1))
    # above the blank: untouched by any number; below it: nothing once they fill the candidates
    assert sparse[0].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert sparse[1, 1:].tolist() == [0.0, 0.0, 0.0]
    assert (soft[:, 1:] < soft[:, :-1]).all() and soft[0, -1] < 0.1


def test_bad_arguments() -> None:
    layer = layer_of()
    x = torch.zeros(1, 9, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="answers=10"):
        answer_reads(layer, x, 10)
    with pytest.raises(ValueError, match="separable"):
        answer_reads(layer_of(score="separable"), x, 2)
    with pytest.raises(ValueError, match="copies=0"):
        crowd(torch.zeros(1, 2), torch.zeros(1), [0], 2)
    with pytest.raises(ValueError, match="blank"):
        crowd(torch.zeros(1, 2), torch.zeros(2), [1], 2)
