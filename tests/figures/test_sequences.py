from __future__ import annotations

import pytest
import torch

from sab.figures.sequences import adding_sequence
from sab.figures.style import alt_of, require_complete
from sab.tasks import AddingTask


def test_the_marked_values_stand_out() -> None:
    x, y = AddingTask(20).batch(1, torch.Generator().manual_seed(0))
    fig = require_complete(adding_sequence(x[0]))
    plain, marked = fig.axes[0].containers
    assert len(plain) == 18 and len(marked) == 2
    assert sum(bar.get_height() for bar in marked) == pytest.approx(y.item(), abs=1e-5)
    assert f"their sum is {y.item():.2f}" in alt_of(fig)


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(T, 2\)"):
        adding_sequence(torch.zeros(5, 3))
