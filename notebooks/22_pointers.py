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
# # 22. From alignment to pointers
#
# An attention distribution says where to look. Usually that is a means: the weights are used to blend
# something, and then forgotten. A pointer network stops half-way and takes the distribution itself as
# the answer. At the end of this chapter you know which problems ask for that, how the
# probability of a whole answer comes apart into pointers, and how well a small network sorts numbers and
# finds convex hulls.

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
import itertools

import torch

from sab import notebook
from sab.experiments.records import Record
from sab.figures import learning_curve
from sab.figures.attention import pointers
from sab.figures.style import COLOURS, new_figure, style, with_alt
from sab.models.pointer import Pointer, PointerConfig
from sab.notebook import glue, read_or_run, show, show_table
from sab.ops.scores import additive
from sab.tasks.hull import HullTask, area, convex_hull, is_simple
from sab.tasks.sorting import SortingTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Why: answers that are positions
#
# Sort five numbers. The answer is a rearrangement of the *input*: "the third, then the first, …". Or name the corners of the convex hull of a cloud of
# points: the answer is a list of points that were given. A network with a fixed set of output classes has a difficulty with this. How many
# classes? As many as there are inputs, and that changes from case to case.
#
# Attention has just the right shape. Its distribution over the inputs has as many entries as there are inputs. In translation it is
# a *soft alignment*: with which source word does this target word go? Here it is the answer {cite:p}`vinyals2015pointer`.
#
# ## How
#
# An encoder reads the inputs $\boldsymbol x_1 \dots \boldsymbol x_N$ into states $\boldsymbol e_n$. A decoder produces one pointer
# $c_m$ a step, and is told the element that it pointed at before. The probability of an answer is the product of the steps':
#
# $$
# \begin{aligned}
# p(c_{1:M} \mid \boldsymbol x_{1:N}) &= \prod_{m=1}^{M} p(c_m \mid c_{1:m-1}, \boldsymbol x_{1:N}), \\
# p(c_m = n \mid \cdot) &= \mathrm{softmax}_n(s_{m,n}), \qquad
# s_{m,n} = \boldsymbol v^\top \tanh(\boldsymbol W \boldsymbol e_n + \boldsymbol U \boldsymbol h_m) .
# \end{aligned}
# $$ (eq-pointer)
#
# That is the additive score of chapter 20. (Many texts write $\boldsymbol x_n$ for the encoder's state; ours is $\boldsymbol e_n$, so that the
# input keeps its letter.) There is no output matrix. Here are the logits of an untrained network, compared with the formula at the first step:

# %%
torch.manual_seed(seed)
net = Pointer(PointerConfig(input_size=1, hidden_size=16))
x, y = SortingTask(5).batch(3, torch.Generator().manual_seed(seed))
with torch.no_grad():
    logits, _ = net(x)
    e, state = net.encoder(x)
    h, _ = net.decoder(net.start.expand(3, 1, -1), state)
    first = additive(e, h[:, 0], net.w.weight, net.u.weight, net.v)
assert logits.shape == (3, 5, 5)  # batch, steps, elements
assert torch.allclose(logits[:, 0], first, atol=1e-5)

# %% [markdown]
# Three choices that the formula leaves open:
#
# - **Telling.** While training, step $m$ is told the *right* elements before it ("teacher forcing"), so that all factors of
#   {eq}`eq-pointer` are trained at once. When the network is judged, it is told its own choices. All accuracies below are of the second kind.
# - **Taken is taken.** In both tasks nothing is named twice, so what was pointed at gets probability zero. That is knowledge of ours, given to the
#   network; a switch takes it back.
# - **Ending.** The hull has a varying number of corners. The last input is an end mark, and pointing at it ends the answer.

# %%
with torch.no_grad():
    free, _ = net(x)
assert (free.argmax(2).sort(1).values == torch.arange(5)).all()  # every element once

# %% [markdown]
# ## Sorting, live
#
# Five numbers from 0 to 1. The network has no notion of "smaller" built in; it has to come from examples. A few hundred updates will do for a first look.

# %%
task = SortingTask(5)
torch.manual_seed(seed)
sorter = Pointer(PointerConfig(input_size=1, hidden_size=32))
optimiser = torch.optim.Adam(sorter.parameters(), lr=0.01)
source = torch.Generator().manual_seed(seed)
for _ in range(250):
    x, y = task.batch(64, source)
    loss = task.loss(sorter(x, task.teacher(y))[0], y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(sorter.parameters(), 2.0)
    optimiser.step()
with torch.no_grad():
    unseen = task.batch(1000, torch.Generator().manual_seed(seed + 99))
    live = task.metrics(sorter(unseen.x)[0], unseen.y)
glue("live_accuracy", live["accuracy"])
glue("live_sequences", live["sequence_accuracy"])
glue("chance_sequences", task.baselines()["sequence_accuracy"])

# %% tags=["nbval-check-output"]
print("right pointers, above 90 %:", live["accuracy"] > 0.9)

# %% [markdown]
# {glue:text}`live_accuracy:.1%` of the pointers are right, and {glue:text}`live_sequences:.1%` of the sequences as a whole. A guess that has not seen the
# numbers gets {glue:text}`chance_sequences:.1%`. This is what pointing looks like:

# %%
numbers = unseen.x[:1]
with torch.no_grad():
    pointed = torch.softmax(sorter(numbers)[0][0], 1)
show(
    pointers(pointed, [f"{v:.2f}" for v in numbers[0, :, 0].tolist()], xlabel="number, as given"),
    caption="Each output step points at the next larger number. Thick or dark: probability near 1.",
)

# %% [markdown]
# Where does it err? A sorting network that compares must find numbers hard that lie close together.

# %%
with torch.no_grad():
    many = task.batch(4000, torch.Generator().manual_seed(seed + 7))
    right = (sorter(many.x)[0].argmax(2) == many.y).all(1)
gaps = many.x[:, :, 0].sort(1).values.diff(dim=1).amin(1)
edges = torch.tensor([0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 1.0])
by_gap = [
    right[(gaps >= a) & (gaps < b)].float().mean().item() for a, b in itertools.pairwise(edges)
]

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(7.0, 2.7)
    ax = axes[0, 0]
    names = [f"{a:g}–{b:g}" for a, b in itertools.pairwise(edges.tolist())]
    ax.bar(names, [100 * v for v in by_gap], color=COLOURS["gradient"])
    ax.axhline(100 / 120, color=COLOURS["chance"], lw=1.2, ls=(0, (4, 3)), gid="chance")
    ax.set(
        xlabel="smallest gap between two of the five numbers (chance: 0.8 %)",
        ylabel="sequence accuracy (%)",
        ylim=(0, 103),
    )
with_alt(
    fig,
    "Share of sequences sorted without an error by the smallest gap between two numbers: lowest for gaps below "
    "0.005, near 100 percent for gaps above 0.04.",
)
show(fig, caption="The live network on 4,000 sequences.")
assert by_gap[0] < by_gap[-1]

# %% [markdown]
# It does not fail at random. It has a *resolution*, as a measuring instrument has.
#
# ## Sorting, trained longer
#
# The committed runs have 64 units and 2,000 or 3,000 updates of 128 sequences.

# %%
sorting = read_or_run("sorting", profile)


def by_row(records: list[Record], metric: str) -> dict[str, list[float]]:
    """Values of a metric by row, one a seed."""
    rows: dict[str, list[float]] = {}
    for record in records:
        rows.setdefault(record.row, []).append(record.metrics[metric])
    return rows


single, wholes = by_row(sorting, "accuracy"), by_row(sorting, "sequence_accuracy")
show_table(
    ["numbers", "right pointers", "whole sequences", "guessing"],
    [
        (
            row.removeprefix("pointer_N"),
            ", ".join(f"{v:.1%}" for v in single[row]),
            ", ".join(f"{v:.1%}" for v in wholes[row]),
            f"{SortingTask(int(row.removeprefix('pointer_N'))).baselines()['sequence_accuracy']:.1g}",
        )
        for row in sorted(single, key=lambda name: int(name.removeprefix("pointer_N")))
    ],
    caption="Sorting on unseen sequences, one number a seed.",
    source=sorting,
)
show(
    learning_curve(
        {
            f"{row.removeprefix('pointer_N')} numbers": [r for r in sorting if r.row == row]
            for row in sorted(single)
        },
        chance=1 / 5,
    ),
    caption="Share of right pointers while training. The line is chance for five numbers; for ten it is half of that.",
    source=sorting,
)

# %% [markdown]
# ## The convex hull
#
# The corners of the smallest convex polygon around the points, counter-clockwise, beginning with the one that comes first in the input. The truth is computed by
# Andrew's monotone chain, in `sab.tasks.hull`; a test compares it with `scipy.spatial.ConvexHull`.

# %%
cloud = torch.rand(10, 2, generator=torch.Generator().manual_seed(seed + 4)).tolist()
corners = convex_hull(cloud)
polygon = [cloud[i] for i in corners]

# %% tags=["hide-input"]
with style():
    fig, axes = new_figure(4.2, 3.6)
    ax = axes[0, 0]
    ax.plot(*zip(*[*polygon, polygon[0]], strict=True), color=COLOURS["gradient"])
    ax.plot(*zip(*cloud, strict=True), "o", color=COLOURS["kept"])
    for i, point in enumerate(cloud, start=1):
        ax.annotate(str(i), point, xytext=(5, 3), textcoords="offset points")
    ax.set(xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
with_alt(
    fig,
    f"Ten numbered points in the unit square and their convex hull, a polygon with {len(corners)} corners.",
)
show(fig, caption="Ten points and their hull. The answer is the list of its corners' numbers.")
assert is_simple(polygon) and area(polygon) < 1

# %% [markdown]
# A wrong answer can be nearly right: one corner left out costs a sliver of area. So two things are measured: whether the whole list is right, and what share of the true
# hull's *area* the answer covers. An answer whose edges cross, or that has fewer than three corners, is invalid and covers nothing.

# %%
hull = read_or_run("hull", profile)
show_table(
    ["points", "whole hull right", "area covered", "invalid answers", "no fixed answer beats"],
    [
        (
            str(record.config["task_config"]["length"]),
            *(f"{record.metrics[name]:.1%}" for name in ("accuracy", "area", "invalid")),
            f"{HullTask(record.config['task_config']['length']).baselines()['accuracy']:.1%}",
        )
        for record in hull
    ],
    caption="Convex hulls of unseen point sets, a line a run.",
    source=hull,
)
glue("hull_accuracy", hull[-1].metrics["accuracy"])
glue("hull_area", hull[-1].metrics["area"])

# %% [markdown]
# With five points the whole list is right in {glue:text}`hull_accuracy:.1%` of the cases, and {glue:text}`hull_area:.1%` of the area is covered. Sorting needs a comparison of two numbers; a corner depends on all points at once. It
# is the harder problem for the same network.
#
# ## What surprised us
#
# - Sorting is learned within a hundred updates or so. What takes the rest of the training is *resolution*.
# - Because what is taken may not be taken again, the last pointer is always right if all others are: it has one choice left.
# - Take the rule "taken is taken" back after training, and hardly a sequence is sorted (exercise 3). Trained with the rule, the
#   network never had to learn not to repeat itself.
# - The live network has only seen five numbers, and most of its pointers are right for ten (exercise 2).
#
# ## What it took
#
# The live network takes some seconds on one core. The records say what the longer runs took.
#
# ## Exercises
#
# **1.** How many parameters does a pointer network for 5 numbers have, and how many for 500?
#
# :::{dropdown} Solution
# The same. No matrix has a side of length $N$. The cell below runs one network on both.
# :::
#
# **2.** Sort ten numbers with the live network, which has only seen five. What happens?
#
# **3.** Take back the rule "taken is taken" from the trained network. How much of its accuracy was the rule's?
#
# **4.** Show that no fixed answer finds the hull of $N$ random points with a probability above
# $\max_k 1 / \big(\binom Nk (k-1)!\big)$.
#
# :::{dropdown} Solution
# Given that the hull has $k$ corners, the points' positions in the input are in random order. Every set of $k$ positions is equally likely to be the
# corners, $1/\binom Nk$; given the set, the first named is the lowest position, and the $(k-1)!$ orders of the others are equally likely. A fixed
# answer has one $k$, so its probability is $p_k$ times that, and $p_k \le 1$.
# :::

# %% tags=["hide-cell"]
# Exercise 1.
count = sum(p.numel() for p in sorter.parameters())
with torch.no_grad():
    assert sorter(torch.rand(1, 5, 1))[0].shape == (1, 5, 5)
    assert sorter(torch.rand(1, 60, 1))[0].shape == (1, 60, 60)
assert count == sum(p.numel() for p in sorter.parameters())

# Exercise 2: never trained beyond the fifth step, it goes on fairly well.
ten = SortingTask(10)
with torch.no_grad():
    longer = ten.batch(500, torch.Generator().manual_seed(seed + 3))
    answers = sorter(longer.x)[0].argmax(2) == longer.y
print(
    "ten numbers, right pointers by step:", [f"{v:.0%}" for v in answers.float().mean(0).tolist()]
)
assert answers.all(1).float().mean() < live["sequence_accuracy"]

# Exercise 3.
loose = Pointer(PointerConfig(input_size=1, hidden_size=32, distinct=False))
loose.load_state_dict(sorter.state_dict())
with torch.no_grad():
    without = task.metrics(loose(unseen.x)[0], unseen.y)
print(
    f"whole sequences with the rule {live['sequence_accuracy']:.1%}, without {without['sequence_accuracy']:.1%}"
)
assert without["sequence_accuracy"] <= live["sequence_accuracy"] + 0.01

# Exercise 4: the most frequent hull of 5 points, out of 3,000, stays below the bound of 1/20.
_, truth = HullTask(5).batch(3000, torch.Generator().manual_seed(seed))
_, frequency = truth[:, :, 0].unique(dim=0, return_counts=True)
assert frequency.max().item() / 3000 < HullTask(5).baselines()["accuracy"] + 0.02
