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
# # 5. SAB at a glance
#
# Chapter 3 said what SAB is for. This chapter shows all of it at once: two pictures and nine
# lines. At the end you can say what is stored, what is read and where credit goes, and you have
# taken one step of the algorithm by hand and found the same numbers as the package. The two
# chapters after it go into the two halves, [retrieval](06_sparse_retrieval.ipynb) and
# [replay](07_sparse_replay.ipynb).
#
# It follows the opening of section 3 of the paper, Algorithm 1, and Figures 1 and 2
# {cite:p}`ke2018sparse`. Both figures are our own drawings, made by functions that take any
# setting of the three budgets.

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
import inspect

import torch

from sab import notebook
from sab.figures import attention_map, backward_diagram, forward_diagram
from sab.models.sab import SAB, SABConfig
from sab.notebook import glue, show, show_table
from sab.ops.sab_scan import reference
from sab.ops.scores import additive
from sab.ops.sparse_weights import sparse_weights

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## The forward picture
#
# An LSTM passes one state from step to step. SAB keeps that chain and lays a second road beside
# it: now and then a state is *stored*, and at every step the present *looks back* over all that is
# stored and takes in a few of them.

# %%
show(
    forward_diagram(k_top=3, k_att=2, k_trunc=2),
    caption="The forward pass. Time runs to the right. Every second state goes into the memory; "
    "the last step scores all of them and takes in at most three.",
)

# %% [markdown]
# Follow the last step, from the bottom up. The LSTM cell makes a provisional state
# $\hat{\boldsymbol h}$, which serves as the question. Each stored state gets a score: how well
# does it answer? Nearly all of the scores become a weight of exactly zero. The few that stay are
# averaged, and the average is added to the provisional state. Note which lines are many and which
# are few: **everything stored is scored, little of it is read**.
#
# ### Three numbers
#
# | number | what it sets | what it does *not* set |
# | --- | --- | --- |
# | $k_{\mathrm{att}}$ | a state is written every $k_{\mathrm{att}}$ steps: how dense the memory is | how often it is read: that is at every step |
# | $k_{\mathrm{top}}$ | a read takes in at most $k_{\mathrm{top}}$ memories | how many are scored: that is all of them |
# | $k_{\mathrm{trunc}}$ | how far the gradient runs along the chain, from the loss and from each recalled memory | how far back a recall may jump: there is no limit |
#
# The name $k_{\mathrm{att}}$ invites a mistake. It is not the interval at which the model attends.

# %% [markdown]
# ## Algorithm 1, line by line
#
# The whole forward pass is nine lines. Here they are in order, with our numbering, in the symbols
# of the [notation page](../book/notation.md). At step $t = 1, 2, \dots$, with the memory $\mathcal
# M$ empty at first:
#
# $$
# \begin{array}{rl}
# (1) & \hat{\boldsymbol h}^{(t)},\ \boldsymbol c^{(t)} \leftarrow \mathrm{LSTMCell}(\boldsymbol h^{(t-1)}, \boldsymbol c^{(t-1)}, \boldsymbol x^{(t)}) \\
# (2) & \boldsymbol d_i \leftarrow \boldsymbol W_1 \boldsymbol m^{(i)} + \boldsymbol W_2 \hat{\boldsymbol h}^{(t)} \quad\text{for each}\ \boldsymbol m^{(i)} \in \mathcal M \\
# (3) & a_i \leftarrow \boldsymbol W_3 \tanh(\boldsymbol d_i) \\
# (4) & \tau \leftarrow \text{the } (k_{\mathrm{top}}+1)\text{-th largest of the } a_i \\
# (5) & \alpha_i \leftarrow \max\{a_i - \tau,\, 0\} \,\big/\, \sum_j \max\{a_j - \tau,\, 0\} \\
# (6) & \boldsymbol s^{(t)} \leftarrow \sum_i \alpha_i \boldsymbol m^{(i)} \\
# (7) & \boldsymbol h^{(t)} \leftarrow \hat{\boldsymbol h}^{(t)} + \boldsymbol s^{(t)} \\
# (8) & \boldsymbol y^{(t)} \leftarrow \boldsymbol V_1 \boldsymbol h^{(t)} + \boldsymbol V_2 \boldsymbol s^{(t)} + \boldsymbol b \\
# (9) & \text{if } t \equiv 0 \pmod{k_{\mathrm{att}}}: \text{ append } \boldsymbol h^{(t)} \text{ to } \mathcal M
# \end{array}
# $$
#
# Now the same lines as code. We stop a small model just before step 12 and take that one step by
# hand, with the functions that the package itself is made of. Eight hidden units, a state written
# every second step, at most three memories read.

# %%
torch.manual_seed(seed)
model = SAB(
    SABConfig(input_size=4, hidden_size=8, output_size=3, k_top=3, k_att=2, form="reference")
).double()
layer = model.layer
x = torch.randn(1, 12, 4, dtype=torch.float64)  # (batch, steps, features)

_, _, before = layer(x[:, :11])  # the state after eleven steps
memory = before.memory  # (batch, memories, hidden)

# %% tags=["nbval-check-output"]
print("memories held:", memory.shape[1], "of width", memory.shape[2])
print("written at steps:", [layer.options.k_att * (i + 1) for i in range(memory.shape[1])])

# %% [markdown]
# **Line 1: ask.** The cell is the ordinary LSTM cell, with the gates in the order of
# `torch.nn.LSTM`. What it gives is marked with a hat: it has seen the present input, but no memory
# yet.

# %%
gates = x[:, 11] @ layer.weight_ih.T + layer.bias
h_hat, c = reference.lstm_cell(gates, before.h, before.c, layer.weight_hh)

# %% [markdown]
# **Lines 2 and 3: score.** Each memory and the question meet inside the $\tanh$. Five memories,
# five numbers.

# %%
a = additive(memory, h_hat, layer.w1, layer.w2, layer.w3)
assert a.shape == (1, 5)

# %% [markdown]
# **Lines 4 and 5: choose.** The fourth-best score is the threshold, because $k_{\mathrm{top}}+1 =
# 4$. What lies above it counts by *how far* it lies above it. The rest is exactly zero. This step
# has a [chapter to itself](06_sparse_retrieval.ipynb).

# %%
alpha = sparse_weights(a, k_top=3).dense(5)

# %% tags=["nbval-check-output"]
for i in range(5):
    print(f"memory of step {2 * (i + 1):2d}: score {a[0, i]:+.2f}, weight {alpha[0, i]:.2f}")

# %% [markdown]
# **Lines 6 and 7: take in.** The summary is the weighted average of the memories. It is added to
# the hidden state. It is *not* added to the cell state $\boldsymbol c$, which goes on to the next
# step as the LSTM left it.

# %%
s = (alpha[:, :, None] * memory).sum(1)
h = h_hat + s

# %% [markdown]
# **Line 8: answer.** The read-out sees the summary twice: inside $\boldsymbol h$, and by itself.

# %%
y = model.v1(h) + model.v2(s)

# %% [markdown]
# **Line 9: store.** Twelve is a multiple of two, so the new state becomes the sixth memory. It is
# stored *after* the read, so no state can recall itself.

# %%
memory = torch.cat([memory, h[:, None]], dim=1)

# %% [markdown]
# Is that what the package computes? Let it take the same step.

# %%
h_package, s_package, after = layer.step(x[:, 11], before)
y_package, _ = model(x)

for ours, theirs in [(h, h_package), (s, s_package), (c, after.c), (memory, after.memory)]:
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)
assert torch.allclose(y, y_package[:, -1], rtol=0, atol=1e-12)

# %% [markdown]
# It is, to the last digits of double precision. You have now read the forward pass of SAB.
#
# ### Where each line lives
#
# The readable form of the algorithm is one function, `reference_scan` in
# [sab/ops/sab_scan/reference.py](https://github.com/sab-book/sab-book/blob/main/sab/ops/sab_scan/reference.py).
# The table quotes it. The cell checks each quotation against the source, so the two can't part.

# %%
quoted = [
    ("1", "h_hat, c_new = lstm_cell(gates[t], h, c, w_hh)"),
    ("2, 3", "torch.tanh(keys + (query @ w2.T)[:, None]) @ w3"),
    ("4", "indices = select(scores[0], count, options.candidates)"),
    ("5", "weights = torch.stack([w for w, _ in weighed])"),
    ("6", "s = (weights[..., None] * values).sum(2)"),
    ("7", "h_new = h_hat + s"),
    ("9", "write = (now % options.k_att == 0) & live"),
]
source = inspect.getsource(reference).splitlines()
rows = []
for number, line in quoted:
    found = [i + 1 for i, text in enumerate(source) if line in text]
    assert len(found) == 1, line
    rows.append((f"line {number}", line, f"reference.py:{found[0]}"))
show_table(
    ["Algorithm 1", "the line in the package", "where"],
    rows,
    caption="Line 8 is the read-out and lives in sab/models/sab.py.",
    source="Read from the source in this cell.",
)

# %% [markdown]
# One line of it is worth a second look. The algorithm as printed computes $\boldsymbol W_1
# \boldsymbol m^{(i)}$ for every memory at every step. A memory never changes once it is written,
# so neither does that product: the code computes it once, at the write, and calls it the memory's
# *key*. The result is the same and a factor of the cost is gone.

# %% [markdown]
# ## The backward picture
#
# Algorithm 1 says what is computed, not what is learned from. In training, credit has two roads as
# well: back along the chain, cut after $k_{\mathrm{trunc}}$ steps; and through the few memories
# that were read, straight to the steps that wrote them, and from there a little further back along
# the chain. The second part, the little further, is what the paper calls a *mental update*.

# %%
show(
    backward_diagram(k_top=2, k_att=2, k_trunc=3, steps=12),
    caption="The backward pass of one loss, at the last step. Credit goes along the chain until it "
    "is cut, jumps to the memories that were read, and goes along the chain from there.",
)

# %% [markdown]
# Between two islands of credit lie steps that get none. That is not an accident of the drawing but
# the point of the method: the steps that mattered are trained, those in between are not visited at
# all. [Chapter 7](07_sparse_replay.ipynb) takes this picture apart.

# %% [markdown]
# ## Four facts to hold on to
#
# Each is easy to get wrong, and each can be read off a run. We run the small model over 40 steps
# and ask what it recalled.

# %%
x = torch.randn(8, 40, 4, dtype=torch.float64)
h, s, state, recall = layer(x, return_recall=True)

t = torch.arange(1, 41)[None, :, None]  # the step that reads
read = recall.weights > 0
jump = (t - recall.steps)[read]  # how far back, in steps

# %% [markdown]
# **It reads at every step** at which there is anything to read, **and writes at every second.**

# %%
assert read.any(2)[:, 2:].all()  # the first memory is written at step 2, so step 3 can read it
assert not read.any(2)[:, :2].any()
assert (recall.steps[read] % layer.options.k_att == 0).all()
assert state.memory.shape[1] == 40 // layer.options.k_att

# %% [markdown]
# **It never reads itself.** The shortest jump is one step.

# %%
assert jump.min() >= 1

# %% [markdown]
# **A small $k_{\mathrm{trunc}}$ does not bound the jump.** This model truncates after five steps
# of the chain. Its recalls reach as far back as there is memory.

# %% tags=["nbval-check-output"]
print("k_trunc:", layer.options.k_trunc)
print("longest jump:", int(jump.max()), "steps")

# %%
glue("k_trunc", layer.options.k_trunc)
glue("longest_jump", int(jump.max()))

# %% [markdown]
# The longest jump here is {glue:text}`longest_jump:d` steps, with $k_{\mathrm{trunc}}$ at
# {glue:text}`k_trunc:d`. On the copy task the useful jumps are as long as the delay.
#
# **The read-out weighs state and summary apart.** Since $\boldsymbol h = \hat{\boldsymbol h} +
# \boldsymbol s$, line 8 is the same as
#
# $$
# \boldsymbol y = \boldsymbol V_1 \hat{\boldsymbol h} + (\boldsymbol V_1 + \boldsymbol V_2)\, \boldsymbol s + \boldsymbol b .
# $$
#
# $\boldsymbol V_1$ alone would force one matrix on both. With $\boldsymbol V_2$ the output may
# lean on what was recalled, or ignore it, whatever the recurrent state does with it.

# %%
v1, v2 = model.v1.weight, model.v2.weight
y, _ = model(x)
by_parts = (h - s) @ v1.T + s @ (v1 + v2).T + model.v1.bias
assert torch.allclose(y, by_parts, rtol=0, atol=1e-12)

# %% [markdown]
# ## What an untrained model recalls
#
# One more picture, which we will meet again when the model has learned something: row by row,
# which memories a step reads. Before training the choice is arbitrary, but it is already sparse.

# %%
show(
    attention_map(recall.matrix()[0].detach()),
    caption="Reading weights of one untrained run of 40 steps. Row: the step that reads. "
    "Column: the step at which the memory was written.",
)

# %%
scored = 8 * sum(layer.options.held(step) for step in range(40))
glue("scored", scored)
glue("read_share", float(read.sum() / scored))

# %% [markdown]
# Of the {glue:text}`scored:,d` scores computed in these eight sequences,
# {glue:text}`read_share:.0%` led to a read. The longer the sequence, the smaller that share.
#
# ## What surprised us
#
# - **The state can grow.** An LSTM's hidden state lies between −1 and 1. Here an average of old
#   states is added to it, and those had older states added to them. Nothing in Algorithm 1 bounds
#   the sum. [Chapter 6](06_sparse_retrieval.ipynb) measures it.
# - **What the nine lines leave open.** The memory is empty at the first step: what is the
#   threshold of no scores? With three memories and $k_{\mathrm{top}}=3$ there is no fourth-best
#   score. If all scores are equal, line 5 divides zero by zero. An implementer meets all three
#   within the first ten steps of the first sequence.
# - **Nothing here mentions truncation.** Where exactly the chain is cut is not in Algorithm 1 but
#   in a figure and a paragraph, which allow several readings. They give different models. [Chapter
#   7](07_sparse_replay.ipynb).
#
# ## Exercises
#
# **1.** How many memories can step $t$ choose from? At which step does the model of this chapter
# first have a fourth-best score?
#
# :::{dropdown} Solution
# A state is written at each multiple of $k_{\mathrm{att}}$ and read from the next step on, so step
# $t$ sees $\lfloor (t-1)/k_{\mathrm{att}} \rfloor$ memories. With $k_{\mathrm{att}}=2$ there are
# four from step 9 on.
# :::
#
# **2.** Choose $\boldsymbol V_2$ so that the output ignores what is recalled at this step. Does
# the memory still matter?
#
# **3.** Line 9 stores $\boldsymbol h$, not $\hat{\boldsymbol h}$. What would be lost if it stored
# $\hat{\boldsymbol h}$?
#
# :::{dropdown} Solution
# A memory would hold only what the cell computed at its own step. With $\boldsymbol h$ it also
# holds what was recalled at that step: a summary of older memories. So a recall can reach, through
# one memory, what that memory had recalled. Credit can take the same stairs down.
# :::

# %% tags=["hide-cell"]
# Solution of exercise 2: V2 = -V1 cancels the summary in the read-out. The memory still matters:
# s has entered h, and h goes into the next step's cell and into later memories.
with torch.no_grad():
    model.v2.weight.copy_(-model.v1.weight)
    y, _ = model(x)
assert torch.allclose(y, model.v1(h - s), rtol=0, atol=1e-12)
