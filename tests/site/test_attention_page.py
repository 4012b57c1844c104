"""The page on attention: its arithmetic against ``sab``, keyboard, mouse, touch, no script."""

from __future__ import annotations

import functools
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page

from sab.ops.attention import causal_mask, scaled_dot_product, soft_read
from sab.ops.scores import dot, scaled_dot
from tools.paths import BOOK

ADDRESS = (BOOK / "_static" / "attention_page.html").as_uri()


def open_page(browser: Browser, **options: Any) -> tuple[Page, list[str]]:
    page = browser.new_context(**options).new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith("file:") else
            troubles.append(asked.url))  # fmt: skip
    page.goto(ADDRESS)
    return page, troubles


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page, troubles = open_page(browser, viewport={"width": 760, "height": 900})
    yield page
    page.context.close()
    assert troubles == []


def shown(page: Page) -> tuple[list[float], list[float]]:
    """Weights and output as the page prints them."""
    weights = [float(page.inner_text(f"#weight-{n}")) for n in (1, 2, 3)]
    return weights, [float(page.inner_text(f"#output-{d}")) for d in (1, 2)]


def test_the_read_is_sab_s(page: Page) -> None:
    source = torch.Generator().manual_seed(0)
    for _ in range(20):
        points = (6 * torch.rand(4, 2, generator=source, dtype=torch.float64) - 3).round(decimals=2)
        query, keys = points[:1], points[None, 1:]
        for scaled, score in ((False, dot), (True, scaled_dot)):
            found = page.evaluate(
                "([q, k, s]) => sabAttention.read(q, k, s)",
                [query[0].tolist(), keys[0].tolist(), scaled],
            )
            scores = score(keys, query)
            read = soft_read(scores, keys)
            for name, value in (
                ("scores", scores), ("weights", read.weights), ("output", read.output)
            ):  # fmt: skip
                assert found[name] == pytest.approx(value[0].tolist(), abs=1e-12)


def test_the_matrices_are_sab_s(page: Page) -> None:
    x = torch.tensor(page.evaluate("sabAttention.x"), dtype=torch.float64)
    for number, head in enumerate(page.evaluate("sabAttention.heads")):
        wq, wk = (torch.tensor(head[name], dtype=torch.float64) for name in ("wq", "wk"))
        for causal in (False, True):
            found = page.evaluate(
                "([n, c]) => { const h = sabAttention.heads[n];"
                "return sabAttention.selfAttention(sabAttention.x, h.wq, h.wk, c); }",
                [number, causal],
            )
            mask = causal_mask(6) if causal else None
            weights = scaled_dot_product(x @ wq, x @ wk, x, mask).weights
            for row, expected in zip(found, weights.tolist(), strict=True):
                assert row == pytest.approx(expected, abs=1e-12)


def test_the_page_says_that_nothing_can_be_read(page: Page) -> None:
    message = page.evaluate(
        "() => { try { sabAttention.softmax([1], [false]); } catch (e) { return e.message; } }"
    )
    assert message == "nothing may be read"


def test_it_begins_with_the_worked_example(page: Page) -> None:
    assert shown(page) == ([0.665, 0.09, 0.245], [1.575, 0.425])


def test_keyboard(page: Page) -> None:
    page.focus("#point-q")
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowLeft")
    assert page.get_attribute("#point-q", "aria-label") == "query at 0.5, 0.3"
    keys = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]]], dtype=torch.float64)
    query = torch.tensor([[0.5, 0.3]], dtype=torch.float64)
    weights = soft_read(dot(keys, query), keys).weights
    assert shown(page)[0] == pytest.approx(weights[0].tolist(), abs=6e-4)
    page.check("#scaled")
    scaled = soft_read(scaled_dot(keys, query), keys)
    assert shown(page)[1] == pytest.approx(scaled.output[0].tolist(), abs=6e-4)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "reset":
            break
    page.keyboard.press("Enter")
    assert shown(page) == ([0.665, 0.09, 0.245], [1.575, 0.425])
    page.focus("#point-x1")
    for _ in range(8):
        page.keyboard.press("Shift+ArrowRight")
    assert page.get_attribute("#point-x1", "aria-label") == "key 1 at 3.0, 0.0"


def drag(page: Page, name: str, right: int, down: int) -> None:
    box = page.locator(f"#point-{name} .reach").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right, y + down, steps=4)
    page.mouse.up()
    page.mouse.move(x + 80, y - 40)


def test_mouse(page: Page) -> None:
    page.evaluate("scrollTo(0, 0)")
    width = page.locator("#plane").bounding_box()
    assert width is not None
    unit = width["width"] / 6
    drag(page, "x3", round(-2 * unit), round(unit))
    label = page.get_attribute("#point-x3", "aria-label") or ""
    found = [float(v) for v in re.findall(r"-?\d\.\d", label)]
    assert found == pytest.approx([-1.0, 0.0], abs=0.06)
    assert sum(shown(page)[0]) == pytest.approx(1, abs=2e-3)


def cells(page: Page) -> list[list[str]]:
    """The matrix as the page prints it."""
    return [[cell.inner_text() for cell in row.query_selector_all("td")]
            for row in page.query_selector_all("#matrix tr")[1:]]  # fmt: skip


def test_heads_and_mask(page: Page) -> None:
    first = cells(page)
    assert len(first) == 6 and all(len(row) == 6 for row in first)
    page.check("input[value='1']")
    second = cells(page)
    assert second != first
    for m in range(1, 6):  # head 2 looks at the word before
        row = [float(cell) for cell in second[m]]
        assert max(range(6), key=row.__getitem__) == m - 1
    page.check("#causal")
    masked = cells(page)
    assert masked[0] == ["1.00", "", "", "", "", ""]
    assert all(masked[m][n] == "" for m in range(6) for n in range(m + 1, 6))


def test_touch_on_a_phone(browser: Browser) -> None:
    size = {"width": 390, "height": 800}
    page, troubles = open_page(browser, viewport=size, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.tap("label:has(#causal)")
    assert page.is_checked("#causal")
    session = page.context.new_cdp_session(page)
    page.evaluate("scrollTo(0, 0)")
    box = page.locator("#point-q .reach").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x, "y": y - 40}]),
        ("touchEnd", []),
    ):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert page.get_attribute("#point-q", "aria-label") != "query at 1.0, 0.0"
    page.context.close()
    assert troubles == []


def test_it_takes_the_theme_of_the_page_around_it(browser: Browser, tmp_path: Path) -> None:
    for path in (BOOK / "_static").glob("attention_page.*"):
        shutil.copy(path, tmp_path)
    around = tmp_path / "around.html"
    around.write_text(
        '<!doctype html><html data-theme="dark"><iframe src="attention_page.html"></iframe>'
    )
    # Chromium lets no file look into another; a server on this machine is as the website is.
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_context(color_scheme="light").new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/around.html")
    inside = page.frames[1]
    inside.wait_for_selector("#matrix td")
    assert inside.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    inside.wait_for_function("document.documentElement.dataset.theme === 'light'")
    page.context.close()
    server.shutdown()
    server.server_close()


def test_without_a_script_the_worked_example_and_the_first_head_stand(
    browser: Browser, page: Page
) -> None:
    x = torch.tensor(page.evaluate("sabAttention.x"), dtype=torch.float64)
    head = page.evaluate("sabAttention.heads[0]")
    wq, wk = (torch.tensor(head[name], dtype=torch.float64) for name in ("wq", "wk"))
    weights = scaled_dot_product(x @ wq, x @ wk, x).weights
    still, troubles = open_page(browser, java_script_enabled=False)
    assert shown(still) == ([0.665, 0.09, 0.245], [1.575, 0.425])
    assert still.is_visible("#plane") and still.is_visible("noscript p")
    assert cells(still) == [[f"{value:.2f}" for value in row] for row in weights.tolist()]
    assert cells(still) == cells(page)
    names = [[cell.inner_text() for cell in where.query_selector_all("#matrix th")]
             for where in (still, page)]  # fmt: skip
    assert names[0] == names[1] and names[0][:3] == ["", "the", "cat"]
    still.context.close()
    assert troubles == []
