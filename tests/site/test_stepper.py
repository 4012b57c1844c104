"""The stepper through the attention maps: keyboard, touch, no script, and the numbers it shows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import nbformat
import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from sab import notebook
from sab.analysis.attention import AttentionMaps, Frame, as_plain, from_plain, read_maps
from sab.figures import attention_map
from tools.paths import BOOK, NOTEBOOKS

ROWS, COLUMNS = 4, 12
EMBEDDED = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


def synthetic() -> AttentionMaps:
    dice = np.random.default_rng(0)
    frames = []
    for update in (0, 100, 1250):
        weights = dice.random((ROWS, COLUMNS)).round(3) / COLUMNS
        frames.append(Frame(update, weights, dice.random(ROWS).round(3)))
    written = np.arange(2, 2 * COLUMNS + 1, 2)
    return AttentionMaps(
        "watch", "r", "cpu", 0, "0", 8, written, np.arange(21, 21 + ROWS), tuple(frames)
    )


MAPS = from_plain(as_plain(synthetic()))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with the stepper alone, opened from the disk as a reader of the archive would."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "notebooks").mkdir()
    (folder / "_static").mkdir()
    for path in (BOOK / "_static").glob("attention_stepper.*"):
        shutil.copy(path, folder / "_static")
    shown: list[dict[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("IPython.display.display", lambda data, raw=False: shown.append(data))
        fig = attention_map(MAPS.frames[-1].weights, columns=MAPS.written.tolist())
        notebook.show_stepper(fig, as_plain(MAPS), "A caption </script>.", "Made up.")
    page = folder / "notebooks" / "page.html"
    page.write_text(
        '<!doctype html><html data-theme="light"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><body style="margin:8px"><article>'
        f"{shown[0]['text/html']}</article></body></html>",
        encoding="utf-8",
    )
    return page.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    problems: list[str] = []
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True)
    context.set_default_timeout(90_000)
    page = context.new_page()
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.wait_for_selector(".sab-stepper-live")
    yield page
    context.close()
    assert not problems, problems


def opacities(page: Page) -> list[float]:
    cells = page.eval_on_selector_all(
        ".sab-stepper-map svg rect:not(.sab-chosen)",
        "cells => cells.map(cell => Number(cell.getAttribute('fill-opacity')))",
    )
    return [float(value) for value in cells]


def text(page: Page, name: str) -> str:
    return page.inner_text(f".sab-stepper-{name}")


def check_frame(page: Page, index: int) -> None:
    """What is shown is the frame's numbers: every cell, every score, the title."""
    frame = MAPS.frames[index]
    np.testing.assert_allclose(opacities(page), frame.weights.ravel(), atol=1e-9)
    assert text(page, "title") == (
        f"update {frame.update:,}: {100 * frame.accuracy:.0f} % of the symbols right"
    )
    scores = page.eval_on_selector_all(
        ".sab-stepper-right span", "spans => spans.map(span => span.textContent)"
    )
    assert scores == [f"{100 * value:.0f} %" for value in frame.positions]
    assert page.input_value(".sab-stepper input") == str(index)


def test_buttons_and_slider_step_through_all_frames(page: Page) -> None:
    check_frame(page, 2)
    assert not page.is_visible(".sab-still")
    assert page.is_disabled("button[aria-label='one moment on']")
    page.click("button[aria-label='one moment back']")
    check_frame(page, 1)
    page.focus(".sab-stepper input")
    page.keyboard.press("ArrowLeft")
    check_frame(page, 0)
    assert page.is_disabled("button[aria-label='one moment back']")
    page.keyboard.press("End")
    check_frame(page, 2)
    label = page.get_attribute(".sab-stepper-map svg", "aria-label") or ""
    best = MAPS.written[MAPS.frames[2].weights.argmax(1)]
    assert f"the memories of steps {', '.join(map(str, best))}." in label


def test_a_cell_tells_its_weight_by_keyboard_and_by_touch(page: Page) -> None:
    weights = MAPS.frames[2].weights
    page.focus(".sab-stepper-map svg")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert text(page, "told") == (
        f"Answer 2 reads the memory of step 6 with weight {weights[1, 2]:.3f}."
    )
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert text(page, "told").startswith(f"Answer {ROWS} reads the memory of step 6 ")
    box = page.locator(".sab-stepper-map svg").bounding_box()
    assert box is not None
    x = box["x"] + box["width"] * (7 + 0.5) / COLUMNS
    page.touchscreen.tap(x, box["y"] + box["height"] * 2.5 / ROWS)
    assert text(page, "told") == (
        f"Answer 3 reads the memory of step 16 with weight {weights[2, 7]:.3f}."
    )
    page.locator("button[aria-label='one moment back']").tap()
    assert text(page, "told").endswith(f"weight {MAPS.frames[1].weights[2, 7]:.3f}.")


def test_play_runs_from_the_beginning_to_the_end_and_stops(page: Page) -> None:
    page.click("button[aria-label='play']")
    page.wait_for_function("document.querySelector('.sab-stepper input').value === '2'")
    page.wait_for_selector("button[aria-label='play']")
    check_frame(page, 2)
    page.click("button[aria-label='play']")
    page.click("button[aria-label='stop']")
    assert page.input_value(".sab-stepper input") in ("0", "1")


def test_a_touch_on_the_curve_goes_to_the_nearest_moment(page: Page) -> None:
    box = page.locator(".sab-stepper-curve svg").bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] * 0.12, box["y"] + box["height"] / 2)
    check_frame(page, 1)


def test_it_fits_a_phone_and_a_thumb(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in page.eval_on_selector_all(
        ".sab-stepper button, .sab-stepper input",
        "all => all.map(e => e.getBoundingClientRect()).map(b => [b.width, b.height])",
    ):
        assert min(box) >= 43.5, box


def test_it_follows_the_dark_theme(page: Page) -> None:
    colour = "getComputedStyle(document.querySelector('.sab-stepper-map svg rect')).fill"
    day = page.evaluate(colour)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert page.evaluate(colour) != day


def test_without_scripts_the_picture_stays(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.is_visible(".sab-still img") and page.is_visible("figcaption")
    assert page.get_attribute(".sab-still img", "alt")
    assert not page.query_selector(".sab-stepper-live")
    context.close()


def test_the_chapter_embeds_the_exported_maps_and_stays_light() -> None:
    made = nbformat.read(NOTEBOOKS / "14_ablations.ipynb", as_version=4)
    parts: list[str] = [
        output["data"]["text/html"]
        for cell in made.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    page = re.sub(r"data:image/png;base64,[^\"]*", "", "".join(parts))
    (data,) = EMBEDDED.findall(page)
    plain: dict[str, Any] = json.loads(data)
    assert plain == as_plain(read_maps("watch", "sab_5_5_T100"))
    assert len(plain["frames"]) >= 20 and len(page) < 500_000
