"""No result is typed by hand; and the test that says so can fail."""

from __future__ import annotations

import pytest

from sab.experiments import claims
from tools import typed_numbers
from tools.paper_map import PageError
from tools.typed_numbers import captions, check, find, label, of_the_paper, reasons, unexplained


def test_no_result_is_typed_by_hand() -> None:
    found = check()
    hint = "take it from a record with glue, or give its reason in book/typed_numbers.yaml"
    assert not found, f"{hint}: " + "; ".join(
        f"{one.place}: {label(one)} in '{one.context}'" for one in found
    )


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("SAB has 87.3 % of the symbols", ["87.3 %"]),
        ("87.3% and, in mathematics, $64\\%$", ["87.3 %", "64 %"]),
        ("from 80 to 86\nper cent", ["86 %"]),
        ("it reaches 1.36 BPC, 0.07 bits better", ["1.36 BPC", "0.07 BPC"]),
        ("is 12.2 points above, 3 percentage points", ["12.2 points", "3 points"]),
        ("2.3 × faster, 4 times slower, a 35-fold gain", ["2.3 times", "4 times", "35 times"]),
        ("1,024 % of it", ["1024 %"]),
    ],
)
def test_a_planted_result_is_found(text: str, labels: list[str]) -> None:
    assert [label(one) for one in find(text)] == labels
    assert [label(one) for one in unexplained([("a.py", text)], set(), set())] == labels


@pytest.mark.parametrize(
    "text",
    [
        "SAB has {glue:text}`accuracy:.1%` and {glue:text}`gap:.1f` points",
        "`x % 2`, `87 %` in code, ```\n12 %\n```",
        "$d \\times n$, 4 × 4 blocks, read it 3 times, T = 100 and five seeds",
        "[a page](https://example.org/20%20percent)",
        "Table 3 has 6 rows, and 100 steps",
        "a mean with its 95 % interval; <iframe style='width: 100%'>",
    ],
)
def test_what_is_no_typed_result_is_left_alone(text: str) -> None:
    assert find(text) == []


def test_a_number_is_explained_by_the_paper_in_its_own_unit_only() -> None:
    paper = of_the_paper(claims.load())
    said = "the paper has 99.9 % there, 64 points, 1.36 BPC"
    assert unexplained([("a.py", said)], paper, set()) == []
    wrong = unexplained([("a.py", "in Table 1: 1.36 %, 64.1 points")], paper, set())
    assert [label(one) for one in wrong] == ["1.36 %", "64.1 points"]


def test_a_number_of_the_paper_explains_none_of_ours() -> None:
    paper = of_the_paper(claims.load())
    text = "The paper has 99.9 %.\n\nOurs has 99.9 % too.\n- In Table 1: 99.8 %\n- and here 99.8 %"
    left = unexplained([("a.py", text)], paper, set())
    assert [label(one) for one in left] == ["99.9 %", "99.8 %"]
    (front,) = unexplained([("README.md", "The paper: 99.9 %")], paper, set())
    assert label(front) == "99.9 %"


def test_captions_are_read_and_other_strings_are_not() -> None:
    code = """
show(figure(x, label="77.7 % here"), caption="SAB has 88.8 %, " f"and {x:.1%} of 5 %", alt=f"{y} %")
show(x, "44.4 % of it", "")
show_table(["right, %"], rows, source=rows or "66.6 % of none")
"""
    assert [label(one) for text in captions(code) for one in find(text)] == [
        "88.8 %",
        "5 %",
        "44.4 %",
        "66.6 %",
    ]
    assert captions("print('99.9 % of x')") == []


def test_readme_changelog_and_captions_are_among_the_texts() -> None:
    read = dict(typed_numbers.texts())
    assert {"README.md", "CHANGELOG.md", "book/index.md"} <= set(read)
    assert "The claims of" in read["notebooks/13_transfer.py"]
    assert "trained at T = 100 and tested at greater delays." in read["notebooks/13_transfer.py"]


def test_a_reason_holds_for_its_page_only() -> None:
    pages = [("a.py", "77.7 %"), ("b.py", "77.7 %")]
    assert [one.place for one in unexplained(pages, set(), {("a.py", "77.7 %")})] == ["b.py"]


@pytest.mark.parametrize(
    "entry",
    [
        {"place": "book/index.md", "number": "77.7 %", "why": "gone"},
        {"place": "book/nowhere.md", "number": "77.7 %", "why": "no page"},
        {"place": "book/index.md", "number": "77.7 %"},
    ],
)
def test_a_reason_without_its_number_is_refused(
    entry: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed_numbers, "read", lambda name: [entry])
    with pytest.raises(PageError, match=r"typed_numbers\.yaml"):
        reasons()
