"""An accuracy bounds the cross-entropy beside it: in theory, in Table 1, in our records."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

from sab.analysis.ce_bound import (
    least_accuracy,
    least_ce,
    least_ce_of_all_steps,
    table1_cells,
)
from sab.experiments import claims, records
from sab.experiments.claims import Claim


@pytest.mark.parametrize("classes", [2, 10])
def test_no_answers_beat_the_bound(classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for sharpness in (0.1, 1.0, 30.0):
        logits = sharpness * torch.randn(500, classes, generator=generator).double()
        right = torch.randint(classes, (500,), generator=generator)
        accuracy = (logits.argmax(1) == right).double().mean().item()
        assert functional.cross_entropy(logits, right).item() >= least_ce(accuracy)


def test_the_bound_is_tight() -> None:
    """Certain where right, a coin between two classes where wrong: the cost is the bound."""
    logits = torch.full((10, 4), -100.0).double()
    logits[:, 0] = 0.0
    logits[:4, 1] = 1e-9
    ce = functional.cross_entropy(logits, torch.zeros(10, dtype=torch.int64)).item()
    assert (logits.argmax(1) == 0).double().mean().item() == 0.6
    assert ce == pytest.approx(least_ce(0.6), rel=1e-6)
    assert least_accuracy(least_ce(0.6)) == pytest.approx(0.6)


def test_edges_and_errors() -> None:
    assert least_ce(1.0) == 0.0 and least_ce(1.0, 0.1) == 0.0
    assert least_ce(0.0) == math.log(2)
    assert least_accuracy(5.0) == 0.0
    assert least_ce_of_all_steps(1.2, 100) == pytest.approx(0.1)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="accuracy"):
            least_ce(bad)
    with pytest.raises(ValueError, match="ce"):
        least_accuracy(-1.0)
    with pytest.raises(ValueError, match="T="):
        least_ce_of_all_steps(1.0, 0)


def test_table_1_cell_by_cell() -> None:
    cells = table1_cells(claims.load())
    told = {(cell.says, cell.T): cell for cell in cells}
    assert len(cells) == len(told) >= 17
    lstm = told["LSTM, full BPTT", 300]
    assert lstm.stated == 0.197 and lstm.possible is False
    assert lstm.ce10 == pytest.approx((1 - 0.3595) * math.log(2))
    assert [cell for cell in cells if cell.possible is not None] == [lstm]
    # What a reader would hold against the paper: full marks bound nothing.
    assert told["SAB (5, 5)", 100].ce10 == 0.0
    for cell in cells:
        assert cell.ce == pytest.approx(cell.ce10 * 10 / (cell.T + 20))


def test_a_cell_that_fits_is_possible() -> None:
    shared: dict[str, Any] = {
        "source": "Table 1",
        "page": 7,
        "kind": "value",
        "run": "table1/x_T20",
        "within": 1,
    }
    found = [
        Claim(id="a", says="x, T=20", value=50.0, **shared),
        Claim(id="b", says="x: CE", metric="ce10", value=0.4, **shared),
    ]
    (cell,) = table1_cells(found)
    assert cell.possible is True and (cell.says, cell.T) == ("x", 20)


def test_our_own_records_keep_the_bound() -> None:
    checked = 0
    for experiment in ("copy", "table1", "table3", "learns"):
        for record in records.load(experiment):
            if "ce10" in record.metrics:
                assert record.metrics["ce10"] >= least_ce(record.metrics["accuracy"]), record.path
                checked += 1
    assert checked >= 15
