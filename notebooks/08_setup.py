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
# # 8. Setup
#
# Before any result: what is the model asked to do, what is it compared with, how is it judged, and
# with which settings? At the end of this chapter you can read a table of the paper without falling
# for a number, and you know which settings the paper states, which it does not, and what this book
# does about those.
#
# It follows the opening of section 4 of the paper and its appendix, 7.1 to 7.5
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
import dataclasses
import math

import torch
from torch.nn import functional

from sab import notebook
from sab.experiments import claims
from sab.experiments.config import TrainConfig
from sab.experiments.profiles import PROFILES
from sab.experiments.rows import RECIPE, seeds_of
from sab.experiments.tables import BUDGET, EXPERIMENTS
from sab.models.sab import SABConfig, SABLayer
from sab.notebook import glue, show_table
from sab.tasks.adding import AddingTask
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## The tasks
#
# | task | goes in | comes out | judged by | what it asks for |
# | --- | --- | --- | --- | --- |
# | copy | 10 symbols, a delay, a signal | the 10 symbols | accuracy ↑, cross-entropy ↓ | many distant events, each needed exactly |
# | adding | numbers in [0, 1], two of them marked | their sum | loss ↓ | two distant events, to be combined |
# | PTB, Text8 | characters | the next character | bits per character ↓ | whatever helps in real text |
# | pMNIST | 784 pixels in a fixed random order | the digit | accuracy ↑ | evidence spread over the whole sequence |
# | CIFAR-10 | 1,024 pixels in their order | the class | accuracy ↑ | the same, longer and harder |
#
# The first two are artificial: one knows which steps matter, so one can see whether credit reached
# them. [The next chapter](09_copy.ipynb) draws a copy sequence. Here is an adding sequence of
# twelve steps.

# %%
x, y = AddingTask(T=12).batch(1, torch.Generator().manual_seed(seed))

# %% tags=["nbval-check-output"]
print("value:", " ".join(f"{v:.2f}" for v in x[0, :, 0]))
print("mark: ", " ".join("   ^" if m else "   ." for m in x[0, :, 1]))
print(f"sum:   {y[0]:.2f}")

# %%
assert torch.isclose((x[0, :, 0] * x[0, :, 1]).sum(), y[0])
assert x[0, :6, 1].sum() == 1 and x[0, 6:, 1].sum() == 1  # one mark in each half

# %% [markdown]
# The evidence in the paper is of this kind: sequences made for the purpose, characters, pixels.
# The biology that the paper opens with inspired the design. It is not what is tested.

# %% [markdown]
# ## The opponents, and what each is for
#
# A comparison answers a question only if one thing differs. So ask of each baseline which thing
# that is.
#
# | model | sees the past through | credit goes | beside SAB, it shows |
# | --- | --- | --- | --- |
# | LSTM, full BPTT | the recurrent state | along the whole chain | whether memory adds anything to the strongest plain training |
# | LSTM, TBPTT | the recurrent state | $k_{\mathrm{trunc}}$ steps along the chain | what truncation costs, and how much of it SAB wins back |
# | LSTM + full self-attention | all past states | everywhere | whether reading a few is as good as reading all |
# | dense attention, truncated | all past states | through all reads, truncated | whether *sparsity* matters, or attention alone would do |
# | SAB without mental updates | few memories | to the memory and not on | what the local replay adds |
# | Transformer | all positions, no recurrence | everywhere | how the recurrent road compares; only on the two image tasks |
#
# The pair that isolates SAB's idea is **SAB against TBPTT with the same $k_{\mathrm{trunc}}$**. A
# comparison of SAB at $k_{\mathrm{trunc}}=20$ with TBPTT at 5 changes two things at once.
#
# And "full BPTT" is only as full as the sequence. In language modelling the text is cut into
# segments, and the gradient never leaves one: 100 characters for PTB, 180 for Text8. A model that
# is called full there has never been shown a dependency of 200 steps. (The *state* may be carried
# from segment to segment. The credit is not.)

# %% [markdown]
# ## How to read the metrics
#
# ### Accuracy counts symbols, not strings
#
# On copy, accuracy is the share of the ten *symbols* that are right. A string of ten can be quite
# wrong at a high accuracy. If errors fell independently, a symbol accuracy of $p$ would give
# $p^{10}$ whole strings. We let a make-believe model answer right with probability $p$ and ask the
# task for both.

# %%
task = CopyTask(T=20)


def pretend(p, count=4000):
    """Metrics of a model that answers each symbol right with probability p, else one symbol off."""
    generator = torch.Generator().manual_seed(seed)
    _, y = task.batch(count, generator)
    wrong = torch.rand(y.shape, generator=generator) > p
    answer = torch.where(wrong & (y > 0), y % task.symbols + 1, y)
    return task.metrics(20.0 * functional.one_hot(answer, task.output_size).float(), y)


levels = (0.125, 0.5, 0.9, 0.95, 0.99, 0.999)
judged = {p: pretend(p) for p in levels}
show_table(
    ["right with probability", "accuracy", "whole strings", "p to the tenth"],
    [
        (p, f"{m['accuracy']:.1%}", f"{m['string_accuracy']:.1%}", f"{p**task.length:.1%}")
        for p, m in judged.items()
    ],
    caption="Symbols and strings on 4,000 made-up answers.",
)
glue("strings_at_90", judged[0.9]["string_accuracy"])
glue("p90", 0.9)
assert abs(judged[0.9]["string_accuracy"] - 0.9**10) < 0.03

# %% [markdown]
# At {glue:text}`p90:.0%` of the symbols, {glue:text}`strings_at_90:.0%` of the strings are right.
# Whenever this book says accuracy, it means
# symbols.
#
# ### The cross-entropy of the whole sequence is mostly blanks
#
# The copy loss is the mean cross-entropy over *all* steps. For a delay of $T$ there are $T+20$,
# and at all but ten of them the right answer is "blank". A model without memory can know that: it
# learns when to answer, and for the ten answers it spreads its bet over the eight symbols. Its
# scores follow from counting:
#
# $$
# \mathrm{CE}_{10} = \ln 8, \qquad \mathrm{CE} = \frac{10 \ln 8}{T + 20} .
# $$ (eq-memoryless)


# %%
def memoryless(task, y):
    """Logits of a model that knows when to answer and nothing of what."""
    logits = torch.full((*y.shape, task.output_size), -50.0)
    logits[:, : -task.length, 0] = 50.0
    logits[:, -task.length :, 1 : task.symbols + 1] = 0.0
    return logits


rows = []
for T in (20, 100, 300, 5000):
    task = CopyTask(T=T)
    _, y = task.batch(64, torch.Generator().manual_seed(seed))
    measured, formula = task.metrics(memoryless(task, y), y), task.baselines()
    assert abs(measured["ce"] - formula["ce"]) < 1e-4
    assert abs(measured["ce10"] - formula["ce10"]) < 1e-4
    everywhere = 1 - task.length * (1 - formula["accuracy"]) / task.steps
    rows.append(
        (
            T,
            f"{formula['accuracy']:.1%}",
            f"{formula['ce10']:.3f}",
            f"{formula['ce']:.4f}",
            f"{everywhere:.2%}",
        )
    )
show_table(
    ["delay", "accuracy", "CE of the ten", "CE of all steps", "right answers, counting blanks"],
    rows,
    caption="A model that remembers nothing, in closed form.",
)

# %% [markdown]
# Read the last row. A model that remembers *nothing* has a cross-entropy near zero over the whole
# sequence, and would be right almost everywhere if blanks counted. So a small CE says little, it
# falls as the delay grows, and it cannot be compared between delays. The ten symbols are what the
# task is about: accuracy and $\mathrm{CE}_{10}$.
#
# ### What an accuracy forces on a cross-entropy
#
# The two are tied together. An answer counts as wrong only if some other class got at least as
# much probability. So the right one got at most one half, and costs at least $\ln 2$:
#
# $$
# \mathrm{CE}_{10} \;\ge\; (1 - A) \ln 2 .
# $$ (eq-bound)

# %%
for metrics in judged.values():
    assert metrics["ce10"] >= (1 - metrics["accuracy"]) * math.log(2)

paper = {claim.id: claim.value or 0.0 for claim in claims.load()}
accuracy, ce10 = paper["t1-lstm-T300"], paper["t1-lstm-T300-ce10"]
lowest = (1 - accuracy / 100) * math.log(2)
glue("reported_accuracy", accuracy)
glue("reported_ce10", ce10)
glue("lowest_ce10", lowest)
assert 0 < ce10 < lowest

# %% [markdown]
# The paper's Table 1 lists a $\mathrm{CE}_{10}$ of {glue:text}`reported_ce10:.3f` for the LSTM at
# $T = 300$, beside an accuracy of {glue:text}`reported_accuracy:.1f` %. With that accuracy it cannot
# be below {glue:text}`lowest_ce10:.3f`. One of the two numbers is wrong. It is entry D12 of the
# [register](../book/discrepancies.md), and the reason why this book relies on the accuracies.
#
# ### Chance
#
# A number means something beside what guessing gives. Every accuracy figure in this book shows
# that line.

# %%
generator = torch.Generator().manual_seed(seed)
_, sums = AddingTask(T=50).batch(200_000, generator)
adding = AddingTask(T=50).baselines()["mse"]
assert abs((sums - 1).square().mean() - adding) < 0.002  # always answering 1
assert abs(sums.var() - 1 / 6) < 0.002

show_table(
    ["task", "guessing means", "gives"],
    [
        ("copy", "one of eight symbols", f"{CopyTask().baselines()['accuracy']:.1%}"),
        ("adding", "always answering 1, the mean", f"squared error {adding:.3f} = 1/6"),
        ("pMNIST, CIFAR-10", "one of ten classes", f"{1 / 10:.0%}"),
        ("characters", "all equally likely, 50 of them", f"{math.log2(50):.2f} bits per character"),
    ],
    caption="What no memory and no learning give.",
)

# %% [markdown]
# Two of these need a remark.
#
# **Adding.** The task has a real number as its answer, and the paper calls its loss a
# cross-entropy without saying of what. Ours is the mean squared error. So the paper's numbers and
# ours have no common unit. What can be compared is the *order* of the models (D13).
#
# **Bits per character** is the average surprise, to the base 2, over the $N$ characters of the
# test text:
#
# $$
# \mathrm{BPC} = -\frac{1}{N} \sum_{t=1}^{N} \log_2 p(x_t \mid x_{<t}) .
# $$
#
# It is the cross-entropy in nats divided by $\ln 2$. Lower is better: more probability for what
# was really there.

# %% [markdown]
# ## The paper's settings
#
# This is what the paper and its appendix say. *Not stated* means that we looked for it and it is
# not there; a dash, that the source document of this book says nothing either way. Triples are
# $(k_{\mathrm{trunc}}, k_{\mathrm{top}}, k_{\mathrm{att}})$.

# %% tags=["hide-input"]
NOT = "not stated"
settings = [
    ("hidden units", "128", "128", "1000", f"baselines 1000; SAB {NOT}", "128 (LSTM family)", "–"),
    ("steps", "T + 20; T = 100, 200, 300", "200, 400", "100, no overlap", "180", "784", "1024"),
    ("learning rate", "Adam, 0.001", "Adam, 0.001", "0.002", "–", "0.001", "–"),
    ("batch", NOT, NOT, "32", "64", "–", "–"),
    ("training", f"updates {NOT}", f"updates {NOT}", "at most 100 epochs, early stop", "SAB at most 30 epochs",
     "about 100 epochs, early stop", "–"),
    ("SAB", f"(1,1) (1,5) (5,5) (10,10); k_att {NOT}", f"(10,10); k_att {NOT}",
     "(10,5,10) (10,10,10) (20,5,20) (20,10,20)", "(10,5,10) (10,10,10) (20,5,20) (20,10,20)",
     "(20,5,20) (20,10,20) (50,10,50)", "(16,10,16)"),
    ("dropout", NOT, NOT, NOT, NOT, NOT, NOT),
    ("Transformer", "none", "none", "none", "none", f"size {NOT}", f"size {NOT}"),
    ("other", "dense ablation: learning rate searched, 0.001 to 0.00001", "–", "–",
     "first 90 M characters train, next 5 M validate, last 5 M test", "one fixed permutation", "not permuted"),
]  # fmt: skip
show_table(
    ["", "copy", "adding", "PTB", "Text8", "pMNIST", "CIFAR-10"],
    settings,
    caption="Configurations. The transfer table (train at T = 100, test at up to 5000) does not "
    "state its SAB setting either.",
    source="From the paper, section 4 and appendix 7.1 to 7.5.",
)
silent = sum(NOT in cell for row in settings for cell in row)
glue("silent", silent)

# %% [markdown]
# {glue:text}`silent:d` cells of this table say "not stated". Some of these settings may not
# matter. The trouble is that one can't know which before trying, and each multiplies the number of
# things to try. A reader who sets out from this table has to choose a batch size, a number of
# updates and a $k_{\mathrm{att}}$ for the copy task before the first run.
#
# ### Two settings that are one model
#
# The PTB column offers an exercise in reading. It lists (20, 5, 20) and (20, 10, 20), which the
# paper's Table 2 reports at 1.39 and 1.37. Sequences have 100 steps. How many memories are there
# to choose from?

# %%
options = SABConfig(k_att=20, k_trunc=20).options()
most = max(options.held(t - 1) for t in range(1, 101))  # memories that step t can read
assert most == 4

torch.manual_seed(seed)
five = SABLayer(10, 16, k_top=5, k_att=20, k_trunc=20)
ten = SABLayer(10, 16, k_top=10, k_att=20, k_trunc=20)
ten.load_state_dict(five.state_dict())
x = torch.randn(4, 100, 10)
with torch.no_grad():
    same = torch.allclose(five(x)[0], ten(x)[0], atol=1e-6)
assert same

# %% tags=["nbval-check-output"]
print("memories at most:", most)
print("k_top 5 and 10 give the same output:", same)

# %% [markdown]
# At most four. With four memories, "read at most five" and "read at most ten" are the same
# instruction. Unless the memory is carried over from one segment to the next, the two rows are
# **one model trained twice**, and their difference is a measure of chance (D14).

# %% [markdown]
# ## What this book does
#
# ### One recipe
#
# Where the paper states a width or an optimiser, we use it: 128 units, Adam. The rest of the
# recipe comes from trial runs of SAB on the copy task, and is used for all rows of a table. That
# favours SAB. The experiment `search` is there to give SAB and each baseline the same small search;
# `sab table search` shows what of it has been run. Where a table departs from the recipe,
# all its rows do, and its chapter says so.

# %% tags=["hide-input"]
default = SABConfig()
train = TrainConfig(**RECIPE)
show_table(
    ["setting", "value", "where it is from"],
    [
        ("hidden units", default.hidden_size, "appendix 7.1"),
        ("optimiser", "Adam", "appendix 7.1"),
        ("learning rate", f"{train.lr:g}", "trial runs; the appendix has 0.001"),
        ("gradient norm clipped to", f"{train.clip:g}", "trial runs"),
        ("batch", train.batch_size, "released code"),
        ("k_att on copy", default.k_att, "released code"),
        ("forget bias at the start", f"+{default.forget_bias:g}", "trial runs"),
        (
            "schedule",
            f"{train.schedule}: times {train.lr_factor:g} after {train.drop_at[0]:.0%}",
            "trial runs",
        ),
        ("updates on copy", ", ".join(f"{n:,} at T={T}" for T, n in BUDGET.items()), "budget"),
        (
            "stop early",
            f"{train.solved_at:.1%} on held-out data, {train.solved_times} times running",
            "ours",
        ),
        ("gradient through the scores", default.score_gradient, "chapter 7"),
        ("block offset", default.block_offset, "released code"),
    ],
    caption="The recipe. The model is chosen on held-out data and tested on fresh data.",
    source="Read from sab/experiments/rows.py and the default SABConfig in this cell.",
)

# %% [markdown]
# ### Three presets
#
# `SABConfig()` is the recipe that learns. `SABConfig.literal()` is the paper to the letter.
# `SABConfig.released()` has every switch as the authors' code has it. The last two differ from the
# first here:

# %%
presets = {"default": default, "literal": SABConfig.literal(), "released": SABConfig.released()}
names = [f.name for f in dataclasses.fields(SABConfig)]
differ = [n for n in names if len({getattr(p, n) for p in presets.values()}) > 1]
show_table(
    ["switch", *presets],
    [(n, *(getattr(p, n) for p in presets.values())) for n in differ],
    caption="Where the presets differ.",
    source="Compared in this cell.",
)
assert "score_gradient" in differ

# %% [markdown]
# ### Three profiles
#
# A profile scales an experiment and changes nothing else about it.


# %%
def count(profile):
    return sum(seeds_of(row, profile) for e in EXPERIMENTS.values() for row in e.rows)


show_table(
    ["profile", "what it is", "runs in the book's tables"],
    [(name, p.title, count(name)) for name, p in PROFILES.items()],
    caption="Profiles. A chapter's default, records, runs nothing: it reads results/.",
    source="Read from sab/experiments in this cell.",
)

# %% [markdown]
# Each run leaves one small JSON file, a *record*: settings, seed, metrics, the learning curve,
# machine, seconds, memory, version. Figures and tables of results are drawn from records, and the
# verdicts on the paper's claims are computed from them. `sab list` names the experiments, `sab run
# copy --dry-run` says what would run and for how long; [run it](../book/run_it.md) has the rest.
#
# ## What surprised us
#
# - **The wrong loss looks excellent.** Remember nothing, and at a delay of 5,000 the training loss
#   is already almost zero. Progress on the task is in the third decimal of the loss.
# - **So many silent cells.** The paper's appendix is not unusually terse. It is what was
#   customary. It is still not enough to run the experiments.
# - **A difference between two rows can be noise by construction.** The PTB pair is the rare case
#   in which one can prove it.
#
# ## Exercises
#
# **1.** At which delay does a memoryless model reach a whole-sequence cross-entropy of 0.01?
#
# **2.** The paper's best Text8 model has 1.44 bits per character. How many times as much
# probability does it give to the average character as a uniform guess over 27 characters?
#
# **3.** A colleague reports SAB (20, 10, 20) at 90.9 % on pMNIST against TBPTT with truncation 5.
# What can be concluded about sparse replay?
#
# :::{dropdown} Solution
# Little. Truncation differs (20 against 5) and so does the memory, so a gain may come from either.
# The matched opponent is TBPTT with truncation 20; to single out replay, SAB without mental
# updates.
# :::

# %% tags=["hide-cell"]
# Solution of exercise 1: 10 ln 8 / (T + 20) = 0.01.
delay = 10 * math.log(8) / 0.01 - 20
assert round(delay) == 2059
assert abs(CopyTask(T=round(delay)).baselines()["ce"] - 0.01) < 1e-5

# Solution of exercise 2: the surprise is the mean logarithm, so this is a geometric mean.
factor = 27 / 2**1.44
assert round(factor, 1) == 10.0
