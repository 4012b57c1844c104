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
# # 4. Related work: skips, attention, Transformer
#
# SAB is one of several ways to shorten the road between an event and its consequence. Here you
# will measure the roads: how many steps of computation lie between the last state and an early
# input, in a plain recurrent network, with fixed skips, with attention, in a Transformer, and in
# SAB. The three decisions of [chapter 3](03_mechanism.ipynb) (what is stored, what is read, how
# far credit goes on) give one table for all of them.
#
# It follows section 2 of the paper {cite:p}`ke2018sparse`.

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
from torch import nn

from sab import notebook
from sab.analysis.credit import credit_autograd
from sab.figures import credit_matrix
from sab.figures.style import new_figure, style, system_style, with_alt
from sab.models.attentive_lstm import AttentiveLSTM, AttentiveLSTMConfig
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.sab import SABLayer
from sab.notebook import glue, show

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## A measure: hops
#
# Draw an arrow from step $t$ to step $s$ wherever the state of $t$ is computed *directly* from the
# state of $s$. Information flows along the arrows one way, credit the other. The number of arrows
# on the shortest road from the last state to an early one counts the Jacobians that must be
# multiplied on the way: the factors of [chapter 2](02_credit_assignment.ipynb). We call it the
# number of **hops**. All roads then come from one small function.


# %%
def hops(direct):
    """Fewest arrows from the last step to every step; `direct[t, s]`: state t is made from state s."""
    steps = len(direct)
    distance = torch.full((steps,), -1)  # -1: no road at all
    here, count = torch.zeros(steps, dtype=torch.bool), 0
    here[-1] = True
    while here.any():
        distance[here] = count
        here = direct[here].any(0) & (distance < 0)
        count += 1
    return distance


STEPS = 101
later, earlier = torch.meshgrid(torch.arange(STEPS), torch.arange(STEPS), indexing="ij")
chain = earlier == later - 1  # a plain recurrent network
assert torch.equal(hops(chain), torch.arange(STEPS).flip(0))  # one hop a step

# %% [markdown]
# ## Fixed skips
#
# The oldest remedy: let a state depend on one from $k$ steps ago as well {cite:p}`lin1996narx`, or
# let some units tick slowly, on several time scales
# {cite:p}`elhihi1995hierarchical,koutnik2014clockwork`.
#
# $$
# \boldsymbol h^{(t)} = f\bigl(\boldsymbol h^{(t-1)}, \boldsymbol h^{(t-k)}, \boldsymbol x^{(t)}\bigr)
# $$ (skip)
#
# The road back over $D$ steps is then about $D/k$ long hops and a rest of short ones.


# %% tags=["nbval-check-output"]
def with_skip(k):
    return chain | (earlier == later - k)


far = {k: int(hops(with_skip(k))[0]) for k in (2, 5, 10, 25, 50)}
print("hops over 100 steps, by skip:", far)
assert all(far[k] == 100 // k + 100 % k for k in far)

# %%
glue("skip_ten", far[10])

# %% [markdown]
# Over 100 steps a skip of 10 needs {glue:text}`skip_ten:d` hops instead of 100. For *this*
# distance. Where the event lies elsewhere, say 99 steps back, short hops must fill the gap:

# %%
distances = hops(with_skip(10)).flip(0)  # by distance from the last step
glue("skip_99", int(distances[99]))
print("skip 10, hops over 90, 95, 99, 100 steps:", distances[[90, 95, 99, 100]].tolist())

# %% [markdown]
# It takes {glue:text}`skip_99:d` hops to go back 99 steps: nearly twice as many as for 100.
#
# ### Does the gradient agree?
#
# Counting arrows is one thing; what autograd does is another. A trick checks it: multiply the
# gradient by a small number $\varepsilon$ on every hop. A road of $p$ hops then contributes
# $\varepsilon^p$, and as $\varepsilon$ shrinks the shortest road wins. The slope of
# $\log\|\text{gradient}\|$ against $\log\varepsilon$ *is* the number of hops.


# %%
def measured_hops(k, back, eps=(1e-3, 1e-4)):
    """Hops from the last state back over `back` steps in a small skip network, by autograd."""
    generator = torch.Generator().manual_seed(seed)
    w, v = torch.randn(2, 8, 8, generator=generator, dtype=torch.float64) / 3
    norms = []
    for e in eps:
        first = torch.zeros(8, dtype=torch.float64, requires_grad=True)
        states = [first]
        for t in range(1, back + 1):
            total = w @ states[t - 1] + (v @ states[t - k] if t >= k else 0)
            h = torch.tanh(total + 0.1)
            h.register_hook(lambda g, e=e: g * e)  # one factor for every hop that starts here
            states.append(h)
        (gradient,) = torch.autograd.grad(states[-1].sum(), first)
        norms.append(gradient.norm().log10())
    slope = (norms[0] - norms[1]) / (torch.tensor(eps).log10().diff().neg())
    return slope.item()


for back in (20, 19, 7):
    counted = int(hops(with_skip(5)).flip(0)[back])
    measured = measured_hops(5, back)
    print(f"skip 5, {back} steps: counted {counted}, measured {measured:.1f}")
    assert abs(measured - counted) < 0.1

# %% [markdown]
# A fixed skip shortens the road by a constant factor and is the same for all inputs. The network
# cannot choose to look at step 37.
#
# ## Attention: choose where to look
#
# Attention {cite:p}`bahdanau2015neural` makes the choice depend on the content: score every stored
# state against the present one, turn the scores into weights by a softmax, read the weighted sum.
# Applied by a recurrent network to its own past states {cite:p}`cheng2016lstmn` it gives a
# strong baseline of the paper, "LSTM + full self-attention". Every state is one hop from every
# other.

# %%
attention = earlier < later
assert torch.all(hops(attention)[:-1] == 1)

# %% [markdown]
# ## The Transformer: attention and nothing else
#
# The Transformer {cite:p}`vaswani2017attention` drops the recurrence. Each of its $L$ layers lets
# every position read all earlier ones; positions are told apart by an added code. Within a layer
# one hop reaches anything, so no road is longer than $L$ hops, whatever the length of the
# sequence. A small one, built from PyTorch's parts:


# %%
def small_transformer(x, width=16, layers=2):
    torch.manual_seed(seed)
    block = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
    place = nn.Embedding(x.shape[1], width)
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    hidden = nn.Linear(x.shape[2], width)(x) + place.weight
    return encoder(hidden, mask=mask, is_causal=True)


# %% [markdown]
# ## SAB: few roads, learned ones
#
# SAB keeps the recurrence and adds at most $k_{\mathrm{top}}$ arrows a step, to the memories that
# stood out. Which ones is up to the scorer. Take an untrained layer, see what it recalls, and draw
# its arrows.

# %%
inputs = torch.randn(1, STEPS, 4, generator=torch.Generator().manual_seed(seed))
torch.manual_seed(seed)
layer = SABLayer(4, 32, k_top=5, k_att=2, k_trunc=5)
with torch.no_grad():
    recall = layer(inputs, return_recall=True)[-1]
recalled = recall.matrix()[0] > 0
sab_roads = chain | recalled

glue("sab_far", int(hops(sab_roads)[0]))
print("SAB, untrained: hops to the first step:", int(hops(sab_roads)[0]))
print(
    "arrows a step: SAB",
    round(recalled.sum(1).float().mean().item(), 1),
    "of",
    round(attention.sum(1).float().mean().item(), 1),
    "for full attention",
)

# %%
roads = {
    "plain recurrence": (chain, "lstm"),
    "fixed skip of 10": (with_skip(10), "tbptt"),
    "SAB, untrained": (sab_roads, "sab"),
    "full attention": (attention, "attentive_lstm"),
}
with style():
    fig, axes = new_figure(width=7, height=3.2)
    ax = axes[0, 0]
    for label, (direct, look) in roads.items():
        options = {**system_style(look), "marker": ""}
        ax.plot(range(1, STEPS), hops(direct).flip(0)[1:], label=label, **options)
    ax.set(xlabel="distance back in time, steps", ylabel="hops", yscale="log")
    ax.legend()
    with_alt(
        fig,
        "Hops against distance in time, logarithmic axis. Plain recurrence rises to 100. A fixed "
        "skip of 10 makes a saw-tooth that stays below 20. An untrained SAB drops to one, two or "
        "three hops at the memories it recalls and climbs as the plain recurrence does between "
        "them. Full attention is a flat line at one.",
    )
show(fig, "Fewest hops from step 101 back to earlier steps. SAB's line depends on what it recalls.")

# %% [markdown]
# Even an untrained SAB reaches the first step in {glue:text}`sab_far:d` hops. At a memory that it
# recalls, or that a recalled one had recalled, the road is short however far back it lies; between
# two such memories it lengthens step by step, as in a plain recurrence. So everything depends on
# *which* memories are recalled. Two honest remarks. These are the shortest roads; whether a useful
# amount of credit goes along them depends on the weights. And roads through several recalls are
# also why the paper gives no tight bound for the cost of the backward pass: the graph of recalls is
# deeper than one read.

# %% [markdown]
# ## Reading far is not training far
#
# Is SAB then just attention with fewer arrows? The forward pass nearly is. The difference that the
# paper cares about is in the backward pass, so here are credit matrices, computed by autograd for
# untrained networks.

# %%
short = inputs[:, :40]
sizes: dict[str, Any] = {"input_size": 4, "hidden_size": 16, "output_size": 4}
networks: dict[str, Any] = {
    "LSTM, TBPTT-4": lambda: LSTM(LSTMConfig(**sizes, k_trunc=4)),
    "LSTM + attention, BPTT": lambda: AttentiveLSTM(AttentiveLSTMConfig(**sizes)),
    "Transformer, 2 layers": lambda: small_transformer,
    "SAB (4, 2, 8)": lambda: SABLayer(4, 16, k_trunc=4, k_top=2, k_att=8, block_offset=1),
}
credit = {}
for name, build in networks.items():
    torch.manual_seed(seed)
    credit[name] = credit_autograd(build(), short)[0]
show(
    credit_matrix(
        {name: matrix for name, matrix in credit.items() if "TBPTT" not in name},
        alt="Three credit matrices of 40 steps. LSTM with attention and the Transformer: the whole "
        "lower triangle. SAB: small triangles on the diagonal and vertical stripes to the left of "
        "it, the four steps before recalled memories.",
    ),
    "Credit from output steps (rows) to input steps (columns). White is exactly zero. TBPTT-4 would "
    "have the triangles on the diagonal and nothing else.",
)

# %%
triangle = 40 * 41 // 2
shares = {name: int((m > 0).sum()) / triangle for name, m in credit.items()}
for key, name in zip(("tbptt", "attention", "transformer", "sab"), shares, strict=True):
    glue(f"share_{key}", shares[name])
print({name: round(value, 2) for name, value in shares.items()})
assert shares["LSTM + attention, BPTT"] == shares["Transformer, 2 layers"] == 1.0
assert shares["LSTM, TBPTT-4"] < shares["SAB (4, 2, 8)"] < 1.0

# %% [markdown]
# Dense attention gives credit to *everything* ({glue:text}`share_attention:.0%` of the earlier
# steps, the Transformer {glue:text}`share_transformer:.0%`). TBPTT-4 serves
# {glue:text}`share_tbptt:.0%`, SAB {glue:text}`share_sab:.0%`: the window, the four steps before
# each memory that was recalled, and the four before each memory that *those* had recalled. Hence the
# stripes. Between them there is exactly nothing: with a memory every eighth step and four steps of
# replay, half of the past can never be reached from afar, however good the retrieval. Adding dense
# attention to the forward pass does not by itself give such a pattern; it is a decision of its own,
# the third one.

# %% [markdown]
# ## One table
#
# Cost and memory are per sequence of length $T$ with states of width $n$, as orders of growth; $L$
# is the number of layers.
#
# | | what is stored | what is read | how far credit goes on | hops over $D$ steps | forward work | memory at inference |
# | --- | --- | --- | --- | --- | --- | --- |
# | LSTM, BPTT | nothing but the state | – | through every step | $D$ | $T n^2$ | $n$ |
# | LSTM, TBPTT | nothing but the state | – | $k_{\mathrm{trunc}}$ steps | $D$; none beyond the window | $T n^2$ | $n$ |
# | fixed skips | the last $k$ states | the one $k$ steps ago | through every road | about $D/k + k$ at worst | $T n^2$ | $k n$ |
# | LSTM + self-attention | every state | all, by softmax | through every step | 1 | $T^2 n^2$ | $T n$ |
# | Transformer | every position, per layer | all, by softmax | through every layer | at most $L$ | $L(T^2 n + T n^2)$ | $L T n$ |
# | **SAB** | every $k_{\mathrm{att}}$-th state | at most $k_{\mathrm{top}}$, exact zeros elsewhere | $k_{\mathrm{trunc}}$ steps around each recalled memory | 1 if recalled | $T^2 n^2 / k_{\mathrm{att}}$ | $T n / k_{\mathrm{att}}$ |
#
# For the scorer of SAB and of the attending LSTM, the orders are those of a small network that is
# run anew on every memory, as the paper counts; computing each memory's part once, when it is
# written, saves a factor of $n$.
#
# Read the last row twice. SAB is *not* cheaper than attention in the forward pass by more than a
# constant factor, and its memory grows with the sequence. What is sparse is who gets credit. The
# baseline to beat is therefore not only the LSTM: it is also dense attention, which costs about as
# much and gives credit to all.

# %% [markdown]
# :::{admonition} What was surprising
# :class: tip
# The road with the fewest hops is the densest one, and full attention wins that contest by
# definition. If short roads were all that mattered, there would be nothing left to do. The paper's
# bet is a different one: that *few* roads to the right places train better, and carry over better
# to longer sequences, than roads to everywhere. That is a question for experiments.
# :::
#
# ## Exercises
#
# **1.** Which skip $k$ makes the *worst* distance up to 100 as short as possible? Guess first,
# then compute.
#
# **2.** A network with two skips, of 5 and of 25: how many hops for the worst distance up to 100?
#
# **3.** How many hops does an untrained SAB need in the mean over all earlier steps, with
# $k_{\mathrm{top}}=5$ and with $1$? Explain the difference.

# %% [markdown]
# :::{dropdown} Solution 1
# Long hops cost about $D/k$, the short ones up to $k-1$; the sum is smallest near $k=\sqrt{D}$, so
# near 10.
# :::

# %% tags=["hide-cell"]
# Solution 1, computed.
worst = {k: int(hops(with_skip(k)).max()) for k in range(2, 51)}
print(
    "best skips:",
    [k for k in worst if worst[k] == min(worst.values())],
    "hops:",
    min(worst.values()),
)
assert 10 in [k for k in worst if worst[k] == min(worst.values())]

# %% tags=["hide-cell"]
# Solution 2.
both = int(hops(with_skip(5) | with_skip(25)).max())
print("skips of 5 and 25, worst distance:", both)
assert both < min(worst.values())

# %% [markdown]
# :::{dropdown} Solution 2
# Each time scale shortens the rest that the one above leaves: this is why hierarchical networks
# have several.
# :::
#
# :::{dropdown} Solution 3
# With one arrow a step there are fewer roads to choose from, and an untrained scorer has its
# favourites: many steps recall the same memory. Few arrows are good for the one that is recalled
# and useless for its neighbours.
# :::

# %% tags=["hide-cell"]
# Solution 3, computed.
torch.manual_seed(seed)
single = SABLayer(4, 32, k_top=1, k_att=2, k_trunc=5)
with torch.no_grad():
    one = single(inputs, return_recall=True)[-1]
for name, direct in {"5": sab_roads, "1": chain | (one.matrix()[0] > 0)}.items():
    print(f"k_top {name}: {hops(direct).float().mean():.0f} hops in the mean")
favourites = len(one.steps[0][one.weights[0] > 0].unique())
print(f"memories that are ever recalled with k_top 1: {favourites} of {STEPS // 2}")
assert hops(chain | (one.matrix()[0] > 0)).sum() > hops(sab_roads).sum()
