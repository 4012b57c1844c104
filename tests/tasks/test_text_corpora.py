"""Texts, their alphabets, splits and errors, on small files made here."""

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import torch
from data_files import hold

from sab.tasks import text
from sab.tasks.text import (
    COLOURS,
    colours_text,
    corpus,
    interleave,
    numbers_text,
    ptb_characters,
    spoken,
)

WORDS = {
    "train": " the cat <unk> N \n a cat sat \n",
    "valid": " the sat \n",
    "test": " a <unk> cat \n",
}


def spaced(characters: str) -> str:
    return "".join("\n" if c == "\n" else f"{c} " for c in characters)


@pytest.mark.parametrize("kind", ["word", "character"])
def test_ptb_from_word_files_and_from_character_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    words = {f"ptb.{part}.txt": body.encode() for part, body in WORDS.items()}
    hold(monkeypatch, tmp_path, "ptb", words)
    if kind == "character":
        packed = {
            f"ptb.char.{part}.txt.gz": gzip.compress(spaced(ptb_characters(body)).encode())
            for part, body in WORDS.items()
        }
        hold(monkeypatch, tmp_path, "ptb_char", packed)
    found = corpus("ptb")
    assert found.decode(found.parts["train"]) == "the_cat_<unk>_N\na_cat_sat\n"
    assert found.decode(found.parts["test"]) == "a_<unk>_cat\n"
    assert found.alphabet[found.start] == "\n"
    assert kind in found.about


def test_text8_is_cut_as_the_paper_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text, "TEXT8_PARTS", (90, 5, 5))
    body = ("a cat sat on the mat " * 5)[:100]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("text8", body)
    hold(monkeypatch, tmp_path, "text8", {"text8.zip": packed.getvalue()})
    found = corpus("text8")
    assert [found.decode(found.parts[p]) for p in text.SPLITS] == [
        body[:90],
        body[90:95],
        body[95:],
    ]
    assert len(found.alphabet) == 27


def test_books_are_interleaved_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text, "INTERLEAVED", 10)
    body = "".join(chr(ord("a") + i % 26) * 10 for i in range(43))
    hold(monkeypatch, tmp_path, "books", {"se5_text8like.txt": body.encode()})
    found = corpus("books")
    assert found.decode(found.parts["valid"]) == body[180:190] + body[380:390]
    assert found.decode(found.parts["test"]) == body[190:200] + body[390:400]
    assert len(found.parts["train"]) == 430 - 40
    assert "NOT text8" in found.about


def test_interleave_keeps_every_character_once() -> None:
    codes = torch.arange(1013)
    parts = interleave(codes, 7, pieces=10)
    assert torch.equal(torch.cat(list(parts.values())).sort().values, codes)
    assert [len(parts[p]) for p in ("valid", "test")] == [14 * 7, 14 * 7]


def test_numbers_in_words() -> None:
    assert [spoken(n) for n in (1, 13, 20, 47, 100, 312)] == [
        "one",
        "thirteen",
        "twenty",
        "forty seven",
        "one hundred",
        "three hundred and twelve",
    ]
    for line in numbers_text(50).splitlines():
        first, again = line.removesuffix(".").split(", again ")
        assert first == again
    assert numbers_text(3) == numbers_text(3) != numbers_text(3, seed=1)


def test_colours_are_named_twice() -> None:
    lines = colours_text(400).splitlines()
    for line in lines:
        first, _, again = line.removesuffix(".").split(", ")
        assert again == f"so it is {first}"
    assert {line.partition(",")[0] for line in lines} == set(COLOURS)
    assert len({colour[0] for colour in COLOURS}) == 8  # the first letter tells
    assert colours_text(3) == colours_text(3) != colours_text(3, seed=1)
    found = corpus("colours")
    assert found.decode(found.parts["valid"]) == colours_text(150, seed=1)


def of_file(path: Path, raw: bytes) -> text.Corpus:
    path.write_bytes(raw)
    return corpus("file", str(path))


def test_any_file_in_shares(tmp_path: Path) -> None:
    body = "Καλημέρα, ½ naïve 😀 café\n" * 100
    found = of_file(tmp_path / "a.txt", body.encode())
    parts = [found.decode(found.parts[part]) for part in text.SPLITS]
    assert "".join(parts) == body
    assert len(body) == 2500 and [len(part) for part in parts] == [2250, 125, 125]
    assert sorted(set(body)) == list(found.alphabet)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 22])
def test_pieces_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(text, "CHUNK", chunk)
    body = "é😀\r\nz\rq\n" * 150
    found = of_file(tmp_path / "a.txt", b"\xef\xbb\xbf" + body.encode())
    whole = "".join(found.decode(found.parts[part]) for part in text.SPLITS)
    assert whole == body.replace("\r\n", "\n").replace("\r", "\n")


def test_one_line_and_many_symbols(tmp_path: Path) -> None:
    found = of_file(tmp_path / "one.txt", b"abc" * 400)
    assert found.alphabet == "\nabc" and found.alphabet[found.start] == "\n"
    many = "".join(chr(0x4E00 + i) for i in range(1200))
    found = of_file(tmp_path / "many.txt", many.encode())
    assert found.decode(found.parts["train"]) == many[:1080]
    assert found.parts["train"].dtype == torch.int16


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "empty; needs at least 1,000"),
        (b"too short", "only 9 characters"),
        (b"caf\xe9 " * 300, "not UTF-8"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(ValueError, match=message) as caught:
        of_file(path, raw)
    assert str(path) in str(caught.value)


def test_missing_and_huge_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no such file; give one with --text FILE"):
        corpus("file", str(tmp_path / "none.txt"))
    path = tmp_path / "sparse.txt"
    with open(path, "wb") as stream:
        stream.truncate(5 << 30)
    with pytest.raises(ValueError, match="5,368,709,120 bytes; at most 4,294,967,296"):
        corpus("file", str(path))
    with pytest.raises(ValueError, match="corpus='enwik8'"):
        corpus("enwik8")


def test_a_large_file_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 24 MB: nothing but its codes, a byte a character, is ever held whole."""
    monkeypatch.setattr(text, "CHUNK", 1 << 18)
    path = tmp_path / "sparse.txt"
    with open(path, "wb") as stream:
        stream.write(b"a line\n")
        stream.truncate(24_000_000)
    tracemalloc.start()
    try:
        found = corpus("file", str(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.alphabet == "\0\n aeiln"
    assert [len(found.parts[part]) for part in text.SPLITS] == [21_600_000, 1_200_000, 1_200_000]
    assert peak < 1.5 * 24_000_000 + 0x110000 * 8


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert of_file(path, b"ab" * 600).alphabet == "\nab"
    assert of_file(path, b"abc" * 600).alphabet == "\nabc"
