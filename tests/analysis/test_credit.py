"""The credit graph derived from recorded indices is the one autograd has: exactly."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.analysis.credit import (
    chain_graph,
    credit_autograd,
    credit_graph,
    credit_paths,
    first_step,
    gradient_by_distance,
    gradient_reads,
)
from sab.ops.sab_scan import Recall, SABState, ScanOptions, initial_state
from sab.ops.sab_scan.reference import reference_scan
from sab.ops.sparse_weights import sparse_weights

STEPS, BATCH, HIDDEN, FEATURES = 12, 3, 5, 3


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors of five numbers gain nothing from a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Layer:
    """A SAB layer on the reference form with large random weights, so that reads are varied."""

    def __init__(self, options: ScanOptions, state: SABState | None = None, seed: int = 0):
        draw = partial(
            torch.randn, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        self.options, self.state = options, state
        self.w_ih, self.w_hh = draw(4 * HIDDEN, FEATURES), 0.6 * draw(4 * HIDDEN, HIDDEN)
        if options.score == "additive":
            self.scorer: tuple[Tensor, ...] = (
                draw(HIDDEN, HIDDEN), draw(HIDDEN, HIDDEN), draw(HIDDEN),
            )  # fmt: skip
        else:
            self.scorer = (draw(HIDDEN), draw(HIDDEN))

    def __call__(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        state = self.state
        if state is None:
            state = initial_state(x.shape[0], HIDDEN, self.options, like=x)
        gates = (x @ self.w_ih.T).transpose(0, 1)
        h, s, self.end, self.recall = reference_scan(
            gates, self.w_hh, self.scorer, state, self.options, lengths
        )
        return h.transpose(0, 1), s.transpose(0, 1)


def inputs(seed: int = 1, steps: int = STEPS) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, steps, FEATURES, generator=generator, dtype=torch.float64)


def compare(options: ScanOptions, seed: int = 0) -> tuple[Tensor, Recall]:
    layer = Layer(options, seed=seed)
    norms = credit_autograd(layer, inputs(seed + 1))
    graph = credit_graph(layer.recall, options, STEPS)
    wrong = (graph != (norms != 0)).nonzero().tolist()
    assert not wrong, f"{options}: graph and autograd differ at (b, t, s) = {wrong[:5]}"
    return graph, layer.recall


TRUNCATIONS: list[dict[str, Any]] = [
    {"k_trunc": None},
    *({"k_trunc": k, "truncation": "block", "block_offset": o} for k in (1, 3, 4) for o in (0, 1)),
    *({"k_trunc": k, "truncation": "sliding"} for k in (1, 3, 4)),
]


@pytest.mark.parametrize("score_gradient", ["states", "scorer"])
@pytest.mark.parametrize("replay", ["full", "write_step", "none"])
@pytest.mark.parametrize(
    "truncation", TRUNCATIONS, ids=lambda case: "-".join(map(str, case.values()))
)
def test_graph_equals_autograd(
    truncation: dict[str, Any], replay: str, score_gradient: str
) -> None:
    for k_att, k_top in ((1, 1), (1, 3), (2, 2), (3, 1), (2, 3)):
        options = ScanOptions(
            k_top=k_top, k_att=k_att, replay=replay, score_gradient=score_gradient, **truncation
        )
        graph, recall = compare(options)
        assert not graph.triu(1).any(), "an input reached an earlier output"
        chain = chain_graph(options, STEPS)
        assert (graph | ~chain).all(), "the recurrence's own credit is missing"
        assert (recall.weights > 0).any()
        if replay == "none":
            assert (graph == chain).all()


@pytest.mark.parametrize("score_gradient", ["states", "scorer"])
@pytest.mark.parametrize("threshold", ["k_top+1", "k_top"])
@pytest.mark.parametrize("short_memory", ["margin", "softmax", "raw"])
@pytest.mark.parametrize("score", ["additive", "separable"])
@pytest.mark.parametrize("initial_memory", ["empty", "zero"])
def test_graph_equals_autograd_with_every_open_case(
    score_gradient: str, threshold: str, short_memory: str, score: str, initial_memory: str
) -> None:
    for truncation, k_top in itertools.product(("block", "sliding"), (1, 3)):
        compare(
            ScanOptions(
                k_top=k_top, k_att=2, k_trunc=2, truncation=truncation,
                score_gradient=score_gradient, threshold=threshold, short_memory=short_memory,
                score=score, initial_memory=initial_memory,
            ),
            seed=3,
        )  # fmt: skip


BASE = ScanOptions(k_top=2, k_att=2, k_trunc=3, truncation="block", score_gradient="states")


@pytest.mark.parametrize(
    "change",
    [
        {"k_trunc": 4},
        {"k_trunc": None},
        {"block_offset": 1},
        {"truncation": "sliding"},
        {"replay": "write_step"},
        {"replay": "none"},
        {"score_gradient": "scorer"},
    ],
    ids=str,
)
def test_a_wrong_switch_is_noticed(change: dict[str, Any]) -> None:
    """The comparison is sharp: the graph of another setting fails it."""
    differs = []
    for seed in range(3):
        layer = Layer(BASE, seed=seed)
        norms = credit_autograd(layer, inputs(seed))
        other = credit_graph(layer.recall, dataclasses.replace(BASE, **change), STEPS)
        differs.append(bool((other != (norms != 0)).any()))
    assert any(differs)


def test_each_read_matters() -> None:
    """Leaving out any one gradient-carrying read that no other path covers changes the graph."""
    options = ScanOptions(k_top=1, k_att=1, k_trunc=1, truncation="sliding")
    layer = Layer(options)
    norms = credit_autograd(layer, inputs())
    noticed = 0
    for t in range(1, STEPS):
        recall = layer.recall
        weights = recall.weights.clone()
        weights[:, t] = 0
        poorer = credit_graph(dataclasses.replace(recall, weights=weights), options, STEPS)
        noticed += int((poorer != (norms != 0)).any())
    assert noticed == STEPS - 1


def test_threshold_candidate_carries_gradient_only_through_the_score() -> None:
    indices = torch.tensor([[[-1, -1, -1]] * 4 + [[3, 1, 0]]])
    weights = torch.zeros(1, 5, 3)
    weights[0, 4] = torch.tensor([0.7, 0.3, 0.0])
    recall = Recall(indices, weights, torch.zeros(1, 5, dtype=torch.bool), indices + 1)
    options = ScanOptions(k_top=2, k_att=1, k_trunc=1, score_gradient="states")
    assert gradient_reads(recall, options)[0, 4].tolist() == [True, True, True]
    scorer = dataclasses.replace(options, score_gradient="scorer")
    assert gradient_reads(recall, scorer)[0, 4].tolist() == [True, True, False]
    assert credit_graph(recall, options, 5)[0, 4].tolist() == [True, True, False, True, True]
    assert credit_graph(recall, scorer, 5)[0, 4].tolist() == [False, True, False, True, True]
    tied = dataclasses.replace(recall, tied=torch.ones(1, 5, dtype=torch.bool))
    assert gradient_reads(tied, options)[0, 4].tolist() == [True, True, False]


def test_ties_in_the_middle_carry_nothing() -> None:
    """A candidate level with the threshold has margin 0 and relu'(0) = 0."""
    scores = torch.tensor([[3.0, 2.0, 1.0, 1.0]], dtype=torch.float64, requires_grad=True)
    read = sparse_weights(scores, k_top=3)
    vector = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (read.weights[0] @ vector).backward()
    assert scores.grad is not None
    recall = Recall(
        read.indices[None], read.weights.detach()[None], read.tied[None], read.indices[None] + 1
    )
    opened = gradient_reads(recall, ScanOptions(k_top=3, k_att=1, score_gradient="states"))
    assert opened[0, 0].tolist() == (scores.grad[0][read.indices[0]] != 0).tolist()
    assert opened[0, 0].tolist() == [True, True, False, True]


@pytest.mark.parametrize("truncation", ["block", "sliding"])
@pytest.mark.parametrize("score_gradient", ["states", "scorer"])
def test_padded_lengths(truncation: str, score_gradient: str) -> None:
    options = ScanOptions(
        k_top=2, k_att=2, k_trunc=3, truncation=truncation, score_gradient=score_gradient
    )
    lengths = torch.tensor([STEPS, 7, 1])
    layer = Layer(options)
    norms = credit_autograd(layer, inputs(), lengths=lengths)
    graph = credit_graph(layer.recall, options, STEPS, lengths=lengths)
    assert (graph == (norms != 0)).all()
    assert not graph[1, 7:].any() and not graph[1, :, 7:].any()
    assert graph[2].sum() == 1


@pytest.mark.parametrize("initial_memory", ["empty", "zero"])
@pytest.mark.parametrize("truncation", ["block", "sliding"])
def test_carried_state(truncation: str, initial_memory: str) -> None:
    """Memories and states of an earlier call are detached; block borders keep counting on."""
    options = ScanOptions(
        k_top=3, k_att=2, k_trunc=3, truncation=truncation, score_gradient="states",
        initial_memory=initial_memory,
    )  # fmt: skip
    first = Layer(options)
    first(inputs(5, steps=5))
    second = Layer(options, state=first.end)
    norms = credit_autograd(second, inputs())
    graph = credit_graph(second.recall, options, STEPS, start=first.end.step)
    assert (graph == (norms != 0)).all()
    assert (second.recall.steps[second.recall.weights > 0] <= 5).any(), "no old memory was read"
    with pytest.raises(ValueError, match="start=0"):
        credit_graph(second.recall, options, STEPS, start=0)


def test_first_step() -> None:
    block0 = ScanOptions(k_trunc=3)
    block1 = ScanOptions(k_trunc=3, block_offset=1)
    sliding = ScanOptions(k_trunc=3, truncation="sliding")
    steps = range(1, 8)
    assert [first_step(t, block0) for t in steps] == [1, 1, 3, 3, 3, 6, 6]
    assert [first_step(t, block1) for t in steps] == [1, 1, 1, 4, 4, 4, 7]
    assert [first_step(t, sliding) for t in steps] == [1, 1, 1, 2, 3, 4, 5]
    assert [first_step(t, ScanOptions(k_trunc=None)) for t in steps] == [1] * 7


def test_memory_is_last_or_first_of_its_block() -> None:
    """With k_att = k_trunc a replay covers k_trunc steps at offset 1, a single one at 0."""
    reads = {12: [4]}
    for offset, cells in ((1, {1, 2, 3, 4}), (0, {4})):
        options = ScanOptions(k_att=4, k_trunc=4, block_offset=offset)
        paths = credit_paths(reads, options, 12)
        assert {cell for cell in paths.cells if cell <= 4} == cells


def test_paths_are_a_row_of_the_graph() -> None:
    for truncation, replay in itertools.product(TRUNCATIONS, ("full", "write_step", "none")):
        options = ScanOptions(k_top=2, k_att=2, replay=replay, **truncation)
        layer = Layer(options)
        layer(inputs())
        graph = credit_graph(layer.recall, options, STEPS)
        read = layer.recall.weights > 0
        for b in range(BATCH):
            reads = {t + 1: layer.recall.steps[b, t][read[b, t]].tolist() for t in range(STEPS)}
            for source in range(1, STEPS + 1):
                paths = credit_paths(reads, options, STEPS, source)
                assert {s + 1 for s in range(STEPS) if graph[b, source - 1, s]} == paths.cells
                assert not {t for t, _ in paths.carries} & paths.cuts


def test_credit_paths_refuses_what_cannot_be() -> None:
    options = ScanOptions(k_att=2)
    for reads in ({6: [6]}, {6: [3]}, {6: [0]}, {9: [2]}):
        with pytest.raises(ValueError, match="multiple of k_att"):
            credit_paths(reads, options, 8)
    with pytest.raises(ValueError, match="source"):
        credit_paths({}, options, 8, source=9)


@pytest.mark.parametrize("steps", [0, STEPS + 1])
def test_credit_graph_refuses_wrong_steps(steps: int) -> None:
    layer = Layer(BASE)
    layer(inputs())
    with pytest.raises(ValueError, match=r"steps|indices"):
        credit_graph(layer.recall, BASE, steps)


def test_autograd_on_a_plain_lstm_is_the_full_triangle() -> None:
    lstm = torch.nn.LSTM(FEATURES, HIDDEN, batch_first=True, dtype=torch.float64)
    norms = credit_autograd(lstm, inputs())
    assert ((norms != 0) == chain_graph(ScanOptions(k_trunc=None), STEPS)).all()


def test_autograd_measures_the_gradient() -> None:
    """On a known linear map the norm is the known one: out_t = 3 x_t + 2 x_{t-1}."""

    def layer(x: Tensor) -> Tensor:
        return 3 * x + 2 * torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]

    x = inputs()
    norms = credit_autograd(layer, x)
    vector = torch.randn(FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.zeros(STEPS, STEPS, dtype=torch.float64)
    expected += 3 * torch.eye(STEPS, dtype=torch.float64) * vector.norm()
    expected += 2 * torch.diag(torch.ones(STEPS - 1, dtype=torch.float64), -1) * vector.norm()
    torch.testing.assert_close(norms, expected.expand(BATCH, -1, -1))
    with pytest.raises(ValueError, match="no differentiable output"):
        credit_autograd(lambda x: x.sum(), x)


def test_gradient_by_distance() -> None:
    norms = torch.zeros(2, 4, 4)
    norms[:, range(4), range(4)] = 1.0
    norms[0, 3, 0] = 8.0
    curve = gradient_by_distance(norms)
    assert curve.distance.tolist() == [0, 1, 2, 3]
    assert curve.mean.tolist() == [1, 0, 0, 4]
    assert curve.reached.tolist() == [1, 0, 0, 0.5]
    last = gradient_by_distance(norms[0], outputs=[3])
    assert last.mean.tolist() == [1, 0, 0, 8]
    with pytest.raises(ValueError, match="outputs"):
        gradient_by_distance(norms, outputs=[4])
    with pytest.raises(ValueError, match="norms"):
        gradient_by_distance(norms[:, :3])
