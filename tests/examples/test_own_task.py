from pathlib import Path

import own_task
import pytest

from sab.tasks import TASKS


def test_the_page_s_example_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sab.tasks.registry.TASKS", dict(TASKS))
    chance = own_task.FirstSymbol().baselines()["accuracy"]
    assert chance == 0.25
    assert own_task.main(tmp_path) > 0.9
