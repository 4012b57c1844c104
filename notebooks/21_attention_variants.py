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
# # 21. Variants of attention
#
# [Chapter 20](20_attention.ipynb) read a weighted mean of the very vectors it had scored. Each part
# of that can be changed. At the end of this chapter you know what is gained by scoring one thing and
# reading another, by asking several questions at once, and by reading one entry instead of a mean;
# and what the last one costs, because a choice has no derivative. It is a question that SAB answers
# in a way of its own.

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
from torch import nn

from sab import notebook
from sab.analysis.scores import by_row, mean, told
from sab.experiments import tables
from sab.experiments.records import Record
from sab.figures.attention import weight_matrices
from sab.figures.learning import learning_curve
from sab.models.lookup import LookupConfig, LookupModel
from sab.models.multi_head import MultiHead
from sab.notebook import glue, read_or_run, show, show_table
from sab.ops.attention import (
    argmax_read,
    attention_weights,
    reinforce_loss,
    sampled_read,
    scaled_dot_product,
    soft_read,
)
from sab.ops.scores import dot
from sab.ops.sparse_weights import sparse_weights
from sab.tasks.lookup import LookupTask

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## Keys and values
#
# What makes an entry *findable* need not be what is *wanted* from it. A library is searched by title and
# author; what one takes home is the book. So give each entry two vectors, a **key** to be scored and a
# **value** to be read:
#
# $$
# \mathrm{att}\big((\boldsymbol K, \boldsymbol V), \boldsymbol q\big) = \sum_{n=1}^{N}
# \mathrm{softmax}_n\big(s(\boldsymbol k_n, \boldsymbol q)\big)\, \boldsymbol v_n .
# $$ (eq-key-value)
#
# With $\boldsymbol K = \boldsymbol V$ it falls back to plain attention. In code nothing new is needed: score
# the keys, read the values.

# %%
keys = torch.tensor([[[3.0, 0.0], [0.0, 3.0], [-3.0, 0.0]]])
values = torch.tensor([[[10.0], [20.0], [30.0]]])
question = torch.tensor([[0.0, 2.0]])
read = soft_read(dot(keys, question), values)
plain = soft_read(dot(keys, question), keys)

# %% tags=["nbval-check-output"]
print("weights:", [round(v, 3) for v in read.weights[0].tolist()])
print("value read:", round(read.output.item(), 2))
print("keys read instead (plain attention):", [round(v, 2) for v in plain.output[0].tolist()])

# %% [markdown]
# The values may have any width, and they may be of another kind: pixels, class labels, addresses. The
# task of this chapter is of that sort. There are twelve entries. Each has a random key of width 8; its
# value is a class, and the classes are dealt out at random. The question is the key of one entry,
# turned by a rotation that the model does not know, and blurred. So it has to learn one matrix, the
# bilinear score's: $s(\boldsymbol k, \boldsymbol q) = \boldsymbol k^\top \boldsymbol W \boldsymbol q$.

# %%
task = LookupTask(items=12, width=8, noise=0.3)
test = task.draw(2000, torch.Generator().manual_seed(seed + 99))
chance = task.baselines()["accuracy"]


torch.manual_seed(seed)
soft_model = LookupModel(LookupConfig(width=8))
optimiser = torch.optim.Adam(soft_model.parameters(), lr=0.01)
source = torch.Generator().manual_seed(seed)
for _ in range(200):
    loss = soft_model.loss(*task.draw(64, source))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
with torch.no_grad():
    answers = soft_model(test.keys, test.values, test.query).output.argmax(1)
glue("soft_accuracy", (answers == test.label).float().mean().item())
glue("lookup_chance", chance)

# %% [markdown]
# Soft attention learns it by the chain rule, in a second: {glue:text}`soft_accuracy:.1%` where guessing gets
# {glue:text}`lookup_chance:.1%` (one seed, trained in this page). The blur leaves some questions undecidable.
#
# ## Hard attention: a choice
#
# A mean is not always what one wants. The mean of two plausible places in a picture may be a third, where
# there is nothing. **Hard attention** reads one entry: the most probable,
#
# $$
# \hat n = \arg\max_n \alpha_n ,
# $$
#
# or one *drawn* from the attention distribution. Both are one call.

# %%
scores = torch.tensor([[2.0, 1.0, 0.5, 1.8]])
boxes = torch.eye(4)[None]
certain = argmax_read(scores, boxes)
source = torch.Generator().manual_seed(seed)
drawn = [sampled_read(scores, boxes, generator=source).chosen.item() for _ in range(2000)]
frequency = torch.bincount(torch.tensor(drawn), minlength=4) / 2000

# %% tags=["nbval-check-output"]
print("weights:       ", [f"{v:.2f}" for v in attention_weights(scores)[0].tolist()])
print("argmax takes:   entry", certain.chosen.item() + 1)
print("drawn, shares: ", [f"{v:.2f}" for v in frequency.tolist()])

# %% [markdown]
# The trouble is in training. Move a score a little, and the entry that is read stays the same: the derivative
# is zero. Move it more, and the read jumps: there is none. The chain rule ends at the choice.

# %%
s = scores.clone().requires_grad_()
hard = argmax_read(s, boxes)
assert not hard.output.requires_grad  # nothing leads back to the scores
assert hard.log_probability.requires_grad  # but how likely the choice was is a smooth function

# %% [markdown]
# ### Learning by trial and error
#
# What does have a derivative is the *expected* reward. Let $r_n$ be the reward when entry $n$ is read, here 1 if it
# has the right class. Then, since $\nabla \alpha_n = \alpha_n \nabla \ln \alpha_n$,
#
# $$
# \nabla \sum_n \alpha_n r_n = \sum_n \alpha_n\, r_n \nabla \ln \alpha_n
#   = \mathbb E_{n \sim \alpha}\big[\, r_n\, \nabla \ln \alpha_n \big] .
# $$ (eq-reinforce)
#
# The right side is a mean over draws, so it can be estimated from draws: read one entry, see the reward, and push
# up the log-probability of what was done in proportion. This is REINFORCE {cite:p}`williams1992simple`; it was used to train
# hard attention for captions {cite:p}`xu2015show`. Subtracting a **baseline** $b$ that does not depend on the draw changes no
# expectation, because $\mathbb E[\nabla \ln \alpha_n] = \nabla \sum_n \alpha_n = 0$. It can change the variance a great deal.
#
# With twelve entries the exact gradient can be computed by enumeration. So we can look at the
# estimate's error instead of believing in it.

# %%
one = task.draw(1, torch.Generator().manual_seed(seed))
torch.manual_seed(seed)
logits = torch.randn(12)
rewards = 10 + one.values[0, :, one.label[0]]  # 11 for the right entry, 10 for all others
leaf = logits.clone().requires_grad_()
exact = torch.autograd.grad((attention_weights(leaf) * rewards).sum(), leaf)[0]


def estimates(baseline: float, draws: int = 4000) -> torch.Tensor:
    """Gradient estimates (draws, 12) from one draw each."""
    rows = logits.expand(draws, 12).clone().requires_grad_()
    source = torch.Generator().manual_seed(seed + 1)
    read = sampled_read(rows, rewards.expand(draws, 12)[..., None], generator=source)
    loss = reinforce_loss(read.log_probability, read.output[:, 0], baseline)
    return -draws * torch.autograd.grad(loss, rows)[0]


spread = {}
for name, baseline in (
    ("none", 0.0),
    ("mean reward", float((attention_weights(logits) * rewards).sum())),
):
    each = estimates(baseline)
    error = (each.mean(0) - exact).norm() / exact.norm()
    spread[name] = (error.item(), each.var(0).sum().sqrt().item() / exact.norm().item())
show_table(
    ["baseline", "error of the mean of 4,000 draws", "spread of a single draw"],
    [(name, f"{e:.0%}", f"{v:.0f} ×") for name, (e, v) in spread.items()],
    caption="The estimate of the gradient, in units of the exact gradient's length. Rewards are 10 and 11.",
)
assert spread["mean reward"][1] < spread["none"][1] / 5

# %% [markdown]
# Adding 10 to every reward changes nothing about the problem, and nearly everything about the estimate: without a
# baseline each draw says "well done", and only the slight differences between the praises teach. Now the look-up
# itself. The reward is 1 for the right entry and 0 for another; or 11 and 10. The baseline is the running mean of
# the rewards. Each way was trained with three seeds, 200 updates of 64 questions.

# %%
found = by_row(read_or_run("lookup", profile))
plan = tables.find("lookup")
titles = {row.name: row.title for row in plan.rows if row.name in found}
show(
    learning_curve({title: found[name] for name, title in titles.items()}, chance=chance),
    caption="The same question, the same model, the same rate: by the chain rule, and by trial and error.",
    source=[record for mine in found.values() for record in mine],
)


# %%
def reached(record: Record, level: float) -> int | None:
    """Updates until the held-out accuracy is there; None where it never is."""
    return next((e["update"] for e in record.history if e["accuracy"] >= level), None)


level = 0.8 * mean(found["soft"], "accuracy")
reach = {name: [reached(record, level) for record in mine] for name, mine in found.items()}
show_table(
    ["trained", "right at the end, %", f"updates to {level:.0%}", "seconds"],
    [
        (
            title,
            told(found[name], "accuracy", 100, 1),
            ", ".join("not" if n is None else str(n) for n in reach[name]),
            ", ".join(f"{record.seconds:.1f}" for record in found[name]),
        )
        for name, title in titles.items()
    ],
    caption="2,048 unseen questions. Updates and seconds: a number per seed.",
    source=[record for mine in found.values() for record in mine],
)
glue("reach_level", level)
for short, name in (("soft", "soft"), ("plain", "hard_plain"), ("base", "hard_base")):
    taken = [n for n in reach.get(name, []) if n is not None]
    glue(f"reached_{short}", sum(taken) / max(1, len(taken)))
glue("end_none", mean(found["hard_none"], "accuracy"))
if profile != "smoke":
    assert all(n is not None for name in ("soft", "hard_plain", "hard_base") for n in reach[name])
    assert all(n is None for n in reach["hard_none"])

# %% [markdown]
# Eighty per cent of the soft models' accuracy ({glue:text}`reach_level:.0%`) takes {glue:text}`reached_soft:.0f` updates by the chain rule,
# {glue:text}`reached_plain:.0f` by trial and error (means over seeds). With rewards of 10 and 11 it takes {glue:text}`reached_base:.0f` with a baseline;
# without one the models stand at {glue:text}`end_none:.0%` when the runs end. For rewards of 0 and 1 no
# baseline was needed: most draws are wrong, pay nothing and teach nothing. This task is kind to trial and
# error: twelve choices, and a reward right after the choice. A chain of choices with one reward at the
# end is another matter.
#
# Here is what the soft model's weights look like. After training soft attention is nearly hard by itself: the scores grow
# until the softmax decides.

# %%
with torch.no_grad():
    weights = soft_model(test.keys, test.values, test.query).weights
show(
    weight_matrices(weights[:8], ylabel="question", xlabel="entry", numbers=False),
    caption="Eight questions to the trained soft model. Each row sums to one.",
)
glue("largest_weight", weights.amax(1).mean())

# %% [markdown]
# On average the largest of twelve weights is {glue:text}`largest_weight:.2f`.
#
# ### SAB: between soft and hard
#
# Hard attention has a choice and no gradient; soft attention has a gradient and no choice. SAB's rule
# ([chapter 6](06_sparse_retrieval.ipynb)) has some of both. It reads at most $k_{\mathrm{top}}$ entries, the weights of the
# others are exactly zero, and *within* the selection the derivative exists. It needs no draws, thus no baseline.

# %%
kinds = torch.cat(
    [
        attention_weights(scores),
        sparse_weights(scores, k_top=2).dense(4),
        argmax_read(scores, boxes).output,
    ]
)
names = ["soft", "SAB, k_top = 2", "hard (argmax)"]
show(
    weight_matrices(kinds, rows=names, ylabel="rule", xlabel="entry"),
    caption="The same four scores under three rules. Blank is exactly zero.",
)

# %% [markdown]
# ## Several questions at once
#
# One softmax read is one mean. If a step needs *two* things, the subject and the verb, say, one read has to blend them. With
# several queries $\boldsymbol q_1 \dots \boldsymbol q_M$ each reads by itself, and the results are put side by side:
#
# $$
# \mathrm{att}\big((\boldsymbol K, \boldsymbol V), \boldsymbol Q\big) =
# \mathrm{att}\big((\boldsymbol K, \boldsymbol V), \boldsymbol q_1\big) \oplus \dots \oplus
# \mathrm{att}\big((\boldsymbol K, \boldsymbol V), \boldsymbol q_M\big) .
# $$ (eq-multi-head)
#
# Suppose that entries 1 and 3 below are both wanted. A single query can at best point half-way between them. Its read has
# 20 in it, which is what entry 2 would have said.

# %%
halfway = torch.tensor([[[0.0, 0.0]]])  # equally far from keys 1 and 3, which are opposite
two = torch.tensor([[[2.0, 0.0], [-2.0, 0.0]]])  # one query each
single = scaled_dot_product(halfway, keys, values)
double = scaled_dot_product(two, keys, values)

# %% tags=["nbval-check-output"]
print("one query: ", [round(v, 1) for v in single.output.flatten().tolist()])
print("two queries:", [round(v, 1) for v in double.output.flatten().tolist()])

# %% [markdown]
# In a Transformer each **head** has projections of its own, $\boldsymbol W_q^m, \boldsymbol W_k^m, \boldsymbol W_v^m$, to a width
# of $D / M$; the results are concatenated and mixed by $\boldsymbol W_o$ {cite:p}`vaswani2017attention`. So $M$ heads cost about as much as
# one of full width. `MultiHead` is written from the equation. PyTorch has a layer for it, and with the same weights the two agree:

# %%
torch.manual_seed(seed)
ours = MultiHead(width=12, heads=3)
theirs = nn.MultiheadAttention(12, 3, batch_first=True)
with torch.no_grad():
    for name in ("weight", "bias"):
        parts = [getattr(part, name) for part in (ours.query, ours.key, ours.value)]
        getattr(theirs, f"in_proj_{name}").copy_(torch.cat(parts))
        getattr(theirs.out_proj, name).copy_(getattr(ours.output, name))
x = torch.randn(2, 6, 12)
found = ours.read(x)
expected, spread_out = theirs(x, x, x, average_attn_weights=False)
assert torch.allclose(found.output, expected, atol=1e-6)
assert torch.allclose(found.weights, spread_out, atol=1e-6)
show(
    weight_matrices(
        {f"head {m + 1}": found.weights[0, m] for m in range(3)}, ylabel="position", xlabel="position",
        numbers=False,
    ),
    caption="Three heads of an untrained layer on the same six vectors: three different matrices.",
)  # fmt: skip

# %% [markdown]
# Do heads *have* to differ? Nothing enforces it. They start from different random projections, and that is all that breaks the symmetry.
#
# ## What surprised us
#
# - A constant added to every reward is harmless in theory and ruins the estimate in practice.
# - After training, soft attention on this task is nearly hard. What is soft is the way there.
# - More heads cost nothing in multiplications, because each is narrower. What they cost is width per question.
#
# ## What it took
#
# Four ways to train, three seeds each, 200 updates: a second a run on one core. One more is trained live.
#
# ## Exercises
#
# **1.** Show that a baseline which does not depend on the draw leaves the mean of {eq}`eq-reinforce` as it is. Give one that *does* depend on the draw
# and spoils it.
#
# :::{dropdown} Solution
# $\mathbb E[b\,\nabla\ln\alpha_n] = b \sum_n \alpha_n \nabla\ln\alpha_n = b\,\nabla \sum_n\alpha_n = b\,\nabla 1 = 0$; the first step needs $b$ to come out of
# the sum. With $b_n = r_n$ the estimate is always zero.
# :::
#
# **2.** Which constant baseline makes the variance of the estimate smallest? Is it the mean reward?
#
# :::{dropdown} Solution
# The variance is $\mathbb E[(r-b)^2 g^2]$ minus a constant, with $g = \|\nabla\ln\alpha_n\|$. Set the derivative with respect to $b$ to zero:
# $b^* = \mathbb E[r g^2] / \mathbb E[g^2]$, a mean in which draws with a large gradient count for more. The cell below compares.
# :::
#
# **3.** When does {eq}`eq-key-value` with $\boldsymbol V = \boldsymbol K$ return exactly one of the keys?
#
# **4.** A layer has width $D$ and $M$ heads. Count parameters and multiplications for $N$ positions. What depends on $M$?

# %% tags=["hide-cell"]
# Exercise 2.
weights_2 = attention_weights(logits)
score_gradients = torch.eye(12) - weights_2  # row n: gradient of ln α_n
size = score_gradients.square().sum(1)
best = ((weights_2 * rewards * size).sum() / (weights_2 * size).sum()).item()
mean_reward = (weights_2 * rewards).sum().item()


def variance(baseline: float) -> float:
    """Exact variance of one draw's estimate, summed over the twelve scores."""
    second = (weights_2 * (rewards - baseline).square() * size).sum()
    return (second - exact.square().sum()).item()


assert variance(best) <= variance(mean_reward) < variance(0.0)
measured = estimates(mean_reward).var(0).sum().item()
assert abs(measured - variance(mean_reward)) < 0.25 * variance(mean_reward)

# Exercise 3: in the limit only, as one score outgrows the others (or with a single key).
far = soft_read(dot(keys, 1000 * question), keys)
assert torch.equal(far.output[0], keys[0, 1])

# Exercise 4: four matrices of D × D with biases; 4 N D² multiplications for the projections and
# N² (D/M) M = N² D each for scores and reads. M only divides: neither count depends on it.
for heads in (1, 3, 12):
    count = sum(p.numel() for p in MultiHead(12, heads).parameters())
    assert count == 4 * (12 * 12 + 12)
