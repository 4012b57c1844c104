import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from sab.experiments import claims, tables
from sab.experiments.config import RunConfig
from sab.experiments.files import project_root
from sab.experiments.profiles import PROFILES
from sab.experiments.rows import RECIPE, expand, make_run, seeds_of
from sab.models.sab import SABConfig

ALL = [(item, profile) for item in tables.EXPERIMENTS.values() for profile in PROFILES]


def setting(run: RunConfig, name: str) -> object:
    return run.resolved()["model_config"][name]


@pytest.mark.parametrize(("item", "profile"), ALL, ids=lambda v: getattr(v, "name", v))
def test_every_row_of_every_table_can_be_planned(item: tables.Experiment, profile: str) -> None:
    names = [row.name for row in item.rows]
    assert len(set(names)) == len(names)
    runs = [make_run(item, row, profile, 0) for row in item.rows]
    resolved = [run.resolved() for run in runs]
    assert all(plain["experiment"] == item.name for plain in resolved)
    settings = [
        tuple(
            str(plain[key]) for key in ("task_config", "model_config", "train", "transfer", "model")
        )
        for plain in resolved
    ]
    if profile != "smoke":  # where updates and delays are cut, some rows fall together
        same = {s for s in settings if settings.count(s) > 1}
        twins = [run.row for run, s in zip(runs, settings, strict=True) if s in same]
        assert twins == []


def test_the_recipe_is_the_same_for_all_rows_of_a_table() -> None:
    for name in ("copy", "table1", "table2_adding"):
        runs = expand(tables.find(name), "cpu")
        recipes = [{key: getattr(run.train, key) for key in RECIPE} for run in runs]
        assert all(recipe == recipes[0] for recipe in recipes)
        # a short delay learns faster with larger steps; the tables of the paper share one recipe
        assert name == "copy" or recipes[0] == RECIPE
        for run in runs:
            assert setting(run, "hidden_size") == 128
            assert setting(run, "forget_bias") == 1.0
            if run.model == "sab":
                assert setting(run, "k_att") == 2
                assert setting(run, "score_gradient") == "scorer"
    budgets: dict[int, set[int]] = {}
    for run in expand(tables.find("table1"), "cpu"):
        budgets.setdefault(run.task_config["T"], set()).add(run.train.updates)
    assert set(budgets) == {100, 200, 300} and all(len(found) == 1 for found in budgets.values())


def test_table1_has_the_paper_s_rows() -> None:
    names = {row.name for row in tables.find("1").rows}
    want = [f"sab_{k}" for k in ("5_5", "1_1", "1_5", "10_10")]
    want += ["lstm", "attentive_lstm", *(f"tbptt_{k}" for k in (1, 5, 10, 20))]
    assert {f"{name}_T{T}" for name in want for T in (100, 200, 300)} <= names
    for row in tables.find("table1").rows:
        found = re.fullmatch(r"sab_(\d+)_(\d+)_T(\d+)", row.name)
        if found:
            k_trunc, k_top, T = map(int, found.groups())
            assert (row.model_config["k_trunc"], row.model_config["k_top"]) == (k_trunc, k_top)
            assert row.task_config["T"] == T
        found = re.fullmatch(r"tbptt_(\d+)_T(\d+)", row.name)
        if found:
            assert row.model == "lstm" and row.model_config == {"k_trunc": int(found[1])}


def test_learns_crosses_and_switches_one_thing_at_a_time() -> None:
    item = tables.find("learns")
    rows = {row.name: row for row in item.rows}
    cross = [n for n in rows if re.fullmatch(r"(scorer|states)_(margin|softmax)_offset[01]", n)]
    assert len(cross) == 8
    base = make_run(item, rows["scorer_margin_offset0"], "cpu", 0).resolved()
    switch: dict[str, dict[str, Any]] = {
        "d1_separable": {"score": "separable"},
        "d2_threshold": {"threshold": "k_top"},
        "d3_raw": {"short_memory": "raw"},
        "d4_zero": {"initial_memory": "zero"},
        "d8_init": {"scorer_init": "released", "forget_bias": 0.0},
        "k_att_1": {"k_att": 1},
        "k_att_5": {"k_att": 5},
    }
    for name, changed in switch.items():
        plain = make_run(item, rows[name], "cpu", 0).resolved()
        assert plain["model_config"] == {**base["model_config"], **changed}, name
        assert plain["train"] == base["train"] and plain["task_config"] == base["task_config"]
    assert make_run(item, rows["d7_scalar"], "cpu", 0).resolved()["task_config"]["encoding"] == (
        "scalar"
    )
    assert base["train"]["updates"] == 3000 and base["train"]["solved_at"] is None
    released = make_run(item, rows["released"], "cpu", 0)
    assert released.train.updates == 10000
    want = dataclasses.asdict(SABConfig.released(input_size=1))
    assert released.resolved()["model_config"] == want


def test_the_recipe_is_among_what_was_searched() -> None:
    searched: dict[str, set[tuple[object, object]]] = {}
    for run in expand(tables.find("search"), "cpu"):
        name = run.row.partition("_lr")[0]
        searched.setdefault(name, set()).add((run.train.lr, run.train.clip))
    assert set(searched) == {"sab_5_5", "lstm", "attentive_lstm", "tbptt_20"}
    grids = list(searched.values())
    assert all(grid == grids[0] for grid in grids)
    assert (RECIPE["lr"], RECIPE["clip"]) in grids[0]
    dense = {run.train.lr for run in expand(tables.find("3"), "cpu") if run.row[:5] == "dense"}
    assert {RECIPE["lr"], 1e-3, 1e-4, 1e-5} <= dense


def test_links_between_tables_lead_somewhere() -> None:
    for item in tables.EXPERIMENTS.values():
        for row in item.rows:
            links = [row.released] if row.released else []
            if row.transfer:
                links.append(f"{row.transfer['experiment']}/{row.transfer['row']}")
            for link in links:
                experiment, _, name = link.partition("/")
                tables.find(experiment).row(name)


def test_profiles_scale_and_nothing_else() -> None:
    item = tables.find("table1")
    row = item.row("sab_5_5_T100")
    smoke, cpu, paper = (make_run(item, row, profile, 0) for profile in PROFILES)
    assert (smoke.task_config["T"], cpu.task_config["T"], paper.task_config["T"]) == (10, 100, 100)
    assert smoke.train.updates == 30 and paper.train.updates == 2 * cpu.train.updates
    for name in ("lr", "clip", "schedule", "solved_at"):
        assert getattr(smoke.train, name) == getattr(cpu.train, name) == getattr(paper.train, name)
    for name in ("k_trunc", "k_top", "k_att", "score_gradient", "replay"):
        assert setting(smoke, name) == setting(cpu, name) == setting(paper, name)
    assert smoke.train.snapshots == (0,)


def test_seeds_and_their_order() -> None:
    item = tables.find("table1")
    counts = {n: seeds_of(item.row(f"{n}_T300"), "cpu") for n in ("sab_5_5", "lstm", "tbptt_1")}
    assert counts == {"sab_5_5": 2, "lstm": 1, "tbptt_1": 1}
    assert seeds_of(item.row("sab_5_5_T100"), "cpu") == 3
    assert seeds_of(item.row("lstm_T300"), "smoke") == 1
    assert seeds_of(item.row("lstm_T300"), "paper") == 5
    runs = expand(item, "cpu")
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert runs[0].row == "sab_5_5_T100"
    hidden = "sab_5_5_released_T200"
    assert hidden not in {run.row for run in runs}
    assert [run.seed for run in expand(item, "cpu", [hidden])] == [0]
    assert [run.seed for run in expand(item, "cpu", ["lstm_T100"], [4, 7])] == [4, 7]


def test_dangling_names_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'table1'"):
        tables.find("tabel1")
    with pytest.raises(ValueError, match=r"row='lstm_100'.*did you mean 'lstm_T100'"):
        tables.find("table1").row("lstm_100")


def test_every_claim_names_rows_that_exist() -> None:
    for claim in claims.load():
        assert claim.references(), claim.id
        for reference in claim.references():
            experiment, _, row = reference.partition("/")
            if experiment == claims.BENCH:
                assert claims.Evidence().measured(row, claim.metric), claim.id
                continue
            item = tables.find(experiment)
            if "*" in row:
                start = row.partition("*")[0]
                assert any(one.name.startswith(start) for one in item.rows), claim.id
            else:
                item.row(row)


def test_the_cells_of_the_paper_s_tables_are_all_there() -> None:
    cells = [claim for claim in claims.load() if claim.kind in ("value", "rank")]
    count = {
        source: sum(claim.source == source for claim in cells)
        for source in ("Table 1", "Table 2 left", "Table 2 right", "Table 4", "Table 5", "Table 6")
    }
    # Table 1: six rows of three, less one cell that is not reported, and one cross-entropy
    assert count == {
        "Table 1": 18,
        "Table 2 left": 8,
        "Table 2 right": 13,
        "Table 4": 9,
        "Table 5": 17,
        "Table 6": 2,
    }
    assert all(claim.value is not None for claim in cells)


def test_claims_file_is_in_the_checkout() -> None:
    assert (project_root() / "book" / "claims.yaml").is_file()
    assert Path(tables.__file__).is_relative_to(project_root())


def test_titles_say_in_words_what_a_replay_leaves() -> None:
    for name in ("table2_adding", "table3"):
        rows = [row for row in tables.find(name).rows if row.model_config.get("replay")]
        assert rows
        for row in rows:
            said = {"none": "nothing", "write_step": "the writing step"}
            words = said[row.model_config["replay"]]
            assert f") without mental updates ({words}), T=" in row.title
