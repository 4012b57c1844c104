"""The tables on real data: language models (Tables 2 and 6), images (Table 4).

``paper``: the paper's sizes and epochs (sections 7.2 to 7.5), early stopping on validation.
``cpu``: fewer units or epochs, so that one thread ends in an hour or three; the learning rate then
falls to a tenth for the last fifth. Such records say nothing about a cell's value, but the rows of
one table share all but the model, so they can be compared. ``smoke``: a made text and the digits.

Not stated in the paper and ours: clip 1.0, the forget bias +1, the batch of the images (64), the
learning rate on text8, and ``block_offset=1``, so that a memory is the last step of its block.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from sab.experiments.profiles import SMOKE_TRAIN
from sab.experiments.rows import Experiment, Row
from sab.models.transformer import matched_width

# Training sequences, so that a plan needs no data; a test compares them with the data's own.
PTB, TEXT8, BOOKS, NUMBERS, COLOURS = 50_175, 500_000, 104_432, 534, 1_968
MNIST, CIFAR10 = 55_000, 45_000
TEXT = {"solved_at": None, "clip": 1.0, "log_every": 50, "checkpoint_every": 250}
SMOKE: dict[str, Any] = {**SMOKE_TRAIN, "patience": None}


def epochs(count: float, sequences: int, batch: int, looks: int = 1) -> dict[str, int]:
    """Updates of ``count`` epochs, with ``looks`` evaluations an epoch."""
    each = math.ceil(sequences / batch)
    return {"updates": round(count * each), "eval_every": max(1, each // looks)}


def scales(
    sequences: int,
    batch: int,
    cpu: float,
    paper: float,
    units: tuple[int, int],
    smoke: Mapping[str, Any],
    patience: int = 5,
    cpu_lr: float | None = None,
) -> dict[str, dict[str, Any]]:
    """What the profiles make of a row.

    Args:
        sequences: of the training part.
        batch: sequences an update.
        cpu: epochs of the profile ``cpu``.
        paper: epochs of the profile ``paper``, at most.
        units: hidden units of ``cpu`` and of ``paper``.
        smoke: settings of the task for ``smoke``.
        patience: epochs without a better validation after which ``paper`` stops.
        cpu_lr: learning rate of the profile ``cpu``, where it is not the paper's.
    """
    looks = 4 if cpu <= 5 else 1
    falling = {"schedule": "step", "drop_at": (0.8,)}
    steady = {"schedule": "constant", "patience": patience}
    rate = {} if cpu_lr is None else {"lr": cpu_lr}
    return {
        "smoke": {"train": SMOKE, "model": {"hidden_size": 16}, "task": dict(smoke)},
        "cpu": {
            "train": {**epochs(cpu, sequences, batch, looks), **falling, **rate},
            "model": {"hidden_size": units[0]},
        },
        "paper": {
            "train": {**epochs(paper, sequences, batch), **steady},
            "model": {"hidden_size": units[1]},
        },
    }


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the rows of one table share: the task, the training, the profiles' scales."""

    task: Mapping[str, Any]
    train: Mapping[str, Any]
    scales: Mapping[str, Mapping[str, Any]]

    def row(self, name: str, title: str, model: str, seeds: int = 1, **config: Any) -> Row:
        """A row of ``model`` with the settings ``config``."""
        return Row(
            name, title, model, config, dict(self.task), self.train, seeds, scales=self.scales
        )

    def lstm(self, k_trunc: int | None = None, seeds: int = 1) -> Row:
        """The LSTM, by full or truncated backpropagation."""
        if k_trunc is None:
            return self.row("lstm", "LSTM, full BPTT", "lstm", seeds)
        return self.row(
            f"tbptt_{k_trunc}", f"LSTM, TBPTT-{k_trunc}", "lstm", seeds, k_trunc=k_trunc
        )

    def sab(self, k_trunc: int, k_top: int, k_att: int, seeds: int = 1, offset: int = 1) -> Row:
        """SAB; with ``offset`` 0 the row's name says so."""
        numbers = (k_trunc, k_top, k_att)
        name, title = "sab_" + "_".join(map(str, numbers)), f"SAB {numbers}"
        if offset == 0:
            name, title = f"{name}_offset0", f"{title}, block offset 0"
        config = {"k_trunc": k_trunc, "k_top": k_top, "k_att": k_att, "block_offset": offset}
        return self.row(name, title, "sab", seeds, **config)


def unclipped(row: Row) -> Row:
    """The row without clipping."""
    train = {**row.train, "clip": None}
    return dataclasses.replace(
        row, name=f"{row.name}_noclip", title=f"{row.title}, not clipped", train=train
    )


def both_ways(*rows: Row) -> tuple[Row, ...]:
    """The rows clipped, then the same not clipped."""
    return (*rows, *(unclipped(row) for row in rows))


def carrying(row: Row, *parts: str) -> Row:
    """The row with state carried from one sequence to the next."""
    task = {**row.task_config, "carry": parts}
    return dataclasses.replace(
        row, name=f"{row.name}_carried", title=f"{row.title}, state carried", task_config=task
    )


def with_zero(row: Row) -> Row:
    """The row with a zero state in memory from the start: a read that changes nothing."""
    config = {**row.model_config, "initial_memory": "zero"}
    title = f"{row.title}, a zero state first"
    return dataclasses.replace(row, name=f"{row.name}_zero", title=title, model_config=config)


def _ptb_setting(cpu: float = 6) -> Setting:
    """The paper's 2e-3 is for 1,000 units; 256 units learn little by it in a few epochs."""
    tiny = {"corpus": "numbers", "T": 40}
    size = scales(PTB, 32, cpu, 100, (256, 1000), tiny, cpu_lr=1e-2)
    train = {**TEXT, "lr": 2e-3, "batch_size": 32}
    return Setting({"corpus": "ptb", "T": 100}, train, size)


def _table2_ptb() -> Experiment:
    here = _ptb_setting()
    rows = (
        here.lstm(seeds=3),
        here.lstm(20, seeds=3),
        here.sab(20, 10, 20, seeds=3),
        here.lstm(5),
        here.sab(20, 10, 20, offset=0),
        here.sab(10, 5, 10),
        here.sab(10, 10, 10),
        here.sab(20, 5, 20),
        with_zero(here.sab(20, 10, 20, seeds=3)),
        carrying(here.sab(20, 10, 20), "h", "c", "memory"),
        carrying(here.lstm(seeds=0), "h", "c"),
    )
    title = "Table 2, right: Penn Treebank, bits per character"
    return Experiment("table2_ptb", title, "charlm", rows, ("2", "table2", "table2_lm"))


def _search_ptb() -> Experiment:
    """The learning rate at 256 units, found for each model by the same short runs."""
    here = _ptb_setting()
    half = {"updates": 784, "eval_every": 784, "schedule": "constant", "patience": None}
    short: dict[str, dict[str, Any]] = {"smoke": {}, "cpu": half, "paper": half}
    rows: list[Row] = []
    for row in (here.lstm(), here.lstm(20), here.sab(20, 10, 20)):
        for lr in (2e-3, 5e-3, 1e-2, 2e-2):
            size = {
                profile: {**scale, "train": {**scale["train"], **short[profile], "lr": lr}}
                for profile, scale in row.scales.items()
            }
            name, title = f"{row.name}_lr{lr:g}", f"{row.title}, lr {lr:g}"
            rows.append(dataclasses.replace(row, name=name, title=title, scales=size))
    title = "Search of the learning rate on Penn Treebank: 256 units, half an epoch"
    return Experiment("search_ptb", title, "charlm", tuple(rows))


def _text8_setting(cpu: float = 1) -> Setting:
    """Its rate for 256 units is the one found on Penn Treebank."""
    tiny = {"corpus": "numbers", "T": 40}
    size = scales(TEXT8, 64, cpu, 30, (256, 1000), tiny, cpu_lr=1e-2)
    train = {**TEXT, "lr": 2e-3, "batch_size": 64}
    return Setting({"corpus": "text8", "T": 180}, train, size)


def _table2_text8() -> Experiment:
    here = _text8_setting()
    pairs = ((10, 5), (10, 10), (20, 5), (20, 10))
    rows = (here.lstm(), here.lstm(5), *(here.sab(k, top, k) for k, top in pairs))
    title = "Table 2, right: text8, bits per character"
    return Experiment("table2_text8", title, "charlm", rows, ("2", "table2"))


def _table6_rows(here: Setting) -> tuple[Row, ...]:
    title = "LSTM + self-attention, TBPTT-10"
    dense = here.row("attentive_tbptt_10", title, "attentive_lstm", k_trunc=10)
    return (here.sab(10, 10, 10), dense)


def _table6() -> Experiment:
    title = "Table 6: text8 against truncated self-attention, bits per character"
    return Experiment("table6", title, "charlm", _table6_rows(_text8_setting()), ("6",))


def _table6_books() -> Experiment:
    size = scales(BOOKS, 64, 1, 30, (256, 1000), {"corpus": "numbers", "T": 40}, cpu_lr=1e-2)
    here = Setting({"corpus": "books", "T": 180}, _text8_setting().train, size)
    rows = both_ways(here.lstm(), *_table6_rows(here))
    title = "Not text8: five books in its alphabet, with and without clipping, bits per character"
    return Experiment("table6_books", title, "charlm", rows, ("6",))


def _image_setting(source: str, order: str, sequences: int, cpu: float = 15) -> Setting:
    size = scales(sequences, 64, cpu, 100, (128, 128), {"source": "digits"}, patience=10)
    train = {**TEXT, "lr": 1e-3, "batch_size": 64}
    return Setting({"source": source, "order": order}, train, size)


def _transformer(here: Setting, channels: int, cpu: int, sequences: int) -> Row:
    """As many parameters as the LSTM of 128 units; slower, so fewer epochs in ``cpu``."""
    row = here.row("transformer", "Transformer, the LSTM's parameters", "transformer")
    width = matched_width(128, channels, 10)
    size = {name: dict(scale) for name, scale in here.scales.items()}
    size["cpu"]["train"] = {**size["cpu"]["train"], **epochs(cpu, sequences, 64)}
    for name in ("cpu", "paper"):
        size[name]["model"] = {"hidden_size": width}
    return dataclasses.replace(row, scales=size)


def _table4_pmnist() -> Experiment:
    here = _image_setting("mnist", "permuted", MNIST)
    rows = (
        here.lstm(),
        here.sab(50, 10, 50),
        here.sab(20, 5, 20),
        here.sab(20, 10, 20),
        _transformer(here, 1, 3, MNIST),
    )
    title = "Table 4: permuted MNIST, accuracy"
    return Experiment("table4_pmnist", title, "images", rows, ("4", "table4"))


def _table4_cifar10(source: str, name: str, title: str) -> Experiment:
    here = _image_setting(source, "pixel", CIFAR10)
    rows = (
        here.lstm(),
        here.sab(16, 10, 16),
        here.lstm(300),
        _transformer(here, 3, 3, CIFAR10),
    )
    return Experiment(name, title, "images", rows, ("4", "table4"))


def _digits() -> Experiment:
    """Small enough for a chapter's live cells: 64 steps, a minute a run."""
    size = scales(1_200, 32, 30, 100, (64, 128), {"source": "digits"}, patience=20)
    train = {**TEXT, "lr": 5e-3, "batch_size": 32}
    here = Setting({"source": "digits", "order": "permuted"}, train, size)
    row = here.row("transformer", "Transformer, the LSTM's parameters", "transformer")
    own = {name: dict(scale) for name, scale in size.items()}
    own["cpu"]["model"] = {"hidden_size": matched_width(64, 1, 10)}
    own["paper"]["model"] = {"hidden_size": matched_width(128, 1, 10)}
    rows: tuple[Row, ...] = (
        here.lstm(),
        here.lstm(8),
        here.sab(8, 5, 8),
        dataclasses.replace(row, scales=own),
    )
    rows = tuple(dataclasses.replace(one, seeds=3) for one in rows)
    return Experiment("digits", "scikit-learn's digits, permuted, 64 steps", "images", rows)


def _colours() -> Experiment:
    """A text in which what is recalled can be told apart; chapter 11's live cells, with seeds."""
    size = scales(COLOURS, 32, 24, 60, (64, 128), {"T": 40})
    train = {**TEXT, "lr": 1e-2, "clip": 0.5, "batch_size": 32}
    here = Setting({"corpus": "colours", "T": 50}, train, size)
    former = here.row(
        "transformer", "Transformer, the LSTM's parameters", "transformer", causal=True
    )
    own = {name: dict(scale) for name, scale in size.items()}
    for name, units in (("cpu", 64), ("paper", 128)):
        own[name]["model"] = {"hidden_size": matched_width(units, 24, 24, 2), "layers": 2}
    rows: tuple[Row, ...] = (
        here.lstm(),
        here.lstm(5),
        here.sab(5, 5, 5),
        dataclasses.replace(former, scales=own),
    )
    rows = tuple(dataclasses.replace(one, seeds=3) for one in rows)
    return Experiment("colours", "A made text that names colours twice", "charlm", rows)


def _text() -> Experiment:
    size = scales(NUMBERS, 32, 20, 60, (128, 256), {"T": 40})
    train = {**TEXT, "lr": 3e-3, "batch_size": 32}
    here = Setting({"corpus": "numbers", "T": 100}, train, size)
    rows = (here.lstm(), here.lstm(10), here.sab(10, 5, 10))
    title = "A short made text; --text FILE reads any UTF-8 file"
    return Experiment("text", title, "charlm", rows)


REAL: tuple[Experiment, ...] = (
    _search_ptb(),
    _table2_ptb(),
    _table2_text8(),
    _table6(),
    _table6_books(),
    _table4_pmnist(),
    _table4_cifar10("cifar10", "table4_cifar10", "Table 4: pixel CIFAR-10, accuracy"),
    _table4_cifar10(
        "cifar10_jpeg",
        "table4_cifar10_jpeg",
        "CIFAR-10 as lossy JPEG copies, not the published pixels, accuracy",
    ),
    _digits(),
    _text(),
    _colours(),
)
