"""Generated parts of the pages."""

import re
from pathlib import Path

import pytest

from sab.experiments import claims
from tools import pages
from tools.paper_map import PageError
from tools.paths import BOOK, ROOT

CITE = re.compile(r"\{cite:[pt]\}`([^`]+)`")
KEY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)


def mark(name: str) -> str:
    return f"<!-- begin generated: {name} -->\nSTALE\n<!-- end generated: {name} -->"


def test_fill_replaces_the_part_and_nothing_else() -> None:
    filled = pages.fill(f"before\n\n{mark('presets')}\n\nafter")
    assert filled.startswith("before\n\n| option |") and filled.endswith("\n\nafter")
    assert "STALE" not in filled and "generated" not in filled


def test_fill_refuses_an_unknown_part() -> None:
    with pytest.raises(PageError, match="no_such_part"):
        pages.fill(mark("no_such_part"))


def test_fill_refuses_a_mark_without_partner() -> None:
    with pytest.raises(PageError, match="no matching"):
        pages.fill("<!-- begin generated: presets -->\nno end")


def test_fill_folder_names_the_page(tmp_path: Path) -> None:
    (tmp_path / "wrong.md").write_text(mark("no_such_part"))
    with pytest.raises(PageError, match=r"wrong\.md"):
        pages.fill_folder(tmp_path)


def test_fill_folder_fills_the_book(tmp_path: Path) -> None:
    names = [path.name for path in BOOK.glob("*.md")]
    for name in names:
        (tmp_path / name).write_text((BOOK / name).read_text(encoding="utf-8"), encoding="utf-8")
    pages.fill_folder(tmp_path)
    for name in names:
        assert "generated: " not in (tmp_path / name).read_text(encoding="utf-8")
    assert (tmp_path / "_static" / pages.PICTURE).stat().st_size > 1000


def test_verdict_counts_every_claim_of_the_paper() -> None:
    lines = pages.verdict().splitlines()[2:]
    counts = [[int(cell) for cell in re.findall(r"\| (\d+) (?=\|)", line)] for line in lines]
    *parts, whole = [row for row in counts if len(row) == 5]
    assert whole[0] == len(claims.of_the_paper(claims.verdicts()))
    for total, *verdicts in [*parts, whole]:
        assert total == sum(verdicts)
    if parts:
        assert whole == [sum(column) for column in zip(*parts, strict=True)]


def test_references_are_cited_and_citations_exist() -> None:
    keys = KEY.findall((BOOK / "references.bib").read_text(encoding="utf-8"))
    assert len(keys) == len(set(keys))
    sources = [*(ROOT / "notebooks").glob("*.py"), *BOOK.glob("*.md")]
    cited = {
        key.strip()
        for path in sources
        for group in CITE.findall(path.read_text(encoding="utf-8"))
        for key in group.split(",")
    }
    assert cited - set(keys) == set(), "cited, but not in references.bib"
    assert set(keys) - cited == set(), "in references.bib, but cited nowhere"
