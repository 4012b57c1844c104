"""The credit graph holds for every form of the scan, with the read-out, and for the LSTM."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from sab.analysis.credit import chain_graph, credit_autograd, credit_graph
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.sab import SAB, SABConfig, SABLayer
from sab.ops.sab_scan import ScanOptions

STEPS = 13


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(3, STEPS, 4, dtype=torch.float64)


@pytest.mark.parametrize("form", ["reference", "torch"])
@pytest.mark.parametrize("replay", ["full", "write_step", "none"])
def test_every_form_gives_the_graph_s_credit(x: Tensor, form: str, replay: str) -> None:
    cases = itertools.product(((None, 0), (3, 0), (3, 1)), ("states", "scorer"), (1, 3))
    for (k_trunc, offset), score_gradient, k_att in cases:
        layer = SABLayer(
            4, 6, k_top=2, k_att=k_att, k_trunc=k_trunc, block_offset=offset, replay=replay,
            score_gradient=score_gradient, form=form,
        ).double()  # fmt: skip
        recall = layer(x, return_recall=True)[-1]
        graph = credit_graph(recall, layer.options, STEPS)
        assert (graph == (credit_autograd(layer, x) != 0)).all(), layer.options


def test_the_read_out_opens_and_closes_no_path(x: Tensor) -> None:
    config = SABConfig.literal(input_size=4, hidden_size=6, output_size=3, k_top=2, k_trunc=2)
    model = SAB(config).double()
    recall = model(x, return_recall=True)[-1]
    graph = credit_graph(recall, config.options(), STEPS)
    assert (graph == (credit_autograd(model, x) != 0)).all()
    assert not graph.equal(chain_graph(config.options(), STEPS).expand_as(graph))


@pytest.mark.parametrize("k_trunc", [None, 1, 3, STEPS])
def test_lstm_baselines_are_chains(x: Tensor, k_trunc: int | None) -> None:
    model = LSTM(LSTMConfig(4, 6, 3, k_trunc=k_trunc)).double()
    chain = chain_graph(ScanOptions(k_trunc=k_trunc, block_offset=1), STEPS)
    assert ((credit_autograd(model, x) != 0) == chain).all()
