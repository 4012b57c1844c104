"""The bag: a linear map of log counts, blind to order and padding."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from sab.models.bag import Bag, BagConfig


def test_values_by_hand_and_at_every_position() -> None:
    model = Bag(BagConfig(3, 2))
    with torch.no_grad():
        model.readout.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 2, -1]]))
        model.readout.bias.copy_(torch.tensor([0.5, 0.0]))
    x = functional.one_hot(torch.tensor([[0, 1, 1, 2]]), 3).float()
    answer, state = model(x)
    want = [math.log(2) + 0.5, 2 * math.log(3) - math.log(2)]
    assert answer.shape == (1, 4, 2) and state is None
    for position in answer[0]:
        assert position.tolist() == pytest.approx(want)


def test_order_and_padding_change_nothing() -> None:
    model = Bag(BagConfig(5, 2))
    x = functional.one_hot(torch.randint(5, (2, 7)), 5).float()
    other = torch.cat([torch.zeros(2, 3, 5), x[:, torch.randperm(7)]], 1)
    torch.testing.assert_close(model(other)[0][:, 0], model(x)[0][:, 0])


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="input_size=0"):
        BagConfig(0)
    with pytest.raises(ValueError, match="x has shape"):
        Bag(BagConfig(5))(torch.zeros(2, 7, 4))
