from pathlib import Path

import own_model
import pytest

from sab.models import registry


def test_the_page_s_example_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))
    found = own_model.main(tmp_path)
    assert set(found) == {"gru", "sab"}
    assert min(found.values()) > 0.9
