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
# # 23. Self-attention and the Transformer
#
# So far something outside asked the memory. Now the memory asks itself: every position of a sequence
# is a query to all the others. At the end of this chapter you know how queries, keys and values come
# from one sequence, what goes wrong without positions, how encoder and decoder are put together, and
# when all this is cheaper than a recurrent network, by counting.

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
import functools
import itertools
import math
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from sab import notebook
from sab.analysis.layer_cost import (
    Layer,
    convolution_layer,
    multiplications,
    recurrent_layer,
    sees,
    self_attention_layer,
)
from sab.analysis.scores import by_row, lines, mean
from sab.experiments import tables
from sab.figures.attention import weight_matrices
from sab.figures.learning import learning_curve
from sab.figures.style import COLOURS, new_figure, series_styles, style, with_alt
from sab.models.encoder_decoder import (
    DecoderLayer,
    EncoderDecoder,
    EncoderDecoderConfig,
    EncoderLayer,
    sinusoidal,
)
from sab.models.multi_head import MultiHead
from sab.notebook import glue, read_or_run, show, show_table
from sab.ops.attention import causal_mask, scaled_dot_product

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Why: connections that depend on the input
#
# A sequence of any length goes in, and each position should be able to use any other. Three layers come to mind.
#
# - A **convolution** looks at a few neighbours. What is far away is reached through many layers.
# - A **recurrent** layer hands on one state. In principle it carries everything; in practice the state
#   is of limited size, and gradients fade ([chapter 2](02_credit_assignment.ipynb)).
# - A **fully connected** layer joins every position to every other, with one weight per pair. So it is made for
#   one length, and a word's weight depends on its *place*, not on what it *is*.
#
# Self-attention is the third idea with weights that are computed instead of stored: how strongly $n$ listens to $m$ is
# decided by the two vectors. A fully connected layer, made anew for each input, for any length.
#
# ## Queries, keys, values
#
# The sequence is $\boldsymbol X \in \mathbb R^{N \times D_x}$, one row per position. Three learned matrices give each position a
# question, an address and a content:
#
# $$
# \begin{aligned}
# \boldsymbol Q &= \boldsymbol X \boldsymbol W_q, \quad \boldsymbol K = \boldsymbol X \boldsymbol W_k, \quad \boldsymbol V = \boldsymbol X \boldsymbol W_v, \\
# \boldsymbol H &= \mathrm{softmax}\!\left(\frac{\boldsymbol Q \boldsymbol K^\top}{\sqrt{D_k}}\right) \boldsymbol V ,
# \end{aligned}
# $$ (eq-self-attention)
#
# with the softmax along each row. Row $n$ of $\boldsymbol H$ is a mean of the values, weighted by how well the keys answer query $n$.
# (Texts that write vectors as columns have $\boldsymbol H = \boldsymbol V\,\mathrm{softmax}(\boldsymbol K^\top \boldsymbol Q / \sqrt{D_k})$, with the softmax along columns. It is
# the same, transposed.)

# %%
source = torch.Generator().manual_seed(seed)
N, D_x, D_k = 5, 8, 4
X = torch.randn(N, D_x, generator=source)
W_q, W_k, W_v = (torch.randn(D_x, D_k, generator=source) / D_x**0.5 for _ in range(3))

Q, K, V = X @ W_q, X @ W_k, X @ W_v
H, weights = scaled_dot_product(Q, K, V)

by_hand = torch.softmax(Q @ K.T / math.sqrt(D_k), dim=1) @ V
columns = V.T @ torch.softmax(K @ Q.T / math.sqrt(D_k), dim=0)
assert torch.allclose(H, by_hand, atol=1e-6) and torch.allclose(H, columns.T, atol=1e-6)

# %% [markdown]
# ### The mask that hides the future
#
# Where a sequence is to be *continued*, position $n$ may not look at what comes after it. A lower triangular mask sees to
# that. Then one pass trains all positions at once, each as if the text ended with it.

# %%
_, causal = scaled_dot_product(Q, K, V, causal_mask(N))
show(
    weight_matrices(
        {"all to all": weights, "causal": causal}, ylabel="query", xlabel="key", numbers=True
    ),
    caption="Weights of one untrained head. Blank is exactly zero.",
)
changed = X.clone()
changed[3:] += 1.0
H_before = scaled_dot_product(Q, K, V, causal_mask(N)).output
H_after = scaled_dot_product(changed @ W_q, changed @ W_k, changed @ W_v, causal_mask(N)).output
assert torch.equal(H_before[:3], H_after[:3])  # the future changes nothing in the past

# %% [markdown]
# Several heads do this side by side with their own matrices, and $\boldsymbol W_o$ mixes the results:
#
# $$
# \mathrm{MultiHead}(\boldsymbol X) = (\boldsymbol H_1 \oplus \dots \oplus \boldsymbol H_M)\,\boldsymbol W_o .
# $$
#
# [Chapter 21](21_attention_variants.ipynb) has the code and compares it with PyTorch's.
#
# ## Without positions: a set, not a sequence
#
# Exchange two words of the input. What happens to the output? Nothing in {eq}`eq-self-attention` knows a position's number. With a
# permutation matrix $\boldsymbol P$, the scores become $\boldsymbol P \boldsymbol Q \boldsymbol K^\top \boldsymbol P^\top$, and the output $\boldsymbol P \boldsymbol H$:
# it is exchanged in the same way, and otherwise the same. Self-attention is *equivariant* to permutations.

# %%
torch.manual_seed(seed)
layer = MultiHead(8, 2)
x = torch.randn(1, 5, 8)
swapped = [0, 3, 2, 1, 4]  # exchange the second and the fourth
assert torch.allclose(layer(x[:, swapped]), layer(x)[:, swapped], atol=1e-6)

place = sinusoidal(5, 8)
moved, still = layer(x[:, swapped] + place), layer(x + place)[:, swapped]
assert not torch.allclose(moved, still, atol=1e-2)  # with positions it is not so

# %% [markdown]
# "Dog bites man" and "man bites dog" would be one and the same. So the position has to be put *into* the vectors. The
# classical way adds waves of different lengths {cite:p}`vaswani2017attention`:
#
# $$
# PE_{n, 2i} = \sin\!\big(n / 10000^{2i/D}\big), \qquad PE_{n, 2i+1} = \cos\!\big(n / 10000^{2i/D}\big) .
# $$ (eq-positions)
#
# Each pair of columns is a hand of a clock; the first turns fast, the last hardly at all. The dot product of two positions depends on their
# distance alone, since hands that differ by an angle have the cosine of it as their product.

# %%
places = sinusoidal(64, 32)
products = places @ places.T
assert all(products.diagonal(gap).std() < 1e-4 for gap in (1, 5, 20))

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(7.0, 2.9, columns=2)
    axes[0, 0].imshow(places.T.numpy(), aspect="auto", cmap="PuOr", vmin=-1, vmax=1)
    axes[0, 0].set(xlabel="position n", ylabel="column")
    axes[0, 0].grid(False)
    axes[0, 1].plot(range(-31, 33), products[31].numpy(), color=COLOURS["gradient"])
    axes[0, 1].set(xlabel="distance of two positions", ylabel="dot product")
with_alt(
    fig,
    "Left, the position vectors as an image: the upper columns alternate quickly along the positions, the lower "
    "ones hardly change. Right, the dot product of position 31 with the others: a peak at distance 0, "
    "symmetric, falling to both sides with small waves.",
)
show(fig, caption="Sinusoidal positions of width 32.")

# %% [markdown]
# Or one simply *learns* a vector for each position. Then there is a table with a fixed number of rows, and beyond its last row there is nothing. Below we train both
# kinds, and see what each does with an input longer than those it was trained on.
#
# ## The whole: encoder and decoder
#
# An **encoder layer** has two parts, attention and a small network applied to every position alone. Around each part there is a shortcut and a
# normalisation ("post-norm"):
#
# ```text
#  embedding + position ──┬──▶ multi-head self-attention ──▶ (+) ──▶ layer norm ──┬──▶ feed-forward ──▶ (+) ──▶ layer norm ──▶ next layer
#                         └───────────────────────────────────┘                   └──────────────────────┘
# ```
#
# The attention moves information between positions; the feed-forward part works on it in place. A **decoder layer** has three parts: *masked*
# self-attention over what has been written, **cross-attention** with the decoder's positions as queries and the encoder's outputs as keys and values,
# and the feed-forward part. Cross-attention is the alignment of [chapter 22](22_pointers.ipynb).

# %%
torch.manual_seed(seed)
ours = EncoderLayer(12, 3, 24)
theirs = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
with torch.no_grad():
    parts = (ours.attention.query, ours.attention.key, ours.attention.value)
    theirs.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.self_attn.out_proj.load_state_dict(ours.attention.output.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())
x = torch.randn(2, 6, 12)
assert torch.allclose(ours(x), theirs(x), atol=1e-5)  # PyTorch's layer, the same weights

# %% [markdown]
# ### A small one, trained
#
# The task: write six digits in reverse. It is nothing but order, so it is the right test of positions. We train three models of one layer, width 32 and four heads:
# with sinusoidal positions, with learned ones, and with none. The learned table has eight rows, two more than the strings need. While it trains, the decoder is told the right digits so far; when it
# is judged, its own.

# %%
LENGTH, UPDATES = 6, 400
ROWS = 8  # of the table of learned positions


def strings(count: int, source: torch.Generator, length: int = LENGTH) -> torch.Tensor:
    """Random digits (count, length)."""
    return torch.randint(0, 10, (count, length), generator=source)


def learn(positions: str) -> EncoderDecoder:
    """Train one."""
    torch.manual_seed(seed)
    model = EncoderDecoder(EncoderDecoderConfig(positions=positions, longest=ROWS))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
    source = torch.Generator().manual_seed(seed)
    for _ in range(UPDATES):
        digits = strings(32, source)
        target = digits.flip(1)
        loss = functional.cross_entropy(model(digits, target).flatten(0, 1), target.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


trained = {name: learn(name) for name in ("sinusoidal", "learned", "none")}

# %% [markdown]
# These three are what the rest of the section looks into. How they learn, with three seeds each, is on record:

# %%
reversing = by_row(read_or_run("reversal", profile))
titles = {row.name: row.title for row in tables.find("reversal").rows if row.name in reversing}
records = [record for mine in reversing.values() for record in mine]
show(
    learning_curve({title: reversing[name] for name, title in titles.items()}, chance=0.1),
    caption="Reversing six digits: share of right digits. The model writes from its own answers.",
    source=records,
)
made, without = lines(
    list(titles.items()), reversing, [("accuracy", 100, 1), ("sequence_accuracy", 100, 1)]
)
show_table(
    ["model", "digits right, %", "strings right, %", "seeds"],
    made,
    caption=f"1,024 unseen strings.{without}",
    source=records,
)
for name, mine in reversing.items():
    glue(f"reverse_{name}", mean(mine, "accuracy"))
if profile != "smoke":
    assert all(mean(reversing[name], "accuracy") > 0.9 for name in ("sinusoidal", "learned"))
    assert mean(reversing["none"], "accuracy") < 0.6

# %% [markdown]
# In the mean over seeds {glue:text}`reverse_sinusoidal:.1%` of the digits are right with sinusoidal positions, {glue:text}`reverse_learned:.1%` with learned ones, {glue:text}`reverse_none:.1%` with none.
# The last is above chance: it can know *which* digits there are. Not where they stood.
#
# Now longer strings. The waves exist for any position; the learned table has eight rows, of which training used six.


# %%
@torch.no_grad()
def reversed_right(name: str, length: int) -> float | None:
    """Share of right digits on strings of this length; None where the model refuses it."""
    digits = strings(200, torch.Generator().manual_seed(seed + 7), length)
    try:
        said = trained[name].greedy(digits, length)
    except ValueError:
        return None
    return (said == digits.flip(1)).float().mean().item()


beyond = {
    name: {n: reversed_right(name, n) for n in (6, 7, 8, 9)} for name in ("sinusoidal", "learned")
}
show_table(
    ["positions", *(f"{n} digits" for n in (6, 7, 8, 9))],
    [
        (name, *("refused" if v is None else f"{v:.0%}" for v in row.values()))
        for name, row in beyond.items()
    ],
    caption="Right digits on 200 strings. Trained on six digits only, in this page, one seed; chance is 10 %.",
)
for name, row in beyond.items():
    assert row[8] is not None and row[8] < 0.8
    glue(f"eight_{name}", row[8])
assert beyond["sinusoidal"][9] is not None and beyond["learned"][9] is None

# %% [markdown]
# At nine digits the learned table has come to its end, and the model says so with an error. Up to eight it has rows, but nothing ever taught the last two: eight digits
# come out right in {glue:text}`eight_learned:.0%` of the places. That the waves go on for ever does not make the model general either: {glue:text}`eight_sinusoidal:.0%`
# (exercise 4).
#
# And here is what it looks at when it writes. Nobody told it that reversal is the other diagonal.

# %%
model = trained["sinusoidal"]
example = strings(1, torch.Generator().manual_seed(seed + 5))
with torch.no_grad():
    memory = model.encode(example)
    told = functional.pad(example.flip(1)[:, :-1], (1, 0), value=10)
    block = model.decoder[0]
    assert isinstance(block, DecoderLayer)
    y = model.embed(told) + sinusoidal(LENGTH, 32)
    y = block.norm1(y + block.attention(y, mask=causal_mask(LENGTH)))
    cross = block.cross.read(y, memory).weights[0]
show(
    weight_matrices(
        {f"head {m + 1}": cross[m] for m in range(4)},
        rows=[str(d) for d in example.flip(1)[0].tolist()],
        columns=[str(d) for d in example[0].tolist()],
        ylabel="digit written", xlabel="digit read", numbers=False,
    ),
    caption="Cross-attention of the trained model on one string.",
)  # fmt: skip

# %% [markdown]
# ## What it costs
#
# For sequence length $N$ and width $D$ the usual table compares three things: the work of a layer, how many steps have to be done one after the other, and the longest path between two
# positions.
#
# | layer | work | steps in sequence | longest path |
# | --- | --- | --- | --- |
# | self-attention | $O(N^2 D)$ | $O(1)$ | $O(1)$ |
# | recurrent | $O(N D^2)$ | $O(N)$ | $O(N)$ |
# | convolution, kernel $K$ | $O(K N D^2)$ | $O(1)$ | $O(\log_K N)$ |
#
# We check each column. **Work:** the multiplications, counted while the layers run.

# %%
D = 64
lengths = (8, 16, 32, 64, 128, 256, 512)
MAKE: dict[str, Callable[[int], Layer]] = {
    "self-attention, no projections": lambda width: self_attention_layer(width, projected=False),
    "self-attention, with its projections": self_attention_layer,
    "recurrent, one gate": recurrent_layer,
    "recurrent, four gates (LSTM)": lambda width: recurrent_layer(width, gates=4),
    "convolution, K = 3": convolution_layer,
}
layers = {name: make(D) for name, make in MAKE.items()}
work = {name: [multiplications(f, n, D) for n in lengths] for name, f in layers.items()}
assert work["self-attention, no projections"] == [2 * n * n * D for n in lengths]
assert work["self-attention, with its projections"] == [
    2 * n * n * D + 4 * n * D * D for n in lengths
]
assert work["recurrent, four gates (LSTM)"] == [8 * n * D * D for n in lengths]

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(7.0, 3.2)
    ax = axes[0, 0]
    for (name, counts), look in zip(work.items(), series_styles(list("abcde")), strict=True):
        ax.plot(lengths, [c / 1e6 for c in counts], label=name, **look)
    ax.axvline(D, color=COLOURS["edge"], ls=(0, (1, 2)))
    ax.annotate(
        "N = D", (D, ax.get_ylim()[0]), xytext=(4, 6), textcoords="offset points", fontsize=8
    )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.set(xlabel="sequence length N (width D = 64)", ylabel="multiplications (millions)")
    fig.legend(loc="outside upper left", ncols=2)
with_alt(
    fig,
    "Multiplications against sequence length from 8 to 512 at width 64, both logarithmic. Recurrent layers and the "
    "convolution rise in proportion to N; bare self-attention in proportion to its square and crosses the plain recurrent "
    "layer at N = 64; with projections it starts above it.",
)
show(fig, caption="Counted, not estimated.")


# %%
bare, full, plain, lstm, conv = layers


@functools.cache
def counted(name: str, n: int, width: int) -> int:
    """Multiplications of a layer of this width over n positions."""
    return multiplications(MAKE[name](width), n, width)


def crossover(left: str, right: str, width: int) -> int | None:
    """Smallest length at which the left layer needs more multiplications; None if from the start."""

    def dearer(n: int) -> bool:
        return counted(left, n, width) > counted(right, n, width)

    if dearer(1):
        return None
    low, high = 1, 4 * width  # one curve starts below and ends above, and they cross once
    assert dearer(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if dearer(middle) else (middle, high)
    return high


widths = (16, 32, 64, 128)
pairs = {
    "bare self-attention against a plain recurrent layer": (bare, plain),
    "with projections against an LSTM": (full, lstm),
    "with projections against a plain recurrent layer": (full, plain),
}
crossed = {
    name: [crossover(left, right, width) for width in widths]
    for name, (left, right) in pairs.items()
}
show_table(
    ["self-attention costs more from N =", *(f"D = {width}" for width in widths)],
    [(name, *(v or "1" for v in found)) for name, found in crossed.items()],
    caption="Smallest sequence length at which self-attention needs more multiplications, by width.",
)

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(6.0, 2.9)
    ax = axes[0, 0]
    met = {name: [v or 1 for v in found] for name, found in crossed.items()}
    for (name, found), look in zip(met.items(), series_styles(list("abc")), strict=True):
        ax.plot(widths, found, label=name, **look)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(widths, [str(width) for width in widths])
    lengths_2 = (1, 4, 16, 64, 256)
    ax.set_yticks(lengths_2, [str(n) for n in lengths_2])
    ax.set(xlabel="width D", ylabel="dearer from N =")
    fig.legend(loc="outside upper left", ncols=1)
with_alt(
    fig,
    f"Length from which self-attention needs more multiplications, against the widths {', '.join(map(str, widths))}, "
    "both logarithmic. "
    + "; ".join(f"{name}: {', '.join(map(str, found))}" for name, found in met.items())
    + ".",
)
show(fig, caption="N against D. Two lines of slope one; the third is flat, at the first position.")

# %% [markdown]
# At each of these widths the crossing is at the same multiple of $D$. So "self-attention is dearer when $N > D$" is right for the table's two terms, $2 N^2 D$ against
# $2 N D^2$. With the four projections, which are $4 N D^2$, a real
# layer is dearer than a plain recurrent one from the start, and dearer than an LSTM for $N > 2D$.
#
# **Steps in sequence:** what the count does not show. The recurrent layer does its work in $N$ small pieces, each waiting for the one before. Here is the time on this machine,
# one thread; take it as an example, not a law. It is the thread's own processor time, so that waiting for other programs is not counted, and the least of several
# rounds.


# %%
def milliseconds(names: list[str], rounds: int = 15) -> dict[str, list[float]]:
    """Least time of each layer at each length, on one thread; a round visits all of them."""
    inputs = [torch.randn(n, D) for n in lengths]
    least = {name: [math.inf] * len(lengths) for name in names}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the clock sees one thread
    with torch.no_grad():
        for _ in range(rounds):
            for name in names:
                for i, x_ in enumerate(inputs):
                    layers[name](x_)  # warm
                    start = time.thread_time()
                    layers[name](x_)
                    least[name][i] = min(least[name][i], 1000 * (time.thread_time() - start))
    torch.set_num_threads(threads)
    return least


timed = milliseconds([full, lstm, conv])
# A loaded machine shows as a jump: no doubling may cost four times what its work grows by.
for name, row in timed.items():
    for k in range(2, len(lengths)):
        assert row[k] / row[k - 1] < 4 * work[name][k] / work[name][k - 1], (name, lengths[k], row)
# The recurrent layer's steps are all alike: twice as many take about twice as long.
assert all(1.3 < b / a < 3.5 for a, b in itertools.pairwise(timed[lstm][2:])), timed[lstm]
show_table(
    ["layer", *(f"N = {n}" for n in lengths)],
    [(name, *(f"{v:.2f}" for v in row)) for name, row in timed.items()],
    caption="Milliseconds of one thread forward, width 64, one sequence; the least of fifteen.",
)
glue("ratio_512", timed[lstm][-1] / timed[full][-1])
glue("work_512", work[lstm][-1] / work[full][-1])
glue("growth_lstm", timed[lstm][-1] / timed[lstm][-2])
glue("growth_full", timed[full][-1] / timed[full][-2])
glue("growth_work", work[full][-1] / work[full][-2])

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(7.0, 3.0)
    ax = axes[0, 0]
    for (name, row), look in zip(timed.items(), series_styles(list("abc")), strict=True):
        ax.plot(lengths, row, label=name, **look)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.set(xlabel="sequence length N (width D = 64)", ylabel="milliseconds")
    fig.legend(loc="outside upper left", ncols=2)
with_alt(
    fig,
    "Processor time against sequence length, both logarithmic. "
    + "; ".join(
        f"{name}: {row[0]:.2g} ms at N = {lengths[0]}, {row[-1]:.2g} ms at N = {lengths[-1]}"
        for name, row in timed.items()
    )
    + ". The recurrent layer is the slowest at every length."
    * all(
        v == max(column)
        for v, column in zip(timed[lstm], zip(*timed.values(), strict=True), strict=True)
    ),
)
show(
    fig, caption="The same measurements. A line of slope one is a time in proportion to the length."
)

# %% [markdown]
# At $N = 512$ the recurrent layer takes {glue:text}`ratio_512:.1f` times as long as self-attention, with {glue:text}`work_512:.1f` times the multiplications. From 256 to 512
# positions its time grows by a factor of {glue:text}`growth_lstm:.1f`, as its steps do. That of self-attention grows by {glue:text}`growth_full:.1f`; its work, by
# {glue:text}`growth_work:.1f`. What goes beyond that is the machine's, where the $N \times N$ matrices outgrow the memory that is near.
#
# **Longest path:** how many inputs the last output depends on, found by its gradient. The logarithm in the table presumes *dilated* convolutions, whose kernel skips ever
# larger gaps; without dilation the reach grows by $K - 1$ a layer.

# %% tags=["nbval-check-output"]
print(
    "one layer, 30 positions: self-attention",
    sees([layers[full]], 30, D),
    "recurrent",
    sees([layers[lstm]], 30, D),
)
print(
    "one layer, 80 positions: self-attention",
    sees([layers[full]], 80, D),
    "recurrent fewer:",
    sees([layers[lstm]], 80, D) < 80,
)
for depth in (1, 2, 3, 4):
    plainly = sees([convolution_layer(D, 3)] * depth, 80, D)
    dilated = sees([convolution_layer(D, 3, 3**i) for i in range(depth)], 80, D)
    print(f"{depth} convolutions: {plainly} plain, {dilated} dilated")

# %% [markdown]
# Over 80 positions the recurrent layer *has* the path, and yet its gradient to the first inputs is zero: it has faded below the smallest number that 32 bits hold. A short path is worth more than a path.
#
# Where does SAB stand? It is recurrent, so its steps are in sequence; its memory gives it a short path, as attention has; and it scores $N / k_{\mathrm{att}}$ memories a step, which is
# $O(N^2)$ in all. [Chapter 17](17_complexity.ipynb) measures it.
#
# ## What came after
#
# The encoder alone became BERT {cite:p}`devlin2019bert`, which fills in hidden words; the decoder alone became the GPT family {cite:p}`radford2018improving`, which continues texts. The square in $N^2$
# started a field of its own: sparse patterns, low rank, kernels, recurrence again {cite:p}`tay2022efficient`. Two of its ideas stand in this book: read few memories (Part I), and look at a window and let
# a recurrent state carry the rest ([Part III](30_rea_idea.ipynb)).
#
# ## What surprised us
#
# - Take the positions away and the model still gets more than chance, from the bag of digits and its own past.
# - The famous crossover $N = D$ leaves out the projections. Counted whole, it is $2D$ against an LSTM, and there is none against a plain recurrent layer.
# - $O(\log_K N)$ for convolutions is not true of convolutions as such.
#
# ## What it took
#
# Three models of one layer, 400 updates each, once live and with three seeds on record, and some counting: less than a minute on one core.
#
# ## Exercises
#
# **1.** (Analysis.) Without positions, exchange two words of the input. How does the output of a self-attention layer change? And the output of a whole decoder that reads it by cross-attention?
#
# :::{dropdown} Solution
# The layer's output is exchanged in the same way (shown above). Cross-attention is a read from a set: its output does not change at all. So the translation of a sentence would not depend on the order of its
# words. The cell below checks it on the trained model without positions.
# :::
#
# **2.** (Comparison.) Compare self-attention, recurrent and convolutional layers in work, parallelism and reach. At which length does self-attention cost more than a recurrent layer? What changes for an LSTM,
# and what if all projections are counted?
#
# :::{dropdown} Solution
# | layer | multiplications | parallelism | reach of the last output |
# | --- | --- | --- | --- |
# | self-attention | $2 N^2 D$; with its projections $2 N^2 D + 4 N D^2$ | all positions at once | every position in one layer |
# | recurrent | $2 N D^2$; an LSTM $8 N D^2$ | $N$ steps, one after the other | every position, over up to $N$ steps |
# | convolution | $K N D^2$ | all positions at once | $K$ positions a layer: $N$ need $\log_K N$ layers if dilated, else $(N-1)/(K-1)$ |
#
# Bare self-attention costs more than a plain recurrent layer when $2 N^2 D > 2 N D^2$, that is from $N > D$. With the projections, $2 N^2 D + 4 N D^2 > 8 N D^2$ gives $N > 2D$
# against an LSTM; and against a plain recurrent layer, $2 N^2 D + 4 N D^2 > 2 N D^2$ always. The cell below checks this at each width.
# :::
#
# **3.** Why does the bias of the key projection never matter?
#
# :::{dropdown} Solution
# It adds $\boldsymbol q_m^\top \boldsymbol b$ to all scores of row $m$, a constant, and a softmax does not see a constant. Its gradient is zero.
# :::
#
# **4.** Test the trained models on strings of eight digits, two more than they were trained on. The waves exist for any position. Does that make the model general?
#
# :::{dropdown} Solution
# No: {glue:text}`eight_sinusoidal:.0%` of the digits are right with waves, {glue:text}`eight_learned:.0%` with a learned table of eight rows. The vectors exist, but no head was ever trained to look from the
# seventh position or at it. With the table, two rows still are what chance made them.
# :::

# %% tags=["hide-cell"]
# Exercise 1.
bag = trained["none"]
turn = torch.tensor([4, 2, 5, 0, 1, 3])
with torch.no_grad():
    assert torch.allclose(bag.encode(example[:, turn]), bag.encode(example)[:, turn], atol=1e-5)
    target_1 = example.flip(1)
    assert torch.allclose(bag(example[:, turn], target_1), bag(example, target_1), atol=1e-4)

# Exercise 2: solve 2 N² D = 2 N D² for the bare layer; 2 N² D + 4 N D² = 8 N D² for the LSTM.
for width in widths:
    assert crossover(bare, plain, width) == width + 1
    assert crossover(full, lstm, width) == 2 * width + 1
    assert crossover(full, plain, width) is None
assert work[conv] == [3 * n * D * D for n in lengths]
for steps, deep in ((9, 2), (27, 3)):  # K = 3: log_K N layers dilated, (N - 1)/(K - 1) plain
    dilated = [convolution_layer(D, 3, 3**i) for i in range(deep)]
    assert sees(dilated, steps, D) == steps and sees(dilated[:-1], steps, D) < steps
    plainly = [convolution_layer(D, 3)] * ((steps - 1) // 2)
    assert sees(plainly, steps, D) == steps and sees(plainly[:-1], steps, D) < steps

# Exercise 3.
probe = MultiHead(8, 2)
probe(torch.randn(2, 5, 8)).square().sum().backward()
assert probe.key.bias.grad is not None and probe.key.bias.grad.abs().max() < 1e-4
assert probe.query.bias.grad is not None and probe.query.bias.grad.abs().max() > 1e-3

# Exercise 4: the vectors exist, but nothing was ever trained to look there.
print({name: f"eight digits: {row[8]:.0%} of the digits" for name, row in beyond.items()})
