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
# # 20. Attention
#
# Part I studied one answer to a general question: where does a network keep the past, and how does
# it find it again? This part builds the family that the answer belongs to. We begin with the step
# that all of them share, reading by *attention*. At the end of the chapter you know why one
# vector is not enough, how a query becomes weights and weights become a read, what the four usual
# scores are good for, and why one of them has a square root in it. (From here to [chapter 25](25_associative_memory.ipynb) the
# order of topics is that of chapter 8 of Qiu Xipeng's textbook {cite:p}`qiu2020nndl`.)

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
from sab.figures.attention import attention_plane, weight_matrices
from sab.figures.style import COLOURS, new_figure, series_styles, style, with_alt
from sab.notebook import glue, show
from sab.ops.attention import attention_weights, padding_mask, soft_read
from sab.ops.scores import additive, bilinear, dot, scaled_dot
from sab.ops.sparse_weights import sparse_weights

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Why: a vector holds only so much
#
# Take reading comprehension. There is an article of some hundred words, then a question about it,
# and the answer hangs on a handful of words. A recurrent encoder turns the article into **one
# vector of fixed length**, before it knows the question. Whatever the question will need has to be
# in there, so all of it has to be in there.
#
# How much a network can store is called its *capacity*. It grows with the number of units and of
# weights. A universal approximation theorem says that a large enough network can represent any
# (continuous) function. It does not say how large; for hard problems that may be huge.
#
# We can watch a vector run full without training anything. Give every place in a text and every
# word a random code of width $D$ with entries $\pm 1$, one code for each *pair* of place and word,
# and store a text as the sum of its codes:
#
# $$
# \boldsymbol z = \sum_{n=1}^{N} \boldsymbol c_{n,\,w_n}, \qquad
# \hat w_n = \arg\max_w\ \boldsymbol c_{n,w}^\top \boldsymbol z .
# $$
#
# The right word's code gives $\boldsymbol c^\top \boldsymbol z \approx D$. The $N-1$ others
# add noise with a standard deviation of $\sqrt{D(N-1)}$. As long as $N \ll D$ the word stands out.


# %%
def read_back(width: int, length: int, texts: int = 20, words: int = 16) -> float:
    """Share of the words that one vector of this width gives back."""
    source = torch.Generator().manual_seed(seed)
    codes = 2.0 * torch.randint(0, 2, (length, words, width), generator=source) - 1
    said = torch.randint(0, words, (texts, length), generator=source)
    vector = codes[torch.arange(length), said].sum(1)  # (texts, width): all there is left
    found = torch.einsum("nwd,td->tnw", codes, vector).argmax(2)
    return (found == said).float().mean().item()


lengths = (2, 4, 8, 16, 32, 64, 128, 256)
shares = {width: [read_back(width, n) for n in lengths] for width in (32, 128, 512)}

# %% tags=["nbval-check-output"]
print("a vector of 128, words kept:")
for n, share in zip(lengths, shares[128], strict=True):
    print(f"  text of {n:3d} words: {share:.0%}")

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(7.0, 3.0)
    ax = axes[0, 0]
    looks = series_styles([f"width {width}" for width in shares])
    for (width, line), look in zip(shares.items(), looks, strict=True):
        ax.plot(lengths, [100 * v for v in line], label=f"one vector of width {width}", **look)
    ax.plot(lengths, [100] * len(lengths), color=COLOURS["muted"], lw=4, alpha=0.35,
            label="all vectors kept", zorder=0)  # fmt: skip
    ax.axhline(100 / 16, color=COLOURS["chance"], lw=1.2, ls=(0, (4, 3)), gid="chance")
    ax.annotate("chance 6.25 %", (lengths[0], 100 / 16), xytext=(0, 3), fontsize=8,
                textcoords="offset points")  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.set(xlabel="words in the text", ylabel="words given back (%)", ylim=(0, 108))
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.12))
with_alt(
    fig,
    "Share of words that one vector of width 32, 128 and 512 gives back, against the length of the "
    "text on a logarithmic axis. Each curve stays near 100 percent, then falls; a wider vector falls "
    "later. A flat line at 100 percent: all vectors kept.",
)
show(
    fig,
    caption="A sum of random codes as the memory of a text. A trained encoder does better, and meets the same wall.",
)
glue("kept_short", shares[128][2])
glue("kept_long", shares[128][-1])

# %% [markdown]
# At 8 words a vector of 128 gives back {glue:text}`kept_short:.0%`, at 256 words
# {glue:text}`kept_long:.0%`. There are two ways out. One is a wider vector: capacity bought with
# parameters, for the longest text there will ever be. The other is to **keep all the vectors** and,
# once the question is known, look for the few that matter. The store then grows with the text, the
# number of parameters does not. That is attention; what is kept is an external memory.
#
# ## Two kinds of attention
#
# Brains face the same overload, and two mechanisms are told apart.
#
# | | driven by | example | nearest thing in a network |
# | --- | --- | --- | --- |
# | **focused** (top-down) | a goal: one looks *for* something | looking for a face in a crowd | attention with a query, the subject of this part |
# | **saliency** (bottom-up) | the stimulus: something stands out | your own name across a noisy room, the *cocktail party effect* {cite:p}`cherry1953some` | max pooling, which passes on the strongest; gates, which pass on what the input opens them for |
#
# The difference is the question. Max pooling picks the same winner whatever is asked. Only a query
# makes the choice depend on the task.
#
# ## How: score, weigh, average
#
# There are $N$ inputs $\boldsymbol x_1 \dots \boldsymbol x_N$ and a query $\boldsymbol q$. Let $z$
# be the choice of an input. The **attention distribution** is a softmax of scores, the read is the
# mean input under it:
#
# $$
# \begin{aligned}
# \alpha_n &= p(z = n \mid \boldsymbol X, \boldsymbol q)
#           = \frac{\exp s(\boldsymbol x_n, \boldsymbol q)}{\sum_j \exp s(\boldsymbol x_j, \boldsymbol q)}, \\
# \mathrm{att}(\boldsymbol X, \boldsymbol q) &= \sum_{n=1}^{N} \alpha_n \boldsymbol x_n .
# \end{aligned}
# $$ (eq-attention)
#
# A worked example, to be done by hand once: $\boldsymbol q = [1, 0]^\top$, the inputs $[2, 0]^\top$,
# $[0, 2]^\top$, $[1, 1]^\top$, and the dot product as the score.

# %%
x = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]]])  # (batch, inputs, width)
q = torch.tensor([[1.0, 0.0]])  # (batch, width)

s = dot(x, q)  # how well does each input answer?
output, alpha = soft_read(s, x)  # softmax, then the weighted mean

# %% tags=["nbval-check-output"]
print("scores: ", s[0].tolist())
print("weights:", [f"{a:.3f}" for a in alpha[0].tolist()])
print("output: ", [f"{o:.3f}" for o in output[0].tolist()])

# %%
assert torch.allclose(alpha[0], torch.tensor([0.665, 0.090, 0.245]), atol=5e-4)
assert torch.allclose(output[0], torch.tensor([1.575, 0.425]), atol=5e-4)
show(
    attention_plane(q[0], x[0], alpha[0], output[0]),
    caption="The worked example. The three inputs lie on one line, and so does the output, nearest to the "
    "input that points where the query points.",
)

# %% [markdown]
# Three properties to keep in mind:
#
# - **The output is a mean.** It never leaves the convex hull of the inputs. Attention selects and
#   blends, it does not invent.
# - **The order of the inputs does not matter.** Shuffle them, and the same read comes out.
#   Whatever knows about order has to be in the vectors ([chapter 23](23_self_attention.ipynb)).
# - **Any number of inputs will do.** No parameter depends on $N$.

# %%
shuffled = x[:, [2, 0, 1]]
assert torch.allclose(soft_read(dot(shuffled, q), shuffled).output, output)

# %% [markdown]
# ## Four scores
#
# | name | score $s(\boldsymbol x, \boldsymbol q)$ | remark |
# | --- | --- | --- |
# | additive | $\boldsymbol v^\top \tanh(\boldsymbol W \boldsymbol x + \boldsymbol U \boldsymbol q)$ | the first one, from translation {cite:p}`bahdanau2015neural`; input and query may differ in width; the $\tanh$ runs over all pairs |
# | dot product | $\boldsymbol x^\top \boldsymbol q$ | no parameters; one matrix product for all pairs, so the fastest |
# | scaled dot product | $\boldsymbol x^\top \boldsymbol q / \sqrt D$ | the same, kept out of the softmax's flat ends at large $D$ {cite:p}`vaswani2017attention` |
# | bilinear | $\boldsymbol x^\top \boldsymbol W \boldsymbol q$ | a learned, asymmetric similarity: what asks and what answers may play different roles |
#
# They are four functions of one module, `sab.ops.scores`, with one call each. SAB uses the first.

# %%
source = torch.Generator().manual_seed(seed)
D = 16
inputs, query = torch.randn(1, 6, D, generator=source), torch.randn(1, D, generator=source)
w, u = (torch.randn(D, D, generator=source) / D**0.5 for _ in range(2))
v = torch.randn(D, generator=source)
scores = {
    "additive": additive(inputs, query, w, u, v),
    "dot product": dot(inputs, query),
    "scaled dot product": scaled_dot(inputs, query),
    "bilinear": bilinear(inputs, query, w),
}
matrix = torch.cat([attention_weights(score) for score in scores.values()])
show(
    weight_matrices(matrix, rows=list(scores), ylabel="score", xlabel="input", numbers=True),
    caption="Six random inputs, one random query, four scores. Untrained, they agree on little.",
)

# %% [markdown]
# With $\boldsymbol W = \boldsymbol I$ the bilinear score is the dot product. With
# $\boldsymbol W = \boldsymbol A^\top \boldsymbol B$ it is the dot product of two projections,
# $(\boldsymbol A \boldsymbol x)^\top (\boldsymbol B \boldsymbol q)$: that is how a Transformer makes
# its keys and queries.

# %%
a, b = torch.randn(4, D, generator=source), torch.randn(4, D, generator=source)
assert torch.allclose(bilinear(inputs, query, torch.eye(D)), dot(inputs, query), atol=1e-5)
assert torch.allclose(bilinear(inputs, query, a.T @ b), dot(inputs @ a.T, query @ b.T), atol=1e-4)

# %% [markdown]
# ## Why the square root
#
# Let the components of $\boldsymbol q$ and $\boldsymbol k$ be independent, with mean 0 and variance
# 1. Each product $q_i k_i$ has mean 0 and variance $E[q_i^2]\,E[k_i^2] = 1$, and the $D$ products are
# uncorrelated, so
#
# $$
# \operatorname{var}(\boldsymbol q^\top \boldsymbol k) = D .
# $$ (eq-variance)
#
# At $D = 512$ typical scores are then $\pm 23$, and a softmax over such numbers puts nearly all of its
# weight on one input. That is not wrong by itself; it is wrong *at the start of training*, when
# the scores mean nothing yet. And it blocks the way out, because the derivative of a softmax,
#
# $$
# \frac{\partial \alpha_i}{\partial s_j} = \alpha_i (\delta_{ij} - \alpha_j),
# $$ (eq-softmax-derivative)
#
# is zero where every weight is 0 or 1. We measure all three: variance, largest weight, and the size of
# the derivative, each with and without the division by $\sqrt D$.

# %%
widths = (4, 16, 64, 256, 1024)
rows = []
for width in widths:
    source = torch.Generator().manual_seed(seed)
    k, qs = torch.randn(400, 16, width, generator=source), torch.randn(400, width, generator=source)
    line = []
    for score in (dot(k, qs), scaled_dot(k, qs)):
        weights = attention_weights(score)
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]
        size = jacobian.flatten(1).norm(dim=1).mean()
        line += [score.var().item(), weights.amax(1).mean().item(), size.item()]
    rows.append(line)

# %% tags=["nbval-check-output"]
print("   D   variance of the score, raw and scaled")
for width, line in zip(widths, rows, strict=True):
    print(f"{width:5d}   {line[0] / width:.1f} x D   {line[3]:.1f}")

# %% tags=["hide-input"]
assert all(abs(line[0] / width - 1) < 0.2 for width, line in zip(widths, rows, strict=True))
assert rows[-1][1] > 0.9 > 0.5 > rows[-1][4] and rows[-1][2] < rows[-1][5] / 2
glue("largest_raw", rows[-1][1])
glue("largest_scaled", rows[-1][4])
with style():
    fig, axes = new_figure(7.0, 2.9, columns=3)
    names = ("variance of the score", "largest of 16 weights", "size of the derivative")
    for j, (ax, name) in enumerate(zip(axes[0], names, strict=True)):
        ax.plot(
            widths, [line[j] for line in rows], "o-", color=COLOURS["kept"], label="dot product"
        )
        ax.plot(widths, [line[j + 3] for line in rows], "s--", color=COLOURS["gradient"],
                label="divided by √D")  # fmt: skip
        ax.set_xscale("log", base=4)
        ax.set_xticks(widths, [str(width) for width in widths])
        ax.set(xlabel="width D", ylabel=name)
    axes[0, 0].set_yscale("log")
    axes[0, 0].legend()
with_alt(
    fig,
    "Three panels against the width D from 4 to 1024. The variance of the plain dot product rises in "
    "proportion to D, the scaled one stays at 1. The largest of 16 weights rises towards 1 for the "
    "plain, stays at 0.25 for the scaled. The size of the softmax derivative falls for the plain only.",
)
show(
    fig,
    caption="Random keys and queries, 400 reads over 16 inputs. The derivative's size is the Frobenius norm of its matrix.",
)

# %% [markdown]
# At $D = 1024$ the plain dot product gives its favourite {glue:text}`largest_raw:.2f` of the weight,
# the scaled one {glue:text}`largest_scaled:.2f`. The assumption matters: it is one about
# *initialisation*. Trained keys and queries are not independent, and a trained model can make its
# scores as large as it needs.
#
# The division is a fixed **temperature**. The general form is $\mathrm{softmax}(s / T)$: at
# $T \to 0$ the read becomes a choice, at $T \to \infty$ a plain mean.

# %% tags=["nbval-check-output"]
for temperature in (0.1, 0.5, 1.0, 2.0, 100.0):
    weights = attention_weights(s, temperature=temperature)[0]
    print(f"T = {temperature:5}:", " ".join(f"{v:.3f}" for v in weights))

# %% [markdown]
# ## Masks
#
# A batch holds texts of different lengths, filled up with padding. A mask says which inputs may be
# read. The others get a score of $-\infty$, thus a weight of exactly zero: *exactly* is what we
# want, because then neither the values nor the gradients of real positions can tell that there is
# padding.

# %%
source = torch.Generator().manual_seed(seed)
texts, ask = torch.randn(2, 5, D, generator=source), torch.randn(2, D, generator=source)
mask = padding_mask(torch.tensor([5, 2]), 5)
padded = texts.clone()
padded[1, 2:] = 1e6  # rubbish behind the end of the second text
read, weights = soft_read(scaled_dot(padded, ask), padded, mask)
alone = soft_read(scaled_dot(texts[1:, :2], ask[1:]), texts[1:, :2])
assert torch.equal(weights[1, 2:], torch.zeros(3))
assert torch.allclose(read[1:], alone.output, atol=1e-6)

# %% [markdown]
# A row with nothing to read is an error and says so. (A softmax over nothing but $-\infty$ would
# quietly return NaN.)

# %% tags=["nbval-check-output"]
try:
    soft_read(s, x, torch.zeros(1, 3, dtype=torch.bool))
except ValueError as error:
    print(error)

# %% [markdown]
# ## What it is used for
#
# - **Translation.** The decoder's state is the query, the encoder's states are the inputs. For each
#   word to be written it reads the words to be translated, so no sentence has to fit one vector. The
#   weights, drawn as a matrix, are a *soft alignment* of the two languages {cite:p}`bahdanau2015neural`.
# - **Captions.** The inputs are regions of a picture; for each word the model looks somewhere
#   else {cite:p}`xu2015show`.
# - **Reading comprehension**, where we began: the question is the query, the words of the article
#   are the inputs.
# - **SAB.** The provisional state is the query, the written states are the inputs, the score is
#   additive, and the softmax is replaced by a [sparse rule](06_sparse_retrieval.ipynb). That is the
#   whole difference on the way forward:

# %% tags=["nbval-check-output"]
soft = attention_weights(scores["additive"])[0]
sparse = sparse_weights(scores["additive"], k_top=2).dense(6)[0]
print("softmax:       ", " ".join(f"{v:.2f}" for v in soft))
print("SAB, k_top = 2:", " ".join(f"{v:.2f}" for v in sparse))

# %% [markdown]
# ## Try it
#
# Below, drag the query and the keys of the worked example. Then look at self-attention, where every word asks
# every word: at two heads, and at the mask that hides the future. (Where no page appears, in Colab for instance, the figures of chapters 20,
# [21](21_attention_variants.ipynb) and [23](23_self_attention.ipynb) show similar ones.)
#
# <iframe src="../_static/attention_page.html" title="Interactive page: a query and three keys in the plane; two heads and the causal mask on six words" loading="lazy" style="width: 100%; height: 52rem; border: 1px solid #b9b6ae; border-radius: 4px"></iframe>
#
# ## What surprised us
#
# - The dot product needs no parameters and yet a single rescaling decides whether it can be trained.
# - Attention forgets the order of what it reads, completely. It is a read from a *set*.
# - In the worked example the third input, at 45° to the query, gets nearly three times the weight of
#   the second although neither is what was asked for. A softmax never says no.
#
# ## What it took
#
# Nothing was trained in this chapter: every number comes from the cells above, in a few seconds on
# one core.
#
# ## Exercises
#
# **1.** (Analysis.) Why does scaled dot-product attention divide by $\sqrt{D_k}$? Assume independent
# components with mean 0 and variance 1 and compute the variance of
# $\boldsymbol q^\top \boldsymbol k$. Does the result need normal distributions? Does it need
# the components *within* $\boldsymbol q$ to be independent?
#
# :::{dropdown} Solution
# {eq}`eq-variance` gives the steps. Normality is not used. For the variance of the sum only the
# covariances $E[q_i k_i q_j k_j] = E[q_i q_j]\,E[k_i k_j]$ have to vanish for $i \ne j$, and for that it
# is enough that *one* of the two vectors has uncorrelated components. The cell below checks both.
# :::
#
# **2.** (By hand.) With $\boldsymbol q = [1, 0]^\top$ and keys and values $[2, 0]^\top$, $[0, 2]^\top$,
# $[1, 1]^\top$, compute attention distribution and output for the dot product. Then for the scaled
# one.
#
# :::{dropdown} Solution
# The dot products are 2, 0, 1. Their exponentials are 7.389, 1, 2.718, with the sum 11.107, so the weights are
# $[0.665, 0.090, 0.245]$ and the output is $[1.575, 0.425]^\top$. Scaled, the scores are divided by $\sqrt 2$: 1.414, 0, 0.707. Their
# exponentials are 4.113, 1, 2.028, with the sum 7.141; the weights are $[0.576, 0.140, 0.284]$ and the output is
# $[1.436, 0.564]^\top$. The order stays; the weights are nearer to an even split, and the output to the plain mean $[1, 1]^\top$. The cell below
# prints the scaled ones and checks both.
# :::
#
# **3.** Which inputs and which query make the output of {eq}`eq-attention` equal to the plain mean? Give
# two different ways.
#
# :::{dropdown} Solution
# All scores have to be equal: a query of zero (or one at a right angle to all differences of
# inputs), or inputs that are all the same. A temperature without limit does it too.
# :::
#
# **4.** Derive {eq}`eq-softmax-derivative`, and show that its rows sum to zero. What does that say
# about adding a constant to all scores?

# %% tags=["hide-cell"]
# Exercise 1: fair coins instead of normal numbers, and one vector with equal components.
source = torch.Generator().manual_seed(seed)
coins = 2.0 * torch.randint(0, 2, (2, 20_000, 64), generator=source) - 1
assert abs((coins[0] * coins[1]).sum(1).var().item() / 64 - 1) < 0.06
equal = coins[0, :, :1].expand(-1, 64)  # fully dependent within itself
assert abs((equal * coins[1]).sum(1).var().item() / 64 - 1) < 0.06
assert (equal * equal).sum(1).var().item() == 0  # both dependent, and on each other: not so

# Exercise 2: scores 2, 0, 1. e² = 7.389, e⁰ = 1, e¹ = 2.718; their sum is 11.107.
by_hand = torch.tensor([7.389, 1.0, 2.718]) / 11.107
assert torch.allclose(by_hand, alpha[0], atol=1e-3)
assert torch.allclose(by_hand @ x[0], torch.tensor([1.575, 0.425]), atol=1e-3)
scaled_scores = scaled_dot(x, q)
scaled_output, scaled_alpha = soft_read(scaled_scores, x)
for what, numbers in (
    ("scores", scaled_scores), ("weights", scaled_alpha), ("output", scaled_output),
):  # fmt: skip
    print(f"scaled, {what:8}", [f"{v:.3f}" for v in numbers[0].tolist()])
by_hand = torch.tensor([4.113, 1.0, 2.028]) / 7.141
assert torch.allclose(by_hand, scaled_alpha[0], atol=1e-3)
assert torch.allclose(scaled_output[0], torch.tensor([1.436, 0.564]), atol=1e-3)
assert scaled_alpha.max() < alpha.max()  # closer to an even split

# Exercise 3.
mean = x.mean(1)
assert torch.allclose(soft_read(dot(x, torch.zeros(1, 2)), x).output, mean)
assert torch.allclose(soft_read(dot(x, torch.ones(1, 2)), x).output, mean)  # all scores are 2

# Exercise 4: α_i = exp(s_i)/Z. The quotient rule gives α_i δ_ij − α_i α_j. Summed over j: α_i − α_i.
jacobian = torch.autograd.functional.jacobian(lambda t: attention_weights(t[None])[0], s[0])
by_formula = torch.diag(alpha[0]) - alpha[0][:, None] * alpha[0][None]
assert torch.allclose(jacobian, by_formula, atol=1e-6)
assert torch.allclose(jacobian.sum(1), torch.zeros(3), atol=1e-6)
assert torch.allclose(attention_weights(s + 100), alpha, atol=1e-5)  # a constant changes nothing
