"""Models by name, with errors that help."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest
import torch
from torch import nn

from sab.models import registry
from sab.models.attentive_lstm import AttentiveLSTM, AttentiveLSTMConfig
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.registry import build, register
from sab.models.sab import SAB, SABConfig

CLASSES = {
    "sab": (SABConfig, SAB),
    "lstm": (LSTMConfig, LSTM),
    "attentive_lstm": (AttentiveLSTMConfig, AttentiveLSTM),
}


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))


@pytest.mark.parametrize("name", CLASSES)
def test_build_from_settings_dict_or_config(name: str) -> None:
    config_class, model_class = CLASSES[name]
    settings: dict[str, Any] = {"input_size": 3, "hidden_size": 5, "output_size": 2, "k_trunc": 4}
    config = config_class(**settings)
    built = (
        build(name, config),
        build(name, settings),
        build(name, **settings),
        build(name, {**settings, "k_trunc": 9}, k_trunc=4),
    )
    for model in built:
        assert type(model) is model_class and model.config == config
        logits, _ = model(torch.zeros(2, 6, 3))
        assert logits.shape == (2, 6, 2)
    assert build(name).config == config_class()


def test_every_registered_model_is_tested_here() -> None:
    assert CLASSES.items() <= registry.MODELS.items()
    for config_class, _ in registry.MODELS.values():
        assert {"input_size", "output_size"} <= {field.name for field in fields(config_class)}


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"model='sba': must be one of .*; did you mean 'sab'\?"):
        build("sba")
    with pytest.raises(ValueError, match="model='transistor': must be one of") as error:
        build("transistor")
    assert all(name in str(error.value) for name in CLASSES)
    with pytest.raises(
        ValueError, match=r"k_tops=3: sab has no such setting; did you mean 'k_top'"
    ):
        build("sab", k_tops=3)
    with pytest.raises(ValueError, match="k_top=3: lstm has no such setting"):
        build("lstm", {"k_top": 3})
    with pytest.raises(ValueError, match="k_top=0: must be an integer of at least 1"):
        build("sab", k_top=0)


@dataclass(frozen=True)
class EchoConfig:
    size: int = 2


class Echo(nn.Module):
    def __init__(self, config: EchoConfig) -> None:
        super().__init__()
        self.config = config


def test_register() -> None:
    register("echo", EchoConfig, Echo)
    register("echo", EchoConfig, Echo)  # a cell that is run twice
    assert build("echo", size=5).config == EchoConfig(5)
    with pytest.raises(ValueError, match=r"size_=1: echo has no such setting; did you mean 'size'"):
        build("echo", size_=1)
    with pytest.raises(ValueError, match="name='echo': is taken by Echo"):
        register("echo", EchoConfig, nn.Linear)
    with pytest.raises(ValueError, match="name='sab': is taken by SAB"):
        register("sab", EchoConfig, Echo)
    assert build("sab").config == SABConfig()
