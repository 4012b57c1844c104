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
# # 33. The experiment: was the rare event there?
#
# The article has one table: full attention 82.4 %, a window 80.9 %, REA 90.2 %. At the end of this
# chapter you know what those numbers would have to be compared with, what the task tests and what it
# doesn't, and what our own runs say, at a length that two cores can train. It follows section 4.

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

from sab import notebook
from sab.analysis.scores import MISSING, by_row, lines, mean, told, values
from sab.experiments import claims, tables
from sab.experiments.evaluate import kept_mb
from sab.experiments.rows import make_run
from sab.experiments.weights import build_model
from sab.figures import accuracy_dots, curves, learning_curve
from sab.models.rea import REA, REAConfig
from sab.notebook import glue, show, show_claims, show_table
from sab.tasks.events import EventsTask

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## The recipe
#
# A log has 1,024 events of 50 types. One type is the *key*: it occurs in the first quarter only, "with
# probability 0.5 %". The rest is noise. The question: did it occur at all? We read 0.5 % as per step of the
# first quarter; the share of "yes" in its data is not given.

# %%
task = EventsTask()
x, y = task.batch(2000, torch.Generator().manual_seed(seed))  # (2000, 1024, 50), (2000, 3)
base = task.baselines()["accuracy"]
glue("base", base)
glue("sampled", y[:, 0].float().mean().item())
glue("several", (x[y[:, 0] == 1, :, 0].sum(1) > 1).float().mean().item())
glue("entropy", task.baselines()["ce"])
assert abs(base - (1 - 0.995**256)) < 1e-12

# %% [markdown]
# Before any model: how often is the answer "yes"? With $p = 0.005$ and 256 chances,
#
# $$
# P(\text{yes}) = 1 - (1 - p)^{256} .
# $$ (base-rate)
#
# That is {glue:text}`base:.1%` (in a sample of 2,000: {glue:text}`sampled:.1%`). **Who always says
# "yes" has {glue:text}`base:.1%`.** So the article's 82.4 % is not 32 points above guessing but ten, and
# its window, which cannot see across, is nearly nine above. It also calls the key event something that
# "appears only once": read like this, {glue:text}`several:.0%` of the logs that have it have it more than once.
#
# We therefore judge by **balanced accuracy**, the mean of the two classes' accuracies. Always "yes" has
# 50 % then, whatever the rate. `EventsTask(balanced=True)` is the same task with a fair coin and
# exactly one key event.
#
# ## How the answer is read decides what is tested
#
# The article does not say how its models go from 1,024 positions to one answer. There are two usual
# ways, and they are two different tasks.
#
# **From the mean of all positions.** Then no position has to remember anything. A model that looks at each
# event *by itself* can mark the key, and the mean collects the mark. Here is one made by hand, no training:

# %%
detector = REA(
    REAConfig(50, 4, 2, layers=1, attention="none", state="none", feedforward=0, norm=False,
              readout="mean")
)  # fmt: skip
with torch.no_grad():
    for parameter in detector.parameters():
        parameter.zero_()
    detector.embed.weight[0, 0] = 1.0  # channel 0: is this event the key?
    detector.readout.weight[1, 0] = 4 * task.T  # one mark in 1,024 is enough
    detector.readout.bias[1] = -2.0
    found = task.metrics(detector(x)[0], y)
glue("by_hand", found["accuracy"])
assert found["accuracy"] == 1.0

# %% [markdown]
# {glue:text}`by_hand:.0%`, with three numbers that are not zero. **Read by the mean, the task asks for no
# memory at all.** What it tests is whether training finds one feature of one event in a thousand.
#
# **From the last position.** Now the answer stands at least three quarters of the log behind the key. A
# window of 16 in two layers sees 32 steps: it is at chance, exactly. Full attention has to look back, a state
# has to hold on. That *is* the problem of the article's first section.
#
# ## What we ran

# %% tags=["hide-input"]
records = notebook.largest("rea_quick", profile)
of_row = by_row(records)
settings = records[0].config["task_config"]
length = settings["T"]
sizes = [r.metrics["parameters"] for r in records if not r.row.startswith("gru")]
glue("T", length)
glue("shorter", task.T // length)
glue("oftener", settings["rate"] / task.rate)
glue("fewest_parameters", int(min(sizes)))
glue("most_parameters", int(max(sizes)))
glue("runs", len(records))
glue("updates", records[0].config["train"]["updates"])
glue("fewest_seeds", min(len(mine) for mine in of_row.values()))

# %% [markdown]
# The same task on logs {glue:text}`shorter:d` times shorter: {glue:text}`T:d` events, and a key event
# {glue:text}`oftener:.0f` times as frequent, so that the base rate stays. Two blocks, {glue:text}`fewest_parameters:,d`
# to {glue:text}`most_parameters:,d` parameters in every system (more only with a GRU for a state), at most
# {glue:text}`updates:,d` updates, one recipe for all (`sab run rea_quick`), both read-outs; {glue:text}`runs:d`
# runs, {glue:text}`fewest_seeds:d` or more a row. `rea_table_1024` has the article's length and rate.


# %%
LABELS = {
    "full": "full attention",
    "window": "window alone",
    "rea": "REA, α from 0.1",
    "rea_slow": "REA, slow α",
    "state": "state alone, slow α",
    "gru": "REA, GRU state",
    "point": "each event by itself",
    "bilstm": "BiLSTM, two layers",
    "lstm": "LSTM",
    "sab": "SAB (5, 5)",
}


def of(row: str) -> list[float]:
    """Balanced accuracies of a row, one a seed."""
    return values(of_row.get(row, []), "balanced_accuracy")


READS = {"last": "read at the last position", "mean": "read by the mean"}
groups = {}
for shown, title in READS.items():
    here = {LABELS[key]: of(f"{key}_{shown}") for key in LABELS if of(f"{key}_{shown}")}
    if here:
        groups[title] = here
show(
    accuracy_dots(groups, chance=0.5),
    caption="Event logs: balanced accuracy, a dot a seed.",
    source=records,
)

# %% tags=["hide-input"]
always = EventsTask(**settings).baselines()
rows: list[tuple[object, ...]] = [
    (
        "always “yes”",
        None,
        f"{100 * always['balanced_accuracy']:.1f}",
        f"{100 * always['accuracy']:.1f}",
        None,
        "0",
        None,
    )
]
for record_row, mine in sorted(of_row.items()):
    key, shown = record_row.rsplit("_", 1)
    solved = [record.metrics.get("solved_update") for record in mine]
    rows.append(
        (
            LABELS[key],
            shown,
            told(mine, "balanced_accuracy", 100),
            told(mine, "accuracy", 100),
            ", ".join("–" if update is None else f"{update:,.0f}" for update in solved),
            f"{mine[0].metrics['parameters']:,.0f}",
            len(mine),
        )
    )
show_table(
    [
        "system",
        "read",
        "balanced, %",
        "accuracy, %",
        "solved at update",
        "parameters",
        "seeds",
    ],
    rows,
    caption="The same in numbers: means with 95 % intervals from three seeds on, else each seed's value. Balanced "
    "accuracy chooses the model, so accuracy can fall below that of always saying yes; –: never solved.",
    source=records,
)
for key in ("full", "window", "rea", "rea_slow", "state", "point", "bilstm"):
    for shown in ("last", "mean"):
        glue(f"{key}_{shown}", mean(of_row.get(f"{key}_{shown}", []), "balanced_accuracy"))
each = ", ".join(f"{100 * value:.0f} %" for value in of("rea_slow_last"))
glue("rea_slow_each", each)
for key in ("rea_slow", "state"):
    reached = of(f"{key}_last")
    glue(f"{key}_found", f"{sum(value > 0.95 for value in reached)} of {len(reached)}")
for shown in READS:
    here = [row for row in of_row if row.endswith(f"_{shown}")]
    solved_by = [LABELS[row.rpartition("_")[0]] for row in here if min(of(row)) > 0.99]
    glue(f"solved_{shown}", "; ".join(solved_by) or MISSING)
    first = min(here, key=lambda row: mean(of_row[row], "updates"))
    glue(f"first_{shown}", LABELS[first.rpartition("_")[0]])

# %% [markdown]
# **Read by the mean**, full attention has {glue:text}`full_mean:.0%`, the window {glue:text}`window_mean:.0%`, REA
# {glue:text}`rea_mean:.0%` (α from 0.1) and {glue:text}`rea_slow_mean:.0%` (slow α), the BiLSTM
# {glue:text}`bilstm_mean:.0%`. Those that solve it with every seed ({glue:text}`solved_mean:s`) stand at the same
# ceiling; what tells them apart is the update at which they got there. The first: {glue:text}`first_mean:s`.
#
# The model that looks at each event by itself has {glue:text}`point_mean:.0%`, though we have
# just written down weights with which it solves the task. What can be *represented* need not be *found*: its mark is
# one part in {glue:text}`T:d` of the mean, and training for {glue:text}`updates:,d` updates leaves it there. A window
# or a state helps here not by remembering but by *spreading* the mark: each position that sees the key can carry it into
# the mean.
#
# **Read at the last position**, the window has {glue:text}`window_last:.0%` and the single events
# {glue:text}`point_last:.0%`: guessing, as they must. Full attention has {glue:text}`full_last:.0%`. REA with the
# article's α of 0.1 has {glue:text}`rea_last:.0%`, with an α chosen for the length {glue:text}`rea_slow_last:.0%` (by seed
# {glue:text}`rea_slow_each:s`; the table's last column has how many); the
# state alone {glue:text}`state_last:.0%`, the BiLSTM {glue:text}`bilstm_last:.0%`.
#
# (With {glue:text}`fewest_seeds:d` seeds in some rows, read differences of a few points as none.)
#
# So at {glue:text}`T:d` events the article's ordering, REA above attention above a window, does not show by the mean,
# where there is a ceiling. At the last position the first to solve the task is {glue:text}`first_last:s`. Of the
# article's *idea* this much holds here: where the answer is far away a window is blind, and REA with a slow $\alpha$
# found the event in {glue:text}`rea_slow_found:s` runs. The state alone, in this budget, found it in
# {glue:text}`state_found:s`.

# %% tags=["hide-input"]
PLACES = [f"recall_p{place}" for place in (1, 2, 3, 4)]
placed, _ = lines(
    [
        (row, f"{LABELS[row.rsplit('_', 1)[0]]}, read {row.rsplit('_', 1)[1]}")
        for row in sorted(of_row)
    ],
    {row: mine for row, mine in of_row.items() if values(mine, PLACES[0])},
    [(metric, 100, 0) for metric in PLACES],
)
if placed:
    show_table(
        ["system", "1st quarter, %", "2nd", "3rd", "4th", "seeds"],
        placed,
        caption="Keys found, by where in the early stretch the first of them stood: the first quarter is the farthest "
        "from the end.",
        source=records,
    )

# %% [markdown]
# ## Beside the article's table
#
# Its columns and ours, read by the mean. Our memory is what the backward pass of a batch needs kept, its memory
# all that training held; so both stand as ratios to the window's.

# %% tags=["hide-input"]
ARTICLE = {"full": (82.4, 7.6, 2.3), "window": (80.9, 4.8, 1.0), "rea": (90.2, 5.1, 1.1)}
full_size = by_row(notebook.largest("rea_table_1024", profile))
beside, table_of = (full_size, "rea_table_1024") if full_size else (of_row, "rea_quick")


def kept(row: str) -> float:
    """What the backward pass keeps, in MB: from a record, else measured here."""
    mine = values(beside.get(row, []), "kept_mb")
    if mine:
        return sum(mine) / len(mine)
    run = make_run(tables.find(table_of), tables.find(table_of).row(row), "cpu", seed)
    events = EventsTask(**run.task_config)
    batch = events.batch(run.train.batch_size, torch.Generator().manual_seed(seed))
    return kept_mb(build_model(run), events, batch, torch.device("cpu"))


held = {key: kept(f"{key}_mean") for key in ("full", "window", "rea", "rea_slow", "gru")}
compared = []
for key in held:
    mine = beside.get(f"{key}_mean", [])
    accuracy, memory, pace = ARTICLE.get(key, (None, None, None))
    compared.append(
        (
            LABELS[key],
            MISSING if accuracy is None else f"{accuracy:.1f}",
            told(mine, "accuracy", 100),
            told(mine, "balanced_accuracy", 100),
            MISSING if memory is None else f"{memory / ARTICLE['window'][1]:.2f}",
            f"{held[key] / held['window']:.2f}",
            f"{held[key]:.1f}",
            MISSING if pace is None else f"{pace:.1f}",
            told(mine, "step_seconds", 1000, 0),
        )
    )
show_table(
    [
        "system",
        "article: accuracy, %",
        "ours, %",
        "ours, balanced, %",
        "article: memory ÷ window",
        "ours",
        "ours, MB",
        "article: time ÷ window",
        "ours, ms an update",
    ],
    compared,
    caption=f"The article's table (1,024 events) beside {table_of} "
    f"({tables.find(table_of).rows[0].task_config['T']:,} events). Full attention here is the library's, the window is "
    "computed in blocks. The GRU's row of 1,024 events is run for its time alone. A dash: not measured.",
    source=[record for mine in beside.values() for record in mine],
)
solved_here = [LABELS[key] for key in held if key != "gru" and min(
    values(beside.get(f"{key}_mean", []), "balanced_accuracy"), default=0.0) > 0.95]  # fmt: skip
glue("length_here", tables.find(table_of).rows[0].task_config["T"])
glue("updates_here", beside["full_mean"][0].config["train"]["updates"])
glue("solved_here", "; ".join(solved_here) or "none")
glue("seeds_here", min(len(beside.get(f"{key}_mean", [])) for key in held if key != "gru"))
glue("kept_full", held["full"] / held["window"])
glue("kept_rea", held["rea"] / held["window"])
glue("kept_article", ARTICLE["full"][1] / ARTICLE["window"][1])

# %% [markdown]
# At {glue:text}`length_here:,d` events and within {glue:text}`updates_here:,d` updates these solve the task: {glue:text}`solved_here:s`. The others guess
# (balanced 50 %): the budget is short for them. (Fewest seeds of a row: {glue:text}`seeds_here:d`.) In the article full attention needs {glue:text}`kept_article:.1f` times a window's memory; here it keeps
# {glue:text}`kept_full:.1f` times as much, and REA {glue:text}`kept_rea:.1f` times. That is the library's attention
# again ([chapter 32](32_rea_window.ipynb)).
#
# ## When do they find it?

# %%
curves_of = {}
for key in ("full", "rea_slow", "state"):
    mine = of_row.get(f"{key}_last", [])
    if mine:
        curves_of[LABELS[key]] = mine
show(
    learning_curve(curves_of, metric="balanced_accuracy", chance=0.5),
    caption="Read at the last position: balanced accuracy on held-out logs during training.",
    source=[record for group in curves_of.values() for record in group],
)

# %% [markdown]
# Full attention stands at chance and then has it at once. It does not need to *hold* the event: its
# last position asks all others whether they are the key, and one score that sticks out is enough
# (chapter 30's logarithm). The state has only a few percent of signal to start from
# ([chapter 31](31_rea_state.ipynb)).
#
# ## One thing at a time
#
# Three tables start from REA with a slow state, read at the last position, and change one thing: a switch of the
# layer, $\alpha$ against the length, the window's size. The first and the last use logs half as long as those above, so
# that their base can solve them within the budget: then a change can cost something, or save it. They are run
# by `sab run rea_ablation`, `rea_alpha` and `rea_window`; below a table stands what has no record yet.


# %%
def ablation(name: str) -> None:
    """Show the rows of a table that varies one thing, as far as they have been run."""
    table, found = tables.find(name), by_row(notebook.largest(name, profile))
    columns = [("balanced_accuracy", 100, 1), ("updates", 1, 0), ("step_seconds", 1000, 0)]
    made, without = lines([(row.name, row.title) for row in table.rows], found, columns)
    if not made:
        return print(f"No record yet: sab run {name}")
    show_table(
        ["what is changed", "balanced, %", "updates", "ms an update", "seeds"],
        made,
        caption=f"{table.title}. Guessing has 50 %. Updates until it was solved, or all there were. Time: the "
        f"processor's own, without evaluation.{without}",
        source=[record for mine in found.values() for record in mine],
    )


ablation("rea_ablation")

# %% [markdown]
# How $\alpha$ and the length belong together needs no training to foresee: what is left of the key at the end is
# $(1-\alpha)^k$, with $k$ at least three quarters of the length. The curves are that arithmetic, the table below
# them is what training made of it.

# %%
trained = by_row(notebook.largest("rea_alpha", profile))
ALPHAS, LENGTHS = (0.005, 0.1, 0.5), (32, 64, 128)
left = {
    f"{n} events": [
        (a, max(a * (1 - a) ** (3 * n // 4), 1e-16)) for a in torch.logspace(-3, -0.3, 40).tolist()
    ]
    for n in LENGTHS
}
show(
    curves(
        left,
        xlabel="α at the start",
        ylabel="weight of the key in the last state",
        log_x=True,
        log_y=True,
        markers=False,
    ),
    caption="What a state of rate α keeps of an event three quarters of a log back, α (1 - α) to the power of "
    "the distance; values below 1e-16 are drawn there. Each length has its best α, one over the distance.",
)
by_alpha = [
    (f"{a:g}", *(told(trained.get(f"a{a:g}_T{n}", []), "balanced_accuracy", 100) for n in LENGTHS))
    for a in ALPHAS
]
if trained:
    show_table(
        ["α at the start", *(f"{n} events, balanced %" for n in LENGTHS)],
        by_alpha,
        caption="The same, trained. Guessing has 50 %; a dash: not run.",
        source=[record for mine in trained.values() for record in mine],
    )
else:
    print("No record yet: sab run rea_alpha")
best = {n: max(left[f"{n} events"], key=lambda pair: pair[1])[0] for n in LENGTHS}
assert best[32] > best[64] > best[128]

# %%
ablation("rea_window")

# %% [markdown]
# ## The article's claims, judged

# %% tags=["hide-input"]
judged = [v for v in claims.verdicts() if v.claim.source.startswith("REA")]
show_claims(
    judged,
    caption="Every claim of the article that a number can settle. A ratio is a difference of "
    "logarithms.",
)
counts = claims.tally(judged)
glue("judged", sum(n for name, n in counts.items() if name != claims.NOT_RUN))
glue("not_run", counts[claims.NOT_RUN])
waiting = sorted(
    {
        reference.partition("/")[0]
        for v in judged
        if v.verdict == claims.NOT_RUN
        for reference in v.claim.references()
    }
)
glue("waiting", ", ".join(f"sab run {name}" for name in waiting) or MISSING)

# %% [markdown]
# {glue:text}`judged:d` claims have a verdict; {glue:text}`not_run:d` wait for their records
# ({glue:text}`waiting:s`). The logs, patches and agents among them are the subject of
# [chapter 35](35_rea_limits.ipynb), depth and padding of [chapter 34](34_rea_pitfalls.ipynb).
#
# ## What the article's table may be
#
# We can't know; its data, read-out and rate are not given. Three readings fit its numbers:
#
# - **A mean read-out, stopped early.** Then all its models were on the way to 100 %, and the table
#   ranks how fast each found the key, not what each can hold.
# - **A last-position read-out.** Then its window could not be above {glue:text}`base:.1%`, and 80.9 %
#   says that its base rate was higher than the recipe's, or that the window saw across.
# - **A different base rate.** With a rate near 80 % full attention and the window would both be at
#   guessing, and REA ten points above.
#
# Each could be decided by one more line in its text. That is the lesson for our own tables: base rate, read-out
# and budget stand next to every number.
#
# ## What it took

# %%
minutes = sum(record.seconds for record in records) / 60
show_table(
    ["", "value"],
    [
        ("runs", len(records)),
        ("minutes in all, two runs at a time on two cores", f"{minutes:.0f}"),
        ("machine", f"{records[0].machine['cpu']}, {records[0].machine['threads']} thread a run"),
    ],
    caption="What this chapter's records took.",
    source=records,
)

# %% [markdown]
# ## What surprised us
#
# - **Three weights solve the article's task** if the answer is read by the mean, **and training such a model need not
#   find them.**
# - **Dilution did not show at {glue:text}`T:d` events.** The first to solve the task at the last position, where one
#   event has to be found again, is {glue:text}`first_last:s`; by the mean it is {glue:text}`first_mean:s`.
#
# ## Exercises
#
# **1.** For which rate would always saying "yes" reach 80.9 % at 1,024 events?
#
# **2.** A model with a window of 16 and two layers, read at the last position, sees 32 of 128 events, and the
# key is in the first 32. What is the best accuracy it can have?
#
# **3.** Write the weights of a *state* by hand that solves the task at the last position, with $\alpha = 0.01$
# and no training. (Hint: one channel, one event type.)

# %% tags=["hide-cell", "nbval-check-output"]
# Solution of exercise 1: 1 - (1 - p)^256 = 0.809.
p = 1 - (1 - 0.809) ** (1 / 256)
print(f"p = {p:.4f}")
assert abs(EventsTask(rate=p).base_rate() - 0.809) < 1e-9

# %% tags=["hide-cell"]
# Solution of exercise 2: what it sees is noise in every log, so it can only answer with the base rate.
quick = EventsTask(T=128, rate=0.04)
print(f"{quick.base_rate():.1%}, balanced 50 %")

# %% tags=["hide-cell"]
# Solution of exercise 3: one channel that is 1 at the key and 0 elsewhere. Its average at the end is
# at least α (1 - α)^127 where the key occurred, and 0 where it did not.
from sab.ops.ema_scan import ema_scan

x, y = quick.batch(500, torch.Generator().manual_seed(seed))
state = ema_scan(x[:, :, :1], torch.tensor([0.01]))[:, -1, 0]
answer = state > 0.5 * 0.01 * 0.99**127
assert torch.equal(answer, y[:, 0] == 1)
print("all", len(y), "right; smallest state of a log with the key:", f"{state[answer].min():.4f}")
