"""Fetching against a server of our own that also lies, breaks off and dawdles."""

import gzip
import hashlib
import http.server
import io
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from sab.cli import main
from sab.data import DataError, DataFile, Dataset, data_dir, fetch, files, sources

GOOD = b"one line of data\n" * 400
WEB_PAGE = b"<!DOCTYPE html><html><body>Sign in to go on</body></html>"


class Handler(http.server.BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        kind = self.path.split("/")[1]
        tries = self.seen.count(self.path)
        body = {"html": WEB_PAGE, "short": GOOD[:900], "altered": GOOD[:-2] + b"!\n"}.get(
            kind, GOOD
        )
        if kind == "gz":
            body = gzip.compress(GOOD, 1)
        if kind == "gone":
            self.send_error(404)
            return
        broken = kind == "truncated" or (kind == "once" and tries == 1)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if kind == "stalled":
            self.wfile.write(body[:900])
            self.wfile.flush()
            time.sleep(1.0)
        elif kind == "slow":
            for start in range(0, len(body), 2000):
                self.wfile.write(body[start : start + 2000])
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.wfile.write(body[:900] if broken else body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setattr(Handler, "seen", [])
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    monkeypatch.setattr(fetch, "TIMEOUT", 0.4)
    monkeypatch.setenv("SAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def offer(monkeypatch: pytest.MonkeyPatch, *urls: str, name: str = "tiny.txt") -> Path:
    """Register a data set of one file and return where the file belongs."""
    file = DataFile(name, hashlib.sha256(GOOD).hexdigest(), urls)
    item = Dataset("tiny", "tiny", "a test", "none", (file,), "http://nowhere")
    monkeypatch.setitem(sources.DATASETS, "tiny", item)
    return data_dir() / "tiny" / name


def test_good_files_and_what_is_here_is_not_fetched_again(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = offer(monkeypatch, f"{host}/good/tiny.txt")
    assert files("tiny") == {"tiny.txt": path}
    assert path.read_bytes() == GOOD
    assert files("tiny") == {"tiny.txt": path}
    assert len(Handler.seen) == 1
    assert [p.name for p in path.parent.iterdir()] == ["tiny.txt"]


def test_a_gz_file_is_known_by_its_content(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = offer(monkeypatch, f"{host}/gz/tiny.gz", name="tiny.gz")
    files("tiny")
    assert gzip.decompress(path.read_bytes()) == GOOD
    path.write_bytes(gzip.compress(GOOD, 9))  # other bytes, the same content
    assert fetch.states("tiny") == {"tiny.gz": "good"}
    path.write_bytes(path.read_bytes()[:-20])
    assert "cut off" in fetch.states("tiny")["tiny.gz"]


def test_slow_is_fine(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = offer(monkeypatch, f"{host}/slow/tiny.txt")
    files("tiny")
    assert path.read_bytes() == GOOD


def test_a_broken_transfer_is_tried_again(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = offer(monkeypatch, f"{host}/once/tiny.txt")
    files("tiny")
    assert path.read_bytes() == GOOD and len(Handler.seen) == 2


@pytest.mark.parametrize("kind", ["html", "short", "altered", "truncated", "stalled", "gone"])
def test_mirrors_come_in_turn(host: str, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(fetch, "TRIES", 1)
    path = offer(monkeypatch, f"{host}/{kind}/tiny.txt", f"{host}/good/tiny.txt")
    files("tiny")
    assert path.read_bytes() == GOOD
    assert Handler.seen == [f"/{kind}/tiny.txt", "/good/tiny.txt"]


@pytest.mark.parametrize(
    ("kind", "what", "tries"),
    [
        ("html", "a web page, not the data", 1),
        ("short", "its SHA-256 is", 2),
        ("altered", "its SHA-256 is", 2),
        ("truncated", "Error", 2),
        ("gone", "404", 2),
    ],
)
def test_what_is_not_the_data_is_refused_and_removed(
    host: str, monkeypatch: pytest.MonkeyPatch, kind: str, what: str, tries: int
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 2)
    url = f"{host}/{kind}/tiny.txt"
    path = offer(monkeypatch, url)
    with pytest.raises(DataError) as caught:
        files("tiny")
    message = str(caught.value)
    assert "tiny.txt of tiny" in message and what in message
    for part in (url, hashlib.sha256(GOOD).hexdigest(), str(path.parent)):
        assert part in message
    assert "\n" not in message
    assert list(path.parent.iterdir()) == []
    assert len(Handler.seen) == tries


def test_when_every_mirror_stalls_one_line_says_so(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 1)
    urls = [f"{host}/stalled/tiny.txt", f"{host}/stalled/again/tiny.txt"]
    path = offer(monkeypatch, *urls)
    assert main(["data", "fetch", "tiny"]) == 2
    told = capsys.readouterr().err
    (line,) = told.strip().splitlines()
    assert line.startswith("sab: tiny.txt of tiny: cannot be fetched")
    assert line.count("timed out") == 2
    for part in (*urls, hashlib.sha256(GOOD).hexdigest()):
        assert part in line
    assert list(path.parent.iterdir()) == []


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_only(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = offer(monkeypatch, f"{host}/good/tiny.txt")
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    for screen, drawn in ((Terminal(), True), (io.StringIO(), False)):
        path.unlink(missing_ok=True)
        monkeypatch.setattr(sys, "stderr", screen)
        files("tiny")
        assert path.read_bytes() == GOOD
        assert ("100%" in screen.getvalue()) == drawn
    monkeypatch.setenv("TQDM_DISABLE", "1")
    path.unlink()
    monkeypatch.setattr(sys, "stderr", silent := Terminal())
    files("tiny")
    assert silent.getvalue() == ""


def test_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    monkeypatch.setenv("SAB_DATA", str(tmp_path))
    path = offer(monkeypatch, "http://127.0.0.1:9/tiny.txt")
    with pytest.raises(DataError) as caught:
        files("tiny")
    for part in ("tiny.txt", "http://127.0.0.1:9/tiny.txt", str(path.parent), "SAB_DATA"):
        assert part in str(caught.value)
    assert hashlib.sha256(GOOD).hexdigest() in str(caught.value)


def test_a_damaged_file_is_replaced(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = offer(monkeypatch, f"{host}/good/tiny.txt")
    path.parent.mkdir(parents=True)
    path.write_bytes(GOOD[:-1])
    assert files("tiny") == {"tiny.txt": path}
    assert path.read_bytes() == GOOD
    assert f"{path}: damaged" in capsys.readouterr().err


def test_a_file_published_nowhere_is_left_for_its_owner(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = offer(monkeypatch)
    with pytest.raises(DataError, match="no public address holds it"):
        files("tiny")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"damaged .*replace it"):
        files("tiny")
    assert path.exists()


def test_a_changed_file_is_read_again(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = offer(monkeypatch, f"{host}/good/tiny.txt")
    files("tiny")
    path.write_bytes(GOOD + b"more")
    assert fetch.states("tiny")["tiny.txt"].startswith("damaged")


def test_command(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = offer(monkeypatch, f"{host}/good/tiny.txt")
    monkeypatch.setattr(sources, "DATASETS", {"tiny": sources.DATASETS["tiny"]})
    assert main(["data", "list"]) == 0
    listed = capsys.readouterr().out
    assert str(data_dir()) in listed and "not here" in listed
    assert main(["data", "fetch", "tiny"]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert main(["data", "check"]) == 0
    assert "good" in capsys.readouterr().out
    path.write_bytes(b"spoilt")
    assert main(["data", "check"]) == 2
    assert "damaged: its SHA-256" in capsys.readouterr().out
    assert main(["data", "fetch", "tinny"]) == 2
    assert "did you mean 'tiny'" in capsys.readouterr().err


def test_the_registry_is_well_formed() -> None:
    for name, item in sources.DATASETS.items():
        assert name == item.name and item.files and item.terms and item.page.startswith("http")
        for file in item.files:
            assert len(file.sha256) == 64 and int(file.sha256, 16)
            assert all(url.endswith(file.name) for url in file.urls)
