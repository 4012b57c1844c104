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
# # 18. Gradient flow and clipping
#
# SAB shortens the road that credit travels. Does that make the gradients tame? Nearly every result of this
# book was trained with the gradient's norm clipped. At the end of this chapter you know how large the norms are with and
# without a clip, what the clip does beside keeping them small, and why a single large gradient can
# stop the learning of an Adam run for thousands of updates.
#
# It follows section 8.1 of the paper {cite:p}`ke2018sparse`.

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
import dataclasses
import tempfile
from pathlib import Path

import torch

from sab import notebook
from sab.analysis.credit import credit_autograd
from sab.analysis.credit import gradient_by_distance as by_distance
from sab.analysis.effects import typical_norm
from sab.experiments import claims, records, tables
from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.train import train
from sab.experiments.weights import load_model
from sab.figures import gradient_by_distance, learning_curve
from sab.models.sab import SAB
from sab.notebook import glue, show, show_claims, show_table
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## What the paper says of it
#
# Two sentences, in effect. On Text8, training still needed the gradient clipped. On PTB and on
# pixel-by-pixel MNIST, not permuted, it made little difference. So shorter roads help, and they do not
# remove every numerical trouble.
#
# In this chapter we look at copy and adding first, where everything can be seen at close range. On the
# paper's three data sets, further down, we can say what the records say:

# %%
about = [v for v in claims.verdicts() if v.claim.id.startswith("s81-")]
show_claims(
    about,
    caption="Section 8.1 of the paper.",
)

# %% [markdown]
# ## How far does a gradient reach, and how strong is it there?
#
# Take a trained model, SAB $(5, 5)$ on copy at $T = 20$, and the losses of its last five answers.
# For each distance: how long is the gradient of the output with respect to the input that many steps before? The
# three curves have the same weights and the same forward pass. They differ in what a recall gives back:
# a full mental update, the writing step alone, or nothing.

# %%
trained, _ = load_model("copy", "sab_5_5_T20", seed=0)
assert isinstance(trained, SAB)
task = CopyTask(T=20)
x, _ = task.batch(8, torch.Generator().manual_seed(seed))
outputs = range(task.steps - 5, task.steps)
titles = {
    "full": "mental updates",
    "write_step": "the writing step alone",
    "none": "nothing through a recall",
}
curves, reached = {}, {}
for replay, title in titles.items():
    same = SAB(dataclasses.replace(trained.config, replay=replay))
    same.load_state_dict(trained.state_dict())
    far = by_distance(credit_autograd(same, x), outputs)
    curves[title] = (far.distance, far.mean)
    reached[title] = far.reached

# %%
show(
    gradient_by_distance(curves),
    caption="Gradient of the last five answers with respect to the inputs before them, mean of 8 sequences. "
    "Crosses: exactly 0. Trained SAB, copy, T = 20.",
    source=records.load("copy", "sab_5_5_T20"),
)
mental, alone, cut = (curves[title][1] for title in titles.values())
far_from = 30  # at T = 20 the symbols lie 30 to 39 steps before their answers
peak = int(mental[far_from:].nan_to_num().argmax()) + far_from
glue("near", mental[0])
glue("peak_distance", peak)
glue("peak_share", mental[peak] / mental[0])
glue("middle_share", mental[10:25].mean() / mental[0])
glue("zeros_cut", int((cut == 0).sum()))
glue("pairs", len(cut))
glue("gain", mental[far_from:].nansum() / alone[far_from:].nansum())

# %% tags=["nbval-check-output"]
for title in titles.values():
    lost = int((curves[title][1] == 0).sum())
    print(f"{title:26s} distances with exactly no gradient: {lost} of {len(cut)}")

# %% [markdown]
# Without a way through recalls, {glue:text}`zeros_cut:d` of {glue:text}`pairs:d` distances get nothing at all:
# that is truncation. With mental updates the gradient does not fade with distance. It falls to
# {glue:text}`middle_share:.1%` of its nearest value over the blanks, and **rises again to
# {glue:text}`peak_share:.0%` at {glue:text}`peak_distance:d` steps**, where the symbols are. The jump is
# paid once, whatever its length. Summed over the far end, mental updates bring
# {glue:text}`gain:.1f` times what the writing step alone brings.
#
# This is for one model after training, with the scorer's inputs detached
# (`score_gradient="scorer"`). With the exact gradient the scores themselves are a second road
# through every memory that is weighed. [Chapter 7](07_sparse_replay.ipynb) shows what comes of that before training:
# norms that grow with the delay, by many powers of ten.

# %% [markdown]
# ## Norms while training
#
# Six short live runs a task, made here: SAB and an LSTM with full BPTT, each with three clips; copy at
# $T = 10$ with five symbols, adding at $T = 30$. The clip is $0.1$, as in our runs on copy and adding; or $2$,
# which cuts spikes only; or none.

# %%
CLIPS = {"clip 0.1": 0.1, "clip 2": 2.0, "no clip": None}
TASKS = {"copy": {"T": 10, "length": 5}, "adding": {"T": 30}}
SYSTEMS = {"SAB (5, 5)": ("sab", {"k_top": 5, "k_trunc": 5}), "LSTM, full BPTT": ("lstm", {})}
budget = TrainConfig(
    updates=800, batch_size=32, lr=5e-3, schedule="constant", eval_every=50, eval_batches=4,
    test_batches=16, solved_at=None,
)  # fmt: skip
live = {}
for name, size in TASKS.items():
    for title, (system, settings) in SYSTEMS.items():
        for label, clip in CLIPS.items():
            train_at = dataclasses.replace(budget, clip=clip)
            settings = {"hidden_size": 64, **settings}
            run = RunConfig("live", system, name, system, size, settings, train_at, seed)
            with tempfile.TemporaryDirectory() as folder:
                live[name, title, label] = train(run, Path(folder), device="cpu", progress="none")


# %%
def above(record, clip):
    """Share of the stretches between evaluations whose mean norm is above a clip."""
    norms = [entry["grad_norm"] for entry in record.history if entry["grad_norm"] is not None]
    return sum(norm > clip for norm in norms) / len(norms)


def result(record):
    """What the run reached, in its task's metric."""
    metrics = record.metrics
    if "accuracy" in metrics:
        return f"{metrics['accuracy']:.1%} right"
    return f"error {metrics['mse']:.4f}"


show_table(
    ["task", "model", "clip", "typical norm", "largest norm", "mean above 0.1", "reached"],
    [
        (
            *key,
            f"{typical_norm(record):.2f}",
            f"{record.metrics['grad_norm_max']:.1f}",
            f"{above(record, 0.1):.0%}",
            result(record),
        )
        for key, record in live.items()
    ],
    caption="The live runs, 800 updates each. Norms are those before clipping.",
)

# %%
for name in TASKS:
    show(
        learning_curve(
            {
                f"{title}, {label}": live[name, title, label].history[1:]
                for title in SYSTEMS
                for label in ("clip 0.1", "no clip")
            },
            metric="grad_norm_max",
        ),
        caption=f"{name.capitalize()}: the largest gradient norm between evaluations, before clipping.",
    )


# %%
def goal(record):
    """The metric, so that more is better."""
    return record.metrics.get("accuracy", -record.metrics.get("mse", 0.0))


better = [
    goal(live[name, title, "clip 0.1"]) > goal(live[name, title, "no clip"])
    for name in TASKS
    for title in SYSTEMS
]
spikes = [
    goal(live[name, title, "clip 0.1"]) > goal(live[name, title, "clip 2"])
    for name in TASKS
    for title in SYSTEMS
]
glue("pairs_all", len(better))
glue("pairs_better", sum(better))
glue("pairs_spikes", sum(spikes))
glue("lowest_above", min(above(record, 0.1) for record in live.values()))
glue("largest", max(record.metrics["grad_norm_max"] for record in live.values()))
glue("typical_low", min(typical_norm(record) for record in live.values()))
glue("typical_high", max(typical_norm(record) for record in live.values()))
glue("skipped", int(sum(record.metrics["skipped_updates"] for record in live.values())))

# %% tags=["nbval-check-output"]
finite = all(record.metrics["skipped_updates"] == 0 for record in live.values())
print("every gradient of the live runs was finite:", finite)
print(
    "the clip of 0.1 was active most of the time:", all(above(r, 0.1) > 0.5 for r in live.values())
)

# %% [markdown]
# Nothing overflows: {glue:text}`skipped:d` updates had to be skipped, clip or none, and the largest norm of all is
# {glue:text}`largest:.0f`. Typical norms lie between {glue:text}`typical_low:.2f` and
# {glue:text}`typical_high:.2f`. So in these short runs a clip at 0.1 is *not* a safety belt: by its mean norm it is active
# in at least {glue:text}`lowest_above:.0%` of the stretches. It sets the length of nearly every gradient.
#
# Against no clip it ends better in {glue:text}`pairs_better:d` of {glue:text}`pairs_all:d` pairs, and
# against a clip of 2 in {glue:text}`pairs_spikes:d` of {glue:text}`pairs_all:d`. One seed each, so take it
# as a hint. But why should it matter at all, to Adam?

# %% [markdown]
# ## What a clip does to Adam
#
# Adam divides a running mean of the gradient by the root of a running mean of its square,
#
# $$
# \theta \leftarrow \theta - \eta\, \frac{\hat m}{\sqrt{\hat v} + \epsilon},\qquad
# m \leftarrow 0.9\, m + 0.1\, g,\quad v \leftarrow 0.999\, v + 0.001\, g^2 ,
# $$
#
# so multiplying every gradient by the same number changes nothing. A clip that is always active
# changes the gradients *relative to each other*. And the two means have different memories: ten updates against
# a thousand. Here is a single parameter whose gradient is 1 at every update, but 1,000 at one.


# %%
def steps_of_adam(gradients, clip=None):
    """Length of each of Adam's steps, in learning rates."""
    weight = torch.nn.Parameter(torch.zeros(1))
    adam = torch.optim.Adam([weight], lr=1.0)
    lengths = []
    for update, gradient in enumerate(gradients, 1):
        before = weight.item()
        weight.grad = torch.tensor([float(gradient)])
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([weight], clip)
        adam.step()
        lengths.append({"update": update, "step": abs(weight.item() - before)})
    return lengths


SPIKE = 500
gradients = [1000.0 if update == SPIKE else 1.0 for update in range(1, 4001)]
paths = {"no clip": steps_of_adam(gradients), "clip 1": steps_of_adam(gradients, clip=1.0)}

# %%
show(
    learning_curve(paths, metric="step", log_y=True, ylabel="step (learning rates)"),
    caption="Adam's steps around one gradient a thousand times too large, at update 500.",
)
after = [entry["step"] for entry in paths["no clip"]][SPIKE - 1 :]
glue("spike_step", after[0])
glue("spike_after", after[100])
glue("spike_end", after[-1])
glue("spike_later", len(after) - 1)

# %% tags=["nbval-check-output"]
print(f"100 updates after the spike a step is {after[100]:.2f} learning rates, with the clip 1.00")

# %%
assert after[100] < 0.05 and abs(paths["clip 1"][-1]["step"] - 1) < 1e-3

# %% [markdown]
# The spike itself is harmless: a step of {glue:text}`spike_step:.1f` learning rates. What follows is not.
# A hundred updates later the steps have {glue:text}`spike_after:.2f` of their length, and after
# {glue:text}`spike_later:,d` updates still only {glue:text}`spike_end:.2f`. The large square
# stays in $v$ and fades by a thousandth an update. **An unclipped spike does not throw Adam off; it
# puts it to sleep.**
#
# This is a second reason to clip, beside overflow, and it holds where every norm is finite. It
# also says when the clip does not matter: where no gradient is much larger than its neighbours. That
# may be how a data set can need it, and another not.
#
# ## The paper's data sets
#
# Short runs, declared for this purpose: the same rows with the gradient clipped at 1 and not clipped, fewer
# units and updates than the tables ([chapter 11](11_language.ipynb) and [chapter 12](12_images.ipynb)) have. text8,
# the one that needed the clip, is not among the data this book was made with. Five books in its
# alphabet stand in for it, under their own name.

# %%
DATA = {
    "clipping_ptb": "Penn Treebank",
    "clipping_text8": "text8",
    "clipping_books": "five books, not text8",
    "clipping_mnist": "MNIST, pixel by pixel",
    "table6_books": "five books, not text8; longer",
}
if not records.load("table6_books"):
    del DATA["table6_books"]


def judged_by(record):
    """The metric of a record on real data, in words."""
    metrics = record.metrics
    return f"{metrics['bpc']:.3f} bits" if "bpc" in metrics else f"{metrics['accuracy']:.1%} right"


def data_row(name, row):
    """A row of the table: what its record says, or that there is none."""
    here = [r for r in records.load(name, row.name) if r.profile in claims.COUNTING]
    clip = {**row.train}["clip"]
    head = (DATA[name], row.title, "none" if clip is None else f"{clip:g}")
    if not here:
        return (*head, "not run", "–", "–", "–")
    one = here[0]
    active = "–" if clip is None else "yes" if one.metrics["grad_norm_max"] > clip else "never"
    return (
        *head,
        judged_by(one),
        f"{typical_norm(one):.2g}",
        f"{one.metrics['grad_norm_max']:.2g}",
        active,
    )


show_table(
    [
        "text or pictures",
        "model",
        "clip",
        "reached",
        "typical norm",
        "largest norm",
        "clip ever active",
    ],
    [data_row(name, row) for name in DATA for row in tables.find(name).rows],
    caption="Clipped and not, on real data. Norms are those before clipping.",
    source=[r for name in DATA for r in records.load(name)]
    or "No record yet: sab run clipping_ptb.",
)


# %%
def effect(name, model):
    """Our metric with the clip less that without, so that more is in favour of the clip."""
    values = []
    for row in (f"{model}_clip", f"{model}_noclip"):
        here = [r for r in records.load(name, row) if r.profile in claims.COUNTING]
        if not here:
            return "not run"
        values.append(here[0].metrics)
    clipped, free = values
    if "bpc" in clipped:
        return f"{free['bpc'] - clipped['bpc']:+.3f} bits"
    return f"{100 * (clipped['accuracy'] - free['accuracy']):+.1f} points"


for name in ("ptb", "books", "mnist"):
    for model in ("sab", "lstm"):
        glue(f"{name}_{model}", effect(f"clipping_{name}", model))

# %% [markdown]
# What the clip gains, by these records (a positive number: the clipped run is better). Penn Treebank:
# {glue:text}`ptb_sab:s` for SAB, {glue:text}`ptb_lstm:s` for the LSTM. The books: {glue:text}`books_sab:s` and
# {glue:text}`books_lstm:s`. MNIST in pixel order: {glue:text}`mnist_sab:s` and {glue:text}`mnist_lstm:s`. One seed each;
# and where nothing was run, nothing is said.
#
# Where the largest norm of a run lies below the clip, the clip never acted, and the two runs of a pair are the same
# to the last digit. "Little difference" is then true by construction. It says that a clip of that height was not
# needed, and nothing about lower ones: compare the clip of $0.1$ in the short runs above.
#
# ## The norms of the full-size runs

# %%
wanted = (
    "copy", "table1", "learns", "clipping", "clipping_adding", "table2_adding", "table2_ptb",
    "table4_pmnist",
)  # fmt: skip
groups = {}
for name in wanted:
    for record in records.load(name):
        if record.profile in claims.COUNTING and "grad_norm_max" in record.metrics:
            groups.setdefault((name, record.row), []).append(record)


def norms_of(name, row, group):
    """A row of the table."""
    clip = group[0].config["train"]["clip"]
    share = [above(r, clip) for r in group] if clip else []
    return (
        name,
        row,
        len(group),
        "none" if clip is None else f"{clip:g}",
        f"{max(typical_norm(r) for r in group):.2g}",
        f"{max(r.metrics['grad_norm_max'] for r in group):.1e}",
        f"{sum(share) / len(share):.0%}" if share else "–",
    )


show_table(
    ["experiment", "row", "seeds", "clip", "typical norm", "largest norm", "mean above the clip"],
    [norms_of(name, row, group) for (name, row), group in groups.items()],
    caption="Gradient norms before clipping in every record. Typical: median over evaluations, the "
    "larger of the seeds. States: the exact gradient of the scores.",
    source=[record for group in groups.values() for record in group],
)
sizes: dict[str, float] = {}
for group in groups.values():
    for r in group:
        kind = r.config.get("model_config", {}).get("score_gradient") or "no score"
        sizes[kind] = max(r.metrics["grad_norm_max"], sizes.get(kind, 0.0))
for kind in ("scorer", "states"):
    glue(f"largest_{kind}", f"{sizes[kind]:.0e}" if kind in sizes else "not run")

# How often the clip acts in the long runs: in their first stretch, and after 1,000 updates.
LATE = 1000
long_runs = [
    r
    for (name, row), g in groups.items()
    if name == "table1" and row.startswith("sab_5_5")
    for r in g
]
first_on, late_on = 0, []
for r in long_runs:
    clip = r.config["train"]["clip"]
    norms = [(e["update"], e["grad_norm"]) for e in r.history if e["grad_norm"] is not None]
    first_on += norms[0][1] > clip
    later = [norm > clip for update, norm in norms if update > LATE]
    late_on.append(sum(later) / max(len(later), 1))
glue("long_runs", len(long_runs))
glue("long_first", first_on)
glue("long_late", max(late_on, default=float("nan")))
seldom = max(late_on, default=1.0) < 0.1
always = long_runs and first_on == len(long_runs)
glue(
    "clip_told",
    "Early on the clip is active, later hardly ever" if always and seldom
    else "How often the clip is active changes along the way",
)  # fmt: skip
without = [key for key in groups if key[0].startswith("clipping")]
glue("clipping_rows", len(without))

# %% [markdown]
# At the full size the largest norms are of another order. Over all rows of the table they go up to
# {glue:text}`largest_scorer:s` with the scorer's inputs detached and {glue:text}`largest_states:s` with the exact
# gradient of the scores. Behind a clip even the latter train; [chapter 15](15_why.ipynb) asks what they cost. Of the experiments
# made to compare runs with and without a clip, {glue:text}`clipping_rows:d` rows have records
# (`sab run clipping`, `sab run clipping_adding`).
#
# ## What surprised us
#
# - **{glue:text}`clip_told:s`**: in the first stretch of {glue:text}`long_first:d` of our {glue:text}`long_runs:d`
#   long runs of SAB (5, 5) on copy, and after 1,000 updates in {glue:text}`long_late:.1%` of the stretches at most.
#   The short live runs of this page are early all the time. There, and at the start of a long one, it is no
#   safety belt but a normaliser.
# - **The gradient rises with distance**, where the symbols are. In a plain recurrent network that would be an
#   alarm. Here it is the point.
# - **The harm of a spike is the silence after it.**
#
# ## What it took

# %% tags=["hide-input"]
glue("live_count", len(live))
glue("live_minutes", sum(record.seconds for record in live.values()) / 60)

# %% [markdown]
# The {glue:text}`live_count:d` live runs of this page took {glue:text}`live_minutes:.1f` minutes on one thread.
#
# ## Exercises
#
# **1.** Every gradient of a run is longer than the clip. Does halving the clip change an Adam run? And
# one of plain gradient descent?
#
# **2.** How many updates after a spike of size $A$ (other gradients: 1) is Adam's step back at half its length?
# Neglect the correction for the start.
#
# **3.** A chain of recalls passes a gradient on with a factor of 1.5 each. How many recalls deep is a
# norm of $10^9$? How deep would the chain have to be with a factor of 0.9, to lose as much?

# %% tags=["hide-cell"]
# Solution of exercise 1: Adam's steps stay the same (but for epsilon); those of descent are halved.
ends = {}
for kind in (torch.optim.Adam, torch.optim.SGD):
    for clip in (0.1, 0.05):
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        optimiser = kind([weight], lr=0.01)
        for _ in range(50):
            optimiser.zero_grad()
            (10 * weight).square().sum().backward()
            torch.nn.utils.clip_grad_norm_([weight], clip)
            optimiser.step()
        ends[kind.__name__, clip] = (weight.detach() - torch.tensor([1.0, -2.0])).norm().item()
for (name, clip), moved in ends.items():
    print(f"{name:4s} clip {clip:<4g} moved {moved:.3f}")
assert abs(ends["Adam", 0.1] / ends["Adam", 0.05] - 1) < 1e-3
assert abs(ends["SGD", 0.1] / ends["SGD", 0.05] - 2) < 1e-3

# %% tags=["hide-cell"]
# Solution of exercise 2: v = 1 + 0.001 A^2 0.999^t, and half the length means v = 4:
# t = ln(0.001 A^2 / 3) / 0.001, roughly. For A = 1,000 that is some 5,800 updates.
import math

wait = math.log(0.001 * 1000**2 / 3) / -math.log(0.999)
simulated = steps_of_adam([1.0] * 4000 + [1000.0] + [1.0] * 8000)[4000 + 60 :]
half = next(i for i, entry in enumerate(simulated, 60) if entry["step"] >= 0.5)
print(f"by the formula {wait:,.0f} updates, simulated {half:,d}")
assert abs(half / wait - 1) < 0.05

# %% tags=["hide-cell"]
# Solution of exercise 3: 1.5^d = 1e9 and 0.9^d = 1e-9.
print(
    f"up: {math.log(1e9) / math.log(1.5):.0f} recalls; down: {math.log(1e9) / -math.log(0.9):.0f}"
)
