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
# # 3. The mechanism and its four questions
#
# SAB lets a network be *reminded*: it keeps some of its past states, recalls a few of them, and
# when it learns, credit travels along the same connections. At the end of this chapter you can
# name the three decisions in that sentence, the three numbers that set them, what each number does
# *not* do, and the four questions that the paper asks of the whole.
#
# It follows section 1.2 of the paper {cite:p}`ke2018sparse`. The equations come one by one in
# chapters 5 to 7; here we use the layer and look at it from outside.

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
from sab.analysis.credit import credit_graph
from sab.figures import backward_panels, credit_matrix, forward_diagram
from sab.models.sab import SABLayer
from sab.notebook import glue, show, show_table
from sab.ops.sab_scan import SABState

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## Forward: be reminded
#
# An LSTM takes its step as always. What it gives is provisional, $\hat{\boldsymbol h}^{(t)}$, and
# serves as a question to the memory. A few memories answer, a weighted sum $\boldsymbol s^{(t)}$
# of them is added, and every $k_{\mathrm{att}}$ steps the result is stored:
#
# $$
# \hat{\boldsymbol h}^{(t)}
# \;\xrightarrow{\ \text{score all, keep a few}\ }\;
# \boldsymbol s^{(t)} = \sum_{i} \alpha_i^{(t)} \boldsymbol m^{(i)}
# \;\longrightarrow\;
# \boldsymbol h^{(t)} = \hat{\boldsymbol h}^{(t)} + \boldsymbol s^{(t)}.
# $$ (reminded)

# %%
show(
    forward_diagram(k_top=3, k_att=2, k_trunc=2, steps=12),
    "One read. Grey lines: every memory is scored. Brown lines: the few that are kept. The three "
    "budgets are those of the paper's Figure 1; the drawing is ours.",
    source="A diagram; the weights are computed from example scores by the rule of chapter 6.",
)

# %% [markdown]
# ## Backward: credit takes the same road
#
# A recalled memory was added to the state with weight $\alpha$. So the gradient has a second way
# back: besides step by step, it can go from $\boldsymbol h^{(t)}$ straight to
# $\boldsymbol m^{(i)}$, however long ago that was. From there it goes on for a few ordinary steps,
# into the computation that made the memory. The paper calls this a **mental update**.

# %%
lstm = {"k_att": 14, "k_trunc": 4, "truncation": "sliding", "reads": {}}  # stores nothing
sab = {**lstm, "k_att": 2, "reads": {14: [4]}}
show(
    backward_panels(
        {"Full BPTT": {**lstm, "k_trunc": None}, "TBPTT": lstm, "SAB": sab},
        steps=14,
        alt="Three rows of 14 steps with a loss at the last. Full BPTT: the gradient passes every "
        "step back to the first. TBPTT: it stops after a few steps. SAB: it stops as well, but a "
        "long arrow jumps from step 14 to the memory of step 4, and a few steps before that one "
        "receive gradient too.",
    ),
    "Where the gradient of the last loss goes. In the third row step 14 recalled step 4.",
    source="A diagram; the paths are computed by the rule of sab.analysis.credit.",
)

# %% [markdown]
# ## Three decisions
#
# Whatever has a memory must decide three things, and SAB decides each by a number of its own.
# Keeping them apart is most of what there is to understand.
#
# | decision | SAB's answer | set by |
# | --- | --- | --- |
# | **What is stored?** | the hidden state after the read, $\boldsymbol h^{(t)}$, at regular intervals; nothing is ever dropped | $k_{\mathrm{att}}$ |
# | **What is read?** | the memories whose scores stand out, at *every* step | $k_{\mathrm{top}}$ |
# | **How far does credit go on from there?** | a few ordinary steps back | $k_{\mathrm{trunc}}$ |
#
# Now watch each by itself. We take one untrained layer and 60 steps of random input.

# %%
STEPS, SIZE, HIDDEN = 60, 4, 32
inputs = torch.randn(1, STEPS, SIZE, generator=torch.Generator().manual_seed(seed))


def run(x=inputs, **options):
    """One untrained layer with these settings on the same inputs: layer, state and recall."""
    torch.manual_seed(seed)  # the same weights every time
    layer = SABLayer(SIZE, HIDDEN, **options)
    with torch.no_grad():
        _, _, state, recall = layer(x, return_recall=True)
    return layer, state, recall


# %% [markdown]
# ### What is stored
#
# One state every $k_{\mathrm{att}}$ steps, so $\lfloor T/k_{\mathrm{att}}\rfloor$ after $T$ steps.

# %% tags=["nbval-check-output"]
for k_att in (1, 2, 5):
    _, state, _ = run(k_att=k_att)
    print(f"k_att {k_att}: {state.memory.shape[1]} memories of width {state.memory.shape[2]}")
    assert state.memory.shape[1] == STEPS // k_att

# %% [markdown]
# ### What is read
#
# At most $k_{\mathrm{top}}$ memories get a positive weight; all others get exactly zero, not a
# small number. Here is the last step's read for two settings of $k_{\mathrm{top}}$.

# %%
for k_top in (2, 5):
    _, state, recall = run(k_top=k_top)
    weights = recall.matrix()[0, -1]  # over the steps at which memories were written
    read = (weights > 0).nonzero()[:, 0] + 1
    print(
        f"k_top {k_top}: of {state.memory.shape[1]} memories, read those of steps {read.tolist()}"
    )
    assert len(read) <= k_top
    assert abs(weights.sum().item() - 1) < 1e-5

# %% [markdown]
# ### How far credit goes on
#
# Now let credit flow, and vary $k_{\mathrm{trunc}}$ only. The matrices show who *may* receive
# credit from whom, derived from what was recalled ([chapter 7](07_sparse_replay.ipynb) checks the
# rule against autograd).

# %%
short = inputs[:, :30]
graphs = {}
for k_trunc in (1, 5, None):
    layer, _, recall = run(short, k_trunc=k_trunc)
    name = "full BPTT" if k_trunc is None else f"k_trunc {k_trunc}"
    graphs[name] = credit_graph(recall, layer.options, 30)[0]
show(
    credit_matrix(
        graphs,
        alt="Three credit matrices of 30 steps for k_trunc 1, 5 and no truncation. With 1 only "
        "the diagonal and some memory columns are filled; with 5 short blocks hang before the "
        "diagonal and before each recalled memory; without truncation the triangle is full.",
    ),
    "Rows: output steps. Columns: input steps that may receive credit. The layer has five reads a step.",
)
counts = {name: int(graph[-1].sum()) for name, graph in graphs.items()}
print("inputs reached from the last output:", counts)
glue("reached_one", counts["k_trunc 1"])
glue("reached_five", counts["k_trunc 5"])
assert counts["k_trunc 1"] < counts["k_trunc 5"] < counts["full BPTT"] == 30

# %% [markdown]
# From the last output, {glue:text}`reached_one:d` of 30 inputs get credit with
# $k_{\mathrm{trunc}}=1$ and {glue:text}`reached_five:d` with 5. Look at the *columns*: far to the
# left of the diagonal there are filled ones even with $k_{\mathrm{trunc}}=1$. TBPTT-1 would have
# the diagonal and nothing else.

# %% [markdown]
# ## Three budgets, one table
#
# Now all three, each changed alone from a common starting point.


# %%
def facts(**options):
    """What a run stored, read and gave credit to, as seen from the last step."""
    layer, state, recall = run(**options)
    reached = credit_graph(recall, layer.options, STEPS)[0, -1]
    positive = (recall.weights[0] > 0).sum(1)
    lags = torch.where(
        recall.weights[0] > 0, torch.arange(1, STEPS + 1)[:, None] - recall.steps[0], 0
    )
    return [state.memory.shape[1], int(positive.max()), int(lags.max()), int(reached.sum())]


base = {"k_trunc": 5, "k_top": 5, "k_att": 2}
rows = {
    "(5, 5, 2)": facts(**base),
    "(1, 5, 2)": facts(**{**base, "k_trunc": 1}),
    "(5, 1, 2)": facts(**{**base, "k_top": 1}),
    "(5, 5, 10)": facts(**{**base, "k_att": 10}),
}
show_table(
    [
        "k_trunc, k_top, k_att",
        "memories stored",
        "most read at a step",
        "longest jump, steps",
        "inputs reached from the last output",
    ],
    [[name, *values] for name, values in rows.items()],
    "Sixty steps of random input through an untrained layer of 32 units.",
)
assert rows["(1, 5, 2)"][:3] == rows["(5, 5, 2)"][:3]  # truncation does not touch the forward pass

# %% [markdown]
# The first two rows agree in everything but the last column: $k_{\mathrm{trunc}}$ leaves the
# forward pass alone. With $k_{\mathrm{top}}=1$ the jumps are as long, only fewer. A larger
# $k_{\mathrm{att}}$ leaves fewer memories to choose from. (Four read where five are allowed? The
# last step holds five memories, and the weakest then serves as the threshold and gets nothing:
# [chapter 6](06_sparse_retrieval.ipynb).)
#
# The paper compares *triples*, and so should you: a result for $(5, 5, 2)$ says nothing yet about
# $(1, 1, 2)$.

# %% [markdown]
# ## Three kinds of sparse
#
# "Sparse" occurs three times in this design, and only two of them come from selection:
#
# 1. **sparse reading**: at most $k_{\mathrm{top}}$ memories enter the sum;
# 2. **sparse replay**: credit goes on for at most $k_{\mathrm{trunc}}$ steps from each of them;
# 3. **sparse storage**: one state in $k_{\mathrm{att}}$ is kept, by the clock and not by merit.
#
# And one thing is *not* sparse: to know which scores are the largest, every memory is scored at
# every step.


# %%
def scores_computed(length, k_att):
    return sum((t - 1) // k_att for t in range(1, length + 1))


glue("scored", scores_computed(1000, 2))
glue("read_at_most", 1000 * 5)
print(scores_computed(1000, 2), "scores for at most", 1000 * 5, "reads")

# %% [markdown]
# Over 1,000 steps with $k_{\mathrm{att}}=2$ and $k_{\mathrm{top}}=5$ that makes
# {glue:text}`scored:,d` scores for at most {glue:text}`read_at_most:,d` reads. The cost of a long
# sequence is in the scoring, and it grows with the square of the length.

# %% [markdown]
# ## Seven common misreadings
#
# Each is plausible, and each is refuted by a line of code below.
#
# | it is easy to think that … | in fact |
# | --- | --- |
# | 1. $k_{\mathrm{att}}$ is how often attention runs | it is how often a state is *written*; reading happens at every step |
# | 2. a small $k_{\mathrm{trunc}}$ means a short memory | it bounds the steps around an event, not the distance to it |
# | 3. the memory has a fixed size | it grows for as long as the sequence does |
# | 4. the summary enters the cell state | it is added to $\boldsymbol h$; $\boldsymbol c$ is untouched by the read of its step |
# | 5. a step can recall itself | it is stored after the read, so it can be recalled from the next step on |
# | 6. mental updates happen at inference | they are part of the backward pass; outputs are the same without |
# | 7. truncation changes what is computed | not the forward pass |

# %%
# 1. Written every 4 steps, read at every step once there is something to read.
_, _, recall = run(k_att=4)
total = recall.weights[0].sum(1)
assert torch.all(total[:4] == 0)
assert torch.allclose(total[4:], torch.ones(STEPS - 4), atol=1e-5)

# 2. One step of local credit, and jumps of many steps.
long = torch.randn(1, 400, SIZE, generator=torch.Generator().manual_seed(seed))
layer, _, recall = run(long, k_trunc=1)
reached = credit_graph(recall, layer.options, 400)[0, -1]
earliest = int(reached.nonzero()[0]) + 1
glue("earliest", earliest)
print(f"2. credit from step 400 with k_trunc 1 goes back to step {earliest}")
assert earliest < 100

# 3. The memory grows.
sizes = {length: run(long[:, :length])[1].memory.shape[1] for length in (100, 200, 400)}
print("3. memories after so many steps:", sizes)
assert sizes == {100: 50, 200: 100, 400: 200}

# %%
# 4. Two layers with the same h and c and different memories: c agrees, h doesn't.
layer, state, _ = run()
other = SABState(state.h, state.c, torch.randn_like(state.memory), state.step)
x_next = torch.randn(1, SIZE)
h_one, _, next_one = layer.step(x_next, state)
h_two, _, next_two = layer.step(x_next, other)
assert torch.equal(next_one.c, next_two.c)
assert not torch.allclose(h_one, h_two)

# 5. Every recalled memory was written before the step that reads it.
_, _, recall = run(k_att=1)
assert torch.all(recall.steps[0] < torch.arange(1, STEPS + 1)[:, None])

# 6, 7. The same outputs with and without mental updates, truncated or not.
outputs = []
for options in ({"replay": "full"}, {"replay": "none"}, {"k_trunc": 1}, {"k_trunc": None}):
    torch.manual_seed(seed)
    outputs.append(SABLayer(SIZE, HIDDEN, **options)(inputs)[0].detach())
assert all(torch.equal(outputs[0], h) for h in outputs[1:])
print("all hold")

# %% [markdown]
# About the second: after 400 steps and with one step of local credit, the last output still gives
# credit to step {glue:text}`earliest:d`. That is an *untrained* layer: which memories it favours
# is an accident of its first weights (another `seed`, other favourites). Whether training leads it
# to recall the right ones is what the experiments must show.
#
# About the fourth: a fine point. The summary reaches the cell state one step *later*, since
# $\boldsymbol h^{(t)}$ is part of the next step's input.

# %% [markdown]
# ## Four questions
#
# The paper puts four questions to this design, and its experiments are arranged around them.
#
# | | question | the evidence it offers | where in this book |
# | --- | --- | --- | --- |
# | **Q1** | Can it learn dependencies over long spans? | copy, adding, character models | chapters [9](09_copy.ipynb), [10](10_adding.ipynb) and [11](11_language.ipynb) |
# | **Q2** | Does what it learned carry over to *longer* sequences? | copy, trained at delay 100, tested up to 5,000 | [chapter 13](13_transfer.ipynb) |
# | **Q3** | How does it compare with the Transformer? | two image tasks, pixel by pixel | [chapter 12](12_images.ipynb) |
# | **Q4** | Are sparse selection and local replay of use? | dense instead of sparse; no mental updates | [chapter 14](14_ablations.ipynb) |
#
# Two cautions to take along. The questions are independent: a "yes" to Q1 at one delay is no
# answer to Q2, and the paper's two most quoted results come from *different* experiments. And all
# of the evidence is from artificial or benchmark sequences. The idea of being reminded comes from
# how people remember; that people learn this way is not tested here, and the paper does not claim
# that it is.

# %% [markdown]
# :::{admonition} What was surprising
# :class: tip
# How little the three numbers have to do with each other. Anyone who has used TBPTT reads
# "$k_{\mathrm{trunc}}=5$" as "sees five steps". Here it says how carefully a recalled moment is
# studied, not how long ago it may have been.
# :::
#
# ## Exercises
#
# **1.** A sequence has 100 steps, states are reset between sequences, $k_{\mathrm{att}}=20$. How
# many memories can the last step read? What does that say about $k_{\mathrm{top}}=5$ against
# $k_{\mathrm{top}}=10$?
#
# **2.** With $k_{\mathrm{top}}=1$ the one kept memory has weight 1 whatever its score. What can
# the scorer learn? Check on the layer.
#
# **3.** "No mental updates" can be read in two ways: credit reaches the memory's writing step and
# stops, or the memory is a constant. Count the inputs reached from the last output for
# `replay="full"`, `"write_step"` and `"none"`.

# %% [markdown]
# :::{dropdown} Solution 1
# States are written at steps 20, 40, 60, 80 and 100, and the one of step 100 is written after its
# read: four. Whether five or ten may be kept, all that can be read are the same: the two settings
# are one model. The paper has rows for both on Penn Treebank, 0.02 bits apart; if states were
# reset there, that is how far two runs of one model differ (entry D14 of the
# [register](../book/discrepancies.md)).
# :::

# %% tags=["hide-cell"]
# Solution 1, checked.
hundred = torch.randn(1, 100, SIZE, generator=torch.Generator().manual_seed(seed))
five, ten = (run(hundred, k_att=20, k_trunc=20, k_top=k)[2] for k in (5, 10))
assert (five.steps[0, -1] > 0).sum() == 4
assert torch.equal(five.matrix(), ten.matrix())

# %% [markdown]
# :::{dropdown} Solution 2
# Nothing: a weight that is always 1 has derivative 0 with respect to every score. The scorer's
# weights keep their first values for ever, and the *choice* of memory changes only because the
# states do. [Chapter 6](06_sparse_retrieval.ipynb) has more on this.
# :::

# %% tags=["hide-cell"]
# Solution 2, checked.
torch.manual_seed(seed)
layer = SABLayer(SIZE, HIDDEN, k_top=1)
layer(inputs)[0].square().sum().backward()
assert all(w.grad is None or not w.grad.any() for w in (layer.w1, layer.w2, layer.w3))
assert layer.weight_ih.grad is not None and layer.weight_ih.grad.any()

# %% tags=["hide-cell"]
# Solution 3.
for replay in ("full", "write_step", "none"):
    layer, _, recall = run(replay=replay)
    print(replay, int(credit_graph(recall, layer.options, STEPS)[0, -1].sum()))
