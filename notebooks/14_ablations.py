# ---
# jupyter:
#   accelerator: GPU
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14. Ablations and the attention map
#
# SAB has two parts that one could leave out: the mental updates, and the sparsity of its reads. What
# is lost without them? And what does a network *do* while it learns to remember? At the end of this
# chapter you know what the paper's Table 3 compares, which of its rows are settled here, and you have
# stepped through the attention of one run from its first update to its last.
#
# It follows the ablations of section 4 of the paper, Table 3 and the map beside it
# {cite:p}`ke2018sparse`.

# %% tags=["hide-input", "setup"]
# Set-up: nothing happens where `sab` is installed. On Colab this fetches the book and installs
# what is missing; torch and numpy stay as they are.
import importlib.util
import os
import shutil
import subprocess
import sys

if importlib.util.find_spec("sab") is None:
    repository = "https://github.com/sab-book/sab-book"
    if not os.path.isdir("sab-book"):
        subprocess.run(
            ["git", "clone", "--quiet", "--depth", "1", repository, "sab-book"], check=True
        )
    os.chdir("sab-book")
    subprocess.run([sys.executable, "tools/colab_setup.py"], check=True)
    sys.path.insert(0, os.getcwd())
    if not (shutil.which("ninja") or shutil.which("nvidia-smi")):
        os.environ.setdefault("SAB_SCAN", "torch")

# %% tags=["parameters"]
profile = "records"  # "records" reads results/; "smoke", "cpu" or "paper" runs the experiment again
seed = 0

# %%
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sab import notebook
from sab.analysis.attention import as_plain, attention_maps, first_above, frame_of, read_maps
from sab.analysis.credit import first_step
from sab.experiments import claims
from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.records import Record
from sab.experiments.tables import find
from sab.experiments.train import train
from sab.experiments.weights import build_model, load_model
from sab.figures import attention_map, backward_panels, learning_curve
from sab.models.sab import SABConfig
from sab.notebook import glue, show, show_claims, show_stepper, show_table
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## What an ablation asks
#
# Take one part away, change nothing else, train again. The difference is what the part is worth *in
# this task, at this size*. The paper takes two parts away on copy at $T = 100$:
#
# - **the mental updates**: a recalled memory passes no credit to the steps before it;
# - **the sparsity**: every past state is read, with softmax weights, under the same truncation.
#
# ## Without mental updates
#
# The phrase has two readings, and the paper does not say which it means.
# [Chapter 7](07_sparse_replay.ipynb) drew them: a recalled memory may teach the one step that wrote it
# (`replay="write_step"`), or nothing at all (`replay="none"`). We keep both.

# %%
reads = {"reads": {14: [4, 8]}, "k_att": 2, "k_trunc": 5, "block_offset": 0}
show(
    backward_panels(
        {
            "with mental updates": {"replay": "full", **reads},
            "without: the writing step": {"replay": "write_step", **reads},
            "without: nothing": {"replay": "none", **reads},
        },
        steps=14,
        k_top=2,
    ),
    caption="A loss at step 14 that recalls the memories of steps 4 and 8, with k_trunc = 5 and "
    "k_att = 2. Three rules for what a recalled memory passes on.",
)

# %% [markdown]
# How much is there to lose? A mental update goes from the memory back to where its block begins. So
# its length depends on the row of the table, and on where the memory lies in its block. We count, for
# the ten memories of the first twenty steps.


# %%
def replayed(k_trunc: int, memory: int, **switches: Any) -> int:
    """Steps of the chain that a mental update of one memory teaches, the writing step included."""
    options = SABConfig(k_trunc=k_trunc, **switches).options()
    return memory - first_step(memory, options) + 1


BUDGETS = ((1, 1), (5, 5), (10, 10))
lengths = {
    (k_trunc, name): [replayed(k_trunc, memory, **switch) for memory in range(2, 21, 2)]
    for k_trunc, _ in BUDGETS
    for name, switch in (("blocks", {}), ("sliding", {"truncation": "sliding"}))
}
show_table(
    ["row", "blocks: mean steps", "blocks: range", "sliding: mean steps"],
    [
        (
            f"({k_trunc}, {k_top})",
            f"{np.mean(lengths[k_trunc, 'blocks']):.1f}",
            f"{min(lengths[k_trunc, 'blocks'])} to {max(lengths[k_trunc, 'blocks'])}",
            f"{np.mean(lengths[k_trunc, 'sliding']):.1f}",
        )
        for k_trunc, k_top in BUDGETS
    ],
    caption="Steps taught by one mental update, k_att = 2, block offset 0, memories of steps 2 to 20.",
)
glue("replay_5", np.mean(lengths[5, "blocks"]))
glue("replay_10", np.mean(lengths[10, "blocks"]))
assert set(lengths[1, "blocks"]) == {1}

# %% [markdown]
# Look at the first row. With $k_{\mathrm{trunc}} = 1$ a mental update is *one step long*: there is
# nothing before the writing step to leave out. What `"write_step"` still takes away there is the
# chain of recalls, since a memory is $\hat{\boldsymbol h} + \boldsymbol s$, and $\boldsymbol s$ was
# itself recalled. And yet this is the row in which the paper sees the *largest* gain. So its "without"
# may mean that nothing is taught at all, or the gain is not the replay's, or it is chance: no seeds are given.
#
# ### The table
#
# Every number of the paper about this is a claim with a computed verdict. For a gain, ours is the
# difference of two rows of records.

# %%
judged = {v.claim.id: v for v in claims.verdicts()}
T3 = [v for name, v in judged.items() if name.startswith(("t3-sab", "s46-gain"))]


show_claims(T3, "Table 3, mental updates: accuracies in %, gains in points.")
settled = [v for v in T3 if v.verdict != claims.NOT_RUN]
glue("settled", len(settled))
glue("asked", len(T3))
table1_here = notebook.read_or_run("table1", profile)
table3_here = notebook.largest("table3", profile)


def ended(group: list[Record]) -> str:
    """Mean accuracy of a row's runs with their number, or that there is none."""
    if not group:
        return "not run"
    mean = 100 * np.mean([r.metrics["accuracy"] for r in group])
    return f"{mean:.1f} % (n={len(group)})"


for budget in ("1_1", "5_5", "10_10"):
    for replay in ("none", "write_step"):
        row = f"sab_{budget}_{replay}_T100"
        glue(f"{replay}_{budget}", ended([r for r in table3_here if r.row == row]))
full_5 = [r for r in table1_here if r.row == "sab_5_5_T100" and r.profile != "smoke"]
glue("full_5_5", ended(full_5))
glue("guess", CopyTask().baselines()["accuracy"])
glue("paper_none_5", judged["t3-sab-5-5-none"].claim.value)
for budget in ("1-1", "5-5", "10-10"):
    glue(f"gain_{budget}", judged[f"s46-gain-{budget}-none"].claim.value)

# %% [markdown]
# {glue:text}`settled:d` of these {glue:text}`asked:d` claims have records of both sides (`sab run table3`). What the
# paper's own numbers say is worth a thought first. Its gains
# are +{glue:text}`gain_1-1:.1f`, +{glue:text}`gain_5-5:.1f` and +{glue:text}`gain_10-10:.1f` points:
# **the more memories a read takes, the less is left for the mental update to do**. At (5, 5) and
# (10, 10) the paper's task is nearly solved without it, and no gain could be large.
#
# **Ours is another picture.** At (5, 5), where the paper has {glue:text}`paper_none_5:.1f` % without mental
# updates, we have {glue:text}`write_step_5_5:s` with the writing step alone and {glue:text}`none_5_5:s` with
# nothing taught; with mental updates {glue:text}`full_5_5:s`. At (1, 1): {glue:text}`write_step_1_1:s` and
# {glue:text}`none_1_1:s`; at (10, 10): {glue:text}`write_step_10_10:s` and {glue:text}`none_10_10:s`. Chance is {glue:text}`guess:.1%`.
# That the first row's gain is met is no comfort: both of its sides are far below the paper's.
#
# Is that a fault of ours? Three checks. The gradients of all three rules agree with a graph built by hand,
# edge by edge ([chapter 7](07_sparse_replay.ipynb), and tests). The reduced task below, which is another
# program path and another size, orders the three rules in the same way. And the rows are run again in other
# cells of [chapter 15](15_why.ipynb)'s cross, those in which SAB with mental updates learns best, in case the
# recipe's choices were to blame:

# %% tags=["hide-input"]
elsewhere = notebook.largest("no_replay", profile)
cells = {row.name: row for row in find("no_replay").rows}
show_table(
    ["replay", "gradient into", "short memory", "offset", "accuracy, %", "chance, %", "updates"],
    [
        (
            row.model_config["replay"],
            row.model_config["score_gradient"],
            row.model_config["short_memory"],
            row.model_config["block_offset"],
            ended([r for r in elsewhere if r.row == name]),
            f"{100 * CopyTask().baselines()['accuracy']:.1f}",
            f"{row.train['updates']:,}",
        )
        for name, row in cells.items()
    ],
    caption="Copy at T = 100 without mental updates, in the cells where SAB with them learns best.",
    source=elsewhere or "No record yet: sab run no_replay.",
)
best_else = max((r.metrics["accuracy"] for r in elsewhere), default=float("nan"))
glue("else_best", best_else)
glue("else_runs", len(elsewhere))

# %% [markdown]
# The best of these {glue:text}`else_runs:d` runs has {glue:text}`else_best:.1%`. What "without mental updates" was
# in the paper we do not know; neither of our two readings gives its numbers.
# The register has this as D18.
#
# ### In small, here
#
# A reduced task trains in this page: four symbols, a delay of 8, batches of 32. Three models, the
# same seed, the same data, and three rules of replay.

# %%
UPDATES = 700


def live(model: str, updates: int = UPDATES, **settings: Any) -> Record:
    """Train a reduced run in a temporary folder; return its record."""
    budget = TrainConfig(
        updates=updates, batch_size=32, lr=0.005, schedule="constant", eval_every=100,
        eval_batches=4, test_batches=16, solved_at=0.99, solved_times=1,
    )  # fmt: skip
    small = {"T": 8, "length": 4}
    whole = {"hidden_size": 128, "k_trunc": 5, **settings}
    run = RunConfig("live", model, "copy", model, small, whole, budget, seed)
    with tempfile.TemporaryDirectory() as folder:
        return train(run, Path(folder), device="cpu", progress="none")


runs = {
    name: live("sab", replay=replay)
    for name, replay in (
        ("SAB (5, 5)", "full"),
        ("without: the writing step", "write_step"),
        ("without: nothing", "none"),
    )
}

# %%
CHANCE = CopyTask().baselines()["accuracy"]
show(
    learning_curve({name: r.history for name, r in runs.items()}, chance=CHANCE),
    caption="The reduced task: accuracy on held-out sequences, one seed a curve.",
)
for key, record in zip(("full", "write", "none"), runs.values(), strict=True):
    glue(f"live_{key}", record.metrics["accuracy"])
    glue(f"live_{key}_updates", record.history[-1]["update"])
glue("live_seconds", sum(record.seconds for record in runs.values()))

# %% [markdown]
# SAB ends at {glue:text}`live_full:.0%`, with the writing step alone at {glue:text}`live_write:.0%`,
# with nothing taught at {glue:text}`live_none:.0%`. One seed of a small task, so no verdict. But mark
# what the last curve is. That model *recalls*; its memories are read, and the scorer is trained, which
# decides what is read. What it cannot do is teach a state to be worth remembering. It lives on states of
# a recurrence that was trained only by what reaches it along the last steps.
#
# That is the question the paper's conclusion hints at: does credit reach the *writing* of a memory, or
# only the reading?

# %% [markdown]
# ## Without sparsity
#
# The dense ablation reads every past state with softmax weights and keeps $k_{\mathrm{trunc}} = 5$.
# The paper had to search its learning rate (from $10^{-3}$ down to $10^{-5}$), and still found it far
# below SAB.

# %%
dense = [v for name, v in judged.items() if name in ("t3-dense", "s46-sparse-over-dense")]
show_claims(dense, "Table 3, dense attention under truncation.")
dense_rows = {row.name: row for row in find("table3").rows if row.name.startswith("dense")}
rates = sorted(row.train["lr"] for row in dense_rows.values())
glue("paper_dense", judged["t3-dense"].claim.value)
glue("paper_sparse", judged["t1-sab-5-5-T100"].claim.value)
glue("rates", len(rates))
glue("rate_low", rates[0])
glue("rate_high", rates[-1])

# %% [markdown]
# {glue:text}`paper_dense:.1f` against {glue:text}`paper_sparse:.1f`. Our search has
# {glue:text}`rates:d` rates from {glue:text}`rate_low:g` to {glue:text}`rate_high:g`, since our recipe
# uses larger steps than the paper. Reads are not cut here either: a read passes credit to every past state, and
# from each of them up to $k_{\mathrm{trunc}}$ steps back.

# %% tags=["hide-input"]
searched = {
    name: sorted((r for r in table3_here if r.row == name), key=lambda r: r.seed)
    for name in dense_rows
}


def reached(group: list[Record], level: float = 0.99) -> str:
    """The first evaluation at which each run had ``level`` on held-out sequences."""
    firsts = (next((e["update"] for e in r.history if e["accuracy"] >= level), None) for r in group)
    return ", ".join("never" if u is None else f"{u:,}" for u in firsts) or "–"


show_table(
    ["learning rate", "accuracy of each seed, %", "99 % at update", "updates at most"],
    [
        (
            f"{dense_rows[name].train['lr']:g}",
            ", ".join(f"{100 * r.metrics['accuracy']:.1f}" for r in group) or "not run",
            reached(group),
            f"{dense_rows[name].train['updates']:,}",
        )
        for name, group in searched.items()
    ],
    caption="Dense attention, k_trunc = 5, copy at T = 100.",
    source=[r for group in searched.values() for r in group] or "No record yet: sab run table3.",
)
ends = {name: [100 * r.metrics["accuracy"] for r in group] for name, group in searched.items()}
best_rate = max(ends, key=lambda name: max(ends[name], default=0.0))
small = [v for name, v in ends.items() if dense_rows[name].train["lr"] <= 1e-3]
glue("best_rate", dense_rows[best_rate].train["lr"])
glue("best_dense", ", ".join(f"{value:.1f}" for value in ends[best_rate]) or "no run")
glue("best_dense_runs", len(ends[best_rate]))
glue("best_dense_seeds", sum(value >= 99 for value in ends[best_rate]))
glue("dense_reached", reached(searched[best_rate]))
glue("sab_reached", reached(full_5))
glue("paper_rates", ", ".join(f"{v:.1f}" for values in small for v in values) or "–")

# %% tags=["hide-input"]
show(
    learning_curve(
        {
            **{
                f"dense, lr {dense_rows[name].train['lr']:g}": [r.history for r in group]
                for name, group in searched.items()
                if group
            },
            "SAB (5, 5)": [r.history for r in full_5],
        },
        chance=CHANCE,
        goal=0.99,
    ),
    caption="Dense attention under a truncation of five, at each rate, beside SAB: accuracy on held-out sequences.",
    source=[r for group in searched.values() for r in group] + full_5,
)

# %% [markdown]
# **At the largest rate the dense model learns the task**, in {glue:text}`best_dense_seeds:d` of
# {glue:text}`best_dense_runs:d` seeds: at {glue:text}`best_rate:g` it ends at {glue:text}`best_dense:s` %, and it has 99 % after
# {glue:text}`dense_reached:s` updates, about as early as SAB ({glue:text}`sab_reached:s`). That rate is SAB's own here. At the rates that the paper searched, none above $10^{-3}$,
# ours ends at {glue:text}`paper_rates:s` %, no better than the paper's {glue:text}`paper_dense:.1f`. So the
# paper's row may say more about the range of its search than about density. (A rate that suits one model is not a search for
# the others: [chapter 9](09_copy.ipynb) has the same trouble with our LSTM.) The register has this as D20.
#
# What is left of the ablation? Sparsity is not what makes a truncated model *learn* over this delay. The
# recall is: sparse or dense, it is the road on which credit skips the cut. What sparsity changes is the price, and who is
# taught.
#
# **The same dense model with full backpropagation** can learn it too, here less reliably:

# %%
dense_runs = notebook.read_or_run("table1", profile, "attentive_lstm_T100")
sparse_runs = notebook.read_or_run("table1", profile, "sab_5_5_T100")
show_table(
    ["model", "accuracy, %", "updates to 99 %", "largest gradient norm before clipping"],
    [
        (
            f"{name}, seed {record.seed}",
            f"{100 * record.metrics['accuracy']:.1f}",
            reached([record]),
            f"{record.metrics['grad_norm_max']:.1e}",
        )
        for name, group in (
            ("dense, full BPTT", dense_runs),
            ("SAB (5, 5), truncated", sparse_runs),
        )
        for record in group
    ],
    caption="Copy at T = 100: dense attention with full BPTT beside SAB.",
    source=dense_runs + sparse_runs,
)
glue("dense_norm", max(record.metrics["grad_norm_max"] for record in dense_runs))
solved = sum(record.metrics["accuracy"] >= 0.99 for record in dense_runs)
glue("dense_solved", f"{solved} of {len(dense_runs)}")
dense_range = [100 * record.metrics["accuracy"] for record in dense_runs]
glue("dense_range", f"{min(dense_range):.0f} to {max(dense_range):.0f}")
dense_200 = [r for r in table1_here if r.row == "attentive_lstm_T200" and r.profile != "smoke"]
glue(
    "dense_200",
    "not run"
    if not dense_200
    else f"{ended(dense_200)}"
    + (", diverged" if any(r.status == "diverged" for r in dense_200) else ""),
)

# %% [markdown]
# Not every time: {glue:text}`dense_solved:s` seeds reach 99 % within the budget, and they end at
# {glue:text}`dense_range:s` % (at $T = 200$: {glue:text}`dense_200:s`). Where it learns it can be quick. Its
# gradient is another matter: {glue:text}`dense_norm:.0e` before clipping. A softmax over all states passes
# credit to all states, each of which has read all states before it.
#
# **And a dense read may become sparse by itself.** How many memories does a trained model read at an
# answer? We count the *effective number*, $\exp$ of the entropy of the read weights: 1 if all weight
# is on one memory, $M$ if it is spread evenly over $M$.


# %%
@torch.no_grad()
def effective_number(row: str) -> torch.Tensor:
    """Mean effective number of memories that each of the ten answers reads."""
    model, run = load_model("table1", row, seed=0)
    task = CopyTask(**run.task_config)
    x, _ = task.batch(64, torch.Generator().manual_seed(seed))
    *_, recall = model(x, return_recall=True)
    weights = recall.matrix()[:, -task.length :].double()
    return torch.special.entr(weights).sum(-1).exp().mean(0)


numbers = {
    name: effective_number(row)
    for name, row in (("dense, full BPTT", "attentive_lstm_T100"), ("SAB (5, 5)", "sab_5_5_T100"))
}
show_table(
    ["model", *(f"answer {i}" for i in range(1, 11))],
    [(name, *(f"{v:.1f}" for v in values)) for name, values in numbers.items()],
    caption="Effective number of memories read at each answer, T = 100, 64 sequences.",
    source="Computed in this cell from the weights of table1, seed 0.",
)
glue("effective_dense", numbers["dense, full BPTT"].mean())
glue("effective_sab", numbers["SAB (5, 5)"].mean())

# %% [markdown]
# Of more than a hundred states, the dense model reads hardly more than *one* from its second answer on, fewer
# than SAB ({glue:text}`effective_sab:.1f` on the average). Only its first answer reads nearly everything: the
# first symbol it has by other means. (One model, seed 0.) So what sparsity gives is not the end state either: a
# dense read that has learned is sparse by itself. But it computes and teaches all states at every step, and that
# is what one pays for ([chapter 17](17_complexity.ipynb)).
#
# ## The attention map
#
# Beside its Table 3 the paper shows what the ten answers read, in three panels: output steps from top
# to bottom, memories from left to right, darker for more weight, averaged over a batch. All three lie
# *within the first epoch*. From the first to the last, attention moves to the states that were stored
# while the symbols passed.
#
# Here is one run of SAB (5, 5) at $T = 100$, watched closely: {glue:text}`moments:d` snapshots of its
# weights, the mean over {glue:text}`map_sequences:d` fresh sequences each. Its {glue:text}`last:,d`
# updates of 64 sequences are less than one epoch of the released program (10,000 updates).

# %%
WATCHED = ("watch", "sab_5_5_T100")
if profile == "records":
    maps = read_maps(*WATCHED)
else:
    notebook.read_or_run(WATCHED[0], profile, seed=0)
    maps = attention_maps(*WATCHED, profile)
origin = f"From results/maps/{maps.experiment}/{maps.row}-{maps.profile}-s{maps.seed}.json."
CUT = int(maps.steps[0]) - 1  # the marker: memories up to it were written before the answers
glue("moments", len(maps.frames))
glue("map_sequences", maps.sequences)
glue("last", maps.frames[-1].update)

# %%
moments = (first_above(maps, 0.3), first_above(maps, 0.85), maps.frames[-1])
panels = list({f.update: f for f in (maps.frames[0], *moments)}.values())
show_stepper(
    attention_map(
        {f"update {f.update:,}: {f.accuracy:.1%} right": f.weights for f in panels},
        output_steps=range(1, len(maps.steps) + 1),
        columns=maps.written.tolist(),
        relevant=(2, len(maps.steps)),
    ),
    as_plain(maps),
    caption="What the ten answers read. Step through the whole training with the slider, the buttons or "
    "play; point at a cell, or move with the arrow keys, to read its weight. (Without scripts: four "
    "moments.)",
    source=origin,
)

# %% [markdown]
# Step through it, and five phases can be told apart.
#
# 1. **All alike.** Before training, all ten answers read the same memories, whichever score high by
#    accident.
# 2. **Silence.** The first thing learned is to say blank, always: no symbol is right, fewer than by
#    guessing.
# 3. **The marker.** Then all answers turn to the state that was stored at the marker, the newest one. It is
#    there that the network can learn *that* it is to answer.
# 4. **The staircase.** They turn to the beginning, the first answers first. Each comes to read the memory
#    of its own symbol, two answers a memory, since $k_{\mathrm{att}} = 2$. This is the paper's figure.
# 5. **And on from there.** The paper's figure ends with its first epoch; so does ours, but learning goes on
#    in it, and the map changes once more. The even answers from the sixth on leave the staircase. They read
#    memories stored *after* the last symbol, all the same ones.
#
# In numbers: where do the answers look? For each moment, the mean write step of what four of them read,
# leaving out what was stored during the answers.

# %%
looks: dict[str, list[dict[str, float]]] = {}
for answer in (1, 5, 9, 10):
    looks[f"answer {answer}"] = [
        {"update": f.update, "step": float(f.mean_step(maps.written, CUT)[answer - 1])}
        for f in maps.frames
    ]
show(
    learning_curve(looks, metric="step", ylabel="mean write step of what is read"),
    caption="Where four of the answers look while the model learns. The symbols pass at steps 1 to 10; "
    "the marker is at step 110.",
    source=origin,
)

# %%
named = {"begin": maps.frames[0], "third": moments[0], "stairs": moments[1], "end": moments[2]}
silent = min(maps.frames, key=lambda f: f.accuracy)
away = max(maps.frames, key=lambda f: float(f.mean_step(maps.written, CUT).mean()))
glue("silent_update", silent.update)
glue("silent_accuracy", silent.accuracy)
glue("away_update", away.update)
glue("away_accuracy", away.accuracy)
glue("away_step", away.mean_step(maps.written, CUT).mean())
for name, f in named.items():
    where = f.mean_step(maps.written, CUT)
    glue(f"{name}_update", f.update)
    glue(f"{name}_accuracy", f.accuracy)
    glue(f"{name}_first", where[0])
    glue(f"{name}_tenth", where[-1])
late_memories = (maps.written > len(maps.steps)) & (maps.written <= CUT)
by_late = named["end"].weights[:, late_memories].sum(1)
glue("even_late", by_late[[5, 7, 9]].mean() if len(by_late) == 10 else by_late.mean())
glue("odd_late", by_late[[0, 2, 4, 6, 8]].mean() if len(by_late) == 10 else by_late.mean())

# %% [markdown]
# | | update | right | first answer looks at | tenth answer looks at |
# | --- | ---: | ---: | ---: | ---: |
# | untrained | {glue:text}`begin_update:,d` | {glue:text}`begin_accuracy:.0%` | {glue:text}`begin_first:.1f` | {glue:text}`begin_tenth:.1f` |
# | fewest right | {glue:text}`silent_update:,d` | {glue:text}`silent_accuracy:.0%` | | |
# | farthest from the symbols | {glue:text}`away_update:,d` | {glue:text}`away_accuracy:.0%` | mean of all: {glue:text}`away_step:.0f` | |
# | a third right | {glue:text}`third_update:,d` | {glue:text}`third_accuracy:.0%` | {glue:text}`third_first:.1f` | {glue:text}`third_tenth:.1f` |
# | the staircase | {glue:text}`stairs_update:,d` | {glue:text}`stairs_accuracy:.0%` | {glue:text}`stairs_first:.1f` | {glue:text}`stairs_tenth:.1f` |
# | the end | {glue:text}`end_update:,d` | {glue:text}`end_accuracy:.1%` | {glue:text}`end_first:.1f` | {glue:text}`end_tenth:.1f` |
#
# At the end the answers 6, 8 and 10 give {glue:text}`even_late:.0%` of their weight to memories that were
# stored after the last symbol, the odd answers {glue:text}`odd_late:.0%`. So those later states hold several
# symbols at once, and which of them is given is decided not by *what is recalled* but by what the
# network does with it. The map alone would suggest that these answers must be mistaken for each other. They
# are not.

# %% tags=["nbval-check-output"]
if profile == "records":
    rank = np.arange(1, 11)
    stairs = named["stairs"].mean_step(maps.written, CUT)
    print(
        "untrained: all answers look at the same place:",
        bool(np.ptp(named["begin"].mean_step(maps.written, CUT)) < 1),
    )
    print(
        "at the staircase: later answers look later:", bool(np.corrcoef(rank, stairs)[0, 1] > 0.9)
    )

# %% [markdown]
# Is the exported file true? The weights of one of its moments are kept, so the package can compute the
# map again, here, and compare.

# %%
KEPT = 1750  # the update whose weights are committed
if profile == "records":
    model, run = load_model(*WATCHED, seed=0, update=KEPT)
    kept, again = maps.frame(KEPT), frame_of(model, run, KEPT, maps.sequences)
    untrained = frame_of(build_model(run), run, 0, maps.sequences)
    gaps = [
        float(np.abs(x.weights - y.weights).max())
        for x, y in ((kept, again), (maps.frames[0], untrained))
    ]
    assert max(gaps) < 2e-3, "the exported map is not what these weights do"
else:
    gaps = [0.0]
glue("gap", max(gaps))

# %% [markdown]
# The largest difference is {glue:text}`gap:.4f`. The file keeps three decimals, and where two scores are nearly
# equal, another form of the scan may choose the other memory.

# %% [markdown]
# ## What it took

# %%
everything = [*sparse_runs, *dense_runs]
try:
    table3 = notebook.read_or_run("table3", profile)
except ValueError:
    table3 = []  # none has been run
watched = notebook.read_or_run("watch", profile)
show_table(
    ["", "runs", "minutes", "how"],
    [
        ("SAB (5, 5), T = 100", len(sparse_runs),
         f"{sum(r.seconds for r in sparse_runs) / 60:.0f}", "sab run table1 --row sab_5_5_T100"),
        ("dense, full BPTT, T = 100", len(dense_runs),
         f"{sum(r.seconds for r in dense_runs) / 60:.0f}",
         "sab run table1 --row attentive_lstm_T100"),
        ("the run watched closely", len(watched),
         f"{sum(r.seconds for r in watched) / 60:.0f}", "sab run watch; sab maps watch --row sab_5_5_T100"),
        ("Table 3", len(table3), f"{sum(r.seconds for r in table3) / 60:.0f}", "sab run table3"),
        ("the live runs", len(runs), f"{sum(r.seconds for r in runs.values()) / 60:.1f}", "this page"),
    ],
    caption="Runs and minutes, each on one thread of a shared machine.",
    source=everything + watched + table3,
)  # fmt: skip
machine = watched[0].machine
glue("machine", f"{machine['cpu']}, {machine['threads']} thread a run")

# %% [markdown]
# ({glue:text}`machine:s`.)
#
# ## What surprised us
#
# - **The row with the largest gain has nothing to replay.** With $k_{\mathrm{trunc}} = 1$ a mental
#   update *is* the writing step.
# - **Dense attention learns under the same truncation**, at a rate above those that the paper searched.
# - **Dense attention with full backpropagation can be the quickest model at $T = 100$, and need not be.** One seed
#   was through before any SAB, others were not within the budget. Its gradients are wild.
# - **Mental updates are not the last two points here.** Without them SAB (5, 5) does not learn the task.
# - **Attention moves away from the symbols before it comes back**, by way of silence and of the marker.
# - **The staircase is a stage, not the end.** The solved model recalls one and the same state for three
#   different symbols.
#
# ## Exercises
#
# **1.** With $k_{\mathrm{att}} = k_{\mathrm{trunc}} = 5$, how many steps does a mental update teach with
# block offset 0, and with offset 1? For which offset would an ablation of mental updates by
# `"write_step"` have no effect on the chain at all?
#
# **2.** The paper's gains are $+8.9$, $+1.7$ and $+0.4$ points. By how much could the mental updates have
# raised each row at most? Express each gain as a share of that.
#
# **3.** In the map of the untrained model all rows are nearly equal. Why *nearly*?
#
# **4.** How many of the ten answers read, at the end of training, mostly a memory that was written at
# the step of their symbol or up to three steps after it? Does any read mostly one that was written *before*
# its symbol was shown?

# %% tags=["hide-cell"]
# Solution of exercise 1: one step with offset 0, five with offset 1. With offset 0 a memory opens its
# block, so there is no chain to leave out.
aligned = {
    offset: {replayed(5, memory, k_att=5, block_offset=offset) for memory in range(5, 51, 5)}
    for offset in (0, 1)
}
assert aligned == {0: {1}, 1: {5}}

# %% tags=["hide-cell"]
# Solution of exercise 2: a row without mental updates at p % could gain 100 - p points.
for budget in ("1-1", "5-5", "10-10"):
    gain = judged[f"s46-gain-{budget}-none"].claim.value
    without = judged[f"t3-sab-{budget}-none"].claim.value
    assert gain is not None and without is not None
    print(
        f"({budget.replace('-', ', ')}): {gain:g} of {100 - without:.1f} points, {gain / (100 - without):.0%}"
    )

# %% [markdown]
# :::{dropdown} Solution of exercise 3
# The query is the hidden state at the answer. Between the marker and the tenth answer the input is
# blank, so the untrained state hardly changes from one answer to the next. Hardly: it still relaxes from
# the marker, and what it recalls changes a little as new states are stored.
# :::

# %% tags=["hide-cell"]
# Solution of exercise 4: the memory with the most weight, against the symbol's step.
top = maps.written[named["end"].weights.argmax(1)]
own = [bool(0 <= step - symbol <= 3) for symbol, step in enumerate(top.tolist(), start=1)]
print("most read:", top.tolist())
print("their own symbol's:", sum(own), "of", len(own))
before = [symbol for symbol, step in enumerate(top.tolist(), start=1) if step < symbol]
print("written before the symbol was shown:", before or "none")
# Such a memory cannot hold the symbol. What it adds is something else, a place or a count; the symbol must
# come with the rest of what is read, or with the recurrent state.
