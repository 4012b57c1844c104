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
# # 31. The state: a running summary
#
# The state channel is one line of arithmetic, older than neural networks. At the end of this chapter
# you know how long it remembers and how to choose that, why it can be computed for all steps at once,
# and why a gradient cannot explode in it. It follows sections 2.2, 4.3 and 5.3 of the article.

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
import math
from functools import partial

import torch

from sab import notebook
from sab.analysis.summary import signal_to_noise
from sab.figures import curves
from sab.notebook import ROOT, glue, show, show_table
from sab.ops.ema_scan import LONG, ema_scan, half_life, linear_scan

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## One line
#
# $$
# \boldsymbol s_t = (1 - \boldsymbol\alpha) \odot \boldsymbol s_{t-1} + \boldsymbol\alpha \odot \boldsymbol x_t,
# \qquad \boldsymbol\alpha = \sigma(\boldsymbol r)
# $$ (ema)
#
# Each channel has its own share $\alpha$ between 0 and 1, kept there by a sigmoid; $\boldsymbol r$ is
# what is learned. Unrolled from $\boldsymbol s_0$ on, a channel is
#
# $$
# s_t = (1-\alpha)^t s_0 + \sum_{i=1}^{t} \alpha\,(1-\alpha)^{t-i}\, x_i.
# $$ (ema-unrolled)
#
# So an input that is $k$ steps old counts $\alpha (1-\alpha)^k$. The article offers two starts, the
# first input or a learned vector; its listing starts from zeros, and so do we: zeros are what the sum
# has before anything was said. Equation {eq}`ema-unrolled` next to the code:

# %%
x = torch.randn(1, 50, 3, dtype=torch.float64)
alpha = torch.tensor([0.02, 0.1, 0.5], dtype=torch.float64)

states = ema_scan(x, alpha)  # (1, 50, 3)

t, i = 50, torch.arange(1, 51)
unrolled = sum(alpha * (1 - alpha) ** (t - k) * x[0, k - 1] for k in i)
assert torch.allclose(states[0, t - 1], unrolled)

# %% [markdown]
# ## How long does it remember?
#
# Half of an input is gone after $\ln\tfrac12 / \ln(1-\alpha) \approx 0.69/\alpha$ steps. The article
# sets $\alpha$ to 0.1. Its listing sets the *parameter* to 0.1 and then takes the sigmoid of it, so
# that $\alpha$ starts somewhere else. What is left of an event:

# %%
STARTS = {"as meant": 0.1, "as written": 1 / (1 + math.exp(-0.1)), "for 1,024 events": 0.001}
show(
    curves(
        {
            f"{name}, α = {a:.3g}": [(k, (1 - a) ** k) for k in range(0, 257, 4)]
            for name, a in STARTS.items()
        },
        xlabel="steps since the event",
        ylabel="share of it that is left",
        markers=False,
    ),
    caption="What a running average keeps of one input, relative to the moment it came in.",
)
show_table(
    ["start", "α", "half-life, steps", "left after 16 steps", "left after 768 steps"],
    [
        (name, f"{a:.3g}", f"{half_life(a):.1f}", f"{(1 - a) ** 16:.1e}", f"{(1 - a) ** 768:.1e}")
        for name, a in STARTS.items()
    ],
    caption="768 steps: from the end of the first quarter of a log of 1,024 to its end.",
)
written = STARTS["as written"]
glue("written", written)
glue("written_half", half_life(written))
glue("written_16", (1 - written) ** 16)
glue("meant_16", (1 - 0.1) ** 16)
glue("meant_768", (1 - 0.1) ** 768)

# %% [markdown]
# As written, $\alpha$ starts at {glue:text}`written:.3f`: half of everything is gone after
# {glue:text}`written_half:.2f` steps, and after 16 steps, the reach of the window beside it,
# {glue:text}`written_16:.0e` is left. **Such a state remembers nothing that the window does not see.**
# As meant it keeps {glue:text}`meant_16:.0%` over 16 steps, but over the 768 steps of the article's own
# task {glue:text}`meant_768:.0e`. The article says that 0.5 is too forgetful, and that longer
# sequences want a smaller $\alpha$. Both are right. They also condemn its 0.1 for its own task, unless
# $\alpha$ is learned well away from where it starts, or the answer is not read at the end.
#
# ## Which α, for which length?
#
# Not "as small as possible": a small $\alpha$ keeps long but takes little in. Say all inputs are
# independent with variance 1. One of them, $k$ steps ago, has weight $\alpha(1-\alpha)^k$; all of them
# together give the state a variance of $\sum_k \alpha^2 (1-\alpha)^{2k} = \alpha/(2-\alpha)$. The ratio
#
# $$
# \frac{\text{signal}}{\text{noise}} = (1-\alpha)^k \sqrt{\alpha\,(2-\alpha)}
# $$ (signal-noise)
#
# is greatest near $\alpha = 1/(2k)$.

# %%
grid = [10 ** (-4 + 0.05 * j) for j in range(79)]
LAGS = (16, 112, 768)
show(
    curves(
        {f"{k} steps ago": [(a, signal_to_noise(a, k)) for a in grid] for k in LAGS},
        xlabel="α (logarithmic)",
        ylabel="signal to noise",
        log_x=True,
        markers=False,
    ),
    caption="How far one event stands out of the state, by α and age.",
)
best = {k: max(grid, key=partial(signal_to_noise, lag=k)) for k in LAGS}
for k in LAGS:
    assert abs(best[k] * 2 * k - 1) < 0.15
glue("best_768", best[768])
glue("ratio_768", signal_to_noise(best[768], 768))
glue("ratio_112", signal_to_noise(best[112], 112))
glue("ratio_16", signal_to_noise(best[16], 16))

# %% [markdown]
# Even with the best $\alpha$ the ratio falls as $1/\sqrt{k}$: {glue:text}`ratio_16:.2f` at 16 steps,
# {glue:text}`ratio_112:.3f` at 112, {glue:text}`ratio_768:.3f` at 768 (with $\alpha =$
# {glue:text}`best_768:.4f`). That is what a network sees *before* it has learned anything. Training
# can do better than this bound, by mapping all ordinary events to the same vector: they then make no
# noise, and the rare one stands out whatever its weight. But it has to *find* that map with a signal
# of a few percent. Expect such a model to sit at chance for a long while, and then to get it at once.
#
# ## All steps at once
#
# Equation {eq}`ema` looks sequential: a loop of $N$ steps, and the listing has one. It need not be.
# Write a step as the pair $(a_t, b_t)$ of $s_t = a_t s_{t-1} + b_t$. Two steps in a row are one step
# of the same kind,
#
# $$
# s_{t} = a_{t}\,(a_{t-1} s_{t-2} + b_{t-1}) + b_{t}
# = (a_{t} a_{t-1})\, s_{t-2} + (a_{t} b_{t-1} + b_{t}),
# $$ (pairing)
#
# so the even positions form a recurrence half as long. Solve that one the same way; the odd positions
# follow from their neighbours in one operation. That is $\log_2 N$ rounds, about $3N$
# multiplications in all, and *no division*. It works with an $\alpha$ that changes in time, too, and
# the backward pass is the same recurrence from the other end. Call it *halving*.
#
# A long average with one $\alpha$ a channel goes another way here, in *blocks*; it is what the article
# calls segmented accumulation (分段累积). The steps are cut into blocks of 64. All blocks run side by side
# from zero, which tells what each hands to the next; then all run again, each from its true start. That is
# two light passes over memory where halving makes about a dozen, and again nothing is divided.
# `ema_scan` takes blocks where there is enough to do, halving elsewhere.

# %% tags=["nbval-check-output"]
torch.manual_seed(seed)
x = torch.randn(2, 8192, 5)
alpha = torch.tensor([1e-4, 1e-3, 1e-2, 0.1, 0.5])
keep = torch.rand(2, 8192) < 0.8
for name, mask in (("all steps", None), ("with gaps", keep)):
    loop = ema_scan(x, alpha, keep=mask, form="reference")
    fast = ema_scan(x, alpha, keep=mask)
    print(f"{name}: parallel = loop to 1e-5:", bool((fast - loop).abs().max() < 1e-5))

# %% [markdown]
# Why not the short cut of the textbooks, $s_t = A_t \sum_i b_i / A_i$ with $A_t = \prod_{j \le t} a_j$?
# Because $A_t$ leaves float32:

# %%
for a in (0.1, 0.02):
    product = torch.full((8192,), 1 - a).cumprod(0)
    dead = int((product < torch.finfo(torch.float32).tiny).int().argmax()) + 1
    glue(f"dead_{'fast' if a == 0.1 else 'slow'}", dead)
    assert product[-1] < torch.finfo(torch.float32).tiny < product[dead - 2]
    print(f"α = {a}: the product is below the least normal number from step {dead:,} on")
moving = torch.rand(2, 8192, 5)  # the same scan with a gate that changes at every step
assert torch.isfinite(linear_scan(moving, x)).all()

# %% [markdown]
# At $\alpha = 0.1$ after {glue:text}`dead_fast:,d` steps, at 0.02 after {glue:text}`dead_slow:,d`. From
# there on it divides by nothing.
#
# ## What it costs
#
# The article replaced a GRU by this average because the GRU was slow: 3.1 times the time of full
# attention, and the average, not computed as a loop, more than 20 times as fast as the GRU. Its listing
# still loops. Our measurement, forward and backward, 8,192 steps, one thread:

# %%
bench = json.loads((ROOT / "results" / "bench" / "window.json").read_text())
scan = bench["scan"]["rows"]
SHOWN = {
    "reference": "loop",
    "parallel": "in blocks",
    "halving": "by halving",
    "fft": "convolution (FFT)",
    "gru": "GRU",
}
ms = {(row["batch"], row["masked"], row["form"]): row["ms_median"] for row in scan}
batches = sorted({row["batch"] for row in scan})
assert all(row["batch"] * row["steps"] * row["channels"] >= LONG for row in scan)  # blocks, then
small, large = batches[0], batches[-1]
show_table(
    ["form", *(f"batch {b}, ms" for b in batches), *(f"batch {b}, loop ÷ this" for b in batches)],
    [
        (
            words,
            *(f"{ms[b, False, form]:.0f}" for b in batches),
            *(f"{ms[b, False, 'reference'] / ms[b, False, form]:.1f}" for b in batches),
        )
        for form, words in SHOWN.items()
        if (small, False, form) in ms
    ],
    caption="Running average of 64 channels over 8,192 steps, and a GRU of 64 units; processor's time.",
    source="From results/bench/window.json (python -m benchmarks.window --part scan).",
)
for b, name in ((small, "small"), (large, "large")):
    glue(f"scan_{name}", ms[b, False, "reference"] / ms[b, False, "parallel"])
    glue(f"masked_{name}", ms[b, True, "reference"] / ms[b, True, "parallel"])
    glue(f"gru_{name}", ms[b, False, "gru"] / ms[b, False, "parallel"])
    glue(f"gru_loop_{name}", ms[b, False, "gru"] / ms[b, False, "reference"])
glue("large", large)
glue("larger", large // small)
glue("gru_growth", ms[large, False, "gru"] / ms[small, False, "gru"])
assert all(ms[b, False, "gru"] > 20 * ms[b, False, "parallel"] for b in batches)
glue("mask_price", ms[small, True, "parallel"] / ms[small, False, "parallel"] - 1)
for b in (small, large):
    for masked in (False, True):
        assert ms[b, masked, "reference"] > 5 * ms[b, masked, "parallel"]

# %% [markdown]
# For one sequence the blocks are {glue:text}`scan_small:.0f` times as fast as the loop
# ({glue:text}`masked_small:.0f` with a mask), and the GRU takes {glue:text}`gru_small:.0f` times as long
# as they: "more than 20 times" is no exaggeration. For {glue:text}`large:d` sequences at once the loop catches
# up, to {glue:text}`scan_large:.1f` ({glue:text}`masked_large:.1f` with a mask): each of its steps is then a
# larger piece of work, and the blocks are bound by memory, not by the number of operations.
#
# Even the *loop* beats the GRU, by {glue:text}`gru_loop_small:.1f` and {glue:text}`gru_loop_large:.1f`. Not
# because of the GRU's matrix products: with {glue:text}`larger:d` times the arithmetic it takes
# {glue:text}`gru_growth:.1f` times as long. What costs is the step itself: one small call after another, each
# with a fixed price, and a GRU needs more of them a step. On a GPU, where each costs a launch, the
# balance should shift further to the forms without a loop; we have not measured that.
#
# ## Padding stands still
#
# A padded step must not count: $a_t = 1$ and $b_t = 0$ there, so the state passes over it. That holds
# on either side and in the middle, and in the parallel forms as in the loop. With a mask the average took
# {glue:text}`mask_price:.0%` more time in the table above.

# %%
x = torch.randn(1, 6, 1)
gaps = torch.tensor([[True, True, False, False, True, True]])
with_gaps = ema_scan(x, torch.tensor([0.3]), keep=gaps)
without = ema_scan(x[:, gaps[0]], torch.tensor([0.3]))
assert torch.allclose(with_gaps[:, gaps[0]], without)
print([round(v, 3) for v in with_gaps[0, :, 0].tolist()])

# %% [markdown]
# ## Can it explode?
#
# The article reports a loss of NaN after 3,000 updates at depth six and blames this recursion: a
# gradient multiplied at every step. Look at what it is multiplied *by*. From {eq}`ema-unrolled`,
#
# $$
# \frac{\partial s_t}{\partial x_i} = \alpha\,(1-\alpha)^{t-i} \le \alpha, \qquad
# \sum_{t \ge i} \frac{\partial s_t}{\partial x_i} \le 1 .
# $$ (no-explosion)
#
# Every factor is below 1. Along time the gradient can only shrink, at any length and for every
# $\alpha$ that a sigmoid can give:


# %%
def largest(a: float, steps: int) -> float:
    """Largest gradient of the sum of all states with respect to one input."""
    x = torch.randn(1, steps, 1, requires_grad=True)
    (grad,) = torch.autograd.grad(ema_scan(x, torch.tensor([a])).sum(), x)
    return grad.abs().max().item()


totals = {
    f"α = {a:g}": [(n, largest(a, n)) for n in (8, 32, 128, 512, 2048, 8192)]
    for a in (0.001, 0.01, 0.1, 0.525)
}
show(
    curves(
        totals,
        xlabel="steps N (logarithmic)",
        ylabel="largest gradient",
        log_x=True,
        level=1.0,
        level_label="bound",
    ),
    caption="Gradient of the sum of all states with respect to the input that it depends on most, by length. It grows "
    "towards 1 and no further.",
)
most = max(value for pairs in totals.values() for _, value in pairs)
glue("largest", most)
assert most <= 1 + 1e-4

# %% [markdown]
# The largest is {glue:text}`largest:.3f`, at any length. **An average cannot explode along time.** What else can
# turn a loss into NaN in that listing is for [chapter 34](34_rea_pitfalls.ipynb).
#
# ## Both directions
#
# A log that is complete can be averaged from its end as well. `direction="both"` takes half the sum of
# the two. The article considers it and names its price: an answer then needs the end of the log, so it
# cannot be given while the log comes in.
#
# ## What surprised us
#
# - **The right $\alpha$ is known in advance,** up to a factor: one over twice the distance.
# - **The fast forms are not always far ahead.** With much work a step, a plain loop on a CPU is only
#   {glue:text}`scan_large:.0f` times slower.
# - **A GRU's arithmetic is not what makes it slow.**
#
# ## What it took
#
# Seconds. The timings come from a record, made on one thread.
#
# ## Exercises
#
# **1.** From {eq}`signal-noise`, derive that the best $\alpha$ is near $1/(2k)$.
#
# **2.** A channel's $\alpha$ starts at 0.1 and Adam moves $r$ by about 0.003 an update. How many updates
# does it take, at best, to reach $\alpha = 0.001$?
#
# **3.** Give each channel an $\alpha$ of its own, evenly spaced in $\log \alpha$ from 0.5 to 0.001. Which
# share of the channels has a signal-to-noise ratio of at least half the best, at 16 and at 768 steps?

# %% tags=["hide-cell"]
# Solution of exercise 1: the logarithm is k ln(1 - α) + ½ ln α + ½ ln(2 - α). For small α its
# derivative is -k + 1 / (2α), which is 0 at α = 1 / (2k).
for k in (10, 100, 1000):
    fine = [j / (200 * k) for j in range(1, 1000) if j / (200 * k) < 1]
    found = max(fine, key=partial(signal_to_noise, lag=k))
    print(f"k = {k}: best α {found:.5f}, 1/(2k) = {1 / (2 * k):.5f}")
    assert abs(found * 2 * k - 1) < 1 / k

# %% tags=["hide-cell"]
# Solution of exercise 2: r goes from logit(0.1) to logit(0.001), 4.7 to the left.
way = math.log(0.1 / 0.9) - math.log(0.001 / 0.999)
print(f"{way:.2f} / 0.003 = {way / 0.003:,.0f} updates, all in one direction")
assert 1500 < way / 0.003 < 1620

# %% tags=["hide-cell"]
# Solution of exercise 3: a spread costs a factor and needs no knowledge of the distance.
spread = [0.5 * (0.001 / 0.5) ** (j / 63) for j in range(64)]
for k in (16, 768):
    most = max(signal_to_noise(a, k) for a in grid)
    share = sum(signal_to_noise(a, k) >= most / 2 for a in spread) / len(spread)
    print(f"{k} steps: {share:.0%} of the channels")
    assert share > 0.1
