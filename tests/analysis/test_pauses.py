"""Which symbols are missing at a pause, and where blocks begin."""

from typing import Any

import numpy as np
import pytest

from sab.analysis.pauses import answer_borders, course, pause, symbol_borders, teachers
from sab.models.sab import SABConfig
from sab.ops.sab_scan import ScanOptions
from sab.tasks.copy import CopyTask

HISTORY: list[dict[str, Any]] = [
    {"update": 0, "positions": [0.1, 0.1, 0.1]},
    {"update": 10, "positions": [1.0, 0.9, 0.2]},
    {"update": 20, "loss": 1.0},
    {"update": 30, "positions": [1.0, 0.7, 0.4]},
    {"update": 40, "positions": [1.0, 1.0, 1.0]},
]


def options(**settings: object) -> ScanOptions:
    return SABConfig(**settings).options()  # type: ignore[arg-type]


def test_course_and_pause() -> None:
    updates, values = course(HISTORY)
    assert updates.tolist() == [0, 10, 30, 40] and values.shape == (4, 3)
    found = pause(HISTORY, 0.5, 0.8)
    assert found is not None
    assert (found.first, found.last, found.count) == (10, 30, 2)
    np.testing.assert_allclose(found.positions, [1.0, 0.8, 0.3])
    assert found.drop_after == 2 and found.drop == pytest.approx(0.5)
    assert pause(HISTORY, 0.2, 0.3) is None
    with pytest.raises(ValueError, match="no positions"):
        course([{"update": 0}])
    with pytest.raises(ValueError, match="high"):
        pause(HISTORY, 0.5, 0.4)


@pytest.mark.parametrize(
    ("T", "offset", "answers", "symbols"),
    [
        (100, 0, [4, 9], [4, 9]),
        (100, 1, [5], [5]),
        (300, 0, [4, 9], [4, 9]),
        (102, 0, [2, 7], [4, 9]),
    ],
)
def test_borders_by_hand(T: int, offset: int, answers: list[int], symbols: list[int]) -> None:
    """T = 100: marker at step 110, answers at 111 to 120; offset 0 cuts before 110, 115 and 120."""
    task, chosen = CopyTask(T=T), options(block_offset=offset)
    assert answer_borders(task, chosen) == answers
    assert symbol_borders(task, chosen) == symbols


def test_whole_backpropagation_has_no_borders() -> None:
    assert answer_borders(CopyTask(), options(k_trunc=None)) == []


def test_teachers_by_hand() -> None:
    """Blocks 1-4, 5-9, 10-14 and writes at even steps: nothing is written in 9's block after it."""
    assert {j: teachers(j, options()) for j in (1, 4, 5, 8, 9, 10)} == {
        1: [2, 4], 4: [4], 5: [6, 8], 8: [8], 9: [], 10: [10, 12, 14],
    }  # fmt: skip
    assert teachers(9, options(block_offset=1)) == [10]
    assert teachers(9, options(truncation="sliding")) == [10, 12]
    with pytest.raises(ValueError, match="replay='none'"):
        teachers(1, options(replay="none"))
