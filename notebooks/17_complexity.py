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
# # 17. Computational complexity
#
# Sparse reading sounds cheap, and it is not: before a few memories can be kept, all of them are
# scored. This chapter derives what SAB costs, row by row of the paper's section 8
# {cite:p}`ke2018sparse`, finds the factor that the orders hide, removes one factor of the width by
# keeping a product, and reconciles a backward pass that is $O(k_{\mathrm{top}})$ a read with the
# paper's "no tight bound". Then it measures all of it, and sets the fitted exponents beside the
# predicted ones.

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
profile = "records"  # "records" reads results/; "smoke", "cpu" or "paper" measures anew
seed = 0

# %%
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from sab import notebook
from sab.analysis.cost import fit_slope
from sab.figures import scaling
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.sab import SABLayer
from sab.notebook import glue, show, show_table
from sab.ops.scores import additive

notebook.parameters(profile, seed)
notebook.setup(seed)

# %% [markdown]
# The measurements are made by the scripts in
# [benchmarks/](https://github.com/sab-book/sab-book/tree/main/benchmarks) and kept as records in
# `results/bench/`. Every number below that has a unit comes from there or from the cell above it.
# Other values of `profile` run the scripts again on your machine.

# %% tags=["hide-input"]
folder = notebook.ROOT / "results" / "bench"
if profile != "records":
    folder = Path(tempfile.mkdtemp())
    size = "smoke" if profile == "smoke" else "cpu"
    program = [sys.executable, "-m", "benchmarks.everything", "--size", size, "--out", str(folder)]
    subprocess.run(program, cwd=notebook.ROOT, check=True, stdout=subprocess.DEVNULL)


def bench(name):
    """One record of a benchmark, or None where it has not been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def origin(record):
    """Where a record's numbers come from, in a sentence."""
    head, of = record["header"], record["header"]["machine"]
    name = of.get("gpu", f"{of['cpu']}, {of['threads']} thread(s) of {of['cores']} cores")
    parts = [f"Measured by benchmarks/ on {name}, torch {of['torch']}, {head['created'][:10]}."]
    if "weights" in head:
        parts.append(f"Trained weights: {head['weights']}.")
    parts.append(f"Load of the machine before the start: {head['load_before']:.1f}.")
    return " ".join([*parts, head.get("note", "")]).strip()


scan, growth = bench("scan-random"), bench("scaling")
rows = {row["form"]: row for row in scan["rows"]}
fast = "cpp" if "cpp" in rows else "torch"
NAMES = {
    "lstm": "LSTM, full BPTT",
    "cpp": "SAB, C++",
    "cpp_recompute": "SAB, C++, gates computed again",
    "cpp_eager": "SAB, C++, every score computed",
    "torch": "SAB, torch operations",
    "graph": "SAB, CUDA graph",
    "reference": "SAB, plain autograd",
    "released": "released algorithm",
    "released_lean": "released algorithm, needless copies left out",
}

# %% [markdown]
# ## Why the cost matters
#
# A method that takes days to try is tried once. This is one training step (forward, loss and
# backward, no optimiser) with $(k_{\mathrm{trunc}}, k_{\mathrm{top}}) = (5, 5)$ and
# $k_{\mathrm{att}} = 2$.

# %%
base = rows["lstm"]["ms_median"]
show_table(
    ["form", "ms a step", "beside the LSTM", "peak memory, MB", "of it before the step, MB"],
    [
        [
            NAMES[row["form"]],
            f"{row['ms_median']:,.0f}",
            f"{row['ms_median'] / base:.1f} ×",
            f"{row['peak_mb']:,.0f}",
            f"{row['base_mb']:,.0f}",
        ]
        for row in scan["rows"]
    ],
    f"One training step at T={scan['rows'][0]['steps']}, batch {rows['lstm']['batch']}, "
    f"n={rows['lstm']['hidden']}, random tokens. Median of interleaved repeats; peak memory is that "
    "of a whole process, Python and torch included.",
    origin(scan),
)
slow, quick = rows["released"], rows[fast]
glue("step_length", slow["steps"])
glue("released_ms", slow["ms_median"])
glue("fast_ms", quick["ms_median"])
glue("speed_up", slow["ms_median"] / quick["ms_median"])
glue("lstm_ratio", quick["ms_median"] / base)
glue("released_hours", 5000 * slow["ms_median"] / 3.6e6)
glue("fast_hours", 5000 * quick["ms_median"] / 3.6e6)

# %% [markdown]
# Over 5,000 such updates the released algorithm takes {glue:text}`released_hours:.1f` hours and the
# fast form {glue:text}`fast_hours:.2f`: a factor of {glue:text}`speed_up:.1f`, and
# {glue:text}`lstm_ratio:.1f` times the LSTM. "Released algorithm" means what the released code
# computes {cite:p}`ke2018release`, in dense autograd on today's torch; a test holds it against the
# reference form, values and gradients. The last row leaves out copies that the released code makes
# and today's torch doesn't need, so that nobody is compared with a straw man.
#
# ## The paper's four rows
#
# With $t$ steps and $n$ hidden units, the paper states (section 8):
#
# | | the paper's SAB | the fast form here | an LSTM |
# | --- | --- | --- | --- |
# | forward time, training and inference | $O(t^2 n^2)$ | $O(t n^2 + t^2 n / k_{\mathrm{att}})$ | $O(t n^2)$ |
# | state kept for training | $O(t n)$ | $O(t n)$ | $O(t n)$ |
# | memory at inference | $O(t n)$ | $O(t n / k_{\mathrm{att}})$ | $O(n)$ |
# | backward time | no tight bound | $O(t n^2 + t\, k_{\mathrm{top}}\, n)$ | $O(t n^2)$ |
#
# The paper fixes $k_{\mathrm{att}}$ and $k_{\mathrm{top}}$, so they vanish from its orders, and
# takes the scorer's width $d$ to be of the order of $n$. Three of our entries differ from its; the
# rest of this chapter says why. One thing no implementation changes: **memory grows with the
# sequence, and every step looks at all of it.** SAB has no constant-memory or linear-time mode.
#
# ## Forward: where the square comes from
#
# At step $s$ the layer holds about $s/k_{\mathrm{att}}$ memories and scores each of them. Computed
# as Algorithm 1 is written, a score needs $\boldsymbol W_1 \boldsymbol m^{(i)}$, which is $nd$
# multiplications. With $d = n$, over a sequence,
#
# $$
# \sum_{s=1}^{t} \frac{s}{k_{\mathrm{att}}}\, O(n^2)
# = O\!\left(\frac{t^2 n^2}{2\,k_{\mathrm{att}}}\right).
# $$ (naive-cost)
#
# That is the paper's $O(t^2n^2)$ with its factor: storing half as often halves it. Selecting and
# summing touch only $k_{\mathrm{top}}$ values a step and don't matter here.
#
# ### Keep the product
#
# A memory never changes after it was written. So $\boldsymbol W_1 \boldsymbol m^{(i)}$, the
# memory's *key*, can be computed once, at the write. A score of a kept key is
#
# $$
# a_i^{(s)} = \boldsymbol W_3 \tanh\bigl(\boldsymbol k^{(i)} + \boldsymbol q^{(s)}\bigr),
# \qquad \boldsymbol k^{(i)} = \boldsymbol W_1 \boldsymbol m^{(i)},
# \quad \boldsymbol q^{(s)} = \boldsymbol W_2 \hat{\boldsymbol h}^{(s)},
# $$ (kept-key)
#
# which costs $d$ additions, tanhs and multiplications instead of $nd$. With the LSTM cell's four
# gates,
#
# $$
# \underbrace{t\,(4n^2 + nd)}_{\text{cell and query}}
# + \underbrace{\tfrac{t}{k_{\mathrm{att}}}\, nd}_{\text{keys}}
# + \underbrace{\tfrac{t^2}{2 k_{\mathrm{att}}}\, d}_{\text{scores}}
# = O\!\left(t n^2 + \frac{t^2 n}{k_{\mathrm{att}}}\right).
# $$ (cached-cost)
#
# The square of the length stays, the square of the width leaves it. The released code has no such
# product to keep: its score is one row of weights on $\tanh([\hat{\boldsymbol h}; \boldsymbol m])$
# (register D1), so it is $O(t^2 n)$ in arithmetic as well. What it pays for is doing that densely,
# with copies and a graph.
#
# Here are the matrix products of both, counted by torch while they run.


# %% tags=["nbval-check-output"]
def products(call):
    """Floating-point operations of a call's matrix products."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return counter.get_total_flops()


def as_written(layer, steps):
    """Algorithm 1's scores to the letter: every memory through W1 again at every step."""
    for held in (layer.options.held(step - 1) for step in range(1, steps + 1)):
        if held:
            additive(torch.zeros(1, held, 32), torch.zeros(1, 32), layer.w1, layer.w2, layer.w3)


lengths = [64, 128, 256]
layer = SABLayer(4, 32, k_att=2, form="torch")
kept = [products(lambda t=t: layer(torch.zeros(1, t, 4))) for t in lengths]
again = [products(lambda t=t: as_written(layer, t)) for t in lengths]
for t, a, b in zip(lengths, again, kept, strict=True):
    print(f"T={t}: scores as written {a / 1e6:5.1f} million, whole layer with keys {b / 1e6:4.1f}")
slopes = [fit_slope(lengths, counts).exponent for counts in (again, kept)]
print(f"exponents: {slopes[0]:.1f} and {slopes[1]:.1f}")
assert slopes[0] > 1.9 and slopes[1] < 1.1

# %% [markdown]
# What is left of the square is no matrix product but element-wise: about $t^2 d/(2k_{\mathrm{att}})$
# tanhs. At $t=300$, $d=128$, $k_{\mathrm{att}}=2$ that is 2.9 million a sample, each several times
# dearer than a multiplication. So:
#
# ### Turn the tanh into a division
#
# $$
# \tanh(k + q) = 1 - \frac{2}{1 + e^{2k}\,e^{2q}} .
# $$ (tanh-split)
#
# The exponential of a sum is a product. $e^{2k}$ is computed at the write and kept with the key,
# $e^{2q}$ once a step; an element of a score is then two multiplications, an addition and a division,
#
# $$
# a = \sum_j w_j - 2 \sum_j \frac{w_j}{1 + e^{2k_j} e^{2q_j}},
# $$ (split-score)
#
# and four elements over a common denominator share the division. It is no approximation: the error
# is that of float arithmetic. It does need a guard. A float ends near $10^{38}$, so a denominator is
# cut at $10^9$, beside which 1 is nothing and of which four can be multiplied; and where a $|k|$ or
# $|q|$ reaches 40, its exponential no longer fits and tanh itself is taken.

# %%
generator = torch.Generator().manual_seed(seed)
keys = torch.randn(64, 256, 128, generator=generator)
query, w3 = torch.randn(64, 1, 128, generator=generator), torch.randn(128, generator=generator)
exact = torch.tanh(keys.double() + query.double()) @ w3.double()
exp_keys = torch.exp(2 * keys)  # kept since the write


def by_tanh():
    return torch.tanh(keys + query) @ w3


def by_division():
    return w3.sum() - 2 * ((1 + exp_keys * torch.exp(2 * query)).reciprocal_() @ w3)


for name, score in (("tanh", by_tanh), ("division", by_division)):
    begin = time.perf_counter()
    for _ in range(10):
        values = score()
    each = (time.perf_counter() - begin) / 10 / keys.numel()
    error = (values - exact).abs().max().item()
    print(f"{name:>8}: largest error {error:.0e}, {1e9 * each:.2f} ns an element, here and now")
    assert error < 1e-4

# %% [markdown]
# ## State kept for training
#
# Between forward and backward the fast form keeps, for each sample and step, one row
# $[\boldsymbol h, \boldsymbol x, 1]$, the four gates, $\boldsymbol c$, $\hat{\boldsymbol h}$,
# $\boldsymbol q$, and the $k_{\mathrm{top}}+1$ candidates with their weights; and the memories with
# their keys once. That is $O(t\,(n + d + k_{\mathrm{top}}))$: the paper's $O(tn)$. The backward pass
# puts the gates' gradient where the gates were. So computing the gates again instead of keeping them
# saves room only between the two passes, and the first table shows the same peak for both.
#
# The order is a property of the program, not of the algorithm. Plain autograd keeps the tanh of
# every score of every step, which is $O(t^2 d / k_{\mathrm{att}})$. Count what the graph holds:


# %% tags=["nbval-check-output"]
def kept_for_backward(model, x):
    """Bytes of the tensors that the graph holds between forward and backward."""
    seen = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(x)[0].sum()
    del loss
    return sum(seen.values())


lengths = [40, 80, 160]
models = {
    "fast form": SABLayer(4, 32, form="torch"),
    "plain autograd": SABLayer(4, 32, form="reference"),
}
held = {
    name: [kept_for_backward(model, torch.zeros(8, t, 4)) for t in lengths]
    for name, model in models.items()
}
for name, sizes in held.items():
    exponent = fit_slope(lengths, sizes).exponent
    print(f"{name}: {[f'{size / 1e6:.1f} MB' for size in sizes]}, exponent {exponent:.1f}")
assert fit_slope(lengths, held["fast form"]).exponent < 1.1
assert fit_slope(lengths, held["plain autograd"]).exponent > 1.5

# %% [markdown]
# ## Inference: the memory that stays
#
# Streaming needs $\boldsymbol h$, $\boldsymbol c$ and the memories with their keys:
# $O(tn/k_{\mathrm{att}})$, where an LSTM has $O(n)$. This is the price of being able to be reminded
# of anything, and it is the one row that no caching can mend. Fewer writes shrink it; forgetting
# would bound it, and the paper leaves both open.

# %% tags=["hide-input"]
curves, told = {}, []
for row in growth["streaming"]:
    done, resident = row["steps_done"], row["resident_mb"]
    gained = (resident[-1] - resident[0]) / (done[-1] - done[0]) * 1000
    told.append(
        [NAMES[row["form"]], f"{row['steps']:,}", f"{gained:.2f}", f"{row['seconds'][-1]:.1f}"]
    )
    spent = np.diff([0.0, *row["seconds"]]) / np.diff([0, *done]) * 1e3
    curves[NAMES[row["form"]]] = [
        (t, max(float(ms), 1e-4)) for t, ms in zip(done, spent, strict=True)
    ]
first = growth["streaming"][0]
show_table(
    ["form", "steps", "MB more a 1,000 steps", "seconds"],
    told,
    f"A sequence streamed in chunks of {first['chunk']} steps, batch {first['batch']}, carrying the state.",
    origin(growth),
)
show(
    scaling(curves, ylabel="milliseconds a step", xlabel="steps already streamed"),
    "Time of a step as the stream goes on: constant for an LSTM, growing with what is held for SAB.",
    origin(growth),
)

# %% [markdown]
# ## Backward: a few a read, and yet no tight bound
#
# Only the $k_{\mathrm{top}}+1$ candidates $\mathcal C$ of a read carry gradient. Let
# $g_i = \partial\mathcal L/\partial\alpha_i = \boldsymbol m^{(i)\top}\,\partial\mathcal
# L/\partial\boldsymbol s$ and $Z=\sum_{\mathcal C}(a_j-\tau)$. Then
#
# $$
# \frac{\partial\mathcal L}{\partial a_i}
# = \frac{[\alpha_i>0]}{Z}\Bigl(g_i - \sum_{j\in\mathcal C}\alpha_j g_j\Bigr)
# \quad (i \ne \text{last of } \mathcal C),
# $$ (sparse-gradient)
#
# and the threshold's own memory, the last of $\mathcal C$, gets minus the sum of these. A memory
# outside $\mathcal C$ gets exactly zero: its score was below the threshold, and moving it a little
# changes nothing. So a read's backward is $k_{\mathrm{top}}+1$ inner products and as many tanhs,
# whether ten memories are held or ten thousand. With the cell, a whole backward pass is
# $O(tn^2 + t\,k_{\mathrm{top}}\,n)$: *linear* in the length, while the forward is not.
#
# Why then does the paper give no tight bound? Because a memory is itself a state that had read older
# memories. Credit that arrives there goes on: along its own short segment, and through *its* reads.
# The states form a directed acyclic graph. Whoever follows each recall separately, as "recall, then
# run a little TBPTT" suggests, visits a state once for every *route* that leads to it. Let us count
# routes in a bad case: every step reads the $k_{\mathrm{top}}$ newest memories.


# %% tags=["nbval-check-output"]
def walk(steps, reads, k_trunc=5):
    """Edges, visits one route at a time, and the longest chain of recalls, from the last loss."""
    routes, recalls, edges = [0] * steps + [1], [0] * (steps + 1), 0
    for t in range(steps, 0, -1):
        chain = [t - 1] if t > 1 and t % k_trunc else []
        for back in [*reads(t), *chain] if routes[t] else []:
            edges += 1
            routes[back] += routes[t]
            recalls[back] = max(recalls[back], recalls[t] + (back not in chain))
    return edges, sum(routes), max(recalls)


def newest(t, k_att=2, k_top=5):
    """The steps of the newest memories held at step t."""
    last = (t - 1) // k_att
    return [k_att * slot for slot in range(last, max(last - k_top, 0), -1)]


for steps in (50, 100, 200, 400):
    edges, visits, depth = walk(steps, newest)
    print(f"T={steps}: {edges} edges, 10^{math.log10(visits):.0f} visits, {depth} recalls deep")
    assert edges <= 6 * steps

# %% [markdown]
# Both readings are right. The number of routes grows exponentially, and nothing in the algorithm
# forbids it. But *accumulating* needs no route: going through the steps backwards, each state's
# gradient is complete when its turn comes, whoever contributed, and is passed on once. Reverse mode
# costs one visit a state and one addition an edge, and there are at most $k_{\mathrm{top}}+1$ edges
# a step.
#
# | | per step | over the sequence |
# | --- | --- | --- |
# | gradient of a read (values, scores, query) | $O(k_{\mathrm{top}} (n + d))$ | $O(t\,k_{\mathrm{top}}\,(n+d))$ |
# | gradient of the cell | $O(n^2)$ | $O(t n^2)$ |
# | gradient of the keys, at a write | $O(nd)$ | $O(t n d/k_{\mathrm{att}})$ |
# | forward scores | $O(t d/k_{\mathrm{att}})$: **every memory** | $O(t^2 d/k_{\mathrm{att}})$ |
# | recalls on the longest route | – | up to $t/k_{\mathrm{att}}$: **depth is not bounded by $k_{\mathrm{top}}\,k_{\mathrm{trunc}}$** |
# | states that one loss can reach | – | up to all $t$ |
# | sliding truncation | $\times\, k_{\mathrm{trunc}}$ | a state is needed once for each remaining budget |
#
# The last row is the nearest to the paper's worry: if each recall starts its count of
# $k_{\mathrm{trunc}}$ anew, a state reached with different remainders must be told apart, up to
# $k_{\mathrm{trunc}}$ times (the reference form does just that). With cuts at fixed steps once is
# enough. Depth costs no time, but it is where gradients are multiplied: a chain of hundreds of
# recalls is why their norm can explode although each local piece is short.
#
# What does an untrained layer's real graph look like?

# %%
steps = 200
torch.manual_seed(seed)
layer = SABLayer(4, 32)
with torch.no_grad():
    recall = layer(torch.randn(1, steps, 4), return_recall=True)[3]
written = [
    [int(step) for step, weight in zip(*pair, strict=True) if weight > 0]
    for pair in zip(recall.steps[0], recall.weights[0], strict=True)
]
edges, visits, depth = walk(steps, lambda t: written[t - 1])
print(f"T={steps}: {edges} edges, {visits} visits, {depth} recalls deep")
glue("real_edges", edges)
glue("real_visits", visits)
glue("real_depth", depth)
assert depth < edges < visits and edges <= 6 * steps

# %% [markdown]
# From the last loss {glue:text}`real_edges:d` edges are passed, where one route at a time would make
# {glue:text}`real_visits:,d` visits, up to {glue:text}`real_depth:d` recalls deep. An untrained layer
# returns to the same few memories again and again, so it stays far from the bad case. Nothing but
# what it has learned keeps it there, and reverse mode doesn't mind either way.
#
# ## Measured: time against length
#
# Exponents are fitted on logarithms of time and length, over all lengths and over the three longest.
# The prediction is what the orders say for long sequences; a sum of $t$ and $t^2$ terms bends from
# one to the other, so a fit over a finite range lies between.


# %% tags=["hide-input"]
def points(part, key="ms_median"):
    """Form → (steps, value), for forms measured at three lengths or more."""
    found = {}
    for row in growth[part]:
        value = row["peak_mb"] - row["base_mb"] if key == "memory" else row[key]
        found.setdefault(row["form"], []).append((row["steps"], value))
    if key == "memory":  # less than this is the noise of an allocator
        found = {form: [p for p in pairs if p[1] > 4] for form, pairs in found.items()}
    return {form: sorted(pairs) for form, pairs in found.items() if len(pairs) > 2}


def exponents(curves):
    """Form → exponent over all lengths, and over the three longest."""
    fit = {
        f: [fit_slope(*zip(*part, strict=True)) for part in (p, p[-3:])] for f, p in curves.items()
    }
    return {form: [slope.exponent for slope in pair] for form, pair in fit.items()}


def table(curves, predicted, what):
    """Fitted exponents beside the predicted ones."""
    show_table(
        ["form", "lengths", "predicted", "fitted, all", "fitted, three longest"],
        [
            [
                NAMES[f],
                f"{curves[f][0][0]}–{curves[f][-1][0]}",
                predicted.get(f, "1 → 2"),
                f"{a:.2f}",
                f"{b:.2f}",
            ]
            for f, (a, b) in exponents(curves).items()
        ],
        f"Exponent of the length in {what}.",
        origin(growth),
    )


def draw(curves, ylabel, caption):
    """The curves with their exponents in the legend."""
    slopes = {NAMES[form]: pair[0] for form, pair in exponents(curves).items()}
    named = {NAMES[form]: pairs for form, pairs in curves.items()}
    show(scaling(named, slopes=slopes, ylabel=ylabel), caption, origin(growth))


training, inference = points("training"), points("inference")
LINEAR = {"lstm": "1"}
if training:
    draw(training, "ms a training step", f"Training, batch {growth['training'][0]['batch']}.")
    table(training, LINEAR, "the time of a training step")
if inference:
    draw(inference, "ms a forward pass", f"Inference, batch {growth['inference'][0]['batch']}.")
    table(inference, LINEAR, "the time of a forward pass without a graph")

# %% [markdown]
# Where do the two terms meet? A least-squares fit of $a\,t + b\,t^2$ to the fast form's forward pass
# separates them; at $t = a/b$ scoring costs as much as all the rest.

# %%
if fast in inference:
    t, ms = (np.array(column, float) for column in zip(*inference[fast], strict=True))
    design = np.stack([t, t * t], 1) / ms[:, None]  # relative errors count alike at every length
    a, b = np.linalg.lstsq(design, np.ones_like(ms), rcond=None)[0]
    print(
        f"forward pass: {1e3 * a:.1f} µs a step, and {1e6 * b:.2f} ns a step for each step before it"
    )
    if a > 0 and b > 0:
        print(f"the two are equal near T = {a / b:,.0f}")

# %% [markdown]
# ## Measured: memory against length
#
# Peak memory of a process of its own, less what it held before the first step.

# %% tags=["hide-input"]
training_memory, inference_memory = points("training", "memory"), points("inference", "memory")
if training_memory:
    draw(training_memory, "MB beyond the start", "Peak memory of a training step.")
    table(training_memory, {**LINEAR, "cpp": "1", "torch": "1", "released": "2"}, "training memory")
if inference_memory:
    linear = {form: "1" for form in NAMES}
    table(inference_memory, linear, "the memory of a forward pass, outputs included")
longest = {}
for row in growth["training"]:
    longest.setdefault(row["steps"], {})[row["form"]] = row["peak_mb"] - row["base_mb"]
both = {t: found for t, found in longest.items() if {fast, "released"} <= set(found)}
if both:
    t, found = max(both.items())
    print(
        f"T={t}: released {found['released']:,.0f} MB, fast form {found[fast]:,.0f} MB beyond the start"
    )

# %% [markdown]
# Two footnotes. In a batch the outputs themselves are $O(tn)$, for an LSTM too: only streaming shows
# its $O(n)$. And the fast form saves a fixed number of floats a step, so its curve is a straight
# line with exponent 1; dense autograd keeps the tanh of every pair of query and memory and bends
# towards 2.
#
# The longest runs, each in a process of its own:

# %%
show_table(
    ["delay T", "batch", "seconds", "peak memory, MB", "weights", "accuracy, %"],
    [
        [
            f"{r['length']:,}",
            r["batch"],
            f"{r['seconds']:.1f}",
            f"{r['peak_mb']:,.0f}",
            r["weights"],
            f"{100 * r['accuracy']:.1f}",
        ]
        for r in growth["evaluation"]
    ],
    "Evaluating the copy task in one forward pass (chance: 12.5 %).",
    origin(growth),
)

# %% [markdown]
# ## Where the time goes
#
# A part is the difference of two measured steps. With $k_{\mathrm{att}}$ beyond the length nothing is
# ever stored, and what remains is the cell. If the forward cost of reading is
# $t^2 d/(2k_{\mathrm{att}})$, doubling $k_{\mathrm{att}}$ halves it.

# %% tags=["hide-input"]
parts = bench("parts")
measured = {}
for row in parts["rows"]:
    key = row["k_att"] if row["stores"] else None
    measured.setdefault((row["form"], row["steps"]), {})[key, row["mode"]] = row["ms_median"]
lines = []
for (form, steps), ms in measured.items():
    cell = ms[None, "infer"]
    reads = {k: ms[k, "infer"] - cell for k in (1, 2, 4, 8)}
    lines.append(
        [
            NAMES[form],
            steps,
            f"{cell:.1f}",
            *(f"{reads[k]:.1f}" for k in reads),
            f"{ms[None, 'train'] - cell:.1f}",
            f"{ms[2, 'train'] - ms[2, 'infer']:.1f}",
        ]
    )
show_table(
    [
        "form",
        "T",
        "cell",
        "reads, k_att 1",
        "2",
        "4",
        "8",
        "backward, nothing stored",
        "backward, k_att 2",
    ],
    lines,
    "Milliseconds. Reads: forward pass less the cell's. Backward: training step less the forward pass.",
    origin(parts),
)
shown = next(ms for (form, _), ms in measured.items() if form == fast)
glue("cell_share", 100 * shown[None, "train"] / shown[2, "train"])

# %% [markdown]
# Where memories are few, the fixed cost of a step's operations hides the halving. The two backward
# columns differ by what $k_{\mathrm{top}}$ reads a step cost, however much is held. Of the fast form's
# training step with $k_{\mathrm{att}}=2$, {glue:text}`cell_share:.0f` % is what it would cost if nothing
# were ever stored: the LSTM's own products, forward, backward and for the weights. That part is the
# floor, and reading comes on top of it. What is not sparse is the forward scoring, and there lazy
# retrieval can help.
#
# ## What lazy retrieval skips
#
# tanh never changes faster than its argument. So when the query moves by $\Delta\boldsymbol q$, a
# score moves by at most
#
# $$
# |a_i(\boldsymbol q + \Delta\boldsymbol q) - a_i(\boldsymbol q)|
# \;\le\; \sum_j |w_j|\,|\Delta q_j| .
# $$ (lazy-bound)
#
# Keep each memory's score from when it was last computed, and the length of the query's path since.
# If the old score plus that path stays below the worst candidate of now, the memory cannot enter the
# selection, and its tanhs need not be computed. The selection is *identical*, which the benchmark
# checks on every run; only work is saved. How much depends on how the query moves: in the blanks of
# the copy task it hardly does; on random tokens it jumps at every step. Where a few steps skipped
# next to nothing, the bookkeeping rests for a while, so that it costs little where it can't pay.

# %%
lazy = bench("lazy")
if lazy:
    show_table(
        ["input", "T", "weights", "scores skipped, %", "ms, lazy", "ms, every score"],
        [
            [
                r["input"],
                f"{r['length']:,}",
                r["weights"],
                f"{100 * r['skipped']:.1f}",
                f"{r['ms_lazy']:,.0f}",
                f"{r['ms_eager']:,.0f}",
            ]
            for r in lazy["rows"]
        ],
        f"A forward pass, batch {lazy['rows'][0]['batch']}.",
        origin(lazy),
    )
else:
    print("no record: lazy retrieval is part of the C++ form, and there was no compiler")

# %% [markdown]
# Trained weights skip less than untrained ones. The query moves by
# $\boldsymbol W_2\,\Delta\hat{\boldsymbol h}$, and training makes $\boldsymbol W_2$ larger, so
# the bound is looser just where the layer has become more decided.
#
# The order does not change: a bound that fails at every step costs $O(t^2 n)$ plus what is left of
# the bookkeeping.
# It is a saving on sequences with quiet stretches, which are the ones SAB is for.
#
# ## On a GPU
#
# There the arithmetic is cheap and launching a small kernel is not: a step is some thirty launches.
# A CUDA graph records them once and replays the whole loop. `python -m benchmarks.gpu` checks that
# the forms are equal on the device and times them beside cuDNN's LSTM.

# %%
found = sorted(folder.glob("gpu-*.json"))
for path in found:
    record = json.loads(path.read_text(encoding="utf-8"))
    equal = [row["equal"] for row in record["equality"]]
    show_table(
        ["form", "mode", "T", "ms", "peak memory, MB"],
        [
            [
                NAMES[r["form"]],
                r["mode"],
                r["steps"],
                f"{r['ms_median']:.1f}",
                f"{r['peak_mb']:,.0f}",
            ]
            for r in record["rows"]
            if "ms_median" in r
        ],
        f"Equality checks passed: {sum(equal)} of {len(equal)}.",
        origin(record),
    )
if not found:
    print("No GPU record is in results/bench: these forms have not been timed on a GPU.")

# %% [markdown]
# ## How far to trust these numbers
#
# They are wall times on a small shared machine. Two runs of the same step there can differ by half.
# Forms are therefore timed in turn, so that a slow minute hits all of them, and medians are compared
# within one record, never across. Ratios are worth more than milliseconds, exponents more than
# ratios, and the counts in the live cells above (products, bytes, edges) are exact.
#
# ## Exercises
#
# **1.** PTB rows use $k_{\mathrm{att}}=20$ and sequences of 100 steps with 1,000 units. By
# {eq}`cached-cost` with $d=n$, which share of the multiplications are scores?
#
# :::{dropdown} Hint
# Count a tanh as one multiplication first, then as ten.
# :::

# %% tags=["hide-cell"]
# Solution of exercise 1.
t, n, k_att = 100, 1000, 20
for dear in (1, 10):
    scores = dear * t * t / (2 * k_att) * n
    rest = t * 5 * n * n + t / k_att * n * n
    print(f"a tanh as {dear}: scores are {100 * scores / (scores + rest):.2f} % of the work")
assert scores / (scores + rest) < 0.01  # storage this sparse makes reading free

# %% [markdown]
# **2.** Doubling $k_{\mathrm{att}}$ halves the number of memories, and the forward cost of reading.
# What does it do to the number of *routes* in the bad case of this chapter? Guess, then count.

# %% tags=["hide-cell"]
# Solution of exercise 2: routes still grow exponentially, only with a smaller base.
for k_att in (1, 2, 4):
    digits = [math.log10(walk(t, lambda s, k=k_att: newest(s, k))[1]) for t in (100, 200)]
    print(f"k_att {k_att}: 10^{digits[0]:.0f} routes at T=100, 10^{digits[1]:.0f} at T=200")
    assert digits[1] > 1.8 * digits[0]

# %% [markdown]
# **3.** Equation {eq}`tanh-split` overflows where $k+q$ is large. Which value does the right-hand side
# then take in floating point, and is it wrong? And where the product *underflows*?

# %% tags=["hide-cell"]
# Solution of exercise 3: infinity in the denominator gives 1, zero gives -1; both are what tanh is.
large = torch.tensor([60.0, -60.0])
split = 1 - 2 / (1 + torch.exp(2 * large) * torch.exp(torch.zeros(2)))
print(split.tolist(), torch.tanh(large).tolist())
assert torch.equal(split, torch.tanh(large))
# Trouble starts where denominators are multiplied to share a division, or where e^{2k} overflows
# and e^{2q} underflows: infinity times zero is not a number. Hence both guards.
assert torch.isnan(torch.exp(2 * large[:1]) * torch.exp(torch.tensor([-120.0])))

# %% [markdown]
# **4.** An LSTM's state is $2n$ numbers whatever the length. After how many steps does SAB with
# $k_{\mathrm{att}}=2$ hold a hundred times as much? Check it on a layer.

# %% tags=["hide-cell"]
# Solution of exercise 4: 2n + n t / 2 = 200 n at t = 396.
n, steps = 8, 396
model = SABLayer(4, n, k_att=2)
with torch.no_grad():
    state = model(torch.zeros(1, steps, 4))[2]
numbers = state.h.numel() + state.c.numel() + state.memory.numel()
plain = LSTM(LSTMConfig(4, n, 4))(torch.zeros(1, steps, 4))[1]
print(numbers, "numbers beside", sum(part.numel() for part in plain))
assert numbers == 100 * sum(part.numel() for part in plain)

# %% [markdown]
# **Next**: the code of the fast form reads in this order:
# [fused.py](https://github.com/sab-book/sab-book/blob/main/sab/ops/sab_scan/fused.py) (one autograd
# function over the whole sequence),
# [torch_engine.py](https://github.com/sab-book/sab-book/blob/main/sab/ops/sab_scan/torch_engine.py)
# (its loop in torch operations) and
# [scan.cpp](https://github.com/sab-book/sab-book/blob/main/sab/ops/sab_scan/scan.cpp) (the same loop,
# compiled).
