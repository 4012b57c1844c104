"""``show_stepper``: a figure that stands alone, and data that a script can read beside it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from matplotlib.figure import Figure

from sab import notebook


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    got: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw=False: got.append(data))
    return got


def figure() -> Figure:
    fig = Figure(figsize=(3, 2))
    fig.subplots().plot([1, 2])
    return fig


def test_the_picture_and_the_data_stand_side_by_side(shown: list[dict[str, str]]) -> None:
    data: dict[str, Any] = {"frames": [1, 2], "text": "</script><b>"}
    notebook.show_stepper(figure(), data, "A caption.", "Made up.", alt="A line that rises.")
    html = shown[0]["text/html"]
    (plain,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert json.loads(plain) == data
    assert 'alt="A line that rises."' in html and "A caption." in html and "Made up." in html
    for name in ("attention_stepper.css", "attention_stepper.js"):
        assert f'="../_static/{name}"' in html
    assert shown[0]["text/plain"] == "[figure: A line that rises.]"


def test_no_figure_without_words(shown: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="alt=None"):
        notebook.show_stepper(figure(), {})
    assert not shown
