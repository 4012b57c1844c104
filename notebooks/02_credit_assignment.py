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
# # 2. Credit assignment in recurrent networks
#
# A recurrent network carries information forward, one step at a time. Training carries *credit*
# backward, also one step at a time. These are two journeys, and each can fail by itself. At the
# end of this chapter you will have measured how credit fades on the way, drawn who receives credit
# from whom, and seen a network that still holds a past event and cannot be taught to keep it.
#
# It follows section 1.1 of the paper {cite:p}`ke2018sparse`. Nothing here is about SAB yet: this
# is the problem that SAB is an answer to.

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
import math

import torch
from torch import nn
from torch.nn import functional

from sab import notebook
from sab.analysis.credit import credit_autograd
from sab.figures import credit_matrix, gradient_by_distance, learning_curve
from sab.models.lstm import LSTM, LSTMConfig
from sab.notebook import glue, show, show_table

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## One step back
#
# Take the plainest recurrent network {cite:p}`elman1990finding`,
#
# $$
# \boldsymbol h^{(t)} = \tanh\bigl(\boldsymbol W \boldsymbol h^{(t-1)} + \boldsymbol U \boldsymbol x^{(t)}\bigr).
# $$ (elman)
#
# How much does $\boldsymbol h^{(t)}$ change when $\boldsymbol h^{(t-1)}$ does? By the chain rule,
# the Jacobian of one step is
#
# $$
# \boldsymbol J^{(t)} = \frac{\partial \boldsymbol h^{(t)}}{\partial \boldsymbol h^{(t-1)}}
# = \operatorname{diag}\bigl(1 - \boldsymbol h^{(t)} \odot \boldsymbol h^{(t)}\bigr)\,\boldsymbol W.
# $$ (jacobian)
#
# Two factors: the weights, and the slope of the tanh, which is 1 at zero and less everywhere else.
# The next cell compares {eq}`jacobian` with autograd.

# %%
units = 128
generator = torch.Generator().manual_seed(seed)
weights = torch.randn(units, units, generator=generator, dtype=torch.float64) / units**0.5
drive = 0.1 * torch.randn(units, generator=generator, dtype=torch.float64)
before = torch.rand(units, generator=generator, dtype=torch.float64) - 0.5


def step(h):
    return torch.tanh(weights @ h + drive)  # U x(t) is one number a unit: `drive`


by_autograd = torch.func.jacrev(step)(before)
by_formula = (1 - step(before) ** 2)[:, None] * weights
assert torch.allclose(by_autograd, by_formula, atol=1e-12)

# %% [markdown]
# ## Many steps back: a product
#
# The loss at step $t$ reaches a state at an earlier step $u$ through every step in between:
#
# $$
# \frac{\partial \mathcal L_t}{\partial \boldsymbol h^{(u)}}
# = \frac{\partial \mathcal L_t}{\partial \boldsymbol h^{(t)}}\;
# \boldsymbol J^{(t)}\,\boldsymbol J^{(t-1)} \cdots \boldsymbol J^{(u+1)}.
# $$ (product)
#
# (The paper says this in words; the equation is the chain rule written out, not one of its
# numbered equations.) A product of many factors does what products of many factors do: it vanishes
# or it explodes {cite:p}`bengio1994learning,pascanu2013difficulty`. To watch it, start with a
# gradient of length 1 at the last step and multiply it by one Jacobian after another. The only
# thing we vary is the *gain*: the largest eigenvalue of $\boldsymbol W$ in absolute value.

# %%
steps, warm_up = 110, 50


def gradient_norms(gain):
    """Length of the gradient at lag 0, 1, 2, … for one network of this gain."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    w = noise(units, units)
    w *= gain / torch.linalg.eigvals(w).abs().max()
    h, states = torch.zeros(units, dtype=torch.float64), []
    for _ in range(steps):
        h = torch.tanh(w @ h + 0.1 * noise(units))
        states.append(h)
    gradient = noise(units)
    gradient /= gradient.norm()
    norms = [1.0]
    for h in reversed(states[warm_up:]):
        gradient = (gradient * (1 - h**2)) @ w  # one more factor of the product
        norms.append(gradient.norm().item())
    return norms


norms = {gain: gradient_norms(gain) for gain in (0.5, 0.8, 1.0, 1.5, 2.0)}
lag = list(range(steps - warm_up + 1))
show(
    gradient_by_distance(
        {f"gain {gain}": (lag, value) for gain, value in norms.items()},
        alt="Length of a gradient against the number of steps it has travelled back, for plain "
        "recurrent networks of five gains, on a logarithmic axis. Gains of 0.5 and 0.8 fall along "
        "straight lines, gain 1 falls slowly, gains of 1.5 and 2 rise.",
    ),
    "Length of a gradient that starts at 1 and travels back through a random network of 128 "
    "tanh units.",
)

# %%
glue("norm_half", norms[0.5][50])
glue("norm_one", norms[1.0][50])
glue("norm_two", norms[2.0][50])
print("lag 50:", {gain: f"{value[50]:.0e}" for gain, value in norms.items()})
assert norms[0.5][50] < 1e-9 and norms[2.0][50] > 10

# %% [markdown]
# After 50 steps a gain of 0.5 leaves {glue:text}`norm_half:.0e` of the gradient, a gain of 2 turns
# it into {glue:text}`norm_two:.0e`. On a logarithmic axis both are nearly straight lines: the
# change per step is a constant factor. Even at gain 1 something is lost ({glue:text}`norm_one:.2f`
# is left), because the slope of the tanh is below 1 whenever a unit is active. The growing curves
# stay far below $2^{50} \approx 10^{15}$ for the same reason: strong weights push the units to
# where the tanh is flat.
#
# So the length of the gradient is tied to the *number of steps* between cause and effect, not to
# how much the cause matters.

# %% [markdown]
# ## An LSTM slows the loss down
#
# The LSTM {cite:p}`hochreiter1997lstm` adds a second path, the cell state, on which one step is a
# multiplication by a forget gate {cite:p}`gers2000forget`:
#
# $$
# \boldsymbol c^{(t)} = \boldsymbol f^{(t)} \odot \boldsymbol c^{(t-1)} + \boldsymbol i^{(t)} \odot \boldsymbol g^{(t)},
# \qquad
# \left.\frac{\partial \boldsymbol c^{(t)}}{\partial \boldsymbol c^{(u)}}\right|_{\text{this path}}
# = \operatorname{diag}\bigl(\boldsymbol f^{(t)} \odot \cdots \odot \boldsymbol f^{(u+1)}\bigr).
# $$ (forget)
#
# A gate near 1 keeps nearly everything. At the start of training the gate is about $\sigma(b)$,
# with $b$ its bias; a bias of 1 is a common choice {cite:p}`jozefowicz2015empirical`, and this
# book's default. What does it buy?


# %%
def cell_gradient_norms(bias):
    """Length of the gradient with respect to the cell state, by lag, in an untrained LSTM cell."""
    torch.manual_seed(seed)
    cell = nn.LSTMCell(8, 32).double()
    with torch.no_grad():
        cell.bias_ih[32:64] = bias  # gate order i, f, g, o
        cell.bias_hh[32:64] = 0.0
    h = c = torch.zeros(1, 32, dtype=torch.float64)
    cells = []
    for _ in range(61):
        h, c = cell(0.5 * torch.randn(1, 8, dtype=torch.float64), (h, c))
        c.retain_grad()
        cells.append(c)
    direction = torch.randn(32, dtype=torch.float64)
    (cells[-1][0] @ (direction / direction.norm())).backward()
    return [c.grad.norm().item() for c in reversed(cells)]


lstm_norms = {bias: cell_gradient_norms(bias) for bias in (0.0, 1.0, 3.0)}
show(
    gradient_by_distance(
        {f"forget bias {b:.0f}": (list(range(61)), v) for b, v in lstm_norms.items()},
        alt="Length of the gradient with respect to an LSTM's cell state against lag, for forget "
        "biases 0, 1 and 3. For 0 and 1 it falls along straight lines, for 0 the steeper one; for 3 "
        "it stays near 1.",
    ),
    "The same measurement for the cell state of an untrained LSTM.",
)

# %%
half_life = {b: math.log(0.5) / math.log(torch.sigmoid(torch.tensor(b)).item()) for b in lstm_norms}
glue("half_life_0", half_life[0.0])
glue("half_life_1", half_life[1.0])
glue("half_life_3", half_life[3.0])
glue("lstm_lag50", lstm_norms[1.0][50])
glue("path_lag50", 0.5 ** (50 / half_life[1.0]))
print("lag 50:", {bias: f"{value[50]:.0e}" for bias, value in lstm_norms.items()})
assert lstm_norms[0.0][50] < lstm_norms[1.0][50] < lstm_norms[3.0][50]

# %% [markdown]
# On the path of {eq}`forget` the gradient halves every $\ln 0.5 / \ln \sigma(b)$ steps:
# {glue:text}`half_life_0:.1f` steps for a bias of 0, {glue:text}`half_life_1:.1f` for 1,
# {glue:text}`half_life_3:.1f` for 3. What we measured falls more slowly: for a bias of 1,
# {glue:text}`lstm_lag50:.0e` is left at lag 50, where this path alone would leave
# {glue:text}`path_lag50:.0e`. There are other roads, through $\boldsymbol h$ and the gates, and
# their gradients add up. Either way: a better rate, and still a rate. A *trained* LSTM can do better
# again, by learning gates near 1 where it matters. But it must learn that from gradients which, at
# the start, hardly arrive.

# %% [markdown]
# ## Who receives credit from whom
#
# So far one gradient. Now all of them at once. A **credit matrix** has a row for each output step
# $t$ and a column for each input step $s$; its entry is the length of
# $\partial \mathcal L_t / \partial \boldsymbol x^{(s)}$, here computed by autograd, one backward
# pass a row. Two ways to train the same LSTM:
#
# - **BPTT**, back-propagation through time {cite:p}`werbos1990backpropagation`: unroll everything,
#   differentiate everything;
# - **TBPTT**, its truncated form {cite:p}`williams1990efficient`: cut the recurrent path every
#   $k_{\mathrm{trunc}}$ steps. In code the cut is one call, `h.detach()`: the value passes, the
#   gradient does not.

# %%
length, window = 20, 5
inputs = torch.randn(1, length, 8, generator=torch.Generator().manual_seed(seed))
sizes = {"input_size": 8, "hidden_size": 16, "output_size": 4}
torch.manual_seed(seed)
full = LSTM(LSTMConfig(**sizes))
cut = LSTM(LSTMConfig(**sizes, k_trunc=window))
cut.load_state_dict(full.state_dict())  # the same weights

credit = {"BPTT": credit_autograd(full, inputs)[0], "TBPTT-5": credit_autograd(cut, inputs)[0]}
show(
    credit_matrix(
        credit,
        alt="Two credit matrices of 20 by 20 steps. Under full BPTT the whole lower triangle is "
        "filled, darkest on the diagonal. Under TBPTT with 5 steps only four small triangles on "
        "the diagonal are filled; everything else is exactly zero.",
    ),
    "Credit that each input step (column) receives from each output step (row). White is exactly 0.",
)

# %% tags=["nbval-check-output"]
reached = {name: int((matrix > 0).sum()) for name, matrix in credit.items()}
print(reached)
assert reached["BPTT"] == length * (length + 1) // 2
assert reached["TBPTT-5"] == length // window * (window * (window + 1) // 2)

# %%
glue("reached_full", reached["BPTT"])
glue("reached_cut", reached["TBPTT-5"])

# %% [markdown]
# Of the {glue:text}`reached_full:d` pairs (output, earlier input) that BPTT serves, TBPTT with
# blocks of five serves {glue:text}`reached_cut:d`. Two things to take along:
#
# - Under BPTT every cause is reached, and the far ones faintly: the fading of the last section.
# - Under TBPTT a cause in an earlier block gets *exactly* nothing. It isn't small; it isn't there.
#   And how far an output can see depends on where it stands in its block: between 1 and
#   $k_{\mathrm{trunc}}$ steps. Cutting at fixed places is the usual reading of "truncated";
#   [chapter 7](07_sparse_replay.ipynb) meets the other one.
#
# ## What full BPTT costs
#
# Why truncate at all? Because the backward pass needs the values of the forward pass. The next
# cell counts the bytes that autograd keeps, for full BPTT and for TBPTT that runs a backward pass
# at the end of each block and then lets the block go.


# %%
def kept_bytes(run):
    """Bytes of the distinct tensors that autograd saves for the backward pass while `run` runs."""
    kept = {}

    def note(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = run()  # the graph stays alive while we count, so no address is used twice
    del result
    return sum(kept.values())


cell = nn.LSTMCell(8, 64)


def unroll(count):
    h = c = torch.zeros(16, 64)
    for _ in range(count):
        h, c = cell(torch.zeros(16, 8), (h, c))
    return h


by_length = {count: kept_bytes(lambda count=count: unroll(count)) for count in (5, 25, 50, 100)}
show_table(
    ["steps of the sequence", "full BPTT, MB kept", "TBPTT-5, MB kept at a time"],
    [[c, f"{b / 1e6:.2f}", f"{by_length[5] / 1e6:.2f}"] for c, b in by_length.items()],
    "Memory for the backward pass of an LSTM cell with 64 units, batch 16.",
)
glue("kept_ratio", by_length[100] / by_length[5])
assert by_length[100] > 10 * by_length[5]

# %% [markdown]
# Full BPTT keeps {glue:text}`kept_ratio:.0f` times as much for 100 steps as a block of five does,
# and the ratio grows with the sequence. That is the trade: BPTT reaches everything and pays for
# the whole past; TBPTT pays for a window and reaches nothing else.

# %% [markdown]
# ## Memory forward is not credit backward
#
# It is tempting to say that a truncated network "cannot remember beyond its window". That is
# wrong, and the difference is the heart of the paper. Cutting the gradient does not touch the
# forward pass. Three experiments with one small task show it.
#
# **The task.** Twelve steps, each with one of four random symbols. One of the first four symbols
# carries a mark. At the last step, name the marked symbol. To solve it, the network must learn to
# *write* when it sees the mark, and to keep what it wrote while eight or more other symbols pass
# by.

# %%
TASK_STEPS, SYMBOLS = 12, 4
sizes = {"input_size": SYMBOLS + 1, "hidden_size": 32, "output_size": SYMBOLS}


def marked(batch, generator):
    """Inputs (batch, 12, 5): a symbol and the mark; targets (batch,): the marked symbol."""
    symbols = torch.randint(SYMBOLS, (batch, TASK_STEPS), generator=generator)
    place = torch.randint(4, (batch,), generator=generator)
    rows = torch.arange(batch)
    x = functional.one_hot(symbols, SYMBOLS + 1).float()
    x[rows, place, SYMBOLS] = 1.0
    return x, symbols[rows, place]


def train(k_trunc, task=marked, updates=300):
    """Train an LSTM on the answer at the last step; return it and its learning curve."""
    torch.manual_seed(seed)  # the same first weights and the same data for every k_trunc
    model = LSTM(LSTMConfig(**sizes, k_trunc=k_trunc))
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []
    for update in range(updates + 1):
        x, y = task(64, generator)
        logits = model(x)[0][:, -1]
        if update % 20 == 0:
            accuracy = (logits.argmax(1) == y).float().mean().item()
            history.append({"update": update, "accuracy": accuracy})
        optimiser.zero_grad()
        functional.cross_entropy(logits, y).backward()
        optimiser.step()
    return model, history


bptt, bptt_curve = train(None)
tbptt, tbptt_curve = train(4)

# %% [markdown]
# ### First: the same weights give the same answers
#
# Give the weights that BPTT found to a network that cuts every four steps. If truncation limited
# memory, it would fail.


# %%
@torch.no_grad()
def test_accuracy(model, task=marked):
    x, y = task(2000, torch.Generator().manual_seed(seed + 1))
    return (model(x)[0][:, -1].argmax(1) == y).float().mean().item()


borrowed = LSTM(LSTMConfig(**sizes, k_trunc=4))
borrowed.load_state_dict(bptt.state_dict())

x, y = marked(256, torch.Generator().manual_seed(seed + 2))
assert torch.equal(borrowed(x)[0], bptt(x)[0])  # not close: equal
glue("borrowed_accuracy", test_accuracy(borrowed))
print(f"with borrowed weights: {test_accuracy(borrowed):.2f}")

# %% [markdown]
# The outputs are equal to the last bit, and the truncated network answers
# {glue:text}`borrowed_accuracy:.0%` of the questions. Forward, nothing was cut.
#
# ### Second: influence without credit
#
# Take the same network. Swap the marked symbol for another one and look at the answer; then ask
# autograd how much the answer depends on the step where the mark was.

# %%
x, y = marked(256, torch.Generator().manual_seed(seed + 3))
place = x[:, :, SYMBOLS].argmax(1)
rows = torch.arange(len(x))
swapped = x.clone()
swapped[rows, place, :SYMBOLS] = x[rows, place, :SYMBOLS].roll(1, dims=1)

with torch.no_grad():
    old, new = borrowed(x)[0][:, -1], borrowed(swapped)[0][:, -1]
changed = (old.argmax(1) != new.argmax(1)).float().mean().item()


def credit_at_mark(model):
    probe = x.clone().requires_grad_()
    functional.cross_entropy(model(probe)[0][:, -1], y, reduction="sum").backward()
    return probe.grad[rows, place].norm(dim=1).max().item()


glue("changed", changed)
glue("credit_borrowed", credit_at_mark(borrowed))
print(f"answers changed by the swap: {changed:.2f}")
print(f"largest gradient at the mark, truncated: {credit_at_mark(borrowed)}")
assert credit_at_mark(borrowed) == 0.0
assert credit_at_mark(bptt) > 0.0

# %% [markdown]
# The swap changes {glue:text}`changed:.0%` of the answers. The gradient at the very same step is
# {glue:text}`credit_borrowed:.1f`, exactly. What autograd returns on a cut graph is not the
# derivative of the function that the network computes; it is the part of it that the cut lets
# through. Here that part is nothing: the event decides the answer and receives no credit for it.
#
# ### Third: so it cannot learn to write
#
# And without credit at the mark, nothing tells the network what to do there.

# %%
show(
    learning_curve(
        {"BPTT": bptt_curve, "TBPTT-4": tbptt_curve},
        chance=1 / SYMBOLS,
        alt="Accuracy against updates on the marked-symbol task. BPTT climbs to 100 percent; "
        "TBPTT with 4 steps stays near the chance line of 25 percent.",
    ),
    "The same first weights, the same data, the same optimiser. Only the cut differs.",
)

# %%
glue("chance", 1 / SYMBOLS)
glue("bptt_accuracy", test_accuracy(bptt))
glue("tbptt_accuracy", test_accuracy(tbptt))
print(f"BPTT {test_accuracy(bptt):.2f}, TBPTT-4 {test_accuracy(tbptt):.2f}, chance {1 / SYMBOLS}")
assert test_accuracy(bptt) > 0.95
assert test_accuracy(tbptt) < 0.5

# %% [markdown]
# On fresh sequences BPTT has {glue:text}`bptt_accuracy:.0%`, TBPTT-4
# {glue:text}`tbptt_accuracy:.0%`; guessing has {glue:text}`chance:.0%`.
#
# Is the information gone, then? Fit a linear classifier (a *probe*) to the final state of each
# network and let it name the marked symbol. How much it finds depends on how faint a trace it may
# use, so we fit it twice: for states that are known to 0.001, and for states with noise of 0.03 on
# every number. (Least squares with a penalty of noise² a sample is least squares with that noise.)


# %%
@torch.no_grad()
def probe_accuracy(model, noise):
    """Linear classifier on the last (h, c): fitted on 4,000 sequences, tested on 4,000."""
    x, y = marked(8000, torch.Generator().manual_seed(seed + 4))
    features = torch.cat([*model(x)[1], torch.ones(len(x), 1)], dim=1).double()
    fit, test = features[:4000], features[4000:]
    penalty = 4000 * noise**2 * torch.eye(fit.shape[1], dtype=torch.float64)
    answers = functional.one_hot(y[:4000], SYMBOLS).double()
    weights = torch.linalg.solve(fit.T @ fit + penalty, fit.T @ answers)
    return ((test @ weights).argmax(1) == y[4000:]).float().mean().item()


torch.manual_seed(seed)
untrained = LSTM(LSTMConfig(**sizes))
networks = {"untrained": untrained, "tbptt": tbptt, "bptt": bptt}
sharp = {name: probe_accuracy(network, 0.001) for name, network in networks.items()}
coarse = {name: probe_accuracy(network, 0.03) for name, network in networks.items()}
for name in networks:
    glue(f"sharp_{name}", sharp[name])
    glue(f"coarse_{name}", coarse[name])
assert min(*sharp.values(), *coarse.values()) > 1 / SYMBOLS + 0.05
assert sharp["untrained"] > sharp["tbptt"] and coarse["bptt"] > 0.95

# %% [markdown]
# | marked symbol, read off the state of … | states known to 0.001 | with noise of 0.03 |
# | --- | ---: | ---: |
# | the untrained LSTM | {glue:text}`sharp_untrained:.0%` | {glue:text}`coarse_untrained:.0%` |
# | the LSTM trained with TBPTT-4 | {glue:text}`sharp_tbptt:.0%` | {glue:text}`coarse_tbptt:.0%` |
# | the LSTM trained with BPTT | {glue:text}`sharp_bptt:.0%` | {glue:text}`coarse_bptt:.0%` |
# | guessing | {glue:text}`chance:.0%` | {glue:text}`chance:.0%` |
#
# The event never left. Any recurrent network carries some of its past forward, an untrained one
# too, but faintly. What BPTT adds is that the event is written *loudly*. Under truncation nothing
# asks for that.
#
# :::{admonition} What was surprising
# :class: tip
# With the sharp probe, training with TBPTT made the state a *worse* record of the event than no
# training at all. The gradient only ever sees the last block, so learning rearranges the state for
# what happens there. What becomes of a trace from earlier steps is an accident: no loss that reaches
# those steps speaks up for it. (Other seeds agree: set `seed` and see.)
# :::
#
# ## What a remedy must do
#
# Put the three experiments together and the wish list writes itself.
#
# 1. Credit must reach the step that matters **without** a factor for every step in between.
# 2. It must reach the *computation that wrote* the state, not just its value: the few steps around
#    the event.
# 3. It should not have to keep, or visit, everything else.
#
# [Chapter 3](03_mechanism.ipynb) shows how SAB tries to have all three.

# %% [markdown]
# ## Exercises
#
# **1.** In {eq}`product`, drop the tanh and let $\boldsymbol W$ be orthogonal. What does the
# gradient do? Check it.
#
# **2.** How many (output, input) pairs does block TBPTT serve on a sequence of $T$ steps when
# $k_{\mathrm{trunc}}$ does not divide $T$? Check your formula on $T=20$, $k_{\mathrm{trunc}}=6$.
#
# **3.** Put the mark among the last four symbols instead of the first. Does TBPTT-4 learn now?
# What does that say about why it failed?
#
# **4.** Which forget bias halves the gradient on the cell path once in 100 steps?

# %% [markdown]
# :::{dropdown} Solution 1
# An orthogonal matrix keeps lengths, so the gradient neither fades nor grows, at any lag. Such
# networks exist, and they pay for it: they also cannot forget.
# :::

# %% tags=["hide-cell"]
# Solution 1, checked.
orthogonal = torch.linalg.qr(torch.randn(64, 64, dtype=torch.float64)).Q
gradient = functional.normalize(torch.randn(64, dtype=torch.float64), dim=0)
for _ in range(1000):
    gradient = gradient @ orthogonal
print(f"length after 1000 steps: {gradient.norm().item():.6f}")
assert abs(gradient.norm().item() - 1) < 1e-9

# %% [markdown]
# :::{dropdown} Solution 2
# With $q=\lfloor T/k\rfloor$ whole blocks and a rest of $r=T-qk$ steps: $q\,k(k+1)/2 + r(r+1)/2$.
# :::

# %% tags=["hide-cell"]
# Solution 2, checked.
other = LSTM(LSTMConfig(input_size=8, hidden_size=16, output_size=4, k_trunc=6))
served = int((credit_autograd(other, inputs)[0] > 0).sum())
whole, rest = divmod(length, 6)
print(served)
assert served == whole * 6 * 7 // 2 + rest * (rest + 1) // 2

# %% [markdown]
# :::{dropdown} Solution 3
# It learns. Same network, same cut, same optimiser: so neither capacity nor memory was missing,
# only credit at the step that matters.
# :::


# %% tags=["hide-cell"]
# Solution 3, run.
def marked_late(batch, generator):
    x, y = marked(batch, generator)
    return x.roll(TASK_STEPS - 4, dims=1), y  # the first four steps become the last four


late, _ = train(4, task=marked_late)
print(f"TBPTT-4, late mark: {test_accuracy(late, marked_late):.2f}")
assert test_accuracy(late, marked_late) > 0.95

# %% [markdown]
# :::{dropdown} Solution 4
# $\sigma(b)^{100}=1/2$ gives $b=\ln\bigl(q/(1-q)\bigr)$ with $q=2^{-1/100}$. Nearly 5: an LSTM
# that must bridge a hundred steps starts out better if it is told that it will.
# :::

# %% tags=["hide-cell"]
# Solution 4, computed.
q = 0.5 ** (1 / 100)
bias = math.log(q / (1 - q))
print(f"bias {bias:.2f}")
assert abs(torch.sigmoid(torch.tensor(bias)).item() ** 100 - 0.5) < 1e-4
