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
# # 32. The window: what it costs
#
# A window was to make attention cheap. The listing scores every pair and then hides most of them,
# which is a window in what is *seen* and none in what is *paid*. At the end of this chapter you know how
# to compute a window at the price of a window, what that brings, measured, and which comparison is the
# fair one. It follows sections 2.1, 3.2 and 4.2 of the article.

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
import json
from typing import Any

import torch

from sab import notebook
from sab.analysis.cost import fit_slope
from sab.figures import scaling, window_scores
from sab.models.rea import REA, REAConfig
from sab.notebook import ROOT, glue, show, show_table
from sab.ops.window_attention import full_attention, window_attention

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## The same window, two prices
#
# Position $i$ attends to the positions $j$ with $|i-j| \le w$:
#
# $$
# \boldsymbol a_i = \sum_{j:\,|i-j|\le w} \frac{\exp(\boldsymbol q_i^\top \boldsymbol k_j/\sqrt d)}
# {\sum_{l:\,|i-l|\le w} \exp(\boldsymbol q_i^\top \boldsymbol k_l/\sqrt d)}\; \boldsymbol v_j .
# $$ (window-attention)
#
# **Masked.** Compute all $N^2$ scores, set those outside to $-\infty$, take the softmax. The article
# chose this: it "vectorises better".
#
# **Blocked.** Cut the sequence into blocks of $w$. A query then needs its own block, the one before,
# and (two-sided) the one after, and nothing else: $N \cdot 3w$ scores. What is scored for nothing are
# the corners.

# %%
show(
    window_scores(16, 4),
    caption="Sixteen positions, window 4. Orange: scores that count. Grey: computed and thrown away.",
    source="Computed from the rule of each form.",
)

# %% [markdown]
# At $N = 16$ the difference is small. The left square grows with $N^2$, the right band with $N$.
#
# Both are one function here, and a switch says how it is computed. They agree forward and backward, with
# padding, and for a window longer than the sequence:

# %% tags=["nbval-check-output"]
torch.manual_seed(seed)
keep = torch.rand(2, 50) < 0.8  # (2, 50): gaps anywhere
cases: dict[str, dict[str, Any]] = {
    "two-sided": {},
    "causal": {"causal": True},
    "padding": {"keep": keep},
}
for name, settings in cases.items():
    for window in (4, 80):
        q, k, v = (torch.randn(2, 3, 50, 8, dtype=torch.float64, requires_grad=True) for _ in "qkv")
        found = []
        for form in ("masked", "blocked"):
            out = window_attention(q, k, v, window, form=form, **settings)
            found.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
        same = all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*found, strict=True))
        print(f"{name}, window {window}: values and gradients agree: {same}")

# %% [markdown]
# ## Rows with nothing to see
#
# One edge decides whether training survives. A padded position whose whole window is padding may look
# at nothing. Its row of scores is all $-\infty$, the softmax divides zero by zero, and the result is
# NaN. A NaN in padding looks harmless and is not: in the next layer its *value* is multiplied by a
# weight of zero, zero times NaN is NaN, and the masked form multiplies every row by it.
# Here such a row is zero, forward and backward:

# %%
q, k, v = (torch.randn(1, 1, 12, 4, requires_grad=True) for _ in "qkv")
keep = torch.arange(12)[None] < 5  # seven padded positions, window 2
plain = torch.where(keep[:, None, None], q @ k.transpose(-2, -1), -torch.inf)
distance = (torch.arange(12)[:, None] - torch.arange(12)).abs()
naive = plain.masked_fill(distance > 2, -torch.inf).softmax(-1) @ v
ours = window_attention(q, k, v, 2, keep=keep)
ours.sum().backward()
glue("naive_nan", int(naive.isnan().any(-1).sum()))
print("rows with NaN: masked the plain way", int(naive.isnan().any(-1).sum()), "– here",
      int(ours.isnan().any(-1).sum()))  # fmt: skip
assert q.grad is not None and torch.isfinite(q.grad).all() and (ours[0, 0, 5:] == 0).all()

# %% [markdown]
# The plain way has {glue:text}`naive_nan:d` such rows in a sequence of twelve.
# [Chapter 34](34_rea_pitfalls.ipynb) follows one into a second layer.
#
# ## Measured: 4,096 positions, window 64
#
# "Cropping is slower than masking", says the article: it needs many index operations. That depends on
# how one crops. Five ways, forward and backward. Two of them are the library's *fused attention*: one
# operation that goes from queries, keys and values to the result, block by block, and never writes the
# scores down. *Kept for backward* is what the forward pass has to leave in memory so that gradients can be
# computed, each array once; it is the part of training's memory that differs from way to way.

# %%
bench = json.loads((ROOT / "results" / "bench" / "window.json").read_text())
rows = {row["form"]: row for row in bench["attention"]["rows"]}
kept = {(row["form"], row["length"]): row["kept_mb"] for row in bench["memory"]["rows"]}
WAYS = {
    "masked": "masked, as the listing: all pairs",
    "gathered": "cropped by indexing each position's neighbours",
    "sdpa_masked": "the library's fused attention, window as its mask",
    "full": "the library's fused attention, no window",
    "blocked": "blocked",
}
length = rows["masked"]["length"]
base = rows["masked"]["ms_median"]
show_table(
    ["way", "ms", "masked over it", "kept for backward, MB"],
    [
        (
            words,
            f"{rows[form]['ms_median']:.0f}",
            f"{base / rows[form]['ms_median']:.1f}",
            f"{kept[form, length]:.1f}",
        )
        for form, words in WAYS.items()
    ],
    caption="One sequence of 4,096 positions, four heads of width 16, window 64, one thread.",
    source="From results/bench/window.json (python -m benchmarks.window).",
)
glue("speed_up", base / rows["blocked"]["ms_median"])
glue("over_fused", rows["full"]["ms_median"] / rows["blocked"]["ms_median"])
glue("over_gathered", rows["gathered"]["ms_median"] / rows["blocked"]["ms_median"])
glue("gathered_over", base / rows["gathered"]["ms_median"])
glue("kept_masked", kept["masked", length])
glue("kept_blocked", kept["blocked", length])
glue("kept_full", kept["full", length])
assert base > 15 * rows["blocked"]["ms_median"]

# %% [markdown]
# - **Blocks are {glue:text}`speed_up:.0f` times as fast as the mask** and keep
#   {glue:text}`kept_blocked:.0f` MB where it keeps {glue:text}`kept_masked:.0f`.
# - Cropping by *indexing* is indeed {glue:text}`over_gathered:.0f` times as slow as blocks, since it
#   copies every key $2w+1$ times. It still beats the mask, by {glue:text}`gathered_over:.1f`. So "cropping
#   is slower" does not hold even for the clumsy way, at this length.
# - **The fair opponent is another.** Full attention from the library, which never writes down the
#   $N^2$ scores, is already far faster than the mask, and keeps {glue:text}`kept_full:.0f` MB: less than
#   the blocks. Against *it*, the window is {glue:text}`over_fused:.1f` times as fast at this length, and
#   saves no memory at all.
#
# "Attention's memory is quadratic" is true of the formula and false of the library.
#
# ## Growth
#
# Whole layers of width 64, one sequence, forward and backward:

# %%
layers = bench["layers"]["rows"]
SHOWN = (
    "listing",
    "window, masked",
    "window, blocked",
    "full attention",
    "REA",
    "REA, GRU state",
)
times = {name: [(r["length"], r["ms_min"]) for r in layers if r["form"] == name] for name in SHOWN}
slopes = {
    name: fit_slope(*zip(*[p for p in pairs if p[0] >= 512], strict=True)).exponent
    for name, pairs in times.items()
}
show(
    scaling(
        times,
        slopes=slopes,
        ylabel="ms a forward and backward pass",
        xlabel="positions N",
        symbol="N",
    ),
    caption="Time of one layer against length, the least of two; exponents fitted from 512 positions on.",
    source="From results/bench/window.json (python -m benchmarks.window --part layers).",
)
memory = {
    name: [(r["length"], r["kept_mb"]) for r in layers if r["form"] == name] for name in SHOWN
}
grown = {name: fit_slope(*zip(*pairs, strict=True)).exponent for name, pairs in memory.items()}
show(
    scaling(
        memory, slopes=grown, ylabel="kept for backward (MB)", xlabel="positions N", symbol="N"
    ),
    caption="What is kept for the backward pass, by length. What keeps all pairs was not measured at the greatest ones.",
    source="From results/bench/window.json (python -m benchmarks.window --part layers).",
)
at = {(r["form"], r["length"]): r for r in layers}
glue("slope_rea", slopes["REA"])
glue("slope_full", slopes["full attention"])
glue("slope_listing", slopes["listing"])
glue("memory_rea", grown["REA"])
glue("memory_full", grown["full attention"])
glue("memory_listing", grown["listing"])
at_1024 = {name: at[name, 1024]["ms_min"] for name in SHOWN}
window_1024 = at_1024["window, blocked"]
glue("listing_1024", at_1024["listing"] / at_1024["full attention"])
glue("full_1024", at_1024["full attention"] / window_1024)
glue("rea_1024", at_1024["REA"] / window_1024)
glue("gru_1024", at_1024["REA, GRU state"] / at_1024["full attention"])
glue("listing_over_rea", at_1024["listing"] / at_1024["REA"])
assert grown["REA"] < 1.05 and grown["listing"] > 1.7

# %% [markdown]
# REA's time grows with exponent {glue:text}`slope_rea:.2f`, full attention's with
# {glue:text}`slope_full:.2f`, the listing's with {glue:text}`slope_listing:.2f`. What is kept grows with
# {glue:text}`memory_rea:.2f`, {glue:text}`memory_full:.2f` and {glue:text}`memory_listing:.2f`.
#
# Beside the article's table, at its 1,024 positions (one layer, where it has a whole model on a GPU):

# %%
show_table(
    ["", "the article", "ours"],
    [
        ("full attention over window", "2.3", f"{at_1024['full attention'] / window_1024:.1f}"),
        ("REA over window", "1.1", f"{at_1024['REA'] / window_1024:.1f}"),
        (
            "GRU state over full attention",
            "3.1",
            f"{at_1024['REA, GRU state'] / at_1024['full attention']:.1f}",
        ),
    ],
    caption="Ratios of times at 1,024 positions. The article's first two rows are its section 4.2, the "
    "third its 5.3, which also gives REA 1.1 times full attention: another base for the same number.",
    source="From results/bench/window.json; the article's values as it gives them.",
)

# %% [markdown]
# With blocks, full attention takes {glue:text}`full_1024:.1f` times as long as a window, and REA
# {glue:text}`rea_1024:.1f` times. The listing as written takes {glue:text}`listing_1024:.1f` times as
# long as *full* attention, and {glue:text}`listing_over_rea:.0f` times as long as the blocked layer:
# its mask and the copy it makes of the scores cost more than they save. (Our listing has the fast average
# of [chapter 31](31_rea_state.ipynb), and its mask is one array, not a bias of $N \times N$ on top of one; its own
# loop and bias come on top.) A GRU in place of the average
# costs {glue:text}`gru_1024:.0f` times full attention.
#
# One more of the article's costs can be looked up here. The state sums up $\boldsymbol x$, not what
# attention made of it ([chapter 30](30_rea_idea.ipynb)); the other way round, it says, would cost much
# more memory. `state_input="attention"` is the other way round:

# %%
ways = {(r["whole"], r["form"], r["length"]): r for r in bench["inputs"]["rows"]}
names = {
    "layer": "one layer",
    "classifier": "a classifier of two layers",
    "classifier, mask": "the same with a mask for padding",
}
show_table(
    ["1,024 positions", "the state sums up", "kept for backward, MB", "ms"],
    [
        (
            names[whole],
            what,
            f"{ways[whole, form, 1024]['kept_mb']:.2f}",
            f"{ways[whole, form, 1024]['ms_min']:.0f}",
        )
        for whole in names
        for form, what in (("stream", "the stream"), ("attention", "attention's output"))
    ],
    caption="What it costs to feed the state from attention's output. Time: the least of five.",
    source="From results/bench/window.json (python -m benchmarks.window --part inputs).",
)
extra = {
    whole: ways[whole, "attention", 1024]["kept_mb"] / ways[whole, "stream", 1024]["kept_mb"] - 1
    for whole in names
}
glue("extra_layer", extra["layer"])
glue("extra_whole", extra["classifier"])
glue("extra_masked", extra["classifier, mask"])
assert extra["layer"] < 0.1 and extra["classifier"] < 0.1 and extra["classifier, mask"] < 0.1

# %% [markdown]
# True, and little: {glue:text}`extra_layer:.0%` in a bare layer, {glue:text}`extra_whole:.0%` in a whole
# model. It is one array of $N \times D$ a layer: fed from the stream, both channels share their input.
# With a mask for padding it is {glue:text}`extra_masked:.0%`, since the window then keeps a packed copy of
# its own. The better argument for the stream is that both channels can be computed at the same time.
#
# ## What a window does not see
#
# Each layer widens the view by $w$ on either side. Two layers of 16 see 32 steps, and no training can
# change that. So if a label hangs on an event 768 steps before the place of the answer, a window alone
# is at chance, exactly:

# %%
model = REA(REAConfig(5, 16, 2, layers=2, heads=2, window=16, state="none")).double()
x = torch.randn(1, 100, 5, dtype=torch.float64)
changed = x.clone()
changed[:, 10] += 1
moved = (model(x)[0] != model(changed)[0]).any(-1)[0].nonzero()[:, 0]
glue("first_moved", int(moved.min()))
glue("last_moved", int(moved.max()))
print("event 10 changes the outputs", int(moved.min()), "to", int(moved.max()))
assert (int(moved.min()), int(moved.max())) == (0, 42)

# %% [markdown]
# ## What surprised us
#
# - **The listing is slower than what it replaces.**
# - **Full attention keeps less memory than a window,** where the library computes it.
#
# ## What it took
#
# The records were made on one thread, part by part; cells here take seconds.
#
# ## Exercises
#
# **1.** How many scores does each form compute for $N = 8{,}192$ and $w = 16$? Which share of the
# blocked form's is thrown away?
#
# **2.** A causal window needs only the block before. Measure what that saves in kept memory.
#
# **3.** Keep $w = 64$ and shorten the blocks to 32, 16, 4. Which share is thrown away?

# %% tags=["hide-cell"]
# Solution of exercise 1: N² = 67 million against N · 3w = 393 thousand, of which 2w + 1 of 3w count.
N, w = 8192, 16
print(f"{N * N:,} and {3 * w * N:,}; thrown away {1 - (2 * w + 1) / (3 * w):.0%}")
assert N * N / (3 * w * N) > 170

# %% tags=["hide-cell"]
# Solution of exercise 2: two blocks of keys in place of three, so nearly a third of the scores.
from sab.ops.kept import kept_for_backward

q, k, v = (torch.randn(1, 4, 1024, 16, requires_grad=True) for _ in "qkv")
both, past = (
    kept_for_backward(call)
    for call in (
        lambda: window_attention(q, k, v, 64).sum(),
        lambda: window_attention(q, k, v, 64, causal=True).sum(),
    )
)
print(f"two-sided {both:.1f} MB, causal {past:.1f} MB")
assert 0.6 < past / both < 0.8
whole = full_attention(q, k, v, causal=True)
assert torch.allclose(window_attention(q, k, v, 2000, causal=True), whole, atol=1e-5)

# %% tags=["hide-cell"]
# Solution of exercise 3: with blocks of b and a window w = m·b, a block looks at 2m + 1 blocks:
# N (2w + b) scores, so shorter blocks waste less, down to N · 2w, and cost more, smaller products.
for m in (1, 2, 4, 16):
    b = 64 // m
    print(
        f"blocks of {b}: {2 * 64 + b} scores a position, thrown away {1 - 129 / (2 * 64 + b):.0%}"
    )
