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
# # 30. REA: a summary beside a window
#
# SAB keeps its past states and looks a few of them up. This part is about the opposite habit: keep
# *one* state, a running summary, and never look back. At the end of this chapter you know a layer
# built on it, *Recursive Embedding Attention* (REA), what each of its parts can and cannot see, and
# what the next chapters will ask of it.
#
# Its source is no paper but a practitioner's article in Chinese, with a listing and one table. We
# rebuild the layer from the text and test what the text claims. The listing reached us without its
# operators and its indentation: [chapter 34](34_rea_pitfalls.ipynb) says what we read from it and
# what we had to infer.

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
from typing import Any

import torch

from sab import notebook
from sab.analysis.summary import reach
from sab.experiments import claims
from sab.figures import credit_matrix, curves, rea_channels
from sab.models.rea import REA, REAConfig
from sab.models.rea_layer import LayerConfig, REALayer
from sab.notebook import glue, show, show_table

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## The problem: one line among a thousand
#
# The author classifies logs of user actions, 512 to 2,048 events each: clicks, swipes, inputs, and
# once in a while an error code. The label often hangs on that one rare event near the start.
# Transformers of twelve layers missed it. Better features, another pooling, a channel of its own
# for error codes: each helped a little, none reliably.
#
# His explanation is *dilution*. Attention weights sum to one, so many ordinary events leave little
# for the one that matters. How much must the rare event's score stick out, then? With $N - 1$
# events of score 0 and one of score $a$, its weight is
#
# $$
# w = \frac{e^{a}}{e^{a} + N - 1}, \qquad\text{so } w = \tfrac12 \text{ needs } a = \ln(N-1).
# $$ (dilution)

# %%
advantages = torch.linspace(0, 12, 49)


def weight(advantage: torch.Tensor, length: int) -> float:
    """Share of a softmax that goes to the one event that sticks out."""
    return float(torch.sigmoid(advantage - torch.log(torch.tensor(length - 1.0))))


show(
    curves(
        {f"N = {n:,}": [(float(a), weight(a, n)) for a in advantages] for n in (128, 1024, 8192)},
        xlabel="score of the rare event above the others",
        ylabel="attention weight of the rare event",
        markers=False,
    ),
    caption="Dilution: weight of one event among N, by how far its score sticks out.",
)
half = torch.log(torch.tensor(1023.0)).item()
glue("half_1024", half)
glue("half_8192", torch.log(torch.tensor(8191.0)).item())
glue("flat_1024", 1 / 1024)

# %% [markdown]
# An event whose score does not stick out gets {glue:text}`flat_1024:.1%` of the weight at $N = 1024$:
# at the *start* of training, dilution is real. But an advantage of {glue:text}`half_1024:.1f` brings it
# to a half, {glue:text}`half_8192:.1f` at eight times the length. The need grows as a logarithm, and
# nothing stops a trained query from reaching it. So dilution makes rare events slow to *discover*; it
# does not forbid attention to *hold* them. Keep that in mind when
# [chapter 33](33_rea_experiment.ipynb) runs the experiment.
#
# He adds a second reason, *wearing down*: even an event that was seen is ground away by the twelve layers
# that it passes. A residual stream carries it through unless a layer writes over it, so depth alone
# does not do that; our models of two layers can't say more about it.
#
# ## Four wishes
#
# The article asks four things of a cure. We turn each into a measurement.
#
# | the layer should … | we ask | answered in |
# | --- | --- | --- |
# | plug into a Transformer where attention was | same shapes in and out, same training | here |
# | not blow up memory: attention's grows with $N^2$ | bytes and seconds against $N$ | [chapter 32](32_rea_window.ipynb) |
# | keep the global view | what reaches what; does it find a far event? | here, and [chapter 33](33_rea_experiment.ipynb) |
# | be easy to train, no exploding gradients | gradient norms by length and depth | [chapter 31](31_rea_state.ipynb), [chapter 34](34_rea_pitfalls.ipynb) |
#
# ## Three channels, one gate
#
# Take away what is dear, attention to everything, and add something cheap that still sees
# everything. Position $i$ of the stream $\boldsymbol x$ goes three ways:
#
# $$
# \boldsymbol{out}_i = \boldsymbol x_i + \boldsymbol a_i + g_i \, \boldsymbol s_i
# $$ (rea-layer)
#
# - $\boldsymbol x_i$ goes on unchanged (the residual stream);
# - $\boldsymbol a_i$ is ordinary attention, but only to the positions $j$ with $|i - j| \le w$;
# - $\boldsymbol s_i$ is a running average of all inputs so far, $\boldsymbol s_i = (1 - \boldsymbol\alpha)
#   \odot \boldsymbol s_{i-1} + \boldsymbol\alpha \odot \boldsymbol x_i$, with a learned share
#   $\alpha$ for each channel ({eq}`ema` in [chapter 31](31_rea_state.ipynb));
# - the gate $g_i = \sigma(\boldsymbol w^\top [\boldsymbol a_i ; \boldsymbol s_i] + b)$ is *one number*
#   a position. It reads what the window found and what the summary holds, and decides how much of
#   the summary is let in.

# %%
show(rea_channels(), caption="The layer. Dashed: what the gate reads.", source="A diagram.")

# %% [markdown]
# Equation {eq}`rea-layer`, and the lines that are it:

# %%
layer = REALayer(LayerConfig(dim=32, heads=4, window=4))
x = torch.randn(2, 20, 32)

a = layer.attend(x)  # (2, 20, 32): attention in a window
s = layer.read(layer.run(x))  # (2, 20, 32): the state, normalised
g = layer.opening(torch.cat([a, s], -1))  # (2, 20, 1): one number a position
out = x + a + g * s

assert torch.allclose(out, layer(x), atol=1e-6) and out.shape == x.shape
glue("gate_start", g.mean().item())
glue("alpha_start", layer.alpha.mean().item())

# %% [markdown]
# That answers the first wish: the same shape comes out that went in, so the layer stands wherever
# self-attention stood. Four choices in it deserve a word.
#
# - **The state reads $\boldsymbol x$, not $\boldsymbol a$.** The raw observation, as the article
#   argues, and one dependency fewer: both channels can be computed at the same time.
# - **The gate is a scalar.** It can let in or shut out the summary as a whole, not pick channels. The
#   article elsewhere speaks of an element-wise product with the state; its listing has a scalar.
# - **It starts nearly shut,** at {glue:text}`gate_start:.2f`, so that at first the layer is a plain
#   window and the summary comes in as far as it helps. The article says "starts at 0". A sigmoid never
#   is 0, and the listing's starts at a half; chapter 34 shows what that does.
# - **$\alpha$ starts at {glue:text}`alpha_start:.1f`,** as the article says. Its listing starts
#   elsewhere, too.
#
# ## Who sees whom
#
# What can each channel know? We ask the gradient: $\lVert \partial\, \boldsymbol{out}_t / \partial
# \boldsymbol x_s \rVert$ for every pair of positions, once for each channel alone and once for all.

# %%
torch.manual_seed(seed)
PARTS: dict[str, dict[str, Any]] = {
    "window alone": {"state": "none"},
    "state alone": {"attention": "none"},
    "both": {},
}
matrices = {}
for name, change in PARTS.items():
    part = REALayer(LayerConfig(dim=8, heads=2, window=3, gate_start=0.5, **change))
    matrices[name] = reach(part.channels, torch.randn(1, 20, 8))
show(
    credit_matrix(
        matrices,
        alt="Three matrices of 20 by 20 gradients, output against input. The window alone fills a "
        "band of three steps on either side of the diagonal; the state alone fills the lower "
        "triangle and fades with distance; both together fill the triangle and the band.",
        ylabel="output step",
    ),
    caption="Gradient of output t (row) with respect to input s (column), window 3, without the "
    "residual stream. Blank: exactly none.",
)
far = {name: float(matrix[19, 0]) for name, matrix in matrices.items()}
near = {name: float(matrix[19, 18]) for name, matrix in matrices.items()}
glue("far_state", far["state alone"])
glue("fade", far["state alone"] / near["state alone"])
assert far["window alone"] == 0 < far["both"]
assert matrices["state alone"][0, 5] == 0 < matrices["window alone"][0, 3]

# %% [markdown]
# The window is a band around the diagonal, in both directions. The state is a triangle: all of the
# past, nothing of the future, and paler with distance. From first to last position, 19 steps apart,
# the gradient is {glue:text}`fade:.2f` times that of the neighbour. Together they see the whole
# past and a little of the future. So **the third wish is half granted**: the view is global, but the
# far is seen *as a fading sum*. It cannot be asked "where", only "how much".
#
# That is the difference from the rest of this book:
#
# | | SAB | full attention | REA |
# | --- | --- | --- | --- |
# | keeps of the past | every $k_{\mathrm{att}}$-th state | every position | one state |
# | memory at step $t$ | grows with $t$ | grows with $t$ | constant |
# | reads | a few, chosen by a score | all, weighted by a score | the one there is |
# | can answer | what was there, when asked now | the same | how much of it was there |
# | credit to step $t - k$ | through a few recalled states | through one weight | times $(1 - \alpha)^k$ |
#
# A summary is decided on *when the event comes in*; a recall is decided on *when the question comes
# up*. Where the question is known beforehand ("was there an error?") a summary may do. Where it isn't
# ("what was the third word?") it can't. [Chapter 35](35_rea_limits.ipynb) measures the border.
#
# ## As a model
#
# `sab.models.rea.REA` stacks the layer, each followed by a small network, with normalisation before
# both. Its switches make every baseline of this part, with one code path:

# %%
VARIANTS: dict[str, dict[str, Any]] = {
    "REA": {},
    "window attention": {"state": "none"},
    "full attention": {"attention": "full", "state": "none"},
    "state alone": {"attention": "none"},
    "each position by itself": {"attention": "none", "state": "none"},
}
rows = []
for name, change in VARIANTS.items():
    model = REA(REAConfig.classifier(50, 2, hidden_size=32, **change))
    count = sum(p.numel() for p in model.parameters())
    rows.append((name, ", ".join(f"{k}={v!r}" for k, v in change.items()) or "–", f"{count:,}"))
show_table(
    ["model", "switches", "parameters"],
    rows,
    caption="Two blocks of width 32 for 50 event types and two classes.",
)
sizes = {name: int(count.replace(",", "")) for name, _, count in rows}
glue("state_costs", sizes["REA"] / sizes["window attention"] - 1)

# %% [markdown]
# The state and its gate add {glue:text}`state_costs:.1%` of parameters to a window: whatever it
# brings, it isn't size. For the experiment, models without attention are made wider until they have
# as many parameters as the others.
#
# One more property is worth a check before anything is trained. Logs have different lengths, so a
# batch holds padding, and **what a sequence gives must not depend on what stands beside it**:

# %% tags=["nbval-check-output"]
model = REA(REAConfig.classifier(50, 2, hidden_size=32)).double()
short, long = (torch.eye(50, dtype=torch.float64)[torch.randint(50, (1, n))] for n in (9, 40))
batch = torch.zeros(2, 40, 50, dtype=torch.float64)
batch[0, :9], batch[1] = short[0], long[0]  # rows of zeros are padding
together, alone = model(batch)[0][0, 0], model(short)[0][0, 0]
print("alone and in a batch agree:", bool(torch.allclose(together, alone, atol=1e-12)))

# %% [markdown]
# The tests hold every model of this part to that, with padding on either side. The listing fails
# it, in two ways.
#
# ## What the article claims

# %% tags=["hide-input"]
ours = [claim for claim in claims.load() if claim.source.startswith("REA")]
show_table(
    ["claim", "section"],
    [(claim.says, claim.source.removeprefix("REA ")) for claim in ours],
    caption="The article's claims that a number can settle. The verdicts stand in chapter 33.",
    source="From book/claims.yaml.",
)
glue("claims", len(ours))

# %% [markdown]
# {glue:text}`claims:d` of them can be put to a run. The table they come from is called "approximate"
# by its author, averaged over "several seeds" on an unnamed machine ("configuration A").
#
# ## What surprised us
#
# - **Dilution is a logarithm.** It is a fair description of the first updates and a poor one of a
#   trained model.
# - **The summary is almost free in parameters.** Everything it can do, it does with three vectors
#   ($\alpha$, and the scale and shift of its norm) and a gate.
#
# ## What it took
#
# Nothing is trained in this chapter; each cell takes a second or less.
#
# ## Exercises
#
# **1.** A window of $w$ on each side, stacked $L$ times: how far does the last layer see? How many
# layers does a window of 16 need to see 1,023 steps back?
#
# **2.** With a shut gate ($g = 0$), which parameters of the layer get no gradient? And with the gate at
# 0.02? What follows for "start at 0"?
#
# **3.** Show with `reach` that `direction="both"` makes the layer see the whole future, and say what
# it loses.

# %% tags=["hide-cell"]
# Solution of exercise 1: L·w on each side, so 64 layers. Checked at a smaller size: 3 layers of 2.
small = REA(REAConfig(4, 8, 2, layers=3, heads=2, window=2, state="none", feedforward=0))
far_reach = reach(lambda x: small(x)[0], torch.randn(1, 12, 4))
assert far_reach[11, 5] > 0 == far_reach[11, 4]  # six steps back, not seven
print("layers for 1,023 steps:", -(-1023 // 16))

# %% tags=["hide-cell"]
# Solution of exercise 2: the state's own, alpha and norm: their gradient is multiplied by g. And the
# gate's: a sigmoid's slope is g (1 - g), which is 0, too. A gate at 0 is stuck: nothing can open it, and
# nothing behind it learns. So start small, not at 0.
moves = {}
for start in (1e-9, 0.02):
    torch.manual_seed(seed)
    part = REALayer(LayerConfig(dim=8, heads=2, gate_start=start))
    part(torch.randn(1, 30, 8)).square().sum().backward()
    moves[start] = [p.grad.norm().item() for p in (part.rate, part.gate.bias) if p.grad is not None]
    rate, bias = moves[start]
    print(f"gate {start:g}: gradient of alpha {rate:.1e}, of the gate's bias {bias:.1e}")
assert all(shut < 1e-6 * ajar for shut, ajar in zip(moves[1e-9], moves[0.02], strict=True))

# %% tags=["hide-cell"]
# Solution of exercise 3: the upper triangle fills. It can no longer answer while the log comes in.
two_way = REALayer(LayerConfig(dim=8, heads=2, window=3, direction="both"))
assert (reach(two_way.channels, torch.randn(1, 12, 8)) > 0).all()
try:
    two_way.start(1)
except ValueError as error:
    print(error)
