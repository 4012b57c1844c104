"""The map of the paper: nothing dangles, nothing of the paper is missing."""

import pytest

from tools.paper_map import KINDS, PageError, chapter_link, find_symbol, paper_map, read

ENTRIES = read("paper_map")
SECTIONS = [
    *("1", "1.1", "1.2", "2", "3", "3.1", "3.2", "4", "5", "6"),
    *("7.1", "7.2", "7.3", "7.4", "7.5", "8", "8.1"),
]
LINES = ("cell", "hidden", "score", "threshold", "weights", "summary", "fuse", "output", "write")
WHOLE = {
    *(f"sec-{number}" for number in SECTIONS),
    *(f"alg1-{line}" for line in LINES),
    *("eq-product", "eq-replay"),
    *("fig-1", "fig-2", "fig-attention"),
    *("tab-1", "tab-2-left", "tab-2-right", "tab-3", "tab-4", "tab-5", "tab-6"),
}


def references(key: str) -> list[str]:
    return sorted({name for entry in ENTRIES for name in entry.get(key, ())})


def test_every_part_of_the_paper_has_one_entry() -> None:
    ids = [entry["id"] for entry in ENTRIES]
    assert len(ids) == len(set(ids))
    assert set(ids) == WHOLE


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_entry_is_well_formed(entry: dict) -> None:
    known = {"id", "kind", "page", "paper", "chapters", "sources", "tests", "open"}
    assert set(entry) <= known
    assert entry["kind"] in KINDS
    assert bool(entry.get("chapters")) != bool(entry.get("open")), "a chapter, or why there is none"
    if entry["kind"] == "equation":
        assert entry.get("sources") and entry.get("tests"), "an equation is code, and tested"


@pytest.mark.parametrize("name", references("chapters"))
def test_chapter_exists(name: str) -> None:
    assert chapter_link(name)


@pytest.mark.parametrize("name", [*references("sources"), *references("tests")])
def test_symbol_exists(name: str) -> None:
    assert find_symbol(name) > 0


@pytest.mark.parametrize("name", references("tests"))
def test_a_test_is_a_test(name: str) -> None:
    path, _, test = name.partition("::")
    assert path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")
    assert test.rpartition(".")[2].startswith("test_")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sab/ops/no_such_file.py:additive", "no file"),
        ("sab/ops/scores.py:no_such_function", "has no no_such_function"),
        ("sab/models/sab.py:SAB.no_such_method", "has no no_such_method"),
        ("tests/test_paper_map.py::test_that_is_not_here", "has no test_that_is_not_here"),
    ],
)
def test_a_dangling_entry_is_refused(name: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        find_symbol(name)


def test_a_missing_chapter_is_refused() -> None:
    with pytest.raises(PageError, match="99_nowhere"):
        chapter_link("99_nowhere")


def test_the_page_has_every_entry() -> None:
    page = paper_map()
    assert all(entry["paper"] in page for entry in ENTRIES)
    assert all(f"## {title}" in page for title in KINDS.values())
