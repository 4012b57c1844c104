"""Find a data set's files, check them, fetch what is missing.

``SAB_DATA`` names the folder (default: the user's cache). A file counts only with the right
checksum: one that was cut off, changed, or is a web page in disguise is removed and fetched anew.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from sab.data.sources import DataFile, Dataset, dataset

TRIES = 3  # of each address
PAUSE = 1.0  # seconds before the second try, doubled before the third
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 20
WEB_PAGE = "a web page, not the data"


class DataError(ValueError):
    """A data file that is missing or damaged; the message says which, and how to mend it."""


def data_dir() -> Path:
    """Where data sets are: ``SAB_DATA``, or the user's cache folder."""
    import pooch

    return Path(os.environ.get("SAB_DATA") or pooch.os_cache("sab") / "data").expanduser()


def path_of(item: Dataset, file: DataFile) -> Path:
    """Where ``file`` of ``item`` belongs."""
    return data_dir() / item.folder / file.name


def digest(path: Path, content: bool = False) -> str:
    """SHA-256 of a file, or of what a ``.gz`` file holds.

    Raises:
        OSError: the file cannot be read.
        EOFError, zlib.error: a ``.gz`` file is cut off or damaged.
    """
    found = hashlib.sha256()
    opened: Any = gzip.open if content else open
    with opened(path, "rb") as stream:
        while block := stream.read(CHUNK):
            found.update(block)
    return found.hexdigest()


def fault(path: Path, file: DataFile) -> str | None:
    """Say what is wrong with ``path`` as a copy of ``file``; ``None``: nothing."""
    with open(path, "rb") as stream:
        head = stream.read(512).lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html", b"<head")):
        return WEB_PAGE
    try:
        found = digest(path, file.by_content)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return "cut off or not a gzip file"
    return None if found == file.sha256 else f"its SHA-256 is {found}"


_good: set[tuple[str, int, int]] = set()


def checked(path: Path, file: DataFile) -> str | None:
    """As `fault`, but a file that was found good is not read again while it is unchanged."""
    stat = path.stat()
    stamp = (f"{path} {file.sha256}", stat.st_size, stat.st_mtime_ns)
    if stamp in _good:
        return None
    found = fault(path, file)
    if found is None:
        _good.add(stamp)
    return found


def _download(url: str, path: Path) -> None:
    """Fetch ``url`` to ``path`` with pooch, a bar on a terminal."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # its own logger: logging.getLogger does not find it
    bar = sys.stderr.isatty() and os.environ.get("TQDM_DISABLE") != "1"
    get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=TIMEOUT)
    pooch.retrieve(url, known_hash=None, fname=path.name, path=path.parent, downloader=get)


def by_hand(item: Dataset, file: DataFile) -> str:
    """How to get ``file`` without this program."""
    source = file.urls[0] if file.urls else f"no public address holds it (about it: {item.page})"
    what = "SHA-256 of its content" if file.by_content else "SHA-256"
    folder = path_of(item, file).parent
    return f"by hand: {source}, {what} {file.sha256}, into {folder} (SAB_DATA chooses the folder)"


def fetch_file(item: Dataset, file: DataFile) -> Path:
    """Fetch one file, address after address, and return its path.

    What does not have the right checksum is removed, and the next try or address is taken.

    Raises:
        DataError: no address gave it; the message names file, faults, address, checksum, folder.
    """
    target = path_of(item, file)
    part = target.with_name(f".{file.name}.{os.getpid()}.part")
    faults: list[str] = []
    for url in file.urls:
        for attempt in range(TRIES):
            time.sleep(PAUSE * attempt)
            part.unlink(missing_ok=True)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _download(url, part)
                found = fault(part, file)
                if found is None:
                    os.replace(part, target)
                    return target
            except OSError as error:  # requests' errors are OSErrors too
                found = _short(error)
            finally:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
            if attempt == TRIES - 1 or found == WEB_PAGE:  # whose fault will not pass by itself
                faults.append(f"{url}: {found}")
                break
    told = f" ({'; '.join(faults)})" if faults else ""
    raise DataError(f"{file.name} of {item.name}: cannot be fetched{told}; {by_hand(item, file)}")


def _short(error: BaseException) -> str:
    """An error's kind and the start of its message; requests nests them deeply."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:120]}{'…' if len(text) > 120 else ''}"


def files(name: str) -> dict[str, Path]:
    """Return the checked files of a data set by name, fetching those that are missing.

    Raises:
        ValueError: there is no such data set.
        DataError: a file is missing and cannot be fetched, or is damaged and published nowhere.
    """
    item = dataset(name)
    found = {}
    for file in item.files:
        path = path_of(item, file)
        if path.is_file():
            wrong = checked(path, file)
            if wrong is None:
                found[file.name] = path
                continue
            if not file.urls:
                raise DataError(f"{path}: damaged ({wrong}); replace it, {by_hand(item, file)}")
            print(f"sab: {path}: damaged ({wrong}); removed", file=sys.stderr)
            path.unlink()
        found[file.name] = fetch_file(item, file)
    return found


def held(name: str) -> bool:
    """Whether every file of a data set is in its place; nothing is read or fetched."""
    item = dataset(name)
    return all(path_of(item, file).is_file() for file in item.files)


def states(name: str) -> dict[str, str]:
    """Say of each file of a data set ``"absent"``, ``"good"`` or ``"damaged: …"``.

    Raises:
        ValueError: there is no such data set.
    """
    item = dataset(name)
    found = {}
    for file in item.files:
        path = path_of(item, file)
        if not path.is_file():
            found[file.name] = "absent"
        else:
            wrong = checked(path, file)
            found[file.name] = "good" if wrong is None else f"damaged: {wrong}"
    return found
