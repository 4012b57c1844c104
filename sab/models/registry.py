"""Names of the models, so that an experiment or a reader's own code can build one from settings."""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import Any

from torch import nn

from sab.models.attentive_lstm import AttentiveLSTM, AttentiveLSTMConfig
from sab.models.bag import Bag, BagConfig
from sab.models.bilstm import BiLSTM, BiLSTMConfig
from sab.models.dnc import DNC, DNCConfig
from sab.models.encoder_decoder import Transcriber, TranscriberConfig
from sab.models.hopfield import HopfieldReader, HopfieldReaderConfig
from sab.models.lookup import LookupReader, LookupReaderConfig
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.memn2n import MemN2N, MemN2NConfig
from sab.models.memory_reader import MemoryReader, MemoryReaderConfig
from sab.models.ntm import NTM, NTMConfig
from sab.models.pointer import Pointer, PointerConfig
from sab.models.rea import REA, REAConfig
from sab.models.sab import SAB, SABConfig
from sab.models.seq2seq import Seq2Seq, Seq2SeqConfig
from sab.models.transformer import Transformer, TransformerConfig

MODELS: dict[str, tuple[type, type[nn.Module]]] = {
    "sab": (SABConfig, SAB),
    "lstm": (LSTMConfig, LSTM),
    "attentive_lstm": (AttentiveLSTMConfig, AttentiveLSTM),
    "transformer": (TransformerConfig, Transformer),
    "rea": (REAConfig, REA),
    "bilstm": (BiLSTMConfig, BiLSTM),
    "bag": (BagConfig, Bag),
    "pointer": (PointerConfig, Pointer),
    "seq2seq": (Seq2SeqConfig, Seq2Seq),
    "hopfield": (HopfieldReaderConfig, HopfieldReader),
    "lookup": (LookupReaderConfig, LookupReader),
    "transcriber": (TranscriberConfig, Transcriber),
    "memory_reader": (MemoryReaderConfig, MemoryReader),
    "memn2n": (MemN2NConfig, MemN2N),
    "ntm": (NTMConfig, NTM),
    "dnc": (DNCConfig, DNC),
}


def register(name: str, config_class: type, model_class: type[nn.Module]) -> None:
    """Add a model: ``model_class(config_class(...))`` must give a module.

    The module is called as ``model(x) → (logits, state)``. Where it has ``objective(x, y)``, a run
    trains by that instead of by the task's loss; where it has ``remember(x, y)``, it is given the
    training data once. While a module says that it is
    ``warming_up`` (an attribute, if it has it), a run does not choose its weights.

    Args:
        name: what `build` will know it by.
        config_class: a dataclass of settings.
        model_class: the module; its constructor takes a ``config_class``.

    Raises:
        ValueError: the name is taken by another model.
    """
    if MODELS.get(name, (config_class, model_class)) != (config_class, model_class):
        raise ValueError(f"name={name!r}: is taken by {MODELS[name][1].__name__}")
    MODELS[name] = (config_class, model_class)


def build(name: str, config: Any = None, **settings: Any) -> nn.Module:
    """Build a registered model from a config object, a dict, or keyword settings.

    Args:
        name: a key of ``MODELS``.
        config: an object of the model's config class, or a dict of its settings.
        **settings: single settings; they override those of the dict.

    Raises:
        ValueError: unknown model or setting, or a setting out of range.
    """
    if name not in MODELS:
        close = difflib.get_close_matches(name, MODELS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"model={name!r}: must be one of {', '.join(sorted(MODELS))}{hint}")
    config_class, model_class = MODELS[name]
    if isinstance(config, config_class):
        return model_class(config)
    values = {**(config or {}), **settings}
    known = {field.name for field in fields(config_class)}
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{key}={values[key]!r}: {name} has no such setting{hint}")
    return model_class(config_class(**values))
