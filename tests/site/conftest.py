"""The built website, a server for it on this machine, and a real browser."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tools.book import build
from tools.paths import HTML

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
ABSENT = (
    "No Chromium found: the website's pages were NOT looked at in a browser. Install chromium "
    "(Debian: apt install chromium; macOS: brew install --cask google-chrome) or name one with "
    "SAB_CHROMIUM=/path/to/chromium."
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def find_chromium() -> str | None:
    """Return a Chromium's path: SAB_CHROMIUM, or one on PATH, or macOS's Chrome."""
    chosen = os.environ.get("SAB_CHROMIUM")
    found = [chosen] if chosen else [*map(shutil.which, NAMES), str(MAC)]
    return next((path for path in found if path and Path(path).exists()), None)


@pytest.fixture(scope="session")
def site() -> Path:
    """The website's folder, brought up to date through the cache of executed notebooks."""
    build({})
    return HTML


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        if os.environ.get("SAB_REQUIRE_CHROMIUM"):
            pytest.fail(ABSENT)
        pytest.skip(ABSENT)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end, where it is read, that no browser looked at the pages."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any("No Chromium found" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(ABSENT, yellow=True, bold=True)
