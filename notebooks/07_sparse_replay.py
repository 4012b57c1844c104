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
# # 7. Sparse replay
#
# Retrieval decides what the present can see. It also decides what the present can *teach*: credit
# goes back through the memories that were read. At the end of this chapter you have checked that
# path to the last digit, seen what a mental update adds to it, found three readings of one
# sentence that train three different models, and watched an exact gradient grow beyond any use.
#
# It follows section 3.2 of the paper and Figure 2 {cite:p}`ke2018sparse`, with the remarks of its
# section 8 on the depth of the backward graph.

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
import dataclasses
from typing import Any

import torch
from torch.autograd.functional import jacobian

from sab import notebook
from sab.analysis.credit import chain_graph, credit_autograd, credit_graph, first_step
from sab.figures import backward_diagram, backward_panels, credit_matrix, gradient_by_distance
from sab.models.sab import SABLayer
from sab.notebook import glue, show, show_table
from sab.ops.scores import additive
from sab.ops.sparse_weights import softmax_weights, sparse_weights
from sab.tasks.copy import CopyTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Two roads back
#
# A loss at step $t$ starts two journeys into the past. One follows the chain, $\boldsymbol
# h^{(t)}$ to $\boldsymbol h^{(t-1)}$ and so on, and is cut after $k_{\mathrm{trunc}}$ steps. The
# other goes through the read: $\boldsymbol s^{(t)}$ is a sum of memories, and each memory is a
# hidden state of long ago. Where it arrives, the chain begins anew, for another
# $k_{\mathrm{trunc}}$ steps.

# %%
show(
    backward_diagram(k_top=2, k_att=3, k_trunc=3, steps=14, block_offset=1),
    caption="One loss at the last step, two memories read, three steps of the chain each. The "
    "steps in between get no credit.",
)

# %% [markdown]
# The point is what is *not* there: no product of fourteen Jacobians. Let us look at the jump more
# closely.
#
# ### The jump is α times the identity
#
# Hold the weights fixed, and with them the selection. Then $\boldsymbol h = \hat{\boldsymbol h} +
# \sum_j \alpha_j \boldsymbol m^{(j)}$ is linear in each memory, so
#
# $$
# \left.\frac{\partial \boldsymbol h^{(t)}}{\partial \boldsymbol m^{(i)}}\right|_{\alpha\ \text{fixed}} = \alpha_i^{(t)}\, \boldsymbol I .
# $$ (eq-jump)
#
# No matrix, no $\tanh'$, and nothing that depends on how long ago the memory was written. We check
# it by nudging one component of one memory, for a memory that is read and one that is not.

# %%
torch.manual_seed(seed)
n, held = 6, 8
memories = torch.randn(1, held, n, dtype=torch.float64)
h_hat = torch.randn(1, n, dtype=torch.float64)
w1, w2 = torch.randn(2, n, n, dtype=torch.float64)
w3 = torch.randn(n, dtype=torch.float64)


def alpha_of(memories):
    return sparse_weights(additive(memories, h_hat, w1, w2, w3), k_top=3).dense(held)


alpha = alpha_of(memories)
read, unread = int(alpha[0].argmax()), int((alpha[0] == 0).nonzero()[0])

nudge = 1e-6
for i in (read, unread):
    for component in range(n):
        moved = memories.clone()
        moved[0, i, component] += nudge
        change = (alpha[0] @ moved[0] - alpha[0] @ memories[0]) / nudge  # weights held fixed
        wanted = alpha[0, i] * torch.eye(n, dtype=torch.float64)[component]
        assert torch.allclose(change, wanted, atol=1e-8)

# %% tags=["nbval-check-output"]
print("weights:", [round(w, 2) for w in alpha[0].tolist()])
print(f"memory {read} is read: h follows it with factor {alpha[0, read]:.2f}")
print(f"memory {unread} is not: h follows it with factor {alpha[0, unread]:.0f}")

# %% [markdown]
# **A memory that is not read has no such path.** Not a faint one: none.
#
# Mind the words "held fixed". The weights are not constants. They depend on the memories through
# the scores, and the full derivative has a second part. For a memory that is read, with $Z$ the
# sum of margins from [chapter 6](06_sparse_retrieval.ipynb),
#
# $$
# \frac{\partial \boldsymbol h}{\partial \boldsymbol m^{(i)}} = \alpha_i \boldsymbol I + \frac{1}{Z}\left(\boldsymbol m^{(i)} - \boldsymbol s\right)
# \left(\frac{\partial a_i}{\partial \boldsymbol m^{(i)}}\right)^{\!\top} .
# $$ (eq-full)


# %%
def read_out(memories):
    return (alpha_of(memories)[:, :, None] * memories).sum(1)[0]


full = jacobian(read_out, memories)[:, 0, read]  # (n, n)

scores = additive(memories, h_hat, w1, w2, w3)[0]
threshold = scores.sort(descending=True).values[3]
z = (scores - threshold).clamp(min=0).sum()
slope = jacobian(lambda m: additive(m, h_hat, w1, w2, w3)[0, read], memories)[0, read]
away = memories[0, read] - alpha[0] @ memories[0]
value_path = alpha[0, read] * torch.eye(n, dtype=torch.float64)
assert torch.allclose(full, value_path + torch.outer(away, slope) / z, atol=1e-10)

# %% tags=["nbval-check-output"]
print(f"value path, largest gain:  {torch.linalg.matrix_norm(value_path, 2):.2f}")
print(f"through the scores:        {torch.linalg.matrix_norm(full - value_path, 2):.2f}")

# %% [markdown]
# The first part can never amplify: the weights of a read sum to one. The second part can, and
# there is no bound on it. Remember it for the end of the chapter.

# %% [markdown]
# ## Mental updates, on and off
#
# Having jumped to a memory, how far does credit go on? There are three answers, and the setting
# `replay` chooses:
#
# | `replay` | a recalled memory passes credit to … |
# | --- | --- |
# | `"full"` | the step that wrote it and on along its chain, up to $k_{\mathrm{trunc}}$ steps: a *mental update* |
# | `"write_step"` | the step that wrote it, its weights and its input, and nothing before |
# | `"none"` | nothing: the memory is read as a constant |
#
# The paper compares "with" and "without mental updates". *With* is the first. *Without* could be
# either of the other two, and the text does not settle it, so we keep both.

# %%
common: dict[str, Any] = {"k_att": 4, "k_trunc": 4, "block_offset": 1}
show(
    backward_panels(
        {
            f'replay="{replay}"': {"replay": replay, "reads": {14: [4, 8]}, **common}
            for replay in ("full", "write_step", "none")
        },
        steps=14,
        k_top=2,
    ),
    caption="The same run, the same reads, three rules for what a recalled memory passes on.",
)

# %% [markdown]
# A drawing shows one loss. A **credit matrix** shows all: row $t$, column $s$, filled where the
# loss at step $t$ reaches the input of step $s$. We run one small layer on one random sequence
# with each of the three rules, and derive the matrix from what the run recalled.

# %%
torch.manual_seed(seed)
steps = 32
x = torch.randn(1, steps, 3, dtype=torch.float64)
base = SABLayer(3, 8, k_top=2, form="reference", **common).double()


def with_options(layer, **changes):
    """The same weights under other switches."""
    options = dataclasses.asdict(dataclasses.replace(layer.options, **changes))
    twin = SABLayer(layer.input_size, layer.hidden_size, form=layer.form, **options).to(layer.w3)
    twin.load_state_dict(layer.state_dict())
    return twin


def credit(layer):
    *_, recall = layer(x, return_recall=True)
    return credit_graph(recall, layer.options, steps)[0]


layers = {replay: with_options(base, replay=replay) for replay in ("full", "write_step", "none")}
matrices = {f'replay="{name}"': credit(layer) for name, layer in layers.items()}
show(
    credit_matrix(matrices),
    caption="Who receives credit from whom, on one random sequence of 32 steps.",
)

# %% [markdown]
# Along the diagonal lies the chain, cut into blocks of four. What lies to the left of it came
# through recalls. With `"none"` nothing is left of it: that model reads the past and cannot teach
# it. With `"write_step"` recalls add single steps. With `"full"` they add whole stretches, and
# since a recalled state has recalls of its own, those add more: on this short sequence nearly
# everything is filled. We come back to that.
#
# The matrix follows from a rule: which cells the chain still reaches, and what was recalled there.
# Does autograd agree with the rule? For every pair of steps we ask for the actual derivative.

# %%
for layer in layers.values():
    norms = credit_autograd(layer, x)[0]
    graph = credit(layer)
    assert (norms[~graph] == 0).all()  # exactly zero where the rule sees no path
    assert (norms[graph] > 0).all()  # and not zero where it sees one

# %% tags=["nbval-check-output"]
for name, layer in layers.items():
    graph = credit(layer)
    far = graph & ~chain_graph(layer.options, steps)
    print(
        f"replay {name:10s}: pairs with credit {int(graph.sum()):4d}, of them by recall {int(far.sum()):4d}"
    )

# %% [markdown]
# ### And at inference?
#
# There are no mental updates at inference. Replay, truncation and everything else in this chapter
# shape gradients only. The forward pass is the same under all of these settings:

# %%
with torch.no_grad():
    h, *_ = base(x)
    for changes in (
        {"replay": "none"},
        {"replay": "write_step"},
        {"k_trunc": None},
        {"truncation": "sliding"},
        {"block_offset": 0},
        {"score_gradient": "states"},
    ):
        assert torch.allclose(with_options(base, **changes)(x)[0], h, rtol=0, atol=1e-10)

# %% [markdown]
# ## Where is the chain cut?
#
# "Truncated after $k_{\mathrm{trunc}}$ steps" has more than one meaning. Two of them differ in
# where they start counting.
#
# - **Sliding**: count back from where the gradient comes in. A loss at $t$ reaches the cells
#   $t-k_{\mathrm{trunc}}+1, \dots, t$, and a memory written at $u$ the cells
#   $u-k_{\mathrm{trunc}}+1, \dots, u$. This is what the paper's text says.
# - **Blocks**: cut the chain at fixed places, every $k_{\mathrm{trunc}}$ steps. A loss reaches
#   back to the last cut, however near. This is what one `detach` in a loop does, it is cheaper,
#   and it is what the released code does.
#
# With blocks there is a further choice: do they run $1 \dots k$, $k+1 \dots 2k$
# (`block_offset=1`), or is the cut before step $k$, so that step $k$ opens a block
# (`block_offset=0`, the released code)? It sounds like a detail. But memories are written at the
# multiples of $k_{\mathrm{att}}$, and in every experiment of the paper on real data
# $k_{\mathrm{att}} = k_{\mathrm{trunc}}$. Then **every memory sits at the same place in its
# block**:

# %%
readings: dict[str, dict[str, Any]] = {
    "blocks, offset 0": {"block_offset": 0},
    "blocks, offset 1": {"block_offset": 1},
    "sliding": {"truncation": "sliding"},
}
show(
    backward_panels(
        {name: {"reads": {14: [4, 8]}, **common, **switch} for name, switch in readings.items()},
        steps=14,
    ),
    caption="Three readings of truncation, with k_att = k_trunc = 4. With offset 0 a memory opens its "
    "block, so its replay is one step long.",
)

# %%
readings_of = {name: with_options(base, **switch) for name, switch in readings.items()}
show(
    credit_matrix({name: credit(layer) for name, layer in readings_of.items()}),
    caption="The same reads under three readings of truncation.",
)


# %%
def replayed(layer, write_step):
    """Steps that a gradient entering at a memory reaches along the chain."""
    return write_step - first_step(write_step, layer.options) + 1


rows = []
for name, layer in readings_of.items():
    aligned = {replayed(layer, u) for u in range(4, 33, 4)}
    mixed = sorted({replayed(layer, u) for u in range(6, 43, 3)})
    rows.append((name, ", ".join(map(str, sorted(aligned))), f"{mixed[0]} to {mixed[-1]}"))
show_table(
    ["reading", "k_att = 4: steps replayed", "k_att = 3: steps replayed"],
    rows,
    caption="How many steps of the chain a mental update covers, with k_trunc = 4.",
)
assert [row[1] for row in rows] == ["1", "4", "4"]

# %% tags=["nbval-check-output"]
for name, layer in readings_of.items():
    print(f"{name:17s}: pairs of steps with credit {int(credit(layer).sum())}")

# %% [markdown]
# With offset 0 and $k_{\mathrm{att}} = k_{\mathrm{trunc}}$, a mental update is **one step long**,
# whatever $k_{\mathrm{trunc}}$ is. What distinguishes it from `"write_step"` is then only that the
# memory's own recalls pass credit on. With offset 1 the cut falls elsewhere and the same program
# replays $k_{\mathrm{trunc}}$ steps. This is entry D6 of the [register](../book/discrepancies.md).
# What it does to results is a question for runs.
#
# One more consequence: with blocks, a loss early in its block reaches fewer steps
# of the chain than a loss late in it. In the copy task that decides whether the marker and the
# first answers share a block.

# %% [markdown]
# ## How deep is the graph?
#
# Each recall is short. But a memory contains what *it* had recalled, so credit that arrives there
# may jump again. How often? For one loss at the last step of an untrained run, we count three
# things: the longest chain of jumps, the inputs reached, and the number of different *routes* from
# the loss.


# %%
def depth(layer, steps):
    """Longest chain of jumps and number of routes from the last loss, with blocks and full replay."""
    x = torch.randn(1, steps, 3, generator=torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():
        *_, recall = layer(x, return_recall=True)
    longest, routes = [0] * (steps + 1), [1] * (steps + 1)
    for t in range(1, steps + 1):
        if t > 1 and first_step(t, layer.options) < t:  # the chain is not cut before t
            longest[t], routes[t] = longest[t - 1], 1 + routes[t - 1]
        for u in recall.steps[0, t - 1][recall.weights[0, t - 1] > 0].tolist():
            longest[t] = max(longest[t], 1 + longest[u])
            routes[t] += routes[u]
    reached = credit_graph(recall, layer.options, steps)[0, -1].sum()
    return longest[-1], int(reached), routes[-1]


lengths = (20, 40, 80, 160)
depths = [depth(base, length) for length in lengths]
show_table(
    ["steps", "longest chain of jumps", "inputs reached", "routes"],
    [
        (t, a, b, f"{c:,}" if c < 1e6 else f"{c:.1e}")
        for t, (a, b, c) in zip(lengths, depths, strict=True)
    ],
    caption="The backward graph of one loss; k_top = 2, k_att = k_trunc = 4, blocks with offset 1.",
)
local_bound = base.options.k_top * common["k_trunc"]
glue("local_bound", local_bound)
glue("reached_160", depths[-1][1])
glue("chain_160", depths[-1][0])
assert depths[-1][1] > 2 * local_bound

# %% [markdown]
# A single read touches at most $k_{\mathrm{top}} k_{\mathrm{trunc}}$ steps, which is
# {glue:text}`local_bound:d` here. The loss reaches {glue:text}`reached_160:d`. Up to
# {glue:text}`chain_160:d` jumps follow one another, and the number of routes grows beyond
# counting. In the worst case credit passes every past state many times over. (Backpropagation does
# not walk the routes one by one: it adds up at each state what arrives from all of them. But each
# route's *product* is in the sum.) The paper says as much and gives no tight bound on the backward
# pass. "Sparse" describes one read, not the whole graph.

# %% [markdown]
# ## An exact gradient that can't be used
#
# Now for the second part of {eq}`eq-full`, the path through the scores. Should credit take it?
# Mathematically there is no question: it is part of the derivative. The switch `score_gradient`
# decides:
#
# - `"states"`: the exact derivative, through the scores into memories and query, and on from there.
# - `"scorer"`: through the scores into $\boldsymbol W_1, \boldsymbol W_2, \boldsymbol W_3$ only.
#   Memories and query count as constants *in the scores*; as values they still get credit.
#
# The forward pass is the same. We take twelve untrained models and compare the norm of their
# gradient on the copy task, at four delays.


# %%
def gradient_norm(layer, T, start):
    """Norm of the gradient of a fixed random read-out over the whole sequence."""
    generator = torch.Generator().manual_seed(start)
    x, _ = CopyTask(T=T).batch(16, generator)
    h, _, _ = layer(x.double())
    probe = torch.randn(h.shape[2], generator=generator).double()
    loss = (h @ probe).mean()
    grads = torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)
    return torch.nn.utils.get_total_norm([g for g in grads if g is not None]).item()


delays = (10, 50, 100, 200)
starts = range(seed, seed + 12)
norms = {"scorer": [], "states": []}
for start in starts:
    torch.manual_seed(start)
    layer = SABLayer(10, 32).double()
    for rule, found in norms.items():
        twin = with_options(layer, score_gradient=rule)
        found.append([gradient_norm(twin, T, start) for T in delays])
norms = {rule: torch.tensor(found) for rule, found in norms.items()}  # (starts, delays)
ratio = norms["states"] / norms["scorer"]

# %%
show_table(
    [
        "delay",
        "scorer: median",
        "scorer: largest",
        "states: median",
        "states: largest",
        "more than 100 times apart",
    ],
    [
        (
            T,
            *(
                f"{v:.1e}"
                for rule in norms
                for v in (norms[rule][:, i].median(), norms[rule][:, i].max())
            ),
            f"{int((ratio[:, i] > 100).sum())} of {len(starts)}",
        )
        for i, T in enumerate(delays)
    ],
    caption="Gradient norm of twelve untrained models under both rules. Each pair has the same weights, "
    "the same data and the same outputs.",
)

# %% tags=["nbval-check-output"]
print("delay 10: any model more than 100 times apart:", bool((ratio[:, 0] > 100).any()))
print("delay 200: some models more than 100 times apart:", bool((ratio[:, -1] > 100).any()))
print("delay 200: some models within a factor of 3:", bool((ratio[:, -1] < 3).any()))

# %%
glue("apart", int((ratio[:, -1] > 100).sum()))
glue("models", len(starts))
glue("worst_states", f"{norms['states'][:, -1].max():.0e}")
glue("worst_scorer", f"{norms['scorer'][:, -1].max():.0e}")
assert norms["scorer"].max() < 1e4

# %% [markdown]
# Either the two are of the same size, or they are worlds apart. At delay 200 the exact gradient of
# {glue:text}`apart:d` of the {glue:text}`models:d` models is more than a hundred times the other;
# the largest is {glue:text}`worst_states:s`, where the largest under `"scorer"` is
# {glue:text}`worst_scorer:s`. What a gradient of that size tells an optimiser, after clipping, is
# the direction in which one route happened to explode.
#
# ### Why it explodes
#
# **First, the gradient of the weights goes like $1/Z$.** That is {eq}`eq-full`, and it is a
# consequence of there being no temperature: if all scores shrink by a factor, the weights stay as
# they are, so the same change of a score now means more. Let us shrink $\boldsymbol W_3$ and look
# at the gradient of one read with respect to $\boldsymbol W_3$ and to a memory through its score.

# %%
memories = torch.randn(1, 8, n, dtype=torch.float64)


def through_scores(rule, factor):
    """Norms of d s / d W3 and of d s / d memories through the scores alone."""

    def summary(m, w):
        a = additive(m, h_hat, w1, w2, w)
        weights = softmax_weights(a) if rule == "softmax" else sparse_weights(a, 3).dense(8)
        return (weights[0, :, None] * memories[0]).sum(0)  # the values are constants here

    of_memories, of_w3 = jacobian(summary, (memories, factor * w3))
    return of_w3.norm().item(), of_memories.norm().item()


factors = (1, 0.1, 0.01)
shrinking = []
for rule in ("softmax", "SAB"):
    pairs = [through_scores(rule, f) for f in factors]
    shrinking.append((rule, "W3", *(f"{a:.3g}" for a, _ in pairs)))
    shrinking.append((rule, "memories, through the scores", *(f"{b:.3g}" for _, b in pairs)))
show_table(
    ["weights", "gradient with respect to", "W3 × 1", "W3 × 0.1", "W3 × 0.01"],
    shrinking,
    caption="The gradient of one read as the scores shrink.",
)

# %%
large, small = through_scores("SAB", 1), through_scores("SAB", 0.01)
assert abs(small[0] / large[0] - 100) < 1e-6  # with respect to W3: 1 / factor
assert abs(small[1] / large[1] - 1) < 1e-6  # with respect to the memories: unchanged
assert through_scores("softmax", 0.01)[1] < 0.05 * through_scores("softmax", 1)[1]

# %% [markdown]
# With a softmax, small scores make a flat distribution and a small gradient: a model can keep this
# path quiet. With margins it can't. The gradient of $\boldsymbol W_3$ *grows* as the scores
# shrink. And the gradient into the memories does not change at all: $1/Z$ grows as fast as
# $\partial a_i/\partial\boldsymbol m^{(i)}$ shrinks. **No choice of scale for the scores, and so
# no smaller start for $\boldsymbol W_3$, makes this path weaker.**
#
# **Second, the path is a link of a chain.** Through a score, into a memory; that memory was itself
# a sum of older memories, weighted by scores; and so on. Every link multiplies. The value path
# multiplies by $\alpha$, and the weights of a read sum to one. The path through the scores
# multiplies by whatever the second term of {eq}`eq-full` is, and nothing keeps that below one.
# Where it is above, the product grows with every jump. More steps, more jumps: the norm grows
# exponentially with the delay.
#
# We can see it in one model. Take the start of the twelve that is worst at delay 200, put one loss
# at the last step, and look at the gradient at each input, by distance.

# %%
worst = int(ratio[:, -1].argmax())
torch.manual_seed(starts[worst])
layer = SABLayer(10, 32).double()
data, _ = CopyTask(T=200).batch(16, torch.Generator().manual_seed(starts[worst]))
curves = {}
for rule in ("scorer", "states"):
    probe = data.double().requires_grad_(True)
    h, _, _ = with_options(layer, score_gradient=rule)(probe)
    (grad,) = torch.autograd.grad(h[:, -1].sum(), probe)
    curves[f'score_gradient="{rule}"'] = (
        torch.arange(data.shape[1]),
        grad.norm(dim=2).mean(0).flip(0),  # distance 0 is the last step
    )
near = curves['score_gradient="scorer"'][1]
glue("scorer_peak", int(near[20:].argmax()) + 20)
show(
    gradient_by_distance(curves),
    caption="Gradient of the last output with respect to each input, mean of 16 sequences, in the model "
    "of the twelve that is worst at delay 200.",
)

# %% [markdown]
# Under `"scorer"` most of the credit lands in one place, {glue:text}`scorer_peak:d` steps back:
# near the memory that this model happens to favour, one of the first. What reaches the steps in
# between is smaller by many orders of magnitude. Under `"states"` the gradient *rises* all the way
# back, in nearly a straight line on this logarithmic axis, past every input in between. It is the
# old disease of recurrent networks, of [chapter 2](02_credit_assignment.ipynb), come back on the
# new road.
#
# **What this does and does not show.** It shows that the exact gradient can explode, why it can,
# and that the forward pass is innocent. It does not show that this is what keeps a model from
# learning. Other choices matter too: the short memory's rule, the block offset, the start. Which
# of them decides is a question for whole training runs with several seeds; [chapter
# 15](15_why.ipynb) crosses them. Our recipe uses `"scorer"`; `SABConfig.literal()` and `SABConfig.released()` use `"states"`.
#
# ## What surprised us
#
# - **A mental update can be one step long.** With $k_{\mathrm{att}} = k_{\mathrm{trunc}}$ and the
#   released alignment, it always is.
# - **The jump is harmless, the choice is not.** The value path is a weighted average and can't
#   blow up by itself. What blows up is the derivative of *which memories are chosen how much*.
# - **Scale does not help.** One would try smaller initial scores against an exploding gradient.
#   Here they change nothing, or make it worse.
# - **The gradient we train with is not the gradient.** It is cut twice, by truncation and at the
#   scorer's input. What is left is still enough to learn from.
#
# ## Exercises
#
# **1.** With `replay="none"`, credit never leaves the block of the loss. Why might such a model
# still learn to copy over a long delay better than TBPTT does?
#
# :::{dropdown} Solution
# The read-out and the cell at the answering steps are trained on what they read, and under
# `score_gradient="scorer"` so is the scorer: it can learn *which* of the stored states to fetch.
# What nobody trains is the writing. If the untrained recurrent state at the early steps happens to
# hold the symbol in a readable form, and it mostly does, that is enough for much of the task.
# :::
#
# **2.** For which $k_{\mathrm{att}}$ does a mental update cover each of $1, \dots,
# k_{\mathrm{trunc}}$ steps equally often, with blocks and $k_{\mathrm{trunc}} = 5$?
#
# **3.** In {eq}`eq-full`, what is the second term if all memories that are read are equal? What
# does that say about long stretches of blanks?
#
# :::{dropdown} Solution
# Then $\boldsymbol s = \boldsymbol m^{(i)}$ and the term has a factor of zero over a $Z$ that goes
# to zero as well, since equal memories have equal scores. The quotient depends on how they
# approach each other: both shrink together, and the ratio stays of the order of one over the slope
# of the score. So a long blank stretch, in which the states settle and the memories become alike,
# does not switch the path off.
# :::

# %% tags=["hide-cell"]
# Solution of exercise 2: the memory at u covers u - first_step(u) + 1 steps. For k_att coprime to 5
# the places u mod 5 come round equally often; for a multiple of 5 it is always the same one.
for k_att in range(1, 11):
    options = dataclasses.replace(base.options, k_att=k_att, k_trunc=5)
    covered = [u - first_step(u, options) + 1 for u in range(k_att, 50 * k_att + 1, k_att)]
    counts = [covered.count(c) for c in range(1, 6)]
    assert (len(set(counts)) == 1) == (k_att % 5 != 0)
