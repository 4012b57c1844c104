"""Counting models against counts made one by one, and against what is known of them."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch

from benchmarks import ngrams
from sab.analysis.ngrams import ngram_bits


def by_hand(past: list[int], codes: list[int], symbols: int, order: int, start: int) -> list[float]:
    """Witten and Bell's rule, a character at a time."""
    tables: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for length in range(order):
        padded = [start] * length + past
        for i, code in enumerate(past):
            tables[tuple(padded[i : i + length])][code] += 1
    bits = []
    for i, code in enumerate(codes):
        chance = 1 / symbols
        for length in range(order):
            context = tuple(([start] * length + codes)[i : i + length])
            seen = tables[context]
            if seen:
                kinds, total = len(seen), sum(seen.values())
                chance = (seen[code] + kinds * chance) / (total + kinds)
        bits.append(-math.log2(chance))
    return bits


@pytest.mark.parametrize("order", [1, 2, 4])
def test_equals_counting_by_hand(order: int) -> None:
    source = torch.Generator().manual_seed(order)
    past = torch.randint(4, (200,), generator=source).to(torch.uint8)
    codes = torch.randint(5, (60,), generator=source).to(torch.uint8)  # one kind is new
    found = ngram_bits(past, codes, 5, order, start=2)
    assert found.shape == (order, 60)
    for row in range(order):
        wanted = by_hand(past.tolist(), codes.tolist(), 5, row + 1, 2)
        assert torch.allclose(found[row], torch.tensor(wanted, dtype=torch.float64), atol=1e-12)


def test_probabilities_of_all_symbols_sum_to_one() -> None:
    past = torch.tensor([0, 1, 2, 0, 1, 0, 3])
    context = torch.tensor([2, 0, 1])
    total = sum(
        2 ** -ngram_bits(past, torch.cat([context, torch.tensor([code])]), 6, 3)[2, -1]
        for code in range(6)
    )
    assert float(total) == pytest.approx(1)


def test_a_text_that_repeats_costs_next_to_nothing() -> None:
    past = torch.arange(5).repeat(2000)
    bits = ngram_bits(past, past[:100], 5, 2, start=4).mean(1)
    assert bits[0] == pytest.approx(math.log2(5), abs=1e-3)
    assert bits[1] < 0.01


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": 0}, "order=0"),
        ({"symbols": 0}, "symbols=0"),
        ({"symbols": 50, "order": 12}, "12 of 50 symbols do not fit 63 bits"),
        ({"test": torch.zeros(2, 2)}, "test"),
    ],
)
def test_what_is_refused(changes: dict, message: str) -> None:
    one = torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        ngram_bits(**{"train": one, "test": one, "symbols": 2, "order": 1, **changes})


def test_the_record_is_made_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ngrams.json"
    assert ngrams.main(["--corpora", "colours", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["rows"]
    committed = json.loads((ngrams.measure.BENCH / "ngrams.json").read_text())["rows"]
    assert row == next(one for one in committed if one["corpus"] == "colours")
    with pytest.raises(SystemExit):
        ngrams.main(["--corpora", "enwik8", "--json", str(path)])
    assert "corpus='enwik8'" in capsys.readouterr().err


def test_the_sizes_of_penn_treebank() -> None:
    """Beside the line end that stands before each part: 5,017,483, 393,043 and 442,424."""
    rows = json.loads((ngrams.measure.BENCH / "ngrams.json").read_text())["rows"]
    ptb = next(row for row in rows if row["corpus"] == "ptb")
    assert [ptb[part] + 1 for part in ("train", "valid", "test")] == [5_017_483, 393_043, 442_424]
    assert ptb["symbols"] == 50
