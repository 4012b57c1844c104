"""Texts as character codes: the corpora of the language models.

A corpus has three parts of codes into its alphabet. Before the first character of each part stands
one that only conditions (the end of a line, or a space), so that every character is predicted.
"""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sab import data
from sab.data.fetch import held

SPLITS = ("train", "valid", "test")
CORPORA = ("ptb", "text8", "books", "numbers", "colours", "file")
MADE = ("numbers", "colours")  # here, so that they need no files
PTB_PARTS = ("train", "valid", "test")
TEXT8 = " abcdefghijklmnopqrstuvwxyz"
TEXT8_PARTS = (90_000_000, 5_000_000, 5_000_000)
CHUNK = 1 << 22  # characters read at once
MOST_BYTES = 4 << 30  # of a reader's file
LEAST_CHARACTERS = 1000
SHARES = (0.90, 0.05)  # training and validation of a file that is not split already
INTERLEAVED = 100_000  # characters a chunk of the books


@dataclass(frozen=True)
class Corpus:
    """A text in three parts.

    Attributes:
        alphabet: the symbols in order of their codes.
        start: code of what stands before each part.
        parts: ``"train"``, ``"valid"``, ``"test"`` → (N,) codes, uint8 or int16.
        about: what was read, in words, with a checksum; it goes into records.
    """

    alphabet: str
    start: int
    parts: dict[str, Tensor]
    about: str

    def decode(self, codes: Tensor) -> str:
        """Codes as text."""
        return "".join(self.alphabet[int(code)] for code in codes)


def corpus(name: str, path: str = "") -> Corpus:
    """Return a corpus; it is read once a process.

    Args:
        name: ``"ptb"``, ``"text8"``, ``"books"`` (not text8: five books in its alphabet),
            ``"numbers"`` and ``"colours"`` (made here), or ``"file"``.
        path: the file of ``"file"``.

    Raises:
        ValueError: an unknown name, or a file that is empty, too short or large, or not UTF-8.
        DataError: the data are not here and cannot be fetched.
    """
    if name == "file":
        file = Path(path).expanduser()
        if not path or not file.is_file():
            raise ValueError(f"text={path!r}: no such file; give one with --text FILE")
        stat = file.stat()
        return _from_file(file.resolve(), stat.st_size, stat.st_mtime_ns)
    if name in MADE:
        return _made(name)
    if name not in CORPORA:
        raise ValueError(f"corpus={name!r}: must be one of {', '.join(CORPORA)}")
    return _published(name, data.data_dir())


@lru_cache(maxsize=4)
def _published(name: str, folder: Path) -> Corpus:
    return {"ptb": _ptb, "text8": _text8, "books": _books}[name]()


def _coded(texts: Iterable[str], alphabet: str, count: int) -> Tensor:
    """Codes of the pieces of a text of ``count`` characters, uint8 (int16 beyond 256 symbols).

    Raises:
        ValueError: a character is not in the alphabet.
    """
    kind = np.uint8 if len(alphabet) <= 256 else np.int16
    points = np.frombuffer(alphabet.encode("utf-32-le"), np.uint32)
    table = np.full(0x110000, -1, np.int32)
    table[points] = np.arange(len(points))
    found = np.empty(count, kind)
    done = 0
    for text in texts:
        codes = table[np.frombuffer(text.encode("utf-32-le"), np.uint32)]
        if codes.size and codes.min() < 0:
            stranger = text[int(codes.argmin())]
            raise ValueError(f"text has {stranger!r}, which is not one of {len(alphabet)} symbols")
        found[done : done + len(codes)] = codes
        done += len(codes)
    return torch.from_numpy(found)


def ptb_characters(words: str) -> str:
    """Characters of a PTB word file: ``_`` between words, one line end a line.

    ``<unk>`` stays five characters, as in the published character files.
    """
    return "".join(f"{line.strip().replace(' ', '_')}\n" for line in words.splitlines())


def _ptb() -> Corpus:
    kind = "ptb_char" if held("ptb_char") else "ptb"
    texts = {}
    for part, path in zip(PTB_PARTS, data.files(kind).values(), strict=True):
        if kind == "ptb_char":
            texts[part] = gzip.decompress(path.read_bytes()).decode().replace(" ", "")
        else:
            texts[part] = ptb_characters(path.read_text(encoding="utf-8"))
    alphabet = "".join(sorted(set().union(*texts.values())))
    parts = {part: _coded([text], alphabet, len(text)) for part, text in texts.items()}
    about = f"Penn Treebank characters, {'character' if kind == 'ptb_char' else 'word'} files"
    return Corpus(alphabet, alphabet.index("\n"), parts, about)


def _cut(codes: Tensor, lengths: tuple[int, ...]) -> dict[str, Tensor]:
    return dict(zip(SPLITS, codes.split(list(lengths)), strict=True))


def _text8() -> Corpus:
    with zipfile.ZipFile(data.files("text8")["text8.zip"]) as archive:
        text = archive.read("text8").decode("ascii")
    return Corpus(
        TEXT8, 0, _cut(_coded([text], TEXT8, len(text)), TEXT8_PARTS), "text8, 90/5/5 M characters"
    )


def interleave(codes: Tensor, chunk: int, pieces: int = 20) -> dict[str, Tensor]:
    """Cut into chunks; of every ``pieces`` neighbours the last two are validation and test.

    So every part has something of the whole text, where a cut at 90 % would leave the test a single
    book. What is left over goes to training.
    """
    chunks = list(codes.split(chunk))
    kinds = ["train"] * (pieces - 2) + ["valid", "test"]
    whole = len(chunks) - len(chunks) % pieces
    marked = [(kinds[i % pieces] if i < whole else "train", c) for i, c in enumerate(chunks)]
    return {part: torch.cat([c for kind, c in marked if kind == part]) for part in SPLITS}


def _books() -> Corpus:
    text = data.files("books")["se5_text8like.txt"].read_text(encoding="ascii")
    parts = interleave(_coded([text.replace("\n", " ")], TEXT8, len(text)), INTERLEAVED)
    about = "five public-domain books in text8's alphabet, NOT text8; interleaved before the split"
    return Corpus(TEXT8, 0, parts, about)


# Texts without a data set ---------------------------------------------------------------------

NUMBERS = {"train": 900, "valid": 50, "test": 50}  # lines of a part
ONES = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spoken(number: int) -> str:
    """A number from 1 to 999 in words."""
    if number < 20:
        return ONES[number - 1]
    if number < 100:
        rest = f" {ONES[number % 10 - 1]}" if number % 10 else ""
        return TENS[number // 10 - 2] + rest
    rest = f" and {spoken(number % 100)}" if number % 100 else ""
    return f"{ONES[number // 100 - 1]} hundred{rest}"


def numbers_text(lines: int, seed: int = 0) -> str:
    """Lines that say a random number twice; the second time it can be recalled."""
    drawn = np.random.RandomState(seed).randint(1, 1000, lines)
    return "".join(f"{spoken(int(n))}, again {spoken(int(n))}.\n" for n in drawn)


COLOURS = ("red", "blue", "green", "yellow", "white", "orange", "pink", "violet")
SPEAKERS = ("ann", "bob", "eve", "tom")
COLOUR_LINES = {"train": 3000, "valid": 150, "test": 150}


def colours_text(lines: int, seed: int = 0) -> str:
    """Lines that name one of eight colours, one of four speakers, and the same colour again.

    So a line is worth log2 8 + log2 4 bits to whoever remembers, and log2 8 more to who does not.
    """
    draw = np.random.RandomState(seed)
    colours, speakers = draw.randint(len(COLOURS), size=lines), draw.randint(4, size=lines)
    pairs = [(COLOURS[c], SPEAKERS[s]) for c, s in zip(colours, speakers, strict=True)]
    return "".join(f"{colour}, says {who}, so it is {colour}.\n" for colour, who in pairs)


@lru_cache(maxsize=2)
def _made(name: str) -> Corpus:
    if name == "numbers":
        make, sizes, about = numbers_text, NUMBERS, "numbers in words, each said twice"
    else:
        make, sizes, about = colours_text, COLOUR_LINES, "colours, each named twice"
    texts = {part: make(n, i) for i, (part, n) in enumerate(sizes.items())}
    alphabet = "".join(sorted(set().union(*texts.values())))
    parts = {part: _coded([text], alphabet, len(text)) for part, text in texts.items()}
    return Corpus(alphabet, alphabet.index("\n"), parts, about)


# A reader's own file --------------------------------------------------------------------------


def _pieces(path: Path) -> Iterator[str]:
    """The text of a file, piece by piece; a BOM is dropped, line ends become one character.

    Raises:
        ValueError: it is not UTF-8.
    """
    try:
        with open(path, encoding="utf-8-sig", newline=None) as stream:
            while piece := stream.read(CHUNK):
                yield piece
    except UnicodeDecodeError as error:
        raise ValueError(
            f"text={str(path)!r}: not UTF-8 ({error.reason}); save it as UTF-8 first"
        ) from None


@lru_cache(maxsize=2)
def _from_file(path: Path, size: int, changed: int) -> Corpus:
    """A file in shares of 90, 5 and 5 %, read twice so that only its codes are held."""
    if size > MOST_BYTES:
        raise ValueError(
            f"text={str(path)!r}: {size:,} bytes; at most {MOST_BYTES:,} fit; cut it, for example "
            f"with head -c {MOST_BYTES}"
        )
    seen = np.zeros(0x110000, bool)
    count = 0
    digest = hashlib.sha256()
    for piece in _pieces(path):
        seen[np.frombuffer(piece.encode("utf-32-le"), np.uint32)] = True
        count += len(piece)
        digest.update(piece.encode())
    if count < LEAST_CHARACTERS:
        what = "empty" if count == 0 else f"only {count:,} characters"
        raise ValueError(f"text={str(path)!r}: {what}; needs at least {LEAST_CHARACTERS:,}")
    seen[ord("\n")] = True  # what stands before each part
    alphabet = np.flatnonzero(seen).astype("<u4").tobytes().decode("utf-32-le")
    codes = _coded(_pieces(path), alphabet, count)
    train, valid = (int(share * count) for share in SHARES)
    parts = _cut(codes, (train, valid, count - train - valid))
    about = f"{path.name}, {count:,} characters, SHA-256 of its text {digest.hexdigest()}"
    return Corpus(alphabet, alphabet.index("\n"), parts, about)
