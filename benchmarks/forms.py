"""The systems that are measured side by side, each as a call without arguments.

A training step is forward, loss and backward, without an optimiser. Inference is the forward pass
without a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.released import Released
from sab.checks import one_of, positive_int
from sab.experiments.weights import build_model, read_weights
from sab.models.sab import SAB, SABConfig
from sab.ops.sab_scan import FORMS as SCAN_FORMS
from sab.ops.sab_scan import sab_scan
from sab.ops.sab_scan.cpp import load_scan
from sab.tasks.copy import CopyTask

CLASSES = 10
FORMS: dict[str, str] = {
    "lstm": "torch.nn.LSTM with full BPTT and a linear read-out",
    "cpp": "SAB, hand-derived backward, C++",
    "cpp_recompute": "the same, computing the gates again in the backward pass",
    "cpp_eager": "the same as cpp, every score computed (no lazy retrieval)",
    "torch": "SAB, hand-derived backward, torch operations",
    "graph": "the torch form captured in a CUDA graph (GPU only)",
    "reference": "SAB, Algorithm 1 line by line in autograd",
    "released": "the released algorithm in dense autograd",
    "released_lean": "the released algorithm without the copies that broadcasting makes needless",
}
VARIANTS: dict[str, dict[str, Any]] = {
    "": {},
    "recompute": {"save": "recompute"},
    "eager": {"lazy": False},
}
INPUTS = ("random", "copy")
MODES = ("train", "infer")
Call = Callable[[], Any]


@dataclass(frozen=True)
class Setting:
    """What one measurement runs.

    Attributes:
        form: one of `FORMS`.
        length: steps of random tokens, or the delay T of the copy task (T + 20 steps).
        batch, hidden: sizes.
        threads: of the CPU.
        input: ``"random"`` tokens and targets, or ``"copy"``.
        mode: ``"train"`` (forward, loss, backward) or ``"infer"`` (forward without a graph).
        k_top, k_trunc, k_att: SAB's budgets.
        weights: file of trained SAB weights; ``None``: untrained ones.
        device: where it runs.
        seed: of weights and data.
    """

    form: str
    length: int
    batch: int = 64
    hidden: int = 128
    threads: int = 2
    input: str = "random"
    mode: str = "train"
    k_top: int = 5
    k_trunc: int = 5
    k_att: int = 2
    weights: str | None = None
    device: str = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse unknown names and sizes that are not positive integers (ValueError)."""
        one_of("form", self.form, tuple(FORMS))
        one_of("input", self.input, INPUTS)
        one_of("mode", self.mode, MODES)
        for name in ("length", "batch", "hidden", "threads", "k_top", "k_trunc", "k_att"):
            positive_int(name, getattr(self, name))

    @property
    def steps(self) -> int:
        """Steps of a sequence."""
        return CopyTask(T=self.length).steps if self.input == "copy" else self.length

    def described(self) -> dict[str, Any]:
        """The setting as a record names it."""
        takes_them = self.form not in ("lstm", "released", "released_lean")
        named = "trained" if self.weights is not None and takes_them else "untrained"
        return {**asdict(self), "weights": named, "steps": self.steps}


class PlainLSTM(nn.Module):
    """`torch.nn.LSTM` and a linear read-out: x (B, T, input) → logits (B, T, classes)."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        """Build both layers."""
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        logits: Tensor = self.readout(self.lstm(x)[0])
        return logits


class Scan(nn.Module):
    """A SAB model whose scan is called with a form and its own options."""

    def __init__(self, model: SAB, form: str, **options: Any) -> None:
        """``options``: of `sab.ops.sab_scan.sab_scan`, such as ``save`` and ``lazy``."""
        super().__init__()
        self.model, self.form, self.options = model, form, options
        model.layer.form = form  # where the model is called itself, to carry its state

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, T, classes) of x (B, T, input)."""
        layer = self.model.layer
        start = layer.init_state(x.shape[0])
        rows = x.transpose(0, 1)
        h, s, _, _ = sab_scan(
            rows, layer.weights, start, layer.options, None, form=self.form, **self.options
        )
        logits: Tensor = (self.model.v1(h) + self.model.v2(s)).transpose(0, 1)
        return logits


def sab_model(setting: Setting) -> SAB:
    """The SAB of a setting: trained weights where a file is named, else new ones.

    Raises:
        ValueError: the file holds another model, or one of another size.
        FileNotFoundError: there is no such file.
    """
    if setting.weights is None:
        torch.manual_seed(setting.seed)
        config = SABConfig(
            CLASSES, setting.hidden, CLASSES, k_top=setting.k_top, k_trunc=setting.k_trunc,
            k_att=setting.k_att,
        )  # fmt: skip
        return SAB(config)
    run, state = read_weights(Path(setting.weights))
    model = build_model(run)
    if not isinstance(model, SAB):
        raise ValueError(f"weights={setting.weights!r}: holds a {run.model}, must hold a sab")
    config = model.config
    found = (config.input_size, config.hidden_size, config.k_top, config.k_trunc, config.k_att)
    wanted = (CLASSES, setting.hidden, setting.k_top, setting.k_trunc, setting.k_att)
    if found != wanted:
        raise ValueError(
            f"weights={setting.weights!r}: has (inputs, hidden, k_top, k_trunc, k_att) = {found}, "
            f"must be {wanted}"
        )
    model.load_state_dict(state)
    return model


def build(setting: Setting) -> nn.Module:
    """The module of a setting, on its device: x (B, T, 10) → logits (B, T, 10).

    Raises:
        ValueError: the form is not there on this device, or the weights do not fit.
    """
    form, hidden = setting.form, setting.hidden
    torch.manual_seed(setting.seed)
    module: nn.Module
    if form == "lstm":
        module = PlainLSTM(CLASSES, hidden, CLASSES)
    elif form in ("released", "released_lean"):
        module = Released(
            CLASSES, hidden, CLASSES, k_top=setting.k_top, k_att=setting.k_att,
            k_trunc=setting.k_trunc, copies=form == "released",
        )  # fmt: skip
    else:
        scan, _, variant = form.partition("_")
        if scan not in SCAN_FORMS:
            raise ValueError(f"form={form!r}: this version of sab has {', '.join(SCAN_FORMS)}")
        if scan == "cpp" and load_scan() is None:
            raise ValueError(f"form={form!r}: there is no compiler here; take 'torch'")
        module = Scan(sab_model(setting), scan, **VARIANTS[variant])
    return module.to(setting.device)


def batch_of(setting: Setting) -> tuple[Tensor, Tensor]:
    """Inputs (B, T, 10) one-hot and targets (B, T), on the setting's device."""
    generator = torch.Generator().manual_seed(setting.seed)
    if setting.input == "copy":
        x, y = CopyTask(T=setting.length).batch(setting.batch, generator)
    else:
        tokens, y = torch.randint(
            0, CLASSES, (2, setting.batch, setting.length), generator=generator
        )
        x = nn.functional.one_hot(tokens, CLASSES).float()
    return x.to(setting.device), y.to(setting.device)


def make_call(setting: Setting, module: nn.Module | None = None) -> Call:
    """The call that is measured: a training step, or a forward pass without a graph.

    Args:
        setting: what to run.
        module: its module, where it is there already.
    """
    model = build(setting) if module is None else module
    x, y = batch_of(setting)
    parameters = list(model.parameters())

    def train() -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        torch.autograd.backward(loss)
        return loss.detach()

    def infer() -> Tensor:
        with torch.no_grad():
            logits: Tensor = model(x)
        return logits

    return train if setting.mode == "train" else infer


def with_form(setting: Setting, form: str) -> Setting:
    """The same setting for another form."""
    return replace(setting, form=form)
