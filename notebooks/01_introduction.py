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
# # 1. Introduction: reminding
#
# You are driving and hear an odd noise. It passes, and you forget it. Half an hour later you stop
# and find a flat tyre. Now you remember the noise, and from then on you will pull over when you
# hear one like it.
#
# Look at what did *not* happen. You didn't replay the half hour in between, minute by minute, to
# find what was to blame. The flat tyre *reminded* you of one moment, and that moment is what you
# learned from.
#
# This book is about a way to let a recurrent network do the same: **Sparse Attentive
# Backtracking**, SAB {cite:p}`ke2018sparse`. At the end of this chapter you will know which
# problem it is meant for, its idea in one picture, what its authors claim and what they don't, and
# how the rest of the book puts it to the test.

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
import torch

from sab import notebook
from sab.experiments import claims
from sab.figures import backward_panels
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.sab import SABLayer
from sab.notebook import glue, show
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## Two difficulties, not one
#
# Put the story into a sequence of steps: the noise at step 3, the tyre at step 60, and 57 steps of
# road noise in between. A network that is to learn from it faces two separate problems.
#
# | | the problem | fails when |
# | --- | --- | --- |
# | **forward: memory** | at step 60, have what happened at step 3 at hand | the state is overwritten on the way |
# | **backward: credit** | when the loss at step 60 is large, change what was computed at step 3 | the gradient fades on the way, or is cut |
#
# They are easily confused, since a plain recurrent network solves both (or fails at both) with the
# same chain of steps. But a network may hold a memory that no gradient reaches, so that it never
# learns to hold it *well*. [Chapter 2](02_credit_assignment.ipynb) builds such a network. Here,
# first, a measurement: how much credit arrives at the noise?
#
# We take three kinds of untrained network, feed them noise, and ask autograd for the gradient of
# the last output with respect to the input at step 3. Ten networks of each kind, 16 sequences
# each.

# %%
STEPS, NOISE, FEATURES, UNITS = 60, 3, 4, 32


def credit(build):
    """Gradient norms at the noise, (10 networks × 16 sequences,)."""
    norms = []
    for number in range(10):
        torch.manual_seed(10 * seed + number)
        network = build()
        x = torch.randn(16, STEPS, FEATURES, requires_grad=True)
        last = network(x)[0][:, -1]
        (gradient,) = torch.autograd.grad((last @ torch.randn(last.shape[1])).sum(), x)
        norms.append(gradient[:, NOISE - 1].norm(dim=1))
    return torch.cat(norms)


arrived = {
    "bptt": credit(lambda: LSTM(LSTMConfig(FEATURES, UNITS, UNITS))),
    "tbptt": credit(lambda: LSTM(LSTMConfig(FEATURES, UNITS, UNITS, k_trunc=5))),
    "sab": credit(lambda: SABLayer(FEATURES, UNITS, k_trunc=5, k_top=5, k_att=2)),
}

# %% tags=["nbval-check-output"]
for name, norms in arrived.items():
    share, median = (norms > 0).float().mean(), norms.median()
    print(f"{name:6s} some credit in {share:.1f} of the sequences, median {median:.0e}")
assert arrived["tbptt"].max() == 0
assert arrived["sab"].median() > 100 * arrived["bptt"].median()

# %%
for name, norms in arrived.items():  # `glue` gives a value a name, so that the text can quote it
    glue(f"share_{name}", (norms > 0).float().mean())
    glue(f"median_{name}", norms.median())

# %% [markdown]
# | network, untrained | sequences in which the noise gets any credit | how much, median |
# | --- | ---: | ---: |
# | LSTM, full back-propagation through time (BPTT) | {glue:text}`share_bptt:.0%` | {glue:text}`median_bptt:.0e` |
# | LSTM, truncated to 5 steps (TBPTT-5) | {glue:text}`share_tbptt:.0%` | {glue:text}`median_tbptt:.0f` |
# | SAB, also truncated to 5 steps | {glue:text}`share_sab:.0%` | {glue:text}`median_sab:.1e` |
#
# With full BPTT {cite:p}`werbos1990backpropagation` credit arrives, but after 57 steps there is
# next to nothing left of it. With truncation {cite:p}`williams1990efficient`, which is what one
# uses when sequences are long, it does not arrive at all. SAB truncates just as sharply, and yet
# credit comes through, at a useful size.
#
# A caution at once: that credit *arrives* does not mean that it *helps*. These networks are
# untrained and give credit to whatever they happen to recall. Whether SAB learns to recall what
# matters is an empirical question, and most of this book.

# %% [markdown]
# ## The idea in one picture
#
# SAB stores some of its past states. At each step it compares its present state with the stored
# ones, picks the few that stand out, and adds them to itself: it is reminded. When it learns, the
# gradient takes the same short cuts, and at the other end goes on for a few ordinary steps, into
# the computation that made the recalled state.

# %%
lstm = {"k_att": 16, "k_trunc": 4, "truncation": "sliding", "reads": {}}  # stores nothing
show(
    backward_panels(
        {
            "Full BPTT: back through every step": {**lstm, "k_trunc": None},
            "TBPTT: a few steps, then nothing": lstm,
            "SAB: a few steps, and a few more before what was recalled": {
                **lstm,
                "k_att": 2,
                "reads": {16: [4]},
            },
        },
        steps=16,
        alt="Three rows of 16 steps; the loss is at the last step, the event at the third. Full "
        "BPTT passes credit through every step back to the first. TBPTT stops after a few steps. "
        "SAB stops too, but one long arrow leads from step 16 to the memory written at step 4, "
        "and a few steps before it receive credit, the event among them.",
    ),
    "The way of credit from a loss at step 16, with truncation after four steps. In the third row, "
    "step 16 recalled the state that was stored at step 4.",
    source="A diagram; the paths follow from the settings by the rule of sab.analysis.credit.",
)

# %% [markdown]
# Three numbers set the behaviour: how often a state is stored ($k_{\mathrm{att}}$), how many are
# read at once ($k_{\mathrm{top}}$), and how many ordinary steps the gradient runs
# ($k_{\mathrm{trunc}}$). [Chapter 3](03_mechanism.ipynb) takes them apart.

# %%
paper = {claim.id: claim.value for claim in claims.load()}
glue("paper_sab_300", paper["t1-sab-5-5-T300"])
glue("paper_lstm_300", paper["t1-lstm-T300"])
glue("paper_sab_5000", paper["t5-sab-T5000"])
glue("paper_lstm_5000", paper["t5-lstm-T5000"])

# %% [markdown]
# ## What the authors show
#
# **A principle:** learning over long spans does not need long back-propagation. Short local pieces
# will do, *if* the network learns useful short cuts through time. Three kinds of evidence are
# offered.
#
# - **It learns what truncation cannot.** In the copy task, ten symbols are to be repeated after a
#   delay. Trained at a delay of 300, SAB has {glue:text}`paper_sab_300:.1f` % of the symbols
#   right, the LSTM with full BPTT {glue:text}`paper_lstm_300:.1f` %.
# - **It carries over to longer sequences.** Trained at a delay of 100 *only* and tested at 5,000,
#   SAB keeps {glue:text}`paper_sab_5000:.0f` %, the LSTM {glue:text}`paper_lstm_5000:.0f` %; the
#   LSTM with dense attention ran out of memory.
# - **The two ingredients matter:** reading few instead of all memories, and running the gradient
#   on behind them.
#
# The first two bullets are *different experiments*. In one each network is trained at the length
# it is tested at, in the other it is not; their figures must not be mixed. And a figure of
# accuracy needs its chance line:

# %%
guessing = CopyTask(T=100).baselines()["accuracy"]
glue("guessing", guessing)
assert guessing == 1 / 8

# %% [markdown]
# Guessing one of eight symbols is right {glue:text}`guessing:.1%` of the time. So
# "{glue:text}`paper_lstm_5000:.0f` %" is nothing, and "{glue:text}`paper_sab_5000:.0f` %" is a
# good deal more than nothing and a good deal less than "still solves the task".
#
# ## What SAB is not
#
# Some things are often read into it. None of them is claimed.
#
# - **Not constant memory.** Stored states are never dropped; the memory grows with the sequence,
#   at inference too, where an LSTM needs only its state.
# - **Not linear time.** To find the few that stand out, *all* stored states are scored at every
#   step.
# - **Not an alternative to back-propagation.** It *is* back-propagation, on a graph with cuts and
#   short cuts; the gradient is an approximation.
# - **Not a model of the brain.** The idea comes from how people are reminded of things. The
#   evidence comes from artificial sequences and standard benchmarks, and has to be judged as such.
# - **Not uniformly better.** In the authors' own tables full BPTT wins on some tasks, and a
#   Transformer on one of the two image tasks.

# %% [markdown]
# ## Why a book about it
#
# The authors released code for the copy task {cite:p}`ke2018release`. It needs Python 2 and
# PyTorch 0.1.12, and a user who ran it reports results far from the paper's
# {cite:p}`release2024issue`. Comparing text and code, we found more than a dozen places where they
# differ, or where the paper is silent; they are in the [register](../book/discrepancies.md), each
# with a switch where a switch makes sense.
#
# So this book asks one question: **does SAB do what its paper says, and what does it take?** Three
# habits follow from it.
#
# 1. The article is the program. Each equation stands beside the lines that compute it, and each
#    claim about the mechanism is a check that runs in the page.
# 2. A result comes from a record: a small file with settings, seed, machine and learning curve.
#    The [first page](../book/index.md) counts which of the paper's claims have been reproduced so
#    far.
# 3. What we could not reproduce, or did not run, is said as plainly as what we could.
#
# ## A road map
#
# | chapter | the question it answers | paper |
# | --- | --- | --- |
# | [2. Credit assignment](02_credit_assignment.ipynb) | why does credit fade, and what does truncation really cost? | 1.1 |
# | [3. The mechanism](03_mechanism.ipynb) | what is stored, what is read, how far does credit go on? | 1.2 |
# | [4. Related work](04_related_work.ipynb) | how do skips, attention and the Transformer answer the same three? | 2 |
# | [5. SAB at a glance](05_algorithm.ipynb) | what does one step compute? | 3 |
# | [6. Sparse retrieval](06_sparse_retrieval.ipynb) | how do scores become a few weights, and what happens at the edges? | 3.1 |
# | [7. Sparse replay](07_sparse_replay.ipynb) | where does the gradient go, and why may it explode? | 3.2 |
# | [8. Set-up](08_setup.ipynb) | what exactly is run, against what? | 4, 7 |
# | [9. Copy](09_copy.ipynb) | does it learn? | 4 |
# | [13. Transfer](13_transfer.ipynb) | does what it learned hold on longer sequences? | 4 |
# | [14. Ablations](14_ablations.ipynb) | which of its parts does it need? | 4 |
# | [15. Why nobody could reproduce it](15_why.ipynb) | which choices decide whether it learns? | – |
# | [17. Complexity](17_complexity.ipynb) | what does it cost, in time and memory? | 8 |
#
# In a hurry? Read this chapter, the picture of [chapter 5](05_algorithm.ipynb), and
# [chapter 9](09_copy.ipynb). Want to use the layer? Go to [run it](../book/run_it.md). The symbols
# are on one page: [notation](../book/notation.md).

# %% [markdown]
# :::{admonition} What was surprising
# :class: tip
# In the measurement above SAB and TBPTT cut the gradient at the same five steps. On paper that
# sounds like a small addition to a truncated network. In numbers it is the difference between
# exactly nothing and a usable gradient, before anything has been learned.
# :::
#
# ## Exercises
#
# **1.** Trained with TBPTT-50, a network solves the copy task at a delay of 30, where a whole
# sequence is one block of 50 steps. At a delay of 100 it fails. Memory or credit? Which experiment
# would tell?
#
# **2.** Ten symbols out of eight kinds: how often does a guesser get the *whole string* right? Why
# does the paper count symbols?
#
# **3.** Repeat the measurement of this chapter with SAB whose recalled memories pass no gradient
# on (`replay="none"`). What do you expect?

# %% [markdown]
# :::{dropdown} Solution 1
# Not decided by the result alone. Take weights that solve the long delay (trained with full BPTT)
# and run them in the truncated network: if it answers as well, its memory was never the problem.
# [Chapter 2](02_credit_assignment.ipynb) does just that.
# :::
#
# :::{dropdown} Solution 2
# Once in $8^{10}$, about a billion. Whole strings would show zero for everything short of
# near-perfect models; symbols tell "a little" from "nothing".
# :::

# %% tags=["hide-cell"]
# Solution 2, from the task itself.
chance = CopyTask(T=100).baselines()["string_accuracy"]
print(f"one in {1 / chance:,.0f}")
assert round(1 / chance) == 8**10

# %% [markdown]
# :::{dropdown} Solution 3
# Nothing arrives, as for TBPTT: reading the past forward is not enough. The short cut must carry
# gradient too.
# :::

# %% tags=["hide-cell"]
# Solution 3, measured.
forward_only = credit(lambda: SABLayer(FEATURES, UNITS, replay="none"))
print(f"largest gradient at the noise: {forward_only.max():.1f}")
assert forward_only.max() == 0
