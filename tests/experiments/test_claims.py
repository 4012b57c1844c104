import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from sab.experiments import claims, records, report, tables
from sab.experiments.claims import NOT, NOT_RUN, PARTLY, REPRODUCED, Claim, Evidence, judge
from sab.experiments.records import Record


def put(
    folder: Path, place: str, values: list[float], metric: str = "accuracy", profile: str = "cpu"
) -> None:
    """Write one record a value."""
    experiment, row = place.split("/")
    for seed, value in enumerate(values):
        record = Record(
            experiment=experiment,
            row=row,
            config={},
            seed=seed,
            profile=profile,
            metrics={metric: value},
            history=[],
            machine={},
            seconds=1.0,
            peak_mb=1.0,
        )
        records.write(record, folder)


def claim_of(kind: str, **values: Any) -> Claim:
    return Claim(**{"id": "c", "source": "s", "page": 1, "says": "", "kind": kind, **values})


def value(paper: float, within: float = 1.0) -> Claim:
    return claim_of("value", run="e/a", value=paper, within=within)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([0.999, 0.999], REPRODUCED),
        ([0.989], REPRODUCED),
        ([1.0, 0.98], REPRODUCED),
        ([0.9885], PARTLY),
        ([0.969], PARTLY),
        ([0.9685], NOT),
        ([0.1], NOT),
        ([], NOT_RUN),
    ],
)
def test_value(tmp_path: Path, ours: list[float], verdict: str) -> None:
    put(tmp_path, "e/a", ours)
    assert judge(value(99.9), Evidence(tmp_path)).verdict == verdict


def test_value_tells_the_side_and_the_seeds(tmp_path: Path) -> None:
    put(tmp_path, "e/a", [0.99, 1.0, 0.995])
    found = judge(value(41.0, 5.0), Evidence(tmp_path))
    assert found.verdict == NOT
    assert found.mean == pytest.approx(99.5)
    assert found.halfwidth == pytest.approx(4.3027 * 0.5 / math.sqrt(3), rel=1e-4)
    assert (found.n, found.profile) == ((3,), "cpu")
    assert found.note == "58.5 above the paper"


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [
        ([0.9, 0.91, 0.92], [0.1, 0.11, 0.12], REPRODUCED),
        ([0.9, 0.1, 0.8], [0.5, 0.2, 0.7], PARTLY),
        ([0.9], [0.1], PARTLY),
        ([0.9, 0.91, 0.92], [0.1], PARTLY),  # one seed has no spread to borrow
        ([0.5], [0.5], NOT),
        ([0.1, 0.2], [0.8, 0.9], NOT),
        ([0.1], [], NOT_RUN),
    ],
)
def test_order(tmp_path: Path, better: list[float], worse: list[float], verdict: str) -> None:
    put(tmp_path, "e/a", better)
    put(tmp_path, "e/b", worse)
    assert (
        judge(claim_of("order", better="e/a", worse="e/b"), Evidence(tmp_path)).verdict == verdict
    )
    less = claim_of("order", better="e/b", worse="e/a", goal="min")
    assert judge(less, Evidence(tmp_path)).verdict == verdict


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ([1.0, 0.99], [0.36, 0.35], REPRODUCED),
        ([1.0], [0.30], PARTLY),
        ([1.0, 0.99, 1.0], [0.6, 0.61, 0.62], PARTLY),  # the direction, with confidence
        ([1.0], [0.6], NOT),
        ([0.3, 0.31], [0.9, 0.91], NOT),
    ],
)
def test_difference(tmp_path: Path, left: list[float], right: list[float], verdict: str) -> None:
    put(tmp_path, "e/a", left)
    put(tmp_path, "e/b", right)
    claim = claim_of("difference", run="e/a", minus="e/b", value=64.0, within=3.0, unit="points")
    assert judge(claim, Evidence(tmp_path)).verdict == verdict


def test_negative_difference(tmp_path: Path) -> None:
    put(tmp_path, "e/a", [0.3, 0.31])
    put(tmp_path, "e/b", [0.9, 0.91])
    claim = claim_of("difference", run="e/a", minus="e/b", value=-3.7, within=1.0, unit="points")
    assert judge(claim, Evidence(tmp_path)).verdict == PARTLY


def test_close_and_plain_numbers(tmp_path: Path) -> None:
    put(tmp_path, "e/a", [0.126, 0.124])
    chance = claim_of("close", run="e/a", to=12.5, within=2.0, unit="points")
    assert judge(chance, Evidence(tmp_path)).verdict == REPRODUCED
    far = claim_of("close", run="e/a", to=17.0, within=2.0, unit="points")
    assert judge(far, Evidence(tmp_path)).verdict == PARTLY
    over = claim_of("difference", run="e/a", minus=12.5, value=28.5, within=5.0, unit="points")
    assert judge(over, Evidence(tmp_path)).verdict == NOT


def test_peak_memory_is_a_metric(tmp_path: Path) -> None:
    put(tmp_path, "e/a", [0.9])  # every record has a peak of 1.0
    claim = claim_of("value", run="e/a", metric="peak_mb", unit="MB", value=1.0, within=0.01)
    assert judge(claim, Evidence(tmp_path)).verdict == REPRODUCED


def bench(folder: Path, *rows: dict[str, Any]) -> None:
    """Write a benchmark of one part."""
    (folder / "bench").mkdir(exist_ok=True)
    (folder / "bench" / "b.json").write_text(json.dumps({"scan": {"rows": rows}}))


@pytest.mark.parametrize(
    ("slow", "bound", "verdict"),
    [(25.0, 20.0, REPRODUCED), (20.0, 20.0, NOT), (12.0, 20.0, NOT), (12.0, 10.0, REPRODUCED)],
)
def test_a_benchmark_holds_a_bound_or_not(
    tmp_path: Path, slow: float, bound: float, verdict: str
) -> None:
    bench(
        tmp_path,
        {"form": "gru", "batch": 1, "ms": 2 * slow},
        {"form": "gru", "batch": 8, "ms": 1.0},
        {"form": "average", "batch": 1, "ms": 2.0},
    )
    claim = claim_of(
        "at_least", metric="ms", log=True, unit="log10", goal="min", value=math.log10(bound),
        run="bench/b/scan/form=gru,batch=1", minus="bench/b/scan/form=average,batch=1",
    )  # fmt: skip
    found = judge(claim, Evidence(tmp_path))
    assert (found.verdict, found.n, found.profile) == (verdict, (1, 1), "cpu")
    assert found.mean == pytest.approx(math.log10(slow))
    assert report.claim_cells(found)[1] == f"+{math.log10(bound):g} log10 or more"


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [([0.9, 0.91, 0.92], REPRODUCED), ([0.66], PARTLY), ([0.9, 0.5], PARTLY), ([0.6, 0.6], NOT)],
)
def test_runs_hold_a_bound_with_confidence(tmp_path: Path, runs: list[float], verdict: str) -> None:
    put(tmp_path, "e/a", runs)
    put(tmp_path, "e/b", [0.49, 0.5, 0.51])
    claim = claim_of("at_least", run="e/a", minus="e/b", value=15.0, unit="points")
    assert judge(claim, Evidence(tmp_path)).verdict == verdict


def test_a_benchmark_that_is_not_there_or_not_one_row(tmp_path: Path) -> None:
    claim = claim_of("at_least", metric="ms", run="bench/b/scan/form=gru", minus=1.0, value=1.0)
    assert judge(claim, Evidence(tmp_path)).verdict == NOT_RUN
    bench(tmp_path, {"form": "gru", "ms": 1.0}, {"form": "gru", "ms": 2.0})
    with pytest.raises(ValueError, match=r"bench/b/scan/form=gru: 2 rows of .* must be one"):
        judge(claim, Evidence(tmp_path))


def rank() -> Claim:
    return claim_of(
        "rank",
        run="e/a",
        value=2e-6,
        metric="mse",
        unit="",
        goal="min",
        log=True,
        better_than=("e/b", "e/c"),
        worse_than=("e/d",),
    )


@pytest.mark.parametrize(
    ("a", "verdict"),
    [([1e-5, 1.1e-5], REPRODUCED), ([1e-5], PARTLY), ([2e-3, 3e-3], PARTLY), ([9.0, 8.0], NOT)],
)
def test_rank(tmp_path: Path, a: list[float], verdict: str) -> None:
    others = {"b": [1e-3, 1.1e-3], "c": [1e-1, 1.1e-1], "d": [1e-8, 1.1e-8]}
    put(tmp_path, "e/a", a, "mse")
    for name, values in others.items():
        put(tmp_path, f"e/{name}", values, "mse")
    found = judge(rank(), Evidence(tmp_path))
    assert found.verdict == verdict
    assert found.mean == pytest.approx(sum(a) / len(a))
    assert found.n == (len(a), 2, 2, 2)


def test_a_star_takes_the_best_row(tmp_path: Path) -> None:
    put(tmp_path, "e/lr1", [0.3, 0.32])
    put(tmp_path, "e/lr2", [0.5, 0.1])
    put(tmp_path, "e/other", [0.9])
    claim = claim_of("value", run="e/lr*", value=31.0, within=0.1)
    assert judge(claim, Evidence(tmp_path)).verdict == REPRODUCED
    least = claim_of("value", run="e/lr*", value=30.0, within=0.1, goal="min")
    assert judge(least, Evidence(tmp_path)).mean == pytest.approx(30.0)


def test_smoke_never_counts_and_the_largest_profile_does(tmp_path: Path) -> None:
    put(tmp_path, "e/a", [0.999], profile="smoke")
    assert judge(value(99.9), Evidence(tmp_path)).verdict == NOT_RUN
    put(tmp_path, "e/a", [0.5], profile="cpu")
    assert judge(value(99.9), Evidence(tmp_path)).verdict == NOT
    put(tmp_path, "e/a", [0.999], profile="paper")
    found = judge(value(99.9), Evidence(tmp_path))
    assert (found.verdict, found.profile) == (REPRODUCED, "paper")
    put(tmp_path, "e/b", [0.1], profile="cpu")
    both = judge(claim_of("order", better="e/a", worse="e/b"), Evidence(tmp_path))
    assert both.profile == "cpu"


def test_a_metric_can_be_named(tmp_path: Path) -> None:
    put(tmp_path, "e/a", [0.41, 0.42], "accuracy_T5000")
    claim = claim_of("value", run="e/a:accuracy_T5000", value=41.0, within=1.0)
    assert judge(claim, Evidence(tmp_path)).verdict == REPRODUCED
    assert judge(value(41.0), Evidence(tmp_path)).verdict == NOT_RUN


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "guess"}, "kind 'guess' must be one of"),
        ({"run": ""}, "lacks run"),
        ({"value": None}, "lacks value"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_claim_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    entry = {"id": "x1", "source": "s", "page": 1, "says": "", "kind": "value", "run": "e/a"}
    entry |= {"value": 1.0, "within": 1.0, **changed}
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([entry]))
    with pytest.raises(ValueError, match=message) as caught:
        claims.load(path)
    assert "x1" in str(caught.value)


def test_files_that_are_no_claims(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="run from a checkout"):
        claims.load(tmp_path / "none.yaml")
    path = tmp_path / "claims.yaml"
    path.write_text("- {id: [")
    with pytest.raises(ValueError, match="not YAML"):
        claims.load(path)
    entry = "- {id: a, source: s, page: 1, says: s, kind: value, run: e/a, value: 1, within: 1}\n"
    path.write_text(2 * entry)
    with pytest.raises(ValueError, match="'a' stands 2 times"):
        claims.load(path)


def test_tally_counts_every_claim(tmp_path: Path) -> None:
    counts = claims.tally(claims.verdicts(tmp_path))
    assert set(counts) == set(claims.VERDICTS)
    assert counts[NOT_RUN] == len(claims.load())


def test_the_paper_s_claims_are_all_but_those_of_parts_two_and_three(tmp_path: Path) -> None:
    found = claims.verdicts(tmp_path)
    kept = {one.claim.id for one in claims.of_the_paper(found)}
    left = {one.claim.id for one in found} - kept
    assert left == {one.id for one in claims.load() if one.id.startswith(("rea-", "memn2n-"))}
    assert len(kept) > 100 and left


def test_the_table_has_paper_released_and_ours(tmp_path: Path) -> None:
    put(tmp_path, "table1/sab_5_5_T100", [0.99, 1.0, 1.0])
    put(tmp_path, "learns/released", [0.2, 0.22])
    lines = report.table(tables.find("table1"), None, tmp_path)
    (line,) = [one for one in lines if one.row == "sab_5_5_T100"]
    assert (line.paper, line.n, line.profile, line.verdict) == (100.0, 3, "cpu", REPRODUCED)
    assert line.ours == pytest.approx(99.667, abs=1e-3)
    assert line.released == pytest.approx(21.0)
    text = report.render(lines)
    assert "99.7 ± 1.4 (n=3, cpu)" in text
    (missing,) = [one for one in lines if one.row == "lstm_T200"]
    assert (missing.paper, missing.ours, missing.verdict) == (56.0, None, NOT_RUN)
    (unclaimed,) = [one for one in lines if one.row == "tbptt_1_T100"]
    assert (unclaimed.paper, unclaimed.verdict) == (None, "")


def test_a_smoke_table_gives_no_verdict(tmp_path: Path) -> None:
    put(tmp_path, "table1/lstm_T100", [0.998], profile="smoke")
    lines = report.table(tables.find("table1"), None, tmp_path)
    (line,) = [one for one in lines if one.row == "lstm_T100"]
    assert line.ours == pytest.approx(99.8)
    assert (line.profile, line.verdict) == ("smoke", NOT_RUN)


def test_table5_has_a_line_a_length(tmp_path: Path) -> None:
    lines = [one for one in report.table(tables.find("5"), "cpu", tmp_path) if one.row == "sab"]
    assert [one.metric for one in lines] == [
        f"accuracy_T{T}" for T in (100, 200, 300, 400, 2000, 5000)
    ]
    assert [one.paper for one in lines] == [99, 95, 83, 75, 47, 41]


@pytest.mark.parametrize(
    ("kind", "unit", "value", "mean", "halfwidth", "cells"),
    [
        ("value", "%", 99.9, 97.94, 0.21, ("99.9 %", "97.9 ± 0.2 %")),
        ("value", "BPC", 1.4, 1.5498, None, ("1.40 BPC", "1.550 BPC")),
        ("difference", "points", 7.4, -1.0, 2.0, ("+7.4 points", "-1.0 ± 2.0 points")),
        ("difference", "log10", -0.5, 0.333, None, ("-0.5 log10", "+0.33 log10")),
        ("order", "", None, 0.00123, None, ("–", "+0.00123")),
        ("rank", "", None, 0.00123, None, ("–", "0.00123")),
        ("order", "%", None, None, None, ("–", "–")),
        ("order", "%", None, 85.53, 5.92, ("–", "+85.5 ± 5.9 points")),
    ],
)
def test_the_cells_of_a_claim(
    kind: str,
    unit: str,
    value: float | None,
    mean: float | None,
    halfwidth: float | None,
    cells: tuple[str, str],
) -> None:
    found = claims.Verdict(claim_of(kind, unit=unit, value=value), PARTLY, mean, halfwidth, (3, 1))
    assert report.claim_cells(found) == ("", *cells, "3, 1", PARTLY)
    assert report.claim_cells(claims.Verdict(claim_of(kind, unit=unit), NOT_RUN))[2:4] == ("–", "–")


def test_the_short_cells_of_a_line(tmp_path: Path) -> None:
    assert report.short_cells(None) == ("–", "–", "–")
    put(tmp_path, "table1/sab_5_5_T100", [0.99])
    lines = {one.row: one for one in report.table(tables.find("table1"), None, tmp_path)}
    paper, ours, verdict = report.short_cells(lines["sab_5_5_T100"])
    assert (paper, ours, verdict) == ("100.0", "99.0 (n=1, cpu)", REPRODUCED)
    assert report.short_cells(lines["sab_5_5_T200"])[1:] == ("not run", NOT_RUN)
