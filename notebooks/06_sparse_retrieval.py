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
# # 6. Sparse retrieval
#
# This is the forward half of SAB, built up one line at a time. At the end you know how a score
# becomes a weight, why that rule is neither a softmax nor an average of scores, what it does to a
# gradient, and what happens in the cases that the paper leaves open: an empty memory, one memory,
# too few, ties, and $k_{\mathrm{top}} = 1$.
#
# It follows section 3.1 of the paper, Algorithm 1 and Figure 1 {cite:p}`ke2018sparse`.

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
from sab.figures import read_weights
from sab.figures.style import COLOURS, new_figure, style, with_alt
from sab.models.sab import SABLayer
from sab.notebook import glue, show, show_table
from sab.ops.sab_scan import ScanOptions
from sab.ops.scores import additive, separable
from sab.ops.sparse_weights import softmax_weights, sparse_weights
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Asking
#
# The question that a step puts to the memory is its own provisional state,
#
# $$
# \hat{\boldsymbol h}^{(t)},\ \boldsymbol c^{(t)} = \mathrm{LSTMCell}(\boldsymbol h^{(t-1)}, \boldsymbol c^{(t-1)}, \boldsymbol x^{(t)}).
# $$
#
# It has taken in the present input and the previous state. So what is recalled can depend on the
# present, for instance on whether the input says "now answer". There is no separate query network:
# the question is whatever the recurrent state happens to hold.
#
# ## Scoring
#
# Every memory gets one number:
#
# $$
# a_i = \boldsymbol W_3 \tanh(\boldsymbol W_1 \boldsymbol m^{(i)} + \boldsymbol W_2 \hat{\boldsymbol h}) .
# $$ (eq-score)
#
# $\boldsymbol W_1$ and $\boldsymbol W_2$ are $d \times n$, $\boldsymbol W_3$ is $1 \times d$. It
# is the additive score that {cite:t}`bahdanau2015neural` introduced for translation: a network
# with one hidden layer that looks at one memory and the question at a time. Here are six memories
# and two different questions.

# %%
torch.manual_seed(seed)
n = d = 16
memories = torch.randn(1, 6, n)
question, other = torch.randn(1, n), torch.randn(1, n)
w1, w2, w3 = torch.randn(d, n) / n**0.5, torch.randn(d, n) / n**0.5, torch.randn(d)

a = additive(memories, question, w1, w2, w3)
b = additive(memories, other, w1, w2, w3)

# %% tags=["nbval-check-output"]
print("ranking for one question:", a[0].argsort(descending=True).tolist())
print("ranking for the other:   ", b[0].argsort(descending=True).tolist())

# %% [markdown]
# The order differs: what is remembered depends on what is asked. That sounds self-evident. It is
# not, as the next cell shows. The authors' released code computes a single product with the two
# vectors laid end to end, which comes apart into a term of the question and a term of the memory:
#
# $$
# a_i = \boldsymbol w_a^\top \tanh(\hat{\boldsymbol h}) + \boldsymbol w_b^\top \tanh(\boldsymbol
# m^{(i)}) .
# $$

# %%
w_memory, w_query = torch.randn(n), torch.randn(n)
a_released = separable(memories, question, w_memory, w_query)
b_released = separable(memories, other, w_memory, w_query)

difference = a_released - b_released  # the same number for all six memories
assert torch.allclose(difference, difference[:, :1].expand(1, 6), atol=1e-5)

weights_a = sparse_weights(a_released, k_top=3).dense(6)
weights_b = sparse_weights(b_released, k_top=3).dense(6)
assert torch.allclose(weights_a, weights_b, atol=1e-5)

# %% [markdown]
# The question's term is the same for every memory, and a constant added to all scores changes no
# weight. With this score **what is recalled does not depend on the present**. It is entry D1 of
# the [discrepancy register](../book/discrepancies.md), and a switch here: `score="separable"`.
#
# One remark on cost. $\boldsymbol W_1 \boldsymbol m^{(i)}$ does not depend on the question, and a
# memory never changes. So it is computed once, when the memory is written, and kept as its *key*.
# The $\tanh$ cannot be kept: the question is inside it.

# %% [markdown]
# ## From scores to weights
#
# Now the step that gives the method its first name, *sparse*. Let $\tau$ be the
# $(k_{\mathrm{top}}+1)$-th largest score. Then
#
# $$
# \begin{aligned}
# \alpha_i &= \frac{\max\{a_i - \tau,\, 0\}}{Z}, \\
# Z &= \sum_j \max\{a_j - \tau,\, 0\} .
# \end{aligned}
# $$ (eq-weights)
#
# In words: the best of the losers sets the bar, and the winners share the weight in proportion to
# how far they clear it. Take the scores 4, 3, 1, 0 and $k_{\mathrm{top}} = 2$. The third-best
# score is 1. The winners clear it by 3 and by 2.

# %%
scores = torch.tensor([[4.0, 3.0, 1.0, 0.0]])
worked = sparse_weights(scores, k_top=2)

# %% tags=["nbval-check-output"]
print("candidates, best first:", worked.indices[0].tolist())
print("weights over all four: ", [round(w, 2) for w in worked.dense(4)[0].tolist()])

# %%
assert torch.allclose(worked.dense(4), torch.tensor([[0.6, 0.4, 0.0, 0.0]]))
show(
    read_weights(scores[0], worked.dense(4)[0], threshold=1.0),
    caption="The worked example. The third-best score is the threshold; what stands above it is shared out.",
)

# %% [markdown]
# Two other rules would come to mind, and this is neither. Sharing out the *raw scores* of the two
# winners would give 4 : 3. A *softmax over the two winners* would look at their difference alone.

# %%
kept = scores[:, :2]
rules = {
    "margins over the threshold (SAB)": worked.dense(4)[:, :2],
    "raw scores of the kept": kept / kept.sum(),
    "softmax over the kept": softmax_weights(kept),
    "softmax over all": softmax_weights(scores)[:, :2],
}
show_table(
    ["rule", "first", "second", "left for the others"],
    [(name, *(f"{v:.3f}" for v in w[0]), f"{1 - w.sum().abs():.3f}") for name, w in rules.items()],
    caption="Four ways to weigh the scores 4, 3, 1, 0.",
)

# %% [markdown]
# The first two rows lie close together here. Add 100 to every score, and the second row becomes an
# even split, while the first stays as it is. The last column is the other difference: a softmax
# never gives exactly zero, so every memory is always read a little, and every memory always gets
# gradient. Under SAB's rule the losers' weight is not small but **zero**, and so is all that
# follows from it.
#
# ### Only differences count, and only relative to one another
#
# Add a constant to all scores: nothing changes, as with a softmax. Multiply all scores by a
# positive number: still nothing changes, which is *not* so with a softmax.

# %%
for shifted in (scores + 10, scores * 100, scores * 0.01 - 3):
    assert torch.allclose(sparse_weights(shifted, k_top=2).dense(4), worked.dense(4), atol=1e-4)

# %% tags=["nbval-check-output"]
for factor in (0.01, 1, 100):
    soft = [round(v, 2) for v in softmax_weights(scores * factor)[0].tolist()]
    print(f"scores x {factor:<5}: softmax {soft}, SAB [0.6, 0.4, 0, 0]")

# %% [markdown]
# A softmax has a temperature: small scores give an even spread, large ones a hard choice, and a
# model can learn to move between them. This rule has none. The model cannot become more decided by
# making its scores larger. It can only change the *ratios* of the margins. That has a consequence
# for gradients which is the subject of half of [chapter 7](07_sparse_replay.ipynb).
#
# ### The derivative
#
# Within one selection, everything is smooth. Write $K$ for the number of memories with positive
# weight and differentiate {eq}`eq-weights`: for kept memories $i, j$, and for the threshold,
#
# $$
# \begin{aligned}
# \frac{\partial \alpha_i}{\partial a_j} &= \frac{\delta_{ij} - \alpha_i}{Z}, \\
# \frac{\partial \alpha_i}{\partial \tau} &= \frac{K \alpha_i - 1}{Z} .
# \end{aligned}
# $$ (eq-derivative)
#
# Autograd agrees:


# %%
def weigh(scores):
    return sparse_weights(scores[None], k_top=2).dense(4)[0]


jacobian = torch.autograd.functional.jacobian(weigh, scores[0])  # [i, j] = d alpha_i / d a_j
alpha, z = torch.tensor([0.6, 0.4]), (4 - 1) + (3 - 1)
expected = torch.zeros(4, 4)
expected[:2, :2] = (torch.eye(2) - alpha[:, None]) / z
expected[:2, 2] = (2 * alpha - 1) / z
assert torch.allclose(jacobian, expected, atol=1e-6)

# %% tags=["nbval-check-output"]
for i, row in enumerate(jacobian.tolist()):
    print(f"d alpha_{i} / d a:", " ".join(f"{v + 0.0:+.2f}" for v in row))

# %% [markdown]
# Three things to read off:
#
# - The third memory has **no weight but a derivative**. It is not read, yet it sets the bar. So a
#   read hands gradient to the scores of $k_{\mathrm{top}}+1$ memories, and to no others: the last
#   column is zero, exactly.
# - Each row sums to zero. Shifting all scores does nothing.
# - Everything is divided by $Z$. When the candidates are nearly tied, $Z$ is small and the
#   derivative is large. There is no limit to how large.

# %% [markdown]
# ### The borders
#
# *Which* memories are selected is a discrete matter. Let us move one score and watch. The scores
# are $[4, 3, x, 0]$, still with $k_{\mathrm{top}} = 2$, and $x$ goes from below all others to
# above them.

# %%
xs = torch.linspace(-1, 6, 1401, dtype=torch.float64)
moving = torch.tensor([4.0, 3.0, 0.0, 0.0], dtype=torch.float64).repeat(len(xs), 1)
moving[:, 2] = xs
moving.requires_grad_(True)
weights = sparse_weights(moving, k_top=2).dense(4)
slopes = [
    torch.autograd.grad(weights[:, i].sum(), moving, retain_graph=True)[0][:, 2] for i in range(3)
]
for slope in slopes:
    slope[(xs - 3).abs() < 1e-9] = torch.nan  # draw the jump as a gap

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(7.0, 4.2, rows=2, sharex=True)
    names = ["score 4", "score 3", "score x"]
    colours = [COLOURS["gradient"], COLOURS["summary"], COLOURS["kept"]]
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        dashes = ["-", "--", ":"][i]
        axes[0, 0].plot(xs, weights[:, i].detach(), dashes, color=colour, label=name)
        axes[1, 0].plot(xs, slopes[i], dashes, color=colour)
    for border in (0, 3):
        for ax in axes[:, 0]:
            ax.axvline(border, color=COLOURS["cut"], linewidth=0.8)
    axes[0, 0].set_ylabel("weight")
    axes[1, 0].set_ylabel("slope d weight / d x")
    axes[1, 0].set_xlabel("x, the score of the third memory")
    axes[0, 0].legend(loc="center right")
with_alt(
    fig,
    "Two panels over the third score x from -1 to 6. Above, three reading weights: continuous curves "
    "with corners at x = 0 and x = 3, where x becomes the threshold and where it is selected. Below, "
    "their slopes, which jump at these two places.",
)
show(
    fig,
    caption="Weights (top) and their slopes (bottom) as one score rises. Red lines: x becomes the "
    "threshold, then enters the selection.",
)

# %% [markdown]
# At $x = 0$ the third memory becomes the threshold, at $x = 3$ it replaces the second among the
# kept. The weights pass both places without a jump: a memory enters with weight zero. The *slopes*
# do jump. At these borders nothing is differentiable, and gradient descent is not told that they
# exist. In particular, below $x = 0$ the slope is zero: a memory that is neither read nor the
# threshold gets no hint that it ought to rise. It is found only because the states, and with them
# all scores, keep moving.
#
# One place is worse. If all $k_{\mathrm{top}}+1$ candidates are tied, $Z = 0$, and the limit
# depends on the direction from which one comes:

# %% tags=["nbval-check-output"]
for pattern in ([2.0, 1.0, 0.0], [0.0, 1.0, 2.0]):
    near = torch.tensor([pattern]) * 1e-4
    print(pattern, "x 0.0001:", [round(w, 2) for w in sparse_weights(near, 2).dense(3)[0].tolist()])
tied = torch.zeros(1, 3)
print(
    "exactly tied:          ", [round(w, 2) for w in sparse_weights(tied, 2).dense(3)[0].tolist()]
)

# %% [markdown]
# ## Taking in
#
# $$
# \boldsymbol s = \sum_i \alpha_i \boldsymbol m^{(i)}, \qquad \boldsymbol h = \hat{\boldsymbol h} +
# \boldsymbol s .
# $$
#
# The weights sum to one, so the summary lies among the memories. But the sum
# $\hat{\boldsymbol h} + \boldsymbol s$ goes into the memory in its turn, and later summaries are
# built from it. An
# LSTM's hidden state is bounded by one in every component. Is this?

# %%
blank = torch.zeros(1, 400, 10)
blank[:, :, 0] = 1
size = {}
with torch.no_grad():
    for k_att in (1, 2, 10):
        runs = []
        for start in range(8):
            torch.manual_seed(seed + start)
            h, _, _ = SABLayer(10, 32, k_att=k_att)(blank)
            runs.append(h.abs().amax(2)[0])
        size[k_att] = torch.stack(runs)  # (starts, steps)

# %% tags=["nbval-check-output"]
for k_att, largest in size.items():
    above = (largest[:, 200:].amin(1) > 1).sum().item()
    print(f"k_att = {k_att}: above 1 for good in {above} of {len(largest)} starts")

# %% tags=["hide-input"]
glue("largest_state", max(float(largest.max()) for largest in size.values()))
with style():
    fig, axes = new_figure(7.0, 2.6, columns=3, sharey=True)
    for ax, (k_att, largest) in zip(axes[0], size.items(), strict=True):
        ax.plot(range(1, 401), largest.T, color=COLOURS["gradient"], linewidth=1)
        ax.axhline(1, color=COLOURS["cut"], linewidth=1)
        ax.set(title=f"k_att = {k_att}", xlabel="step", yscale="log")
    axes[0, 0].set_ylabel("largest component of h")
with_alt(
    fig,
    "Largest absolute component of the hidden state over 400 blank steps, three panels for k_att 1, 2 "
    "and 10, eight random starts each, on a logarithmic axis with a line at 1, the bound of an LSTM. "
    "Some starts settle below the line, others rise far above it.",
)
show(
    fig,
    caption="Untrained layers fed nothing but blanks, eight random starts. Red: the bound of an LSTM "
    "state. A state is stored with what it recalled, and is recalled in turn.",
)

# %% [markdown]
# It is not. Untrained and fed with blanks only, some starts settle below the bound and others
# climb far above it: the largest component seen is {glue:text}`largest_state:.0f`. Nothing in the
# algorithm keeps the sum in bounds, and the cell that reads it back was designed for a bounded
# one.

# %% [markdown]
# ## The budgets
#
# How much is there to choose from? At step $t$ the memory holds $\lfloor (t-1)/k_{\mathrm{att}}
# \rfloor$ states, so a sequence of $T$ steps costs about $T^2 / 2k_{\mathrm{att}}$ scores. How
# much is read is bounded by $T\, k_{\mathrm{top}}$.


# %%
def budget(steps, k_att, k_top=5):
    held = [ScanOptions(k_att=k_att).held(t - 1) for t in range(1, steps + 1)]
    return held[-1], sum(held), sum(min(k_top, m) for m in held)


rows = []
for steps in (120, 320, 5020):
    for k_att in (1, 2, 5):
        held, scored, read = budget(steps, k_att)
        rows.append((steps, k_att, held, f"{scored:,}", f"{read:,}", f"{read / scored:.1%}"))
show_table(
    ["steps", "k_att", "memories at the last step", "scores", "reads at most", "share"],
    rows,
    caption="What is scored and what is read, for k_top = 5. 120, 320 and 5,020 steps are the copy "
    "task with delays 100, 300 and 5,000.",
)

# %%
assert budget(5020, 1)[1] > 100 * budget(320, 1)[1]
glue("share_5000", budget(5020, 1)[2] / budget(5020, 1)[1])
glue("scores_5000", budget(5020, 1)[1])

# %% [markdown]
# A larger $k_{\mathrm{att}}$ thins out what there is to choose from. A larger $k_{\mathrm{top}}$
# widens each read. A larger $k_{\mathrm{trunc}}$, which does not appear in the table, lengthens
# the stretch that is trained around each memory. The three don't replace one another, so settings
# should be compared as whole triples.

# %% [markdown]
# ## What the paper leaves open
#
# Algorithm 1 takes for granted that there is a $(k_{\mathrm{top}}+1)$-th score and that $Z$ is not
# zero. In the first dozen steps of every sequence neither holds. These are the rules of this book.
# They are ours; each has a switch or a test.
#
# **An empty memory** is read as nothing: $\boldsymbol s = \boldsymbol 0$ and $\boldsymbol h =
# \hat{\boldsymbol h}$. Until the first write SAB is an LSTM.

# %%
x, _ = CopyTask(T=20).batch(4, torch.Generator().manual_seed(seed))
torch.manual_seed(seed)
layer = SABLayer(10, 16, k_top=3, k_att=2)
with torch.no_grad():
    h, s, _, recall = layer(x, return_recall=True)
assert (s[:, :2] == 0).all()  # steps 1 and 2: nothing has been written yet
assert (s[:, 2:] != 0).any(2).all()

# %% [markdown]
# **One memory** has no loser to measure against. It is read with weight 1.

# %%
one = sparse_weights(torch.tensor([[-7.3]]), k_top=3)
assert one.weights[0, 0] == 1

# %% [markdown]
# **Two to $k_{\mathrm{top}}$ memories.** There is no score number $k_{\mathrm{top}}+1$, so the
# weakest memory sets the bar instead. All are read but the weakest. The rule is then the same
# formula with the last candidate as the threshold, and nothing jumps when the memory fills up.

# %% tags=["nbval-check-output"]
for count in range(1, 6):
    few = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0][:count]])
    weights = sparse_weights(few, k_top=3).dense(count)[0].tolist()
    print(count, "memories:", " ".join(f"{w:.2f}" for w in weights))

# %% [markdown]
# **All tied.** $Z$ is zero up to rounding. The weight is spread evenly over the first
# $k_{\mathrm{top}}$ of the candidates; older memories go first. Not all tied memories are read: a
# hundred and fifty equal scores must not give a read of a hundred and fifty.

# %%
equal = sparse_weights(torch.full((1, 150), 0.7), k_top=3)
assert torch.allclose(equal.dense(150)[0, :4], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]))
assert equal.indices.tolist() == [[0, 1, 2, 3]]
assert equal.tied.all() and equal.weights.isfinite().all()

# %% [markdown]
# **A tie at the threshold.** With the scores 3, 1, 1, 1 and $k_{\mathrm{top}} = 2$ the second-best
# is level with the third. Its margin is zero, so one memory is read, not two.

# %%
level = sparse_weights(torch.tensor([[3.0, 1.0, 1.0, 1.0]]), k_top=2)
assert level.dense(4)[0].tolist() == [1, 0, 0, 0]

# %% [markdown]
# **$k_{\mathrm{top}} = 1$.** The one winner's margin is divided by itself. Its weight is 1
# whatever the scores are, a constant, and a constant has no derivative: {eq}`eq-derivative` gives
# $(1 - 1)/Z$. So **the scorer is never trained**. In floating point the division may leave a
# rounding error in place of that zero, which $1/Z$ can blow up. The package therefore forces it:

# %%
gradient = {}
for k_top in (1, 2):
    torch.manual_seed(seed)
    layer = SABLayer(10, 16, k_top=k_top, score_gradient="states")
    h, _, _ = layer(x)
    h.square().sum().backward()
    gradient[k_top] = [w.grad for w in (layer.w1, layer.w2, layer.w3)]

assert all(g is None or (g == 0).all() for g in gradient[1])
assert all(g is not None and (g != 0).any() for g in gradient[2])

# %% tags=["nbval-check-output"]
largest = max(0.0 if g is None else g.abs().max().item() for g in gradient[1])
print("k_top = 1, largest gradient of the scorer:", largest)
trained = all(g is not None and bool((g != 0).any()) for g in gradient[2])
print("k_top = 2, all three matrices get gradient:", trained)

# %% [markdown]
# This is worth remembering when you meet the paper's row (1, 1), the weakest SAB of its Table 1.
# That model picks its one memory by a random, untrained score. What it learns, it learns by
# arranging its *states* so that the score happens to pick well.
#
# ### The switches
#
# Other people may decide otherwise, and the released code does. Each choice is a setting:

# %%
three = torch.tensor([[2.0, 1.0, -0.5]])  # three memories, k_top = 3
choices = [
    ("our rule", "margin"),
    ("softmax while M ≤ k_top", "softmax"),
    ("raw scores while M ≤ k_top (released)", "raw"),
]
chosen = []
for name, rule in choices:
    weights = sparse_weights(three, k_top=3, short_memory=rule).dense(3)[0]
    chosen.append((name, *(f"{w:.2f}" for w in weights), f"{weights.sum():.2f}"))
show_table(
    ["choice", "score 2", "score 1", "score −0.5", "sum"],
    chosen,
    caption="Weights of three memories with k_top = 3 under three rules for a short memory.",
)
raw = sparse_weights(three, k_top=3, short_memory="raw").dense(3)[0]
assert raw[2] < 0 and raw.sum() > 2

# %% [markdown]
# The third row is entry D3 of the register: as long as there are few memories, the scores
# themselves serve as weights. They need not sum to one, and one of them is negative here: that
# memory is *subtracted*.
#
# Entry D2 moves the bar. With the threshold at the $k_{\mathrm{top}}$-th score, one memory fewer
# is read than the name promises, and $k_{\mathrm{top}} = 1$ reads none:

# %% tags=["nbval-check-output"]
for k_top in (3, 2, 1):
    released = sparse_weights(scores, k_top, threshold="k_top").dense(4)[0]
    print(f"k_top = {k_top}: reads {(released > 0).sum().item()}")

# %% [markdown]
# The last switch is `initial_memory="zero"` (D4): the memory starts with one state of zeros, so
# there is never an empty memory, and reading it adds nothing.
#
# ## Three sparsities
#
# "Sparse" is said of three things in this method, and they are easily taken for one another.
#
# | what is sparse | which number sets it | what it saves |
# | --- | --- | --- |
# | **reading**: few memories get a weight | $k_{\mathrm{top}}$ | gradient paths: at most $k_{\mathrm{top}}+1$ a step |
# | **replay**: credit covers few steps around a memory | $k_{\mathrm{trunc}}$ | depth of the local backward pass |
# | **storage**: few states are kept | $k_{\mathrm{att}}$ | memory and scores, by a constant factor |
#
# None of the three makes *scoring* sparse. Every memory is visited by {eq}`eq-score` at every
# step. At a delay of 5,000 with $k_{\mathrm{att}} = 1$ these are {glue:text}`scores_5000:,d`
# scores a sequence, of which at most {glue:text}`share_5000:.2%` lead to a read. What that costs,
# and which part of it can be avoided, is the subject of [chapter 17](17_complexity.ipynb).
#
# ## What surprised us
#
# - **The loser matters.** The memory at the threshold is not read, and yet it shapes every weight
#   and receives gradient.
# - **No temperature.** Multiplying all scores by a hundred changes no weight. A model can't say "I
#   am sure" with large scores.
# - **Selection is continuous, its gradient isn't.** Memories fade in and out; only the slopes
#   jump. The one true jump is a tie of all candidates.
# - **The hidden state has no bound.**
#
# ## Exercises
#
# **1.** Compute the weights of the scores 2, 5, 3, 3 with $k_{\mathrm{top}} = 2$, and with
# $k_{\mathrm{top}} = 3$.
#
# **2.** Show from {eq}`eq-weights` that $\sum_j a_j\, \partial\alpha_i/\partial a_j = 0$ over all
# scores, threshold included. What does it say about $\boldsymbol W_3$?
#
# :::{dropdown} Solution
# The weights don't change when all scores are multiplied by $c > 0$. Differentiate
# $\alpha_i(c\,\boldsymbol a) = \alpha_i(\boldsymbol a)$ with respect to $c$ at $c = 1$ (Euler's
# theorem for functions of degree zero). Scores are linear in $\boldsymbol W_3$, so the loss
# doesn't change along $\boldsymbol W_3$ itself: its gradient is always at a right angle to it. A
# plain gradient step can then only make $\boldsymbol W_3$ longer, which changes no weight and
# shrinks its later gradients.
# :::
#
# **3.** With `short_memory="softmax"`, what happens to the weights at the moment when the memory
# grows from $k_{\mathrm{top}}$ to $k_{\mathrm{top}}+1$ entries? And under our rule?

# %% tags=["hide-cell"]
# Solution of exercise 1.
first = torch.tensor([[2.0, 5.0, 3.0, 3.0]])
# k_top = 2: the third-best score is 3, and the second-best is 3 too. One memory is read.
assert sparse_weights(first, k_top=2).dense(4)[0].tolist() == [0, 1, 0, 0]
# k_top = 3: the fourth-best is 2; margins 3, 1, 1.
expected = torch.tensor([0.0, 0.6, 0.2, 0.2])
assert torch.allclose(sparse_weights(first, k_top=3).dense(4)[0], expected)

# Exercise 2, checked on random scores.
random = torch.randn(7, dtype=torch.float64)
full = torch.autograd.functional.jacobian(lambda v: sparse_weights(v[None], 3).dense(7)[0], random)
assert torch.allclose(full @ random, torch.zeros(7, dtype=torch.float64), atol=1e-12)

# Solution of exercise 3: a fourth memory arrives with a score below all others. Under our rule the
# third memory, so far the threshold, fades in from zero; under the softmax rule all weights jump.
before, after = torch.tensor([[2.0, 1.0, 0.5]]), torch.tensor([[2.0, 1.0, 0.5, 0.499]])
for rule in ("margin", "softmax"):
    old = sparse_weights(before, 3, short_memory=rule).dense(3)[0]
    new = sparse_weights(after, 3, short_memory=rule).dense(4)[0, :3]
    change = (new - old).abs().max().item()
    assert (change < 0.01) == (rule == "margin"), (rule, change)
