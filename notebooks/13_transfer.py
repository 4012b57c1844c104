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
# # 13. Transfer to longer sequences
#
# A network has learned to wait 100 steps. Can it wait 5,000? Nothing new has to be learned for
# that, only *nothing must go wrong for longer*. At the end of this chapter you know what goes wrong,
# why it hardly does in the models of this book, and how to build one in which it does.
#
# It follows the last part of section 4 of the paper and its Table 5 {cite:p}`ke2018sparse`.

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
from functools import partial

import torch

from sab import notebook
from sab.analysis.blank_scores import answer_reads, crowd, period, settling
from sab.analysis.cost import fit_slope
from sab.analysis.transfer import length_curve
from sab.experiments import claims
from sab.experiments.transfer import stream
from sab.experiments.weights import build_model, load_model
from sab.figures import score_margins, settling_curve, share_against, transfer_curve
from sab.figures.style import system_label
from sab.models.attentive_lstm import AttentiveLSTM, AttentiveLSTMConfig
from sab.models.sab import SAB
from sab.notebook import glue, show, show_claims, show_table
from sab.ops.kept import kept_for_backward
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Two experiments, kept apart
#
# The paper has two headline numbers for the copy task, and they are easily mixed up.

# %%
values = [claim for claim in claims.load() if claim.kind == "value"]
paper_claims = {claim.run: claim for claim in values if claim.metric == "accuracy"}
CHANCE = CopyTask().baselines()["accuracy"]


def paper_says(run):
    """The paper's value, as it prints it."""
    return f"{paper_claims[run].value:g}"


show_table(
    ["", "trained at", "tested at", "SAB", "LSTM", "asks"],
    [
        (
            "Table 1",
            "300",
            "300",
            paper_says("table1/sab_5_5_T300"),
            paper_says("table1/lstm_T300"),
            "can it be learned?",
        ),
        (
            "Table 5",
            "100",
            "5000",
            paper_says("table5/sab:accuracy_T5000"),
            paper_says("table5/lstm:accuracy_T5000"),
            "does it carry over?",
        ),
    ],
    caption="Copy, percent of the ten symbols, as the paper has it.",
    source="From book/claims.yaml (Tables 1 and 5 of the paper).",
)
glue("chance", CHANCE)

# %% [markdown]
# The first is about *credit*: the error at the end has to find the symbols at the beginning. The
# second is about the *forward pass* alone: no gradient flows, weights stay as they are, and the
# question is whether what was learned at one length means the same at another.
#
# Why would it matter? Because training on a sequence costs more the longer it is, in memory above
# all. A model that learns on short ones and works on long ones is worth having.
#
# ## The curve
#
# Every model is trained at $T = 100$ with the same budget and then tested, unchanged, on longer delays.
# This cell reads the records of `sab run table5` and of `sab run transfer_long`, which carries SAB's
# curve on to 100,000 by *streaming*: the sequence goes through in pieces of 1,000 steps, with the
# state carried on.

# %%
EXPERIMENTS = ("table5", "transfer_long", "transfer_short")
if profile != "records":  # the models to be tested
    for experiment, rows in (
        ("table1", ("sab_5_5_T100", "lstm_T100", "attentive_lstm_T100")),
        ("copy", ("sab_5_5_T20",)),
    ):
        for row in rows:
            notebook.read_or_run(experiment, profile, row)


def of_one_profile(experiment):
    """Its records of the largest profile there is."""
    found = notebook.read_or_run(experiment, profile)
    best = next(p for p in (*claims.COUNTING, "smoke") if any(r.profile == p for r in found))
    return [record for record in found if record.profile == best]


table5, longer, short = (of_one_profile(experiment) for experiment in EXPERIMENTS)
groups = {}
for record in table5 + longer:
    groups.setdefault(record.row.partition("_T")[0], []).append(record)
curves = {name: length_curve(group) for name, group in groups.items()}

paper = {}
for run, claim in paper_claims.items():
    if run.startswith("table5/") and claim.value is not None:
        system, _, length = run.removeprefix("table5/").partition(":accuracy_T")
        paper.setdefault(system, []).append((int(length), claim.value / 100))
paper["attentive_lstm"].append((5000, None))  # out of memory, as the paper reports


def points_of(curve):
    """Means for the figure."""
    return [(point.length, point.mean) for point in curve]


def band_of(curve):
    """Intervals for the figure."""
    return [(point.length, point.low, point.high) for point in curve]


# %%
show(
    transfer_curve(
        {name: points_of(curve) for name, curve in curves.items()},
        bands={name: band_of(curve) for name, curve in curves.items()},
        paper=paper,
        chance=CHANCE,
        trained_at=100,
    ),
    caption="Copy, trained at T = 100 and tested at greater delays. Solid: ours, with 95 % intervals "
    "(over seeds; over sequences where there is one seed). Hollow: the paper's Table 5.",
    source=table5 + longer,
)


# %% tags=["hide-input"]
def line_of(name, point):
    """A row of the table."""
    theirs = dict(paper.get(name, ()))
    value = theirs.get(point.length, "–")
    value = "out of memory" if value is None else value if value == "–" else f"{100 * value:.0f}"
    return (
        system_label(name),
        f"{point.length:,}",
        value,
        f"{100 * point.mean:.1f}",
        f"{100 * point.low:.1f} – {100 * point.high:.1f}",
        f"{100 * point.lowest:.1f}",
        point.seeds,
        f"{point.sequences:,}",
    )


show_table(
    ["model", "T", "paper", "ours, %", "95 % interval", "worst seed", "seeds", "sequences"],
    [line_of(name, point) for name in sorted(curves, reverse=True) for point in curves[name]],
    caption="The same in numbers. Sequences: of all seeds together. Where all agree, nothing varies, and "
    "the interval reaches down to the share of all-wrong strings that would stay unseen in 1 of 20 such "
    "tests.",
    source=table5 + longer,
)

# %%
sab_at = {point.length: point for point in curves["sab"]}
nearest, farthest = min(sab_at), max(sab_at)
paper_sab = dict(paper["sab"])
glue("first", sab_at[nearest].mean)
glue("at_5000", sab_at.get(5000, sab_at[farthest]).mean)
glue("at_5000_low", sab_at.get(5000, sab_at[farthest]).low)
glue("at_5000_seeds", sab_at.get(5000, sab_at[farthest]).seeds)
glue("farthest", farthest)
glue("at_farthest", sab_at[farthest].mean)
glue("at_farthest_low", sab_at[farthest].low)
glue("at_farthest_sequences", sab_at[farthest].sequences)
glue("paper_100", paper_sab[100])
glue("paper_5000", paper_sab[5000])
glue("paper_over_chance", 100 * (paper_sab[5000] - CHANCE))
glue("ours_over_chance", 100 * (sab_at.get(5000, sab_at[farthest]).mean - CHANCE))
glue("sab_seeds", sab_at[nearest].seeds)
glue("sab_worst", min(point.lowest for point in curves["sab"]))
glue("lstm_first", curves["lstm"][0].mean)
glue("lstm_last", curves["lstm"][-1].mean)
glue("paper_lstm", dict(paper["lstm"])[100])

# %% [markdown]
# SAB, {glue:text}`sab_seeds:d` seeds, has {glue:text}`first:.1%` at its own delay and
# {glue:text}`at_5000:.1%` at 5,000 (interval down to {glue:text}`at_5000_low:.1%`,
# {glue:text}`at_5000_seeds:d` seeds). At {glue:text}`farthest:,d` steps it has
# {glue:text}`at_farthest:.1%` of the symbols of {glue:text}`at_farthest_sequences:d` sequences; so few
# of them bound the accuracy from below by {glue:text}`at_farthest_low:.1%`, not better (the table's
# caption says how, where all agree). **The
# curve of the paper falls, ours does not.** That is a disagreement, in our favour, and
# it has to be explained like any other. It is not SAB's alone, either: where the table has a row of
# ours for self-attention, compare that too.
#
# The worst single value of all SAB seeds and lengths is {glue:text}`sab_worst:.1%`. Mind the LSTM: ours
# has {glue:text}`lstm_first:.0%` at $T = 100$ itself, where the paper's has {glue:text}`paper_lstm:.0%`, and
# goes down to {glue:text}`lstm_last:.0%`. A model that has not learned the task cannot tell us how it
# carries over; so far as ours has not, the paper's LSTM column is untested, not confirmed.
#
# The claims of the table, judged by the records:

# %% tags=["hide-input"]
judged = [v for v in claims.verdicts() if v.claim.source.endswith("Table 5")]
show_claims(
    judged,
    caption="Claims of Table 5.",
    source="Computed from book/claims.yaml and the records of table5.",
)

# %%
unlike: dict[str, dict[str, list[str]]] = {"high": {}, "low": {}}
for v in judged:
    if v.claim.kind == "value" and v.verdict == claims.NOT and v.claim.value and v.mean:
        system, _, at_length = v.claim.run.removeprefix("table5/").partition(":accuracy_T")
        side = "high" if v.mean > v.claim.value else "low"
        unlike[side].setdefault(system_label(system), []).append(at_length)
for side, cases in unlike.items():
    words = "; ".join(f"{name} at {', '.join(where)}" for name, where in cases.items())
    glue(f"too_{side}", words or "none")

# %% [markdown]
# A verdict compares values; it doesn't know that more is better. Where a single accuracy is "not
# reproduced", ours is too *high* in these cases: {glue:text}`too_high:s`. It is too *low* in these:
# {glue:text}`too_low:s`.
#
# ### How to read the paper's column
#
# - **It is above chance, by far.** At 5,000 the paper's SAB has {glue:text}`paper_5000:.0%`, which is
#   {glue:text}`paper_over_chance:.1f` points over the {glue:text}`chance:.1%` of guessing (ours:
#   {glue:text}`ours_over_chance:.1f`). Its LSTM is at chance from 2,000 on.
# - **It does not "still solve the task".** From {glue:text}`paper_100:.0%` to
#   {glue:text}`paper_5000:.0%` is a model that gets four symbols of ten. A string of ten comes out
#   right hardly ever.
# - **Out of memory is not zero.** Self-attention has no number at 5,000 because it did not run. It
#   says nothing of what it would have answered. We look at what it needs below.
# - **The setting is not given.** The table does not say which $k_{\mathrm{top}}$, $k_{\mathrm{trunc}}$
#   and $k_{\mathrm{att}}$ its SAB has. Ours is $(5, 5)$ with $k_{\mathrm{att}} = 2$. To call that *the
#   paper's* row would be a guess.

# %% [markdown]
# ## What "out of memory" would need
#
# A dense read at step $t$ scores $t - 1$ states, each with $d$ values of tanh. To differentiate, all
# of these must be kept: $\tfrac12 N (N-1)\, d$ numbers for $N$ steps. To *answer* one only needs the
# states and their keys, $N (n + d)$ numbers. In bytes, with $n = d = 128$ and four bytes a number:

# %%
N_UNITS, FLOAT = 128, 4


def to_train(steps, batch=1):
    """GB of tanh values that a dense read keeps for its gradient."""
    return batch * steps * (steps - 1) / 2 * N_UNITS * FLOAT / 1e9


def to_answer(steps, k_att=1):
    """MB of states and keys held at the end of a sequence."""
    return steps // k_att * 2 * N_UNITS * FLOAT / 1e6


show_table(
    ["T", "one sequence, to train, GB", "batch of 64, GB", "to answer, MB", "SAB to answer, MB"],
    [
        (
            f"{T:,}",
            f"{to_train(T + 20):,.2f}",
            f"{to_train(T + 20, 64):,.1f}",
            f"{to_answer(T + 20):.2f}",
            f"{to_answer(T + 20, 2):.2f}",
        )
        for T in (100, 400, 2000, 5000, 100_000)
    ],
    caption="Bytes by definition. To train: the tanh of every pair, nothing else. SAB: k_att = 2.",
)
glue("dense_one", to_train(5020))
glue("dense_batch", to_train(5020, 64))
glue("dense_answer", to_answer(5020))
card = 12e9  # a graphics card of 2018
glue("fits_2000", card / 1e9 / to_train(2020))
glue("fits_5000", card / 1e9 / to_train(5020))

# %% [markdown]
# At 5,000 a single sequence would take {glue:text}`dense_one:.1f` GB with a graph, a batch of 64
# {glue:text}`dense_batch:,.0f` GB; without one, {glue:text}`dense_answer:.1f` MB. Does the definition
# tell the truth? We count the bytes that automatic differentiation keeps, in the readable form of
# the layer and in the fast form, which recomputes the tanh in its backward pass:


# %%
def total(model, x):
    return model(x)[0].sum()


rows, kept = [], {}
for form in ("reference", "torch"):
    dense = AttentiveLSTM(AttentiveLSTMConfig(form=form))
    for T in (50, 100, 200):
        x, _ = CopyTask(T=T).batch(1, torch.Generator().manual_seed(seed))
        kept[form, T] = kept_for_backward(partial(total, dense, x))
for T in (50, 100, 200):
    mine = [kept[form, T] for form in ("reference", "torch")]
    rows.append((T, f"{1e3 * to_train(T + 20):.2f}", *(f"{value:.2f}" for value in mine)))
show_table(
    ["T", "tanh of every pair, MB", "kept, readable form, MB", "kept, fast form, MB"],
    rows,
    caption="What one sequence of self-attention keeps for its backward pass.",
)
slopes = {
    form: fit_slope([70, 120, 220], [kept[form, T] for T in (50, 100, 200)]).exponent
    for form in ("reference", "torch")
}
glue("slope_dense", slopes["reference"])
glue("slope_fast", slopes["torch"])
glue("dense_factor", kept["reference", 200] / (1e3 * to_train(220)))
assert slopes["reference"] > 1.7 and slopes["torch"] < 1.3

# %% [markdown]
# The readable form keeps {glue:text}`dense_factor:.1f` times the definition (other terms have the
# same shape) and grows with exponent {glue:text}`slope_dense:.2f`; the fast one, at
# most linear, with {glue:text}`slope_fast:.2f` (part of it is constant). So "out of memory at 5,000" is a matter of *how* it was computed. By the
# definition alone a card of 12 GB holds {glue:text}`fits_2000:.0f` sequences with a graph at 2,000
# and {glue:text}`fits_5000:.0f` at 5,000. A test that needlessly kept the graph would run at 2,000
# in small batches and die at 5,000. The paper doesn't say how it was run; this is a guess.
#
# And measured, from the records: seconds a sequence without a graph, one thread.

# %% tags=["hide-input"]
lengths = sorted({point.length for curve in curves.values() for point in curve})
at = {name: {point.length: point for point in curve} for name, curve in curves.items()}
show_table(
    ["T", *(f"{system_label(name)}, s" for name in curves)],
    [
        (f"{T:,}", *(f"{at[name][T].seconds:.4f}" if T in at[name] else "–" for name in curves))
        for T in lengths
    ],
    caption="Wall time a test sequence, mean over seeds, on a shared machine. –: not run.",
    source=table5 + longer,
)
peak = max(record.peak_mb for record in table5 + longer)
glue("peak", peak)
glue("peak_long", max(r.peak_mb for r in longer))

# %% [markdown]
# The whole process never held more than {glue:text}`peak:,.0f` MB, {glue:text}`peak_long:,.0f` MB in
# the runs up to {glue:text}`farthest:,d`; a quarter of a gigabyte of it is the libraries. The times are
# no measurement of growth: the machine was shared, and part of what they show is what else it did. The
# fast form skips scores that cannot matter, on blanks nearly all; [chapter 17](17_complexity.ipynb)
# measures what that saves.
#
# ## Why it does not fall
#
# From here on everything runs live, on the weights in `results/checkpoints`. Where a figure or a table
# does not name its seeds, it shows seed 0 only. The delay is filled with
# *blanks*, and every second state of it is stored. At $T = 5{,}000$ some 2,500 of these compete with
# five or six that hold the string. Why do they not win, if only by number?
#
# ### 1. A crowd of equals is a threshold
#
# Scores become weights by $\alpha_i \propto \max(a_i - \tau, 0)$, where $\tau$ is the
# $(k_{\mathrm{top}}+1)$-th score. Suppose the blanks all have the *same* score $b$ and there are more
# than $k_{\mathrm{top}}$ of them. Either $b < \tau$: then they are not even candidates. Or they fill
# the places up to the last, then $\tau = b$, and their margin is $b - b = 0$. In no case do they get
# weight, and in no case does it matter whether there are ten or ten million. A softmax,
# $\alpha_i \propto e^{a_i}$, feels every one of them: $M$ blanks weigh $M e^{b}$.
#
# Here are the scores of the trained model at its ten answers, for 16 strings. We take the memories of
# the first 110 steps as they are, add one blank state from the end of a long delay, and then copy it.

# %%
TESTED = 2000
MODEL, _ = load_model("table1", "sab_5_5_T100", seed=0)
assert isinstance(MODEL, SAB)
K_TOP = MODEL.config.k_top


def reads_at(model, T, count=16, change=None):
    """What the answers find in memory after a delay of T; the same strings at each T."""
    task = CopyTask(T=T)
    x, _ = task.batch(count, torch.Generator().manual_seed(seed + 3))
    return answer_reads(model.layer, x if change is None else change(x), task.length)


far = reads_at(MODEL, TESTED)
trained_span = far.written <= 110
last_blank = int((far.written <= TESTED + 10).nonzero()[-1])
others = far.scores[..., trained_span].flatten(0, 1)
blank = far.scores[..., last_blank].flatten()
copies = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 50_000]
sparse, soft = crowd(others, blank, copies, K_TOP)
show(
    share_against(
        {
            "sparse, as in Algorithm 1": (copies, sparse.mean(0)),
            "softmax over the same scores": (copies, soft.mean(0)),
        },
        xlabel="copies of one late blank (logarithmic)",
        ylabel="weight left (%)",
    ),
    caption="Weight left for the memories of the first 110 steps when a late blank is repeated. Seed 0.",
)
assert torch.equal(sparse[:, 3], sparse[:, -1])
glue("sparse_left", sparse[:, -1].mean())
glue("soft_left", soft[:, -1].mean())
glue("soft_first", soft[:, 0].mean())

# %% [markdown]
# With 50,000 copies the sparse read keeps {glue:text}`sparse_left:.1%` of its weight on the others,
# to the last digit what it keeps with 30. The softmax goes from {glue:text}`soft_first:.1%` to
# {glue:text}`soft_left:.1%`. These scores were trained for the sparse rule, though. Does a model that
# *learned* with a softmax suffer? Here is our LSTM with full self-attention, trained at $T = 100$:

# %%
DENSE, _ = load_model("table1", "attentive_lstm_T100", seed=0)
rows, dense_blank = [], {}
for T in (100, 300, 1000, 2000):
    task = CopyTask(T=T)
    x, y = task.batch(4, torch.Generator().manual_seed(seed + 3))
    weights = DENSE(x, return_recall=True)[2].matrix()[:, -task.length :]
    dense_blank[T] = weights[..., 14 : T + 10].sum(-1).mean().item()
    x, y = task.batch(16, torch.Generator().manual_seed(seed + 4))
    right = (stream(DENSE, x, task.length, 1000).argmax(-1) == y[:, -task.length :]).double().mean()
    rows.append((f"{T:,}", f"{100 * dense_blank[T]:.2f}", f"{100 * right:.1f}"))
show_table(
    ["T", "weight on blanks, %", "accuracy, %"],
    rows,
    caption="LSTM + full self-attention, seed 0: weight of the blanks after step 14 at the answers "
    "(4 strings), and accuracy (16 strings).",
)
glue("dense_100", dense_blank[100])
glue("dense_2000", dense_blank[2000])
glue("dense_right", right)
assert dense_blank[2000] - dense_blank[100] < 0.05

# %% [markdown]
# Hardly: the blanks' weight goes from {glue:text}`dense_100:.1%` to {glue:text}`dense_2000:.1%`. It has
# learned scores so far apart that even $M e^b$ is small, for *these* $M$. It still has
# {glue:text}`dense_right:.0%` of the symbols at 2,000, where the paper's is at chance. (What takes the
# rest, if not the blanks' weight, we did not look into.) So the rule makes
# length *drop out*; the softmax only makes it matter slowly. Our evidence does not say that sparsity is
# what transfers.
#
# Note that it is *not* the case that blanks score low and stay out. Often they are candidates, and
# often $\tau$ is a blank's score:

# %%
near = reads_at(MODEL, 100)


def margins(reads, T):
    """Scores above the threshold of the same read."""
    tau = reads.threshold(K_TOP)
    return {
        "best up to step 14": (reads.highest(1, 14) - tau).numpy(),
        "best blank later": (reads.highest(15, T + 10) - tau).numpy(),
    }


both = {f"T = {T:,}": margins(reads, T) for T, reads in ((100, near), (TESTED, far))}
show(
    score_margins(both),
    caption="Scores less the threshold of their read, at each answer: median and middle 90 % of 16 "
    "strings, seed 0. The string is shown at steps 1 to 10.",
)
blanks_are_threshold = [
    ((reads.highest(15, T + 10) - reads.threshold(K_TOP)).abs() < 0.05).double().mean()
    for T, reads in ((100, near), (TESTED, far))
]
glue("blank_is_threshold", blanks_are_threshold[1])
glue("blank_weight_near", near.weight(15, 110).mean())
glue("blank_weight_far", far.weight(15, TESTED + 10).mean())
assert abs(near.weight(15, 110).mean() - far.weight(15, TESTED + 10).mean()) < 0.02

# %% [markdown]
# In {glue:text}`blank_is_threshold:.0%` of the reads at $T = 2{,}000$ the best blank *is* the
# threshold, within 0.05. All blanks together get {glue:text}`blank_weight_far:.1%` of the weight, and
# {glue:text}`blank_weight_near:.1%` at $T = 100$. The two panels can hardly be told apart.
#
# ### 2. So only the highest blank matters. Does it rise?
#
# The number of blanks plays no part; their *best scores* do. With every step of waiting the network
# may drift into a state that it never had in training, and one that scores high is enough. So look at
# how far the state moves from one step to the next while nothing happens:

# %%
SHORT, _ = load_model("copy", "sab_5_5_T20", seed=0)
lost = reads_at(SHORT, TESTED)
waiting = torch.arange(11, TESTED + 10)
show(
    settling_curve(
        {
            "trained at T = 100": (waiting, settling(far.h)[:, 9 : TESTED + 8]),
            "trained at T = 20": (waiting, settling(lost.h)[:, 9 : TESTED + 8]),
        }
    ),
    caption="Movement of the hidden state while it waits: grey, 16 strings; blue, their median. Seed 0.",
)

# %%
models = {}
for number in range(3):
    try:
        models[number] = load_model("table1", "sab_5_5_T100", seed=number)[0]
    except FileNotFoundError:
        break  # a checkout may hold fewer
rows, on_top = [], {}
for number, model in models.items():
    found = far if number == 0 else reads_at(model, TESTED)
    periods = period(found.h[:, : TESTED + 9])
    fixed, cycle = (periods == 1).sum().item(), (periods > 1).sum().item()
    seen = sorted(set(periods[periods > 1].tolist()))
    rows.append((number, fixed, cycle, len(periods) - fixed - cycle, ", ".join(map(str, seen))))
    for T, reads in ((300, reads_at(model, 300)), (TESTED, found)):
        on_top[number, T] = reads.overtaken(110, T + 10)[1][-1].item()
show_table(
    ["seed", "fixed point", "cycle", "neither", "periods of the cycles"],
    rows,
    caption="Where the waiting state ends after 2,000 steps, for 16 strings of each model trained at "
    "T = 100. Neither: no return within 0.01 in 200 steps.",
)
glue("neither", sum(row[3] for row in rows))
glue("strings", 16 * len(rows))
glue("fixed", rows[0][1])
glue("cycling", rows[0][2])
median = settling(far.h).median(0).values
glue("moves_30", median[29])
glue("moves_110", median[109])
glue("moves_end", median[TESTED])

# %% [markdown]
# In the first model {glue:text}`fixed:d` of 16 strings lead to a **fixed point**: the median movement
# is {glue:text}`moves_30:.2g` after 30 steps, {glue:text}`moves_110:.1g` after 110 and
# {glue:text}`moves_end:.0e` at the end, the rounding error of single precision. From then on all blank
# memories are *one* memory, many times. {glue:text}`cycling:d` run into a cycle, and other seeds have
# more of these. (The state of a waiting SAB is fed by what it recalls, so it need not come to rest as
# a plain LSTM's does.) But a cycle too is a finite set of memories, each many times.
#
# That is the point: a state that *comes back* stores nothing new, and the highest score among the
# blanks stops rising. It need not come back exactly. {glue:text}`neither:d` of the
# {glue:text}`strings:d` strings of all seeds did neither within our bounds, and they do no harm
# either: it is enough that the state stays where training has been. At $T = 100$ training has seen most
# of the place.
#
# The model trained at $T = 20$ saw 19 blanks, and its state was still on the way. It comes nearly to
# rest, and after some 200 steps it starts to move again, further than before. Nobody has taught it to
# tell what it stores there from a symbol.
#
# So here is the quantity that decides. Let the *late* memories be those written after the last blank
# of training (after step 110 and 30). In which share of the reads does a late memory outscore *every*
# earlier one?

# %%
overtaken = {}
for name, reads, trained in (("trained at T = 100", far, 100), ("trained at T = 20", lost, 20)):
    steps, share = reads.overtaken(trained + 10, TESTED + 10)
    overtaken[name] = (steps - 10, share)
show(
    share_against(
        overtaken, xlabel="delay T (logarithmic)", ylabel="reads with a late blank on top (%)"
    ),
    caption="Share of the reads (16 strings, ten answers) in which a blank from beyond the trained "
    "delay scores above all memories from within it. Seed 0 of each.",
)
glue("over_long", overtaken["trained at T = 100"][1][-1])
glue("over_short", overtaken["trained at T = 20"][1][-1])
glue("late_long", far.weight(111, TESTED + 10).mean())
glue("late_short", lost.weight(31, TESTED + 10).mean())
assert overtaken["trained at T = 100"][1][-1] < 0.02 < 0.3 < overtaken["trained at T = 20"][1][-1]

# %% tags=["nbval-check-output"]
for name, (_, share) in overtaken.items():
    print(
        f"{name}: late blanks on top in more than a quarter of the reads:", bool(share[-1] > 0.25)
    )

# %% [markdown]
# {glue:text}`over_long:.1%` for the model trained at 100, {glue:text}`over_short:.0%` for that trained
# at 20; late memories get {glue:text}`late_long:.1%` and {glue:text}`late_short:.0%` of the weight. And
# the other seeds trained at 100?

# %%
show_table(
    ["seed", "T = 300", "T = 2,000"],
    [(n, *(f"{100 * on_top[n, T]:.1f}" for T in (300, TESTED))) for n in models],
    caption="Reads with a late blank on top (%), models trained at T = 100, 16 strings.",
)
glue("on_top_most", max(on_top.values()))
assert all(abs(on_top[n, 300] - on_top[n, TESTED]) < 0.02 for n in models)

# %% [markdown]
# None rises. Where the share isn't zero, up to {glue:text}`on_top_most:.0%`, the same happens at every
# length. We take it that such an answer reads a recent blank on purpose: the waiting state differs from
# string to string, so a blank can carry a symbol, and training has seen that. We have not tested it.
#
# ### 3. Why the string outranks a blank at all
#
# The number of blanks drops out, and their best score does not rise. That says why nothing *changes* with
# the length. It does not yet say why a memory of the string stands above a blank in the first place. Is
# it so from the start? Here are the same models before their first update and at their end, the
# first also on the way:

# %%
stages: list[tuple[int, str, torch.nn.Module]] = []
for number, model in models.items():
    _, run = load_model("table1", "sab_5_5_T100", seed=number)
    stages.append((number, "0", build_model(run).eval()))
    if number == 0:
        stages.append((0, "1,000", load_model("table1", "sab_5_5_T100", seed=0, update=1000)[0]))
    stages.append((number, "chosen", model))
rows, leads, beaten = [], {}, {}
for number, when, model in stages:
    early_reads = reads_at(model, 100)
    lead = early_reads.highest(1, 14) - early_reads.highest(15, 110)
    leads[number, when], beaten[number, when] = (
        lead.median().item(),
        (lead < 0).double().mean().item(),
    )
    blanks = early_reads.weight(15, 110).mean().item()
    rows.append((
        number, when, f"{leads[number, when]:.1f}", f"{lead.quantile(0.05):.1f}",
        f"{100 * beaten[number, when]:.1f}", f"{100 * blanks:.1f}",
    ))  # fmt: skip
show_table(
    [
        "seed",
        "updates",
        "lead, median",
        "lead, 5 % quantile",
        "a blank leads, %",
        "weight on blanks, %",
    ],
    rows,
    caption="Lead: the best score up to step 14 less the best of a later blank, over the 160 answers of 16 "
    "strings at T = 100. Chosen: the weights that were best on held-out data.",
)
glue("blanks_held", int(((far.written > 10) & (far.written <= 110)).sum()))
glue("start_least", min(share for (_, when), share in beaten.items() if when == "0"))
glue("start_most", max(share for (_, when), share in beaten.items() if when == "0"))
glue("end_most", max(share for (_, when), share in beaten.items() if when == "chosen"))
glue("lead_start", leads[0, "0"])
glue("lead_early", leads[0, "1,000"])
glue("lead_end", leads[0, "chosen"])
assert max(share for (_, when), share in beaten.items() if when == "chosen") < 0.5

# %% [markdown]
# Before training it is a matter of the initial weights: depending on the seed a blank leads in
# {glue:text}`start_least:.0%` to {glue:text}`start_most:.0%` of the reads. At the end it is
# {glue:text}`end_most:.0%` at most, and of those reads we take it, as above, that the blank carries their
# symbol. **Training asks for it.** At $T = 100$ every answer finds some
# {glue:text}`blanks_held:d` blank memories, most of them alike, beside five or six that hold the
# string. Where a blank wins, the read brings nothing that tells the symbols apart, and the loss says
# so. In the first model the median lead is {glue:text}`lead_start:.1f` at the start,
# {glue:text}`lead_early:.1f` after 1,000 updates and {glue:text}`lead_end:.1f` in the end. Beyond
# $T = 100$ nothing new competes: the blanks that come are those that training has already taught it to
# outrank.
#
# ## Four predictions
#
# An explanation is worth what it forbids.
#
# **The length must drop out.** Once the state has come to rest, a longer delay must give the same
# *outputs*, not only the same accuracy. The same eight strings at five delays, against $T = 2{,}000$:

# %%
DELAYS = (100, 300, 1000, 2000, 10_000)


@torch.no_grad()
def answers_at(model, T, count=8, change=None):
    """Logits of the ten answers, and the right ones; the same strings at each T."""
    task = CopyTask(T=T)
    x, y = task.batch(count, torch.Generator().manual_seed(seed + 3))
    x = x if change is None else change(x)
    return stream(model, x, task.length, 1000), y[:, -task.length :]


logits = {T: answers_at(MODEL, T)[0] for T in DELAYS}
gaps = {T: (logits[T] - logits[2000]).abs().amax((1, 2)) for T in DELAYS if T != 2000}
still = period(reads_at(MODEL, TESTED, 8).h[:, : TESTED + 9]) == 1


def worst(values):
    """The largest of some strings, in words."""
    return f"{values.max():.1e}" if len(values) else "–"


show_table(
    ["T", "median string", "worst that comes to rest", "worst of the others"],
    [(f"{T:,}", f"{g.median():.1e}", worst(g[still]), worst(g[~still])) for T, g in gaps.items()],
    caption=f"Largest difference of any logit from that at T = 2,000, over eight strings of seed 0; "
    f"{int(still.sum())} of them come to a fixed point.",
)
glue("rest_logits", worst(gaps[10_000][still]))
glue("cycle_logits", worst(gaps[10_000][~still]))
glue("same_logits", gaps[10_000].median())
glue("logit_size", logits[2000].abs().mean())
assert gaps[10_000].median() < 0.01

# %% [markdown]
# It does: at 10,000 the median string's logits differ by {glue:text}`same_logits:.0e` (their mean size
# is {glue:text}`logit_size:.0f`). The worst of those that come to rest differs by
# {glue:text}`rest_logits:s`, the worst of the others by {glue:text}`cycle_logits:s`. With a cycle the
# marker meets it at another place, which may be a reason; eight strings are too few to say.
#
# **A model trained on a short delay must fall.** The records of `sab run transfer_short`: SAB trained
# at $T = 20$, tested further out.

# %%
fallen = length_curve(short)
show(
    transfer_curve(
        {"sab": points_of(curves["sab"]), "sab, trained at 20": points_of(fallen)},
        bands={"sab, trained at 20": band_of(fallen)},
        paper={"sab": paper["sab"]},
        chance=CHANCE,
    ),
    caption="SAB trained at T = 100 and at T = 20, tested at other delays, and the paper's SAB, "
    "trained at 100. Band: 95 % over seeds.",
    source=table5 + longer + short,
)
fallen_at = {point.length: point for point in fallen}
shortest, last = min(fallen_at), max(fallen_at)
glue("short_seeds", fallen_at[shortest].seeds)
glue("short_start", fallen_at[shortest].mean)
glue("short_400", fallen_at.get(400, fallen_at[last]).mean)
glue("short_5000", fallen_at[last].mean)
one = next(record for record in short if record.seed == 0).metrics
glue("short_s0_400", one.get("accuracy_T400", 0.0))
glue("short_s0_2000", one.get("accuracy_T2000", 0.0))
glue("short_s0_5000", one.get("accuracy_T5000", 0.0))
for T in (400, 5000):
    rest = [record.metrics.get(f"accuracy_T{T}", 0.0) for record in short if record.seed != 0]
    glue(f"short_rest_{T}", " and ".join(f"{value:.0%}" for value in rest) or "not been run")
glue("paper_400", paper_sab[400])
glue("paper_2000", paper_sab[2000])

# %% [markdown]
# They do, all {glue:text}`short_seeds:d`: from {glue:text}`short_start:.1%` at their own delay to
# {glue:text}`short_400:.0%` at 400 and {glue:text}`short_5000:.0%` at 5,000. They solve their own delay
# about as well as the others solve theirs. They also had another learning rate and schedule
# ([chapter 9](09_copy.ipynb)), so this agrees with the prediction and does not isolate its cause.
#
# **What never comes back must break it.** If blanks are no longer blank, the state goes on finding new
# places, the maximum of its scores goes on rising, and length counts again. We disturb the *delay*
# only: with noise added to the input, with one blank in a hundred replaced by a stray symbol, or with
# symbols in place of all blanks.


# %%
def noisy(size):
    """Add normal noise to the inputs of the delay."""

    def change(x):
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed + 5))
        noise[:, :10], noise[:, -11:] = 0, 0
        return x + size * noise

    return change


def strays(share):
    """Replace a share of the blanks of the delay by symbols."""

    def change(x):
        dice = torch.Generator().manual_seed(seed + 5)
        hit = torch.rand(x.shape[:2], generator=dice) < share
        hit[:, :10], hit[:, -11:] = False, False
        symbols = torch.randint(1, 9, x.shape[:2], generator=dice)
        fed = torch.nn.functional.one_hot(symbols, x.shape[2]).float()
        return torch.where(hit[..., None], fed, x)

    return change


disturbances = {
    "blanks": None,
    "noise 0.1": noisy(0.1),
    "noise 0.2": noisy(0.2),
    "noise 0.3": noisy(0.3),
    "one stray in 100": strays(0.01),
    "symbols only": strays(1.0),
}
disturbed, rows = {}, []
for name, change in disturbances.items():
    for T in (100, 1000):
        answer, y = answers_at(MODEL, T, 24, change)
        disturbed[name, T] = (answer.argmax(-1) == y).double().mean().item()
    reads = reads_at(MODEL, 1000, 16, change)
    late = reads.overtaken(110, 1010)[1][-1]
    accuracies = (f"{100 * disturbed[name, T]:.0f}" for T in (100, 1000))
    rows.append((name, *accuracies, f"{100 * late:.0f}"))
show_table(
    ["delay filled with", "T = 100, %", "T = 1,000, %", "late blank on top at 1,000, %"],
    rows,
    caption="Accuracy with a disturbed delay, 24 sequences each, and the share of overtaken reads.",
)
assert disturbed["noise 0.3", 1000] < disturbed["noise 0.3", 100] - 0.05
assert disturbed["symbols only", 1000] < 0.5 < 0.9 < disturbed["blanks", 1000]

# %% [markdown]
# With strong noise the accuracy falls with the length, as predicted. But it is also low at
# $T = 100$ already: noise hurts the counting and the storing too, not only the choice. And "symbols
# only" is another task, which says ignore all but the first ten; nobody trained for that. What this
# shows is a border, not a flaw: transfer over length is transfer over *more of the same*.
#
# **The phase must not change.** With $k_{\mathrm{att}} = 2$ states of even steps are stored. An odd
# delay moves the answers against the writes, by one step, and that is new to the model too. So we
# test the neighbours of 100.

# %%
PHASES = (98, 99, 100, 101, 102)
phase = {}
for number, model in models.items():
    for T in PHASES:
        answer, y = answers_at(model, T, 100)
        phase[number, T] = (answer.argmax(-1) == y).double().mean().item()
show_table(
    ["seed", *(f"T = {T}" for T in PHASES)],
    [(number, *(f"{100 * phase[number, T]:.1f}" for T in PHASES)) for number in models],
    caption="Accuracy (%) at delays next to the trained one, 100 sequences each.",
)
odd = [phase[number, T] for number in models for T in (99, 101)]
even = [phase[number, T] for number in models for T in (98, 100, 102)]
glue("odd_low", min(odd))
glue("odd_high", max(odd))
glue("even_low", min(even))
assert max(odd) < min(even)

# %% [markdown]
# A model that answers after 100,000 steps with hardly a mistake makes more at **101**:
# {glue:text}`odd_low:.0%` to {glue:text}`odd_high:.0%` at odd delays, at least
# {glue:text}`even_low:.0%` at even ones. All delays of Table 5 are even. It transfers over length, then, where
# length alone changes.
#
# ## Why does the paper's curve fall?
#
# We do not know. Its models are not published, and its setting is not stated. What we can do is name
# candidates and say what speaks for each.
#
# - **Its waiting state had not settled, or not been seen to.** A conjecture, but one that produces such
#   a curve: of our models trained at $T = 20$, the first has {glue:text}`short_s0_400:.0%` at 400,
#   {glue:text}`short_s0_2000:.0%` at 2,000 and {glue:text}`short_s0_5000:.0%` at 5,000, where the paper
#   has {glue:text}`paper_400:.0%`, {glue:text}`paper_2000:.0%` and {glue:text}`paper_5000:.0%`. That
#   two curves look alike proves nothing, and our seeds do not agree: the others have
#   {glue:text}`short_rest_400:s` at 400 and {glue:text}`short_rest_5000:s` at 5,000.
# - **Its phase changed.** With a $k_{\mathrm{att}}$ that doesn't divide 100, say 3, the delays 100, 200
#   and 300 have different phases. Not tested.
# - **The released score cannot look** (D1 of the [register](../book/discrepancies.md)): with it the
#   ranking of the memories is the same at every step, so a blank that ranks high once ranks high always.
#   Not tested at length.
# - **Replay by blocks** (D6, and the block offset) changes what is learned, not what is computed at the
#   test. It can only act through the weights. Not tested.
# - **Training stopped early.** We can say something here: a weak model need not fall. Exercise 3 looks
#   at ours after 1,000 updates.
#
# The entry D16 of the register keeps the disagreement.
#
# ## What it took

# %%
everything = table5 + longer + short
sources = {}
for experiment, row in (
    ("table1", "sab_5_5_T100"),
    ("table1", "lstm_T100"),
    ("table1", "attentive_lstm_T100"),
    ("copy", "sab_5_5_T20"),
):
    try:
        sources[row] = notebook.read_or_run(experiment, profile, row)
    except ValueError:
        continue  # no record of it yet, so nothing of it above either
groups = {"Table 5": table5, "10,000 to 100,000": longer, "trained at T = 20": short}
show_table(
    ["", "runs", "minutes"],
    [
        *((f"training {row}", len(g), f"{sum(r.seconds for r in g) / 60:.0f}")
          for row, g in sources.items()),
        *((f"testing: {name}", len(g), f"{sum(r.seconds for r in g) / 60:.1f}")
          for name, g in groups.items()),
    ],
    caption="Runs and minutes, each on one thread of a shared machine.",
    source=everything + [record for group in sources.values() for record in group],
)  # fmt: skip
glue("machine", f"{table5[0].machine['cpu']}, {table5[0].machine['threads']} thread a run")

# %% [markdown]
# ({glue:text}`machine:s`.)
#
# ## What surprised us
#
# - **The blanks do not score low.** They make the threshold. Being many and alike is what takes their
#   weight away.
# - **Self-attention transfers too.** Ours, at least; the paper's falls to chance.
# - **The waiting state is not always at rest.** Some strings lead to cycles, some of them long, and the
#   answers are right all the same.
# - **101 is harder than 100,000.**
#
# ## Exercises
#
# **1.** Ten memories hold the string with score 9, and $M$ blanks score $b = 2$. For which $M$ does a
# softmax leave half its weight to the string? What does the sparse rule leave, for $k_{\mathrm{top}} = 5$?
#
# **2.** Let the blanks' scores be independent normal numbers instead, with mean 2 and deviation 1.
# From which $M$ on does the best of them beat 9, more often than not? What does that say of noise?
#
# **3.** Transfer without skill: test the model after 1,000 updates at $T = 100$ and $T = 1{,}000$. Does
# its accuracy fall?
#
# **4.** How long does the network have to wait in training so that 99 of 100 steps of the waiting
# leave the state within 0.01? Read it off for $T = 2{,}000$.

# %% tags=["hide-cell"]
# Solution of exercise 1: 10 e^9 = M e^2, so M = 10 e^7. The sparse rule leaves everything: the ten
# are the candidates, and the blanks are not even asked.
import math

print(f"softmax: half is gone at M = {10 * math.exp(7):,.0f}")
strings, two = torch.full((1, 10), 9.0), torch.tensor([2.0])
left, soft_left = crowd(strings, two, [round(10 * math.exp(7))], 5)
assert left.item() == 1.0 and abs(soft_left.item() - 0.5) < 1e-3

# %% tags=["hide-cell"]
# Solution of exercise 2: P(all below 9) = Phi(7)^M = 1/2. The tail beyond 7 deviations is 1.28e-12,
# so M = ln 2 / 1.28e-12, some 5e11: normal noise of the scores is harmless at this distance. At a
# distance of 3 deviations it is another matter.
for distance in (7, 5, 3):
    tail = 0.5 * math.erfc(distance / math.sqrt(2))
    print(f"{distance} deviations: M = {math.log(2) / tail:.1e}")
assert 500 < math.log(2) / (0.5 * math.erfc(3 / math.sqrt(2))) < 530

# %% tags=["hide-cell"]
# Solution of exercise 3: it does not.
early, _ = load_model("table1", "sab_5_5_T100", seed=0, update=1000)
weak = {}
for T in (100, 1000):
    answer, y = answers_at(early, T, 48)
    weak[T] = (answer.argmax(-1) == y).double().mean().item()
    print(f"T = {T}: {weak[T]:.0%}")
assert weak[100] < 0.95 and abs(weak[100] - weak[1000]) < 0.05

# %% tags=["hide-cell"]
# Solution of exercise 4: the first step after which 99 % of the median's later steps are below 0.01.
moves = settling(far.h)[:, : TESTED + 8].median(0).values < 0.01
calm = next(t for t in range(len(moves)) if moves[t:].double().mean() >= 0.99)
print("from step", calm + 2, "on")
assert calm < 110  # within the delay of its training
