"""The memory network against its equations; its tyings, its ages, padding, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sab.models.memn2n import ENCODINGS, MemN2N, MemN2NConfig, ages

SIZES: dict[str, Any] = {"input_size": 4, "hidden_size": 5, "output_size": 9, "memory": 6}
X = torch.tensor(
    [
        [[1, 2, 3, 0], [4, 5, 0, 0], [6, 7, 8, 1], [2, 0, 0, 0]],
        [[3, 1, 0, 0], [8, 2, 4, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
)


def network(**settings: Any) -> MemN2N:
    torch.manual_seed(0)
    return MemN2N(MemN2NConfig(**{**SIZES, "spread": 0.7, **settings})).double().eval()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def by_hand(model: MemN2N, x: Tensor, linear: bool = False) -> tuple[Tensor, list[Tensor]]:
    """One question x (1 + S, W) without padding rows: logits (V,) and each hop's weights."""
    c = model.config
    d = c.hidden_size
    tables = [model.words[:, i * d : i * d + d] for i in range(model.count)]
    adjacent = c.tying == "adjacent"

    def vector(row: Tensor, table: Tensor) -> Tensor:
        weights = ENCODINGS[c.encoding]((row > 0)[None], d)[0].double()
        return (weights * table[row]).sum(0)

    def stored(which: int) -> Tensor:
        rows = torch.stack([vector(row, tables[which]) for row in x[1:]])
        return rows + model.ages[: len(rows), which] if c.temporal else rows

    q, looked = vector(x[0], tables[0 if adjacent else 2]), []
    for k in range(c.hops):
        a, out = (stored(k), stored(k + 1)) if adjacent else (stored(0), stored(1))
        p = a @ q if linear else torch.softmax(a @ q, 0)
        looked.append(p)
        q = p @ out + (q if adjacent else model.between.weight @ q)  # type: ignore[union-attr]
    return tables[-1] @ q, looked


@pytest.mark.parametrize("tying", ["adjacent", "layerwise"])
@pytest.mark.parametrize("encoding", ["position", "bag"])
@pytest.mark.parametrize("temporal", [True, False])
@pytest.mark.parametrize("hops", [1, 3])
def test_hops_are_the_equations(tying: str, encoding: str, temporal: bool, hops: int) -> None:
    model = network(tying=tying, encoding=encoding, temporal=temporal, hops=hops)
    logits, weights = model.hops(X)
    for b, told in enumerate((3, 1)):
        expected, looked = by_hand(model, X[b, : 1 + told])
        close(logits[b], expected)
        for k in range(hops):
            close(weights[b, k, :told], looked[k])
            assert not weights[b, k, told:].any()
    assert torch.equal(model(X)[0], logits)


@pytest.mark.parametrize("tying", ["adjacent", "layerwise"])
@pytest.mark.parametrize("encoding", ["position", "bag"])
def test_padding_changes_nothing(tying: str, encoding: str) -> None:
    """Neither an answer nor a gradient; rows and words of padding are zeros by their definition."""
    model, single = (network(tying=tying, encoding=encoding) for _ in range(2))
    wide = torch.nn.functional.pad(X, (0, 0, 0, 2))
    logits, weights = model.hops(wide)
    close(logits, model(X)[0])
    assert not weights[:, :, 3:].any()
    logits.square().sum().backward()
    for b, told in enumerate((3, 1)):
        alone = single(X[b : b + 1, : 1 + told])[0]
        close(alone, logits[b : b + 1])
        alone.square().sum().backward()
    for (name, one), other in zip(model.named_parameters(), single.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, atol=1e-11, rtol=0)


def test_the_number_of_parameters_says_what_is_shared() -> None:
    def count(**settings: Any) -> int:
        return sum(p.numel() for p in network(temporal=False, noise=0.0, **settings).parameters())

    table, age = 9 * 5, 6 * 5
    assert count(tying="adjacent", hops=3) == 4 * table + 4 * age
    assert count(tying="layerwise", hops=3) == 4 * table + 2 * age + 25
    assert count(tying="layerwise", hops=7) == count(tying="layerwise", hops=3)


def test_every_weight_has_a_gradient_but_padding() -> None:
    for tying in ("adjacent", "layerwise"):
        model = network(tying=tying, hops=2, noise=0.0)
        model(X)[0].square().sum().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None and parameter.grad.any()
        d = model.config.hidden_size
        words = model.words.grad
        assert words is not None and not words[0, : (model.count - 1) * d].any()


def test_linear_start_ends_after_its_updates_and_is_kept_with_the_weights() -> None:
    model = network(linear_start=2, noise=0.0)
    straight, looked = by_hand(model, X[0], linear=True)
    soft, _ = by_hand(model, X[0])
    model.train()
    for expected in (straight, straight, soft, soft):
        close(model(X[:1])[0][0], expected)
    early = network(linear_start=2, noise=0.0)
    found, weights = early.hops(X[:1])  # judged while it lasts: it stays as it is
    close(found[0], straight)
    close(weights[0, 0], looked[0])
    assert early.linear_left == 2 and early.warming_up and not model.warming_up
    other = network(linear_start=0, noise=0.0)
    other.load_state_dict(early.state_dict())
    close(other(X[:1])[0][0], straight)


def test_ages_with_empty_memories() -> None:
    torch.manual_seed(0)
    present = torch.tensor([[True] * 10, [True] * 5 + [False] * 5]).repeat(50, 1)
    found = ages(present, 2)
    assert (found.diff(dim=1)[::2] > 0).all() and found[::2].max() == 11 and found.min() == 0
    few = found[1::2, :5]
    assert (few.diff(dim=1) > 0).all() and few.max() == 5  # one empty among five
    assert len(found[::2].unique(dim=0)) > 10
    assert torch.equal(ages(present, 0), torch.arange(10).expand(100, 10))


def test_noise_is_for_training_only() -> None:
    model = network(noise=0.5)
    assert torch.equal(model(X)[0], model(X)[0])
    model.train()
    torch.manual_seed(1)
    different = {tuple(model(X)[0].flatten().tolist()) for _ in range(12)}
    assert len(different) > 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hops": 0}, "hops=0: must be an integer of at least 1"),
        ({"tying": "both"}, "tying='both': must be one of 'adjacent', 'layerwise'"),
        ({"encoding": "none"}, "encoding='none': must be one of"),
        ({"noise": 1.5}, "noise=1.5: must be at most 1"),
        ({"linear_start": -1}, "linear_start=-1: must be an integer of at least 0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        MemN2NConfig(**{**SIZES, **change})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:, :, :3], "x has shape (2, 4, 3): must be (any, any, 4)"),
        (X.float(), "x has dtype torch.float32: must be torch.int64"),
        (X[:, :1], "x has shape (2, 1, 4): needs a question"),
        (X.repeat(1, 2, 1), "x has shape (2, 8, 4): needs a question"),
        (X + 5, "words: must be between 0 and 8"),
        (X * (torch.arange(4) > 0)[:, None], "x: row 0 of a sample has no word"),
        (X * (torch.arange(4) < 1)[:, None], "mask is all False in row (0,)"),
    ],
)
def test_bad_inputs_are_refused(x: Tensor, message: str) -> None:
    with pytest.raises(ValueError) as error:
        network()(x)
    assert str(error.value).startswith(message)
