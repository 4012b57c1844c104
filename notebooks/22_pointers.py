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
# Attention was first used to translate: while it writes, the decoder looks back at the source, and where
# it looks is an *alignment* of the two sentences. The weights are a means there; they blend something, and
# are forgotten. A pointer network stops half-way and takes the distribution itself as
# the answer. At the end of this chapter you have trained both: an encoder-decoder that reads dates and shows what it looks at, and a
# network that sorts numbers and finds convex hulls by pointing. You know what attention spares the encoder,
# how a sequence is decoded greedily and with a beam, and which problems ask for pointers.

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
import decimal
import itertools
import math

import torch

from sab import notebook
from sab.analysis import scores, translation
from sab.experiments import records
from sab.experiments.records import Record
from sab.experiments.weights import load_model
from sab.figures import learning_curve
from sab.figures.attention import pointers, weight_matrices
from sab.figures.style import COLOURS, new_figure, style, with_alt
from sab.models.decoding import beam, greedy
from sab.models.pointer import Pointer, PointerConfig
from sab.models.seq2seq import BEGIN, END, Seq2Seq, Seq2SeqConfig
from sab.notebook import glue, read_or_run, show, show_table
from sab.ops.scores import additive
from sab.tasks.dates import FORMATS, SOURCE, TARGET, DatesTask
from sab.tasks.hull import HullTask, area, convex_hull, is_simple
from sab.tasks.sorting import SortingTask
from sab.tasks.symbols import padded

notebook.parameters(profile, seed)
device = notebook.setup(seed)

# %% [markdown]
# ## A whole sentence in one vector
#
# How do you answer a sequence with another sequence, if the two have different lengths and orders? The first neural translators had two recurrent networks
# {cite:p}`cho2014learning,sutskever2014sequence`. The *encoder* reads the source, and its last state is handed over. The *decoder* starts from it and writes the target, one word a step, told the word
# it wrote before. Everything that the decoder will ever know of the source has to fit in that one vector, whether the source has five
# words or fifty. That is chapter 20's question of *network capacity* in its purest form.
#
# Bahdanau and colleagues {cite:p}`bahdanau2015neural` kept all the encoder's states and let the decoder look: at each step, its own state is the query.
#
# ## The decoder looks back
#
# A GRU reads the source both ways, so that a state $\boldsymbol e_n$ knows what stands on either side of its symbol. The decoder, a GRU with states
# $\boldsymbol h_m$, does at each step $m$:
#
# $$
# \begin{aligned}
# s_{m,n} &= \boldsymbol v^\top \tanh(\boldsymbol W \boldsymbol e_n + \boldsymbol U \boldsymbol h_{m-1}), \qquad
# \alpha_{m,n} = \mathrm{softmax}_n(s_{m,n}), \qquad
# \boldsymbol c_m = \textstyle\sum_n \alpha_{m,n} \boldsymbol e_n, \\
# \boldsymbol h_m &= \mathrm{GRU}\big([\boldsymbol y_{m-1}; \boldsymbol c_m],\, \boldsymbol h_{m-1}\big), \qquad
# p(y_m \mid y_{1:m-1}, x) = \mathrm{softmax}\big(f(\boldsymbol h_m, \boldsymbol c_m, \boldsymbol y_{m-1})\big) .
# \end{aligned}
# $$ (eq-seq2seq)
#
# The context $\boldsymbol c_m$ is new at every step: it holds what *this* word needs. Here is the first step of an untrained network, recomputed line by line.
# The two sources have different lengths. The shorter one is padded, and the padding gets weight zero.

# %%
date_task = DatesTask()
torch.manual_seed(seed)
reader = Seq2Seq(Seq2SeqConfig(date_task.input_size, date_task.output_size, 24, 40, longest=11))
sources = ["3 March 1987", "Tuesday the 3rd of March 1987"]
x = padded([SOURCE.encode(text) for text in sources])
with torch.no_grad():
    read = reader.encode(x)
    first_step = reader.step(torch.full((2,), BEGIN), read.state, read)
    first_scores = additive(read.states, read.state, reader.w.weight, reader.u.weight, reader.v)
    alpha = torch.softmax(first_scores.masked_fill(~read.keep, -torch.inf), 1)
    c = (alpha[:, :, None] * read.states).sum(1)
    told = reader.embed_target(torch.full((2,), BEGIN))
    h = reader.cell(torch.cat([told, c], 1), read.state)
assert torch.allclose(first_step.weights, alpha, atol=1e-6)
assert torch.allclose(first_step.state, h, atol=1e-6)
assert (first_step.weights[0, len(sources[0]) :] == 0).all()

# %% [markdown]
# ## The smallest translation: dates
#
# "Tuesday the 3rd of March 1987" becomes "1987-03-03". It is a translation in earnest: the order changes, a month's name becomes two digits, a lone digit gets a
# zero, and the weekday falls away. And unlike with sentences, we *know* what each output character depends on. The sources come in these formats:

# %% tags=["hide-input"]
examples = date_task.texts("test", torch.arange(40))
shown: dict[int, tuple[str, str]] = {}
for i, pair in enumerate(examples):
    shown.setdefault((i % len(FORMATS)), pair)
show_table(
    ["source", "target"],
    [shown[i] for i in range(len(FORMATS))],
    caption="One date in each format. Days of the test part never occur in training, in any format.",
)

# %% [markdown]
# The decoder is trained with *teacher forcing*: each step is told the right characters before it, so that all steps are
# trained at once. When it is judged it is told its own. A hundred-odd updates are enough.

# %%
optimiser = torch.optim.Adam(reader.parameters(), lr=0.01)
source_of_dates = torch.Generator().manual_seed(seed)
unseen_dates = date_task.take("test", torch.arange(500))
early: dict[str, torch.Tensor] = {}
for update in range(120):
    if update == 40:
        early = {name: value.clone() for name, value in reader.state_dict().items()}
    x, y = date_task.batch(48, source_of_dates)
    loss = date_task.loss(reader(x, date_task.teacher(y))[0], y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
    optimiser.step()
with torch.no_grad():
    live_dates = date_task.metrics(reader(unseen_dates.x)[0], unseen_dates.y)
glue("live_dates", live_dates["accuracy"])
first_dates = read_or_run("dates_short", profile)
glue("first_dates", scores.told(first_dates, "accuracy", 100))
glue("first_dates_seeds", len(first_dates))

# %% tags=["nbval-check-output"]
print("whole dates right, above 90 %:", live_dates["accuracy"] > 0.9)

# %% [markdown]
# {glue:text}`live_dates:.1%` of 500 unseen days come out right as a whole (one seed, trained in this page; {glue:text}`first_dates` % with
# the {glue:text}`first_dates_seeds` seeds of `sab run dates_short`, the same training on record). Nobody told the network which part of the source is the month. Where does it look?

# %%
which = next(i for i, (text, answer) in enumerate(examples) if " the " in text and answer[5] == "0")
text, answer = examples[which]
x = padded([SOURCE.encode(text)])
y = padded([[*TARGET.encode(answer), END]])
with torch.no_grad():
    _, _, looked = reader(x, y, return_weights=True)
show(
    weight_matrices(
        looked[0],
        rows=[*answer, "end"],
        columns=[character if character != " " else "␣" for character in text],
        ylabel="written",
        xlabel="source character",
        numbers=False,
    ),
    caption=f"The alignment of “{text}” with {answer}. Each row is one step of the decoder, from top to bottom.",
)

# %% [markdown]
# Read it from top to bottom. For the year the decoder goes along the year's digits, near the end of the source; then it jumps to the month's name, and then
# to the day. It need not look at a symbol itself: a bidirectional state beside it knows it as well, so the peak may stand one or two places off. An alignment
# is where the network looks, which is not quite the same as what the answer depends on.
#
# ## What attention spares the encoder
#
# The records compare with the same network without a look back: its decoder is given one vector, the encoder's last states, at every step.

# %%
dates = read_or_run("dates", profile)
titles = {"attention": "looks back", "one_vector": "one vector"}


def trained_for(found: list[Record]) -> str:
    """How many updates of how many sequences, as the records say."""
    updates = sorted({record.config["train"]["updates"] for record in found})
    sizes = sorted({record.config["train"]["batch_size"] for record in found})
    return " or ".join(f"{n:,}" for n in updates) + " updates of " + " or ".join(map(str, sizes))


show_table(
    ["decoder", "seed", "whole dates", "characters", "parameters", "minutes"],
    [
        (
            titles[record.row],
            str(record.seed),
            f"{record.metrics['accuracy']:.1%}",
            f"{record.metrics['character_accuracy']:.1%}",
            f"{record.metrics['parameters']:,.0f}",
            f"{record.seconds / 60:.1f}",
        )
        for record in dates
    ],
    caption=f"Unseen days, after {trained_for(dates)} dates.",
    source=dates,
)
show(
    learning_curve(
        {
            titles[row]: [r for r in dates if r.row == row]
            for row in titles
            if any(r.row == row for r in dates)
        },
        chance=date_task.baselines()["accuracy"],
    ),
    caption="Share of whole dates right, held-out days. Guessing a day gets practically nothing.",
    source=dates,
)


def mean(row: str, metric: str) -> float:
    """Mean of a metric over the seeds of a row."""
    values = [record.metrics[metric] for record in dates if record.row == row]
    return sum(values) / len(values)


glue("attention_dates", mean("attention", "accuracy"))
glue("vector_dates", mean("one_vector", "accuracy"))

# %% [markdown]
# With a look back {glue:text}`attention_dates:.1%` of the whole dates are right, with one vector {glue:text}`vector_dates:.1%`, after the same updates. The single vector has room
# enough for a date, of which there are few. What it lacks is a way to find a thing *in* the source: it has to learn to carry each digit
# from its place through every state behind it, the encoder's and the decoder's.
#
# ## Choosing words: greedy and with a beam
#
# The network gives a probability to each answer. Which answer is the likeliest? Trying all is out of the question. *Greedy* decoding takes the likeliest symbol
# at each step and never regrets it. A *beam* keeps the best few beginnings, extends each by every symbol, and keeps the best few of those. We compare them on the live network
# as it was after 40 updates, when it was still unsure.

# %%
young = Seq2Seq(reader.config)
young.load_state_dict(early)
widths = (1, 2, 4, 8)
searched = {width: beam(young, unseen_dates.x, width) for width in widths}
single = greedy(young, unseen_dates.x)
assert torch.equal(searched[1].symbols, single.symbols)  # a beam of one is greedy
for width in widths:
    assert (searched[width].scores >= single.scores - 1e-6).all()


def whole_dates(symbols: torch.Tensor) -> float:
    """Share of answers that are right from the first character to the end."""
    return (symbols == unseen_dates.y).all(1).float().mean().item()


show_table(
    ["width", "mean log-probability (nats)", "likelier than greedy's", "whole dates right"],
    [
        (
            str(width),
            f"{found.scores.mean().item():.2f}",
            f"{(found.scores > single.scores + 1e-5).float().mean().item():.1%}",
            f"{whole_dates(found.symbols):.1%}",
        )
        for width, found in searched.items()
    ],
    caption="Beams of the network after 40 updates, 500 unseen days.",
)

# %% [markdown]
# A wider beam finds likelier answers. Whether they are *better* answers is another question: search can only find what the
# network believes. Two details matter in practice. Log-probabilities only fall as an answer grows, so short answers win; one divides by a power
# of the length. And a plain beam may lose the greedy answer, whose beginning can fall out of it, and end with a worse one; ours
# lets the greedy answer take part at the end.
#
# ## Real sentences: Multi30k
#
# The same class translates captions of images from English to German, from 29,000 pairs {cite:p}`elliott2016multi30k`. This needs the data
# (`sab data fetch multi30k`) and is not run in this chapter. Quality is measured as BLEU {cite:p}`papineni2002bleu`: how many runs of one to four words of the
# answer also stand in a reference, with a penalty for answers that are too short. Small differences in how words are split move it, so it is computed
# by one program that says what it did, `sacrebleu` {cite:p}`post2018call`.

# %%
captions = records.load("multi30k", profile="cpu")
paths = [translation.path_of(r.experiment, r.row, r.profile, r.seed) for r in captions]
written = [translation.read(path) for path in paths if path.is_file()]
scored = [item for item in written if item["bleu"]]

# %% tags=["hide-input"]
told_of_captions = "There is no record of this run yet; `sab run multi30k` makes it."
if captions:
    record = captions[0]
    nats = record.metrics["nats"]
    guesses = record.config["model_config"]["output_size"] - 2  # padding and beginning have -inf
    told_of_captions = (
        f"The committed run (seed {record.seed}, {record.seconds / 60:.0f} minutes) saw the training part {record.metrics['epochs']:.1f} times, without the pairs of "
        f"more than {record.config['task_config']['longest']} words in either language: {record.config['data']}. Told the right words before it, it gives the next word of the "
        f"test part {nats:.2f} nats (a perplexity of {math.exp(nats):.1f}; an even guess has {guesses:,}: the words, the end, and one symbol for all unknown words) "
        f"and has {record.metrics['accuracy']:.0%} of the words right."
    )
if scored:
    bleu = scored[0]["bleu"]
    told_of_captions += (
        f" On its own it reaches BLEU {bleu['greedy']:.1f} greedily and {bleu['beam']:.1f} with a beam of {scored[0]['width']} "
        f"({scored[0]['signature']}). An unknown word in an answer counts as an error there."
    )
elif captions:
    told_of_captions += (
        " Its BLEU has not been computed yet; `sab translate multi30k --row attention` does."
    )
glue("told_of_captions", told_of_captions)
if captions:
    show(
        learning_curve(
            {"held-out sentences": captions},
            metric="nats",
            ylabel="cross-entropy (nats a word)",
        ),
        caption=f"Multi30k, {captions[0].config['task_config']['words']:,} words per language: cross-entropy on the validation part.",
        source=captions,
    )
if written:
    sentences = written[0]["sentences"]
    show_table(
        ["English (ours)", "greedy", "beam"],
        [
            (" ".join(one.source), one.text, other.text)
            for one, other in zip(sentences["greedy"], sentences["beam"], strict=True)
        ],
        caption="Four sentences in the manner of the captions, none of them from the data set.",
        source=captions,
    )
    first_sentence = sentences["beam"][0]
    show(
        weight_matrices(
            first_sentence.weights,
            rows=[*first_sentence.answer, "end"][: len(first_sentence.weights)],
            columns=first_sentence.source,
            ylabel="German",
            xlabel="English",
            numbers=False,
        ),
        caption="The alignment of the first of them.",
        source=captions,
    )

# %% [markdown]
# {glue:text}`told_of_captions`
#
# The same look back writes captions from pictures: the source is then a grid of image regions, and the alignment shows which region each word came from
# {cite:p}`xu2015show`.
#
# ## Answers that are positions
#
# Sort five numbers. The answer is a rearrangement of the *input*: "the third, then the first, …". Or name the corners of the convex hull of a cloud of
# points: the answer is a list of points that were given. A network with a fixed set of output classes has a difficulty with this. How many
# classes? As many as there are inputs, and that changes from case to case.
#
# Attention has just the right shape. Its distribution over the inputs has as many entries as there are inputs. In {eq}`eq-seq2seq` it was
# a *soft alignment*: with which source symbol does this target symbol go? Here it is the answer {cite:p}`vinyals2015pointer`.
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
first_sorts = read_or_run("sorting_short", profile)
glue("first_sorts", scores.told(first_sorts, "sequence_accuracy", 100))
glue("first_sorts_seeds", len(first_sorts))
glue("chance_sequences", task.baselines()["sequence_accuracy"])

# %% tags=["nbval-check-output"]
print("right pointers, above 90 %:", live["accuracy"] > 0.9)

# %% [markdown]
# {glue:text}`live_accuracy:.1%` of the pointers are right, and {glue:text}`live_sequences:.1%` of the sequences as a whole (one seed, trained in this page;
# {glue:text}`first_sorts` % with the {glue:text}`first_sorts_seeds` seeds of `sab run sorting_short`, which keeps the weights that were best on held-out
# numbers, not the last ones). A guess that has not seen the
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
# The committed runs have {glue:text}`sort_units` units and {glue:text}`sort_updates` sequences.

# %%
sorting = read_or_run("sorting", profile)
glue("sort_units", " or ".join({str(r.config["model_config"]["hidden_size"]) for r in sorting}))
glue("sort_updates", trained_for(sorting))


def by_row(records: list[Record], metric: str) -> dict[str, list[float]]:
    """Values of a metric by row, one per seed."""
    rows: dict[str, list[float]] = {}
    for record in records:
        rows.setdefault(record.row, []).append(record.metrics[metric])
    return rows


def numbers_of(row: str) -> int:
    """How many numbers a row sorts."""
    return int(row.removeprefix("pointer_N"))


def per_cent(share: float) -> str:
    """One digit that counts, however small."""
    return f"{decimal.Decimal(f'{100 * share:.1g}'):f} %"


single, wholes = by_row(sorting, "accuracy"), by_row(sorting, "sequence_accuracy")
show_table(
    ["numbers", "right pointers", "whole sequences", "guessing a sequence", "minutes"],
    [
        (
            str(numbers_of(row)),
            ", ".join(f"{v:.1%}" for v in single[row]),
            ", ".join(f"{v:.1%}" for v in wholes[row]),
            per_cent(SortingTask(numbers_of(row)).baselines()["sequence_accuracy"]),
            ", ".join(f"{r.seconds / 60:.1f}" for r in sorting if r.row == row),
        )
        for row in sorted(single, key=numbers_of)
    ],
    caption="Sorting on unseen sequences, one number per seed.",
    source=sorting,
)
show(
    learning_curve(
        {
            f"{numbers_of(row)} numbers": [r for r in sorting if r.row == row]
            for row in sorted(single, key=numbers_of)
        },
        chance=1 / 5,
    ),
    caption="Share of right pointers while training. The line is chance for five numbers; for ten it is half of that.",
    source=sorting,
)
first_looks = [r.history[1] for r in sorting if numbers_of(r.row) == 5]
glue("first_look", first_looks[0]["update"])
glue("first_look_right", sum(entry["accuracy"] for entry in first_looks) / len(first_looks))

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
show(
    fig,
    caption="Ten points and their true hull, computed, not learned. The answer is the list of its corners' numbers.",
)
assert is_simple(polygon) and area(polygon) < 1

# %% [markdown]
# A wrong answer can be nearly right: one corner left out costs a sliver of area. So two things are measured: whether the whole list is right, and what share of the true
# hull's *area* the answer covers. An answer whose edges cross, or that has fewer than three corners, is invalid and covers nothing.


# %%
def points_of(record: Record) -> int:
    """Points of a run's clouds."""
    return int(record.config["task_config"]["length"])


hull = sorted(read_or_run("hull", profile), key=lambda record: (points_of(record), record.seed))
show_table(
    [
        "points", "seed", "whole hull right", "area covered", "invalid answers",
        "bound for a fixed answer", "minutes",
    ],
    [
        (
            str(points_of(record)),
            str(record.seed),
            *(f"{record.metrics[name]:.1%}" for name in ("accuracy", "area", "invalid")),
            f"{HullTask(points_of(record)).baselines()['accuracy']:.2%}",
            f"{record.seconds / 60:.0f}",
        )
        for record in hull
    ],
    caption="Convex hulls of unseen point sets, one line per run.",
    source=hull,
)  # fmt: skip
for points in (5, 10):
    mine = [record for record in hull if points_of(record) == points]
    for name in ("accuracy", "area"):
        glue(f"hull_{name}_{points}", scores.mean(mine, name))

# %% tags=["hide-input"]
# Answers of a trained network, where its weights are here.
pointer_net, drawn = None, hull[-1]
for drawn in reversed(hull):  # most points first
    try:
        pointer_net, made = load_model("hull", drawn.row, drawn.profile, drawn.seed)
        break
    except FileNotFoundError:
        continue
if pointer_net is not None and made.resolved() == drawn.config:
    hull_task = HullTask(points_of(drawn))
    clouds, truth_of = hull_task.batch(2000, torch.Generator().manual_seed(seed + 8))
    with torch.no_grad():
        named = hull_task.corners(pointer_net(clouds)[0])
    hulls = [convex_hull(points[:-1, :2].tolist()) for points in clouds]
    right = [answer == true for answer, true in zip(named, hulls, strict=True)]
    picked = {"right": right.index(True), "wrong": right.index(False)}
    with style():
        fig, axes = new_figure(7.0, 3.2, columns=2)
        for ax, (title, i) in zip(axes[0], picked.items(), strict=True):
            points = clouds[i, :-1, :2].tolist()
            for corners, colour, dashes in (
                (hulls[i], COLOURS["kept"], "--"),
                (named[i], COLOURS["gradient"], "-"),
            ):
                outline = [points[k] for k in [*corners, *corners[:1]]]
                ax.plot(*zip(*outline, strict=True), color=colour, ls=dashes)
            ax.plot(*zip(*points, strict=True), "o", color=COLOURS["text"])
            for k, point in enumerate(points, start=1):
                ax.annotate(str(k), point, xytext=(5, 3), textcoords="offset points")
            ax.set(title=title, xlabel="first coordinate", ylabel="second coordinate")
            ax.set(xlim=(-0.05, 1.08), ylim=(-0.05, 1.08), aspect="equal")
    with_alt(
        fig,
        "Two clouds of points, each with its true hull dashed and the network's answer solid. "
        + "; ".join(
            f"{title}: answer {[k + 1 for k in named[i]]}, truth {[k + 1 for k in hulls[i]]}"
            for title, i in picked.items()
        ),
    )
    show(
        fig,
        caption="A right and a wrong answer of the trained network. Dashed: the true hull.",
        source=drawn,
    )

# %% [markdown]
# With five points the whole list is right in {glue:text}`hull_accuracy_5:.1%` of the cases, and {glue:text}`hull_area_5:.1%` of the area is covered; with ten it is
# {glue:text}`hull_accuracy_10:.1%` and {glue:text}`hull_area_10:.1%`. A longer list is right less often as a whole; what it misses costs no more area. Sorting needs a comparison of two numbers; a corner depends on all points at once. It
# is the harder problem for the same network.
#
# ## What surprised us
#
# - With a look back, dates are learned within a hundred updates or so, from a small part of the training pairs.
# - The date reader writes the 30th of February without hesitation (exercise 6): it has learned an alignment and a spelling, not a calendar.
# - Sorting five numbers is learned early: at the first look, after {glue:text}`first_look` updates, {glue:text}`first_look_right:.0%` of the pointers are right. What takes the
#   rest of the training is *resolution*.
# - Because what is taken may not be taken again, the last pointer is always right if all others are: it has one choice left.
# - Take the rule "taken is taken" back after training, and hardly a sequence is sorted (exercise 3). Trained with the rule, the
#   network never had to learn not to repeat itself.
# - The live network has only seen five numbers, and most of its pointers are right for ten (exercise 2).
#
# ## What it took
#
# The live networks take some seconds each on one core, one seed each. The minutes of the longer runs stand beside them.
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
#
# **5.** Put ten more padding symbols behind every source. What changes, and why exactly that much?
#
# :::{dropdown} Solution
# Nothing. Padding gets attention weight zero; the encoder's way back starts at the last real symbol; and the first decoder state is the encoder's at the first symbol.
# :::
#
# **6.** Ask the date reader for what it never saw: another order of day, month and year, lower case, the 30th of February. Which of them does it get right?
#
# **7.** Change the month's name in the source, leaving all else. Which written characters change? Compare with where the alignment looked.
#
# :::{dropdown} Solution
# Those of the month, and hardly any other: what an answer *depends on* is better seen by changing the source than by looking at the weights.
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

# Exercise 5.
with torch.no_grad():
    once = reader(unseen_dates.x)[0]
    more = reader(torch.nn.functional.pad(unseen_dates.x, (0, 10)))[0]
assert torch.allclose(once, more, atol=1e-5)

# Exercise 6.
strange = ["1987, March 3", "the 3rd of March 1987", "tuesday 3 march 1987", "30 February 1999"]
asked = greedy(reader, padded([SOURCE.encode(text) for text in strange]))
for text, symbols, score in zip(strange, asked.symbols.tolist(), asked.scores, strict=True):
    print(f"{text:24} {''.join(TARGET.decode(symbols)):12} log-probability {score.item():.2f}")

# Exercise 7: of each written character, how often it changes with the month's name.
pairs = [(f"{d} {m} 2001", f"{d} {n} 2001") for d in (5, 17, 28) for m, n in (("May", "July"), ("June", "March"), ("August", "October"))]  # fmt: skip
before, after = (
    greedy(reader, padded([SOURCE.encode(pair[k]) for pair in pairs])).symbols for k in (0, 1)
)
moved = (before != after).float().mean(0)
print("share of answers in which a character changes:", [f"{v:.0%}" for v in moved.tolist()])
assert moved[5:7].max() > 0.5 > moved[[0, 1, 2, 3, 4, 7]].max()
