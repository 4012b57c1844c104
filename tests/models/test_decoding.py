"""Greedy and beam search against each other and against trying every answer."""

from __future__ import annotations

import itertools

import pytest
import torch

from sab.models.decoding import beam, greedy
from sab.models.seq2seq import END, PAD, Seq2Seq, Seq2SeqConfig

X = torch.tensor([[4, 5, 6, 7, 3], [8, 3, 4, 0, 0], [5, 0, 0, 0, 0]])


def model(seed: int = 0, kinds: int = 8) -> Seq2Seq:
    torch.manual_seed(seed)
    net = Seq2Seq(Seq2SeqConfig(9, kinds, embed_size=3, hidden_size=5, longest=6)).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():  # far from even, so that answers differ and end
            parameter.mul_(3)
    return net


def log_probability(net: Seq2Seq, x: torch.Tensor, answer: list[int]) -> float:
    y = torch.tensor([answer])
    with torch.no_grad():
        logits, _ = net(x[None], y)
    return float(torch.log_softmax(logits, -1).gather(2, y[:, :, None]).sum())


def ended(answer: list[int]) -> list[int]:
    """The answer up to its end."""
    return answer[: answer.index(END) + 1] if END in answer else answer


def test_greedy_takes_the_likeliest() -> None:
    net = model()
    found = greedy(net, X)
    with torch.no_grad():
        free, _, weights = net(X, return_weights=True)
    for b, answer in enumerate(found.symbols.tolist()):
        whole = ended(answer)
        assert whole == free[b].argmax(1).tolist()[: len(whole)]
        assert answer[len(whole) :] == [PAD] * (6 - len(whole))
        assert float(found.scores[b]) == pytest.approx(log_probability(net, X[b], whole))
        looked = found.weights[b]
        torch.testing.assert_close(looked[: len(whole)], weights[b, : len(whole)])
        assert (looked[len(whole) :] == 0).all()


def test_width_one_is_greedy() -> None:
    for seed in range(5):
        one, single = beam(model(seed), X, 1), greedy(model(seed), X)
        assert torch.equal(one.symbols, single.symbols) and torch.equal(one.scores, single.scores)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_never_worse_than_greedy_and_often_better(power: float) -> None:
    better = 0
    for seed in range(12):
        net = model(seed)
        many, single = beam(net, X, 3, power=power), greedy(net, X, power=power)
        assert (many.scores >= single.scores).all()
        better += int((many.scores > single.scores + 1e-9).sum())
    assert better > 3


@pytest.mark.parametrize("power", [0.0, 0.7])
def test_a_wide_beam_finds_the_best_of_all_answers(power: float) -> None:
    for seed in range(4):
        net = model(seed, kinds=5)
        found = beam(net, X, 64, longest=3, power=power)
        for b in range(3):
            tried = {
                tuple(ended(list(answer))) for answer in itertools.product((END, 3, 4), repeat=3)
            }
            scores = {
                answer: log_probability(net, X[b], list(answer)) / len(answer) ** power
                for answer in tried
            }
            best = max(scores, key=lambda answer: scores[answer])
            assert tuple(ended(found.symbols[b].tolist())) == best
            assert float(found.scores[b]) == pytest.approx(scores[best])


def test_length_power_favours_longer_answers() -> None:
    def size(power: float) -> int:
        found = [beam(model(seed), X, 4, power=power).symbols for seed in range(12)]
        return sum(int((symbols != PAD).sum()) for symbols in found)

    assert size(0.0) < size(2.0)


def test_each_sequence_alone_is_as_in_the_batch() -> None:
    net = model(2)
    together = beam(net, X, 3)
    for b, n in enumerate((5, 3, 1)):
        alone = beam(net, X[b : b + 1, :n], 3)
        assert torch.equal(alone.symbols[0], together.symbols[b])
        torch.testing.assert_close(alone.scores[0], together.scores[b])
        torch.testing.assert_close(alone.weights[0], together.weights[b, :, :n])


def test_errors() -> None:
    net = model()
    with pytest.raises(ValueError, match="width=0"):
        beam(net, X, 0)
    with pytest.raises(ValueError, match="longest=0"):
        greedy(net, X, 0)
    with pytest.raises(ValueError, match=r"power=-1"):
        beam(net, X, 2, power=-1)
    with pytest.raises(ValueError, match="lengths="):
        beam(net, torch.zeros_like(X), 2)
