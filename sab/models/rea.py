"""Models built of REA layers: a classifier of sequences and a causal language model.

With its switches the same class is every baseline of its family: full attention, a window alone, a
state alone, and a detector that looks at each position by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from sab.checks import one_of, positive_int, shape
from sab.models.rea_layer import LayerConfig, LayerState, REALayer
from sab.models.rea_listing import FIXES, ListingREA
from sab.ops.padding import mask_of, pool
from sab.ops.positions import sinusoidal

LAYERS = ("rea", "listing")
READOUTS = ("each", "mean", "max")
PADDINGS = ("none", "zero_rows")
POSITIONS = ("none", "sinusoid")


@dataclass(frozen=True)
class REAConfig:
    """Settings of `REA`.

    Attributes:
        input_size: width of the input.
        hidden_size: width D of the stream and of the layers.
        output_size: width of the read-out.
        layers: how many blocks.
        heads … form: see `sab.models.rea_layer.LayerConfig`.
        feedforward: width of the two-layer network after each layer, in D; 0: none.
        norm: a layer normalisation before each layer and network and at the end.
        positions: ``"sinusoid"`` adds the usual waves to the input, counted over real steps.
        readout: ``"each"``: logits at every position from its own state; ``"mean"``, ``"max"``: one
            answer from all real positions, repeated at each.
        padding: ``"zero_rows"``: an input row of zeros is padding, where no mask is given.
        layer: ``"rea"``, or ``"listing"``: the layer as the source's listing has it.
        fixes: with ``"listing"``: which of its faults are mended; see `ListingREA`.
    """

    input_size: int = 10
    hidden_size: int = 64
    output_size: int = 10
    layers: int = 2
    heads: int = 4
    window: int = 16
    attention: str = "window"
    state: str = "linear"
    state_size: int | None = None
    state_input: str = "stream"
    direction: str = "forward"
    causal: bool = False
    state_norm: bool = True
    gate_start: float = 0.02
    alpha_start: float = 0.1
    form: str = "blocked"
    feedforward: int = 4
    norm: bool = True
    positions: str = "none"
    readout: str = "each"
    padding: str = "none"
    layer: str = "rea"
    fixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values out of range (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size", "layers"):
            positive_int(name, getattr(self, name))
        positive_int("feedforward", self.feedforward, 0)
        one_of("positions", self.positions, POSITIONS)
        one_of("readout", self.readout, READOUTS)
        one_of("padding", self.padding, PADDINGS)
        one_of("layer", self.layer, LAYERS)
        object.__setattr__(self, "fixes", tuple(self.fixes))
        for fix in self.fixes:
            one_of("fixes", fix, FIXES)
        self.layer_config()

    def layer_config(self) -> LayerConfig:
        """The layer's own settings."""
        shared = {item.name for item in fields(LayerConfig)} - {"dim"}
        return LayerConfig(self.hidden_size, **{name: getattr(self, name) for name in shared})

    @classmethod
    def language_model(cls, symbols: int, **settings: Any) -> REAConfig:
        """Predict the next of ``symbols`` symbols: causal, with logits at every position."""
        sizes = {"input_size": symbols, "output_size": symbols}
        return cls(**{**sizes, "causal": True, "readout": "each", **settings})

    @classmethod
    def classifier(cls, input_size: int, classes: int, **settings: Any) -> REAConfig:
        """Name a sequence: two-sided, averaged over its positions."""
        sizes = {"input_size": input_size, "output_size": classes}
        return cls(**{**sizes, "readout": "mean", "padding": "zero_rows", **settings})


class Block(nn.Module):
    """A layer, then a network of two layers at each position; both added to the stream."""

    def __init__(self, config: REAConfig) -> None:
        """Build both from ``config``."""
        super().__init__()
        dim, wide = config.hidden_size, config.feedforward * config.hidden_size
        self.first = nn.LayerNorm(dim) if config.norm else nn.Identity()
        self.layer: REALayer | ListingREA
        if config.layer == "rea":
            self.layer = REALayer(config.layer_config())
        else:
            self.layer = ListingREA(dim, config.heads, config.window, fixes=config.fixes)
        self.network: nn.Module | None = None
        if wide:
            norm = nn.LayerNorm(dim) if config.norm else nn.Identity()
            self.network = nn.Sequential(
                norm, nn.Linear(dim, wide), nn.GELU(), nn.Linear(wide, dim)
            )

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return self.after(x + self.layer.channels(self.first(x), keep))

    def after(self, x: Tensor) -> Tensor:
        """The network, position by position: (…, D) → (…, D)."""
        return x if self.network is None else x + self.network(x)


class REAState(NamedTuple):
    """State of a stream: each layer's, and the steps so far."""

    layers: tuple[LayerState, ...]
    steps: int


class REA(nn.Module):
    """Input projection, blocks, read-out.

    Shapes: x (B, N, input_size) → logits (B, N, output_size) and ``None`` (no state is carried;
    `step` does that).
    """

    def __init__(self, config: REAConfig | None = None) -> None:
        """Build the model from ``config``."""
        super().__init__()
        self.config = config = config or REAConfig()
        self.embed = nn.Linear(config.input_size, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.last = nn.LayerNorm(config.hidden_size) if config.norm else nn.Identity()
        self.readout = nn.Linear(config.hidden_size, config.output_size)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor, None]:
        """Logits at every position; those at padding mean nothing.

        Args:
            x: (B, N, input_size).
            keep: (B, N) bool, True at real steps; ``None``: as the setting ``padding`` says.

        Raises:
            ValueError: a shape does not fit, or a sequence has no real step.
        """
        keep = mask_of(x, keep, self.config.padding, self.config.input_size)
        hidden = self.hidden(x, keep)
        if self.config.readout == "each":
            return self.readout(hidden), None
        answer = self.readout(pool(hidden, keep, self.config.readout))
        return answer[:, None].expand(-1, x.shape[1], -1), None

    def hidden(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The stream after the last block, (B, N, D): features for a read-out of one's own."""
        stream = self.embed(x)
        if self.config.positions == "sinusoid":
            waves = sinusoidal(counted(x, keep), self.config.hidden_size, "halves")
            stream = stream + waves.to(stream.dtype)
        for block in self.blocks:
            stream = block(stream, keep)
        return cast(Tensor, self.last(stream))

    def start(self, batch: int) -> REAState:
        """An empty state for ``batch`` streams.

        Raises:
            ValueError: the model cannot be streamed (see `REALayer.start`), or its read-out needs
                the whole sequence.
        """
        one_of("readout", self.config.readout, ("each",))
        one_of("layer", self.config.layer, ("rea",))
        layers = [cast(REALayer, cast(Block, block).layer) for block in self.blocks]
        return REAState(tuple(layer.start(batch) for layer in layers), 0)

    @torch.no_grad()
    def step(self, x: Tensor, state: REAState) -> tuple[Tensor, REAState]:
        """One step of a stream, without a graph; equal to `forward` position by position.

        Args:
            x: (B, input_size).
            state: from `start` or an earlier call.

        Returns:
            Logits (B, output_size) and the next state; its size does not grow beyond the window.

        Raises:
            ValueError: a shape does not fit.
        """
        shape("x", x, (None, self.config.input_size))
        stream = self.embed(x)
        if self.config.positions == "sinusoid":
            at = torch.full(x.shape[:1], state.steps, device=x.device)
            waves = sinusoidal(at, self.config.hidden_size, "halves")
            stream = stream + waves.to(stream.dtype)
        after = []
        for block, before in zip(self.blocks, state.layers, strict=True):
            block = cast(Block, block)
            added, now = cast(REALayer, block.layer).step(block.first(stream), before)
            stream = block.after(stream + added)
            after.append(now)
        return self.readout(self.last(stream)), REAState(tuple(after), state.steps + 1)

    def stream(self, x: Tensor, state: REAState | None = None) -> tuple[Tensor, REAState]:
        """Go through ``x`` (B, N, input_size) by `step`, from ``state`` or an empty one.

        Returns:
            Logits (B, N, output_size) and the state behind the last step.

        Raises:
            ValueError: as `start` and `step`.
        """
        shape("x", x, (None, None, self.config.input_size))
        if 0 in x.shape:
            raise ValueError(f"x has shape {tuple(x.shape)}: needs a sequence and a step (empty?)")
        state = self.start(len(x)) if state is None else state
        outputs = []
        for now in x.unbind(1):
            out, state = self.step(now, state)
            outputs.append(out)
        return torch.stack(outputs, 1), state


def counted(x: Tensor, keep: Tensor | None) -> Tensor:
    """Number of each real step, from 0, (B, N); padding has that of the step before it, or 0."""
    if keep is None:
        return torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    return (keep.cumsum(1) - 1).clamp(min=0)
