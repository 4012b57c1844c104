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
# # 35. Uses and limits: what a summary can do
#
# A state of fixed size cannot hold everything. At the end of this chapter you know where its limit lies, what
# it is good for all the same, how the four wishes of [chapter 30](30_rea_idea.ipynb) came out, and when to take a
# summary, when a recall. It follows sections 6 and 7 of the article.

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
from typing import Any

import torch

from sab import notebook
from sab.analysis.summary import recall_by_lag, signal_to_noise
from sab.experiments import tables
from sab.experiments.rows import make_run
from sab.experiments.weights import build_model
from sab.figures import curves
from sab.models.rea import REA, REAConfig
from sab.models.sab import SABLayer
from sab.notebook import ROOT, glue, show, show_table

notebook.parameters(profile, seed)
_ = notebook.setup(seed)

# %% [markdown]
# ## What it is good for: a stream
#
# The article's best idea is an agent's memory: fold every result into the state, and answer from the state
# and the last few steps. A causal REA does that with no approximation. Each layer keeps the keys and values of its
# window and one state, and a step costs the same after a million steps as after ten:

# %%
torch.manual_seed(seed)
model = REA(REAConfig.language_model(20, hidden_size=32, layers=2, window=8, alpha_start=0.01))
log = torch.eye(20)[torch.randint(20, (1, 600))]  # (1, 600, 20): six hundred results of a tool

state, outputs, held = model.start(1), [], {}
for t in range(600):
    out, state = model.step(log[:, t], state)
    outputs.append(out)
    held[t + 1] = sum(part.numel() for layer in state.layers for part in layer)
streamed = torch.stack(outputs, 1)

with torch.no_grad():
    whole = model(log)[0]
glue("stream_gap", (streamed - whole).abs().max().item())
glue("held", held[600])
assert torch.allclose(streamed, whole, atol=1e-4) and held[600] == held[9]

# %% [markdown]
# The stream gives what the batch form gives (largest difference {glue:text}`stream_gap:.0e`) and holds
# {glue:text}`held:,d` numbers from the ninth step on. Beside it, what SAB and full attention hold by then:

# %%
layer = SABLayer(20, 32, k_att=2)
sab_state = layer.init_state(1)
sab_held = {}
with torch.no_grad():
    for start in range(0, 600, 100):
        _, _, sab_state = layer(log[:, start : start + 100], sab_state)
        sab_held[start + 100] = sab_state.memory.numel()
show(
    curves(
        {
            "REA": [(t, float(held[t])) for t in (10, *range(100, 601, 100))],
            "SAB, k_att = 2": [(t, float(n)) for t, n in sab_held.items()],
            "full attention": [(t, 2.0 * 2 * 32 * t) for t in (10, *range(100, 601, 100))],
        },
        xlabel="steps so far",
        ylabel="numbers held (floats)",
    ),
    caption="What a stream holds. REA: counted; SAB: the memories of one layer, counted; full attention: keys "
    "and values of two layers of width 32, by definition.",
)

# %% [markdown]
# ## What it costs: no questions afterwards
#
# Now the price. Let the stream be random symbols, and ask for the one $k$ steps back. How often can the
# best *linear* reader of the state tell? We fit it by least squares, with 32 channels and 8 symbols:

# %%
LAGS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
RATES = {
    "α = 0.5 in every channel": [0.5],
    "α = 0.1 in every channel": [0.1],
    "α from 0.9 to 0.05, spread": [0.9, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05],
}
recalled = {
    name: recall_by_lag(rates, LAGS, symbols=8, channels=32, seed=seed)
    for name, rates in RATES.items()
}
show(
    curves(
        {
            name: [(k, 100 * value) for k, value in zip(LAGS, values, strict=True)]
            for name, values in recalled.items()
        },
        xlabel="steps back",
        ylabel="accuracy of the best linear reader (%)",
        level=12.5,
    ),
    caption="Reading a symbol back from a running average. Dashed: guessing, one in eight.",
)
spread = dict(zip(LAGS, recalled["α from 0.9 to 0.05, spread"], strict=True))
single = dict(zip(LAGS, recalled["α = 0.1 in every channel"], strict=True))
glue("spread_1", spread[1])
glue("spread_16", spread[16])
glue("single_1", single[1])
assert spread[1] > single[1] and spread[16] < 0.35

# %% [markdown]
# With one $\alpha$ for all channels not even the *previous* symbol can be read for certain
# ({glue:text}`single_1:.0%` with 0.1): however wide the state is, it is a map of one average a symbol, eight numbers. Channels of different speed help, up
# to a few steps ({glue:text}`spread_1:.0%` one step back, {glue:text}`spread_16:.0%` sixteen back). What lies
# further back is there as a *sum*: how often, weighted by how long ago.
#
# That is why REA's two halves belong together, and why it cannot do the task that this book began with. Copying
# ten symbols after 100 blanks asks *which, in which order*; the window has lost them, and the state has their
# mixture. SAB keeps the states themselves. The other way round, "how many errors so far?" needs every
# step, and a recall of five memories is the wrong tool. `sab run rea_copy` and `rea_adding` set them side by side.
#
# ## A quarter of the width
#
# The article tried a state of a quarter of the width: faster, and "clearly worse". It explains that by an
# element-wise product that needs equal widths; but its gate is a scalar. What does the narrow state save?

# %%
sizes = {}
WIDTHS: dict[str, dict[str, Any]] = {"as wide as the layer": {}, "a quarter": {"state_size": 16}}
for name, change in WIDTHS.items():
    plain = REA(REAConfig(50, 64, 2, readout="mean", **change))
    sizes[name] = sum(p.numel() for p in plain.parameters())
glue("quarter_more", sizes["a quarter"] / sizes["as wide as the layer"] - 1)
show_table(
    ["state", "parameters"],
    [(name, f"{count:,}") for name, count in sizes.items()],
    caption="Two blocks of width 64. The projections down and up cost more than the narrow state saves.",
)

# %% [markdown]
# Nothing: the two projections make the model {glue:text}`quarter_more:.0%` *larger*. What gets smaller is the scan,
# which was the cheap part. So our advice differs from the article's only in the reason: leave the width alone.
#
# ## Four wishes, answered

# %%
bench = json.loads((ROOT / "results" / "bench" / "window.json").read_text())
at = {(r["form"], r["length"]): r for r in bench["layers"]["rows"]}
longest = max(n for form, n in at if form == "REA")
glue("longest", longest)
glue("time_long", at["full attention", longest]["ms_min"] / at["REA", longest]["ms_min"])
glue("time_short", at["full attention", 256]["ms_min"] / at["REA", 256]["ms_min"])
glue("kept_long", at["REA", longest]["kept_mb"] / at["full attention", longest]["kept_mb"])
glue("snr_768", signal_to_noise(1 / 1536, 768))
show_table(
    ["wish", "answer"],
    [
        ("plugs in", "yes: same shapes, hardly more parameters than a window"),
        (
            "memory stays low",
            f"linear, where the listing's is quadratic; but "
            f"{at['REA', longest]['kept_mb'] / at['full attention', longest]['kept_mb']:.1f} times that of "
            "full attention from today's library",
        ),
        (
            "time",
            f"{at['full attention', longest]['ms_min'] / at['REA', longest]['ms_min']:.0f} times as fast as full "
            f"attention at {longest:,} positions, "
            f"{at['REA', 256]['ms_min'] / at['full attention', 256]['ms_min']:.1f} times as slow at 256",
        ),
        ("keeps the global view", "as a fading sum: how much, not which"),
        ("trains easily", "no explosion along time; slow to find an event in the far past"),
    ],
    caption="The wishes of chapter 30.",
    source="Computed here, and from results/bench/window.json.",
)

# %% [markdown]
# ## The article's other scenes
#
# - **Logs and traces.** Used as a feature extractor with a linear head, REA equals a two-layer BiLSTM with a
#   fifth of its parameters, says section 6.1. `REA.hidden` gives the features; the row `fifth` of `rea_ablation`
#   has such a model:

# %%
fifth = make_run(tables.find("rea_ablation"), tables.find("rea_ablation").row("fifth"), "cpu", 0)
other = make_run(tables.find("rea_table"), tables.find("rea_table").row("bilstm_last"), "cpu", 0)
counts = [sum(p.numel() for p in build_model(run).parameters()) for run in (fifth, other)]
glue("fifth", counts[0])
glue("bilstm", counts[1])
glue("share", counts[0] / counts[1])
features = REA(REAConfig.classifier(50, 2, hidden_size=14, heads=2))
assert features.hidden(torch.rand(3, 40, 50)).shape == (3, 40, 14)

# %% [markdown]
# It has {glue:text}`fifth:,d` parameters against {glue:text}`bilstm:,d` ({glue:text}`share:.0%`). The claim waits for its run.
#
# - **Image patches.** A picture cut into 14 × 14 patches is a sequence of 196: too short for a window to pay. At 256
#   positions one layer of full attention takes {glue:text}`time_short:.1f` times REA's time here, that is, it is
#   *faster*; the article's 15 % in REA's favour would need a slower attention than today's library has.
# - **Agents.** The stream above. What an agent asks is often "what exactly did that call return?", and that is
#   a recall.
# - **Both directions** see more and break the stream: a backward state needs the end first.
#
# ## When to take which
#
# | the question is … | and it is known … | take |
# | --- | --- | --- |
# | how often, how much, was it there | before the events come in | a summary (REA) |
# | what, where, in which order | only when it is asked | a recall (SAB, attention) |
# | about the last few steps | either | a window |
# | any of these, sequences of up to a thousand | either | full attention, computed well |
#
# The article's own advice for a start is sound: the plainest recursion and the plainest gate first, on one's own
# task. We would add: an $\alpha$ from the distance one needs, zeros for empty rows, and a look at the base rate.
#
# ## What surprised us
#
# - **With one $\alpha$, width is wasted.** The listing starts all channels at the same one.
# - **The narrow state is larger.**
# - **At the lengths of its own examples, the layer it replaces is faster.**
#
# ## What it took
#
# Some seconds a cell; nothing was trained.
#
# ## Exercises
#
# **1.** How many numbers does the stream of a model with 4 layers, width 64 and window 16 hold?
#
# **2.** Repeat the reading experiment with 16 symbols. Does the distance that can be read back shrink?
#
# **3.** Build a state that *counts*: make the running average of an indicator tell how many key events have
# occurred in the last 50 steps, roughly. What limits it?

# %% tags=["hide-cell"]
# Solution of exercise 1: keys and values of window + 1 positions, and the state, for each layer.
count = 4 * (2 * 17 * 64 + 64)
big = REA(REAConfig.language_model(5, hidden_size=64, layers=4, window=16))
now = big.start(1)
for _step in range(40):
    _logits, now = big.step(torch.eye(5)[:1], now)
assert sum(part.numel() for layer in now.layers for part in layer) == count
print(f"{count:,}")

# %% tags=["hide-cell"]
# Solution of exercise 2: it does; more symbols share the same channels.
wide = recall_by_lag(RATES["α from 0.9 to 0.05, spread"], (1, 2, 3), symbols=16, channels=32)
print(
    "16 symbols:",
    [f"{v:.0%}" for v in wide],
    " 8 symbols:",
    [f"{spread[k]:.0%}" for k in (1, 2, 3)],
)
assert wide[1] < spread[2]

# %% tags=["hide-cell", "nbval-check-output"]
# Solution of exercise 3: s / α counts with weights (1 - α)^age. With α = 1/50 a window of 50 has weights
# from 1 down to a third, and older events still count: the state cannot tell 1 recent from 3 old ones.
from sab.ops.ema_scan import ema_scan

recent, old = torch.zeros(2, 200, 1)
recent[[198, 199]] = 1.0
old[[99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113]] = 1.0
counted = ema_scan(torch.stack([recent, old]), torch.tensor([0.02]))[:, -1, 0] / 0.02
print([round(v, 1) for v in counted.tolist()])
