"""A small Transformer encoder for sequences (paper, section 4, Table 4).

The paper leaves its size open. Here the width is chosen so that the parameters are as many as the
LSTM's beside it, within 20 %: see `matched_width`. Blocks normalise first; positions are sines, so
they have no parameters and no greatest length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sab.checks import positive_int
from sab.models.encoder_decoder import EncoderLayer
from sab.models.lstm import LSTM, LSTMConfig, check_input
from sab.ops.attention import causal_mask, padding_mask
from sab.ops.positions import sinusoidal

TOLERANCE = 0.2  # of the LSTM's parameters


@dataclass(frozen=True)
class TransformerConfig:
    """Settings of `Transformer`.

    Attributes:
        input_size: width of the input.
        hidden_size: width of a position's vector; a multiple of ``heads``.
        output_size: width of the read-out.
        layers: blocks.
        heads: attention heads.
        widening: width of the inner layer as a multiple of ``hidden_size``.
        causal: whether a position sees only itself and earlier ones.

    Raises:
        ValueError: a size is not a positive integer, or ``heads`` does not divide ``hidden_size``.
    """

    input_size: int = 10
    hidden_size: int = 128
    output_size: int = 10
    layers: int = 4
    heads: int = 4
    widening: int = 4
    causal: bool = False

    def __post_init__(self) -> None:
        for name in ("input_size", "hidden_size", "output_size", "layers", "heads", "widening"):
            positive_int(name, getattr(self, name))
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size={self.hidden_size!r}: must be a multiple of heads={self.heads}"
            )
        if not isinstance(self.causal, bool):
            raise ValueError(f"causal={self.causal!r}: must be True or False")


class Transformer(nn.Module):
    """A Transformer encoder with a linear read-out at every position.

    Shapes: x (B, T, input_size) → logits (B, T, output_size) and ``None``: it has no state. A class
    is read at the last position, or any real one: it sees all of them unless ``causal``.
    """

    def __init__(self, config: TransformerConfig | None = None) -> None:
        """Build the blocks and the read-out from ``config``."""
        super().__init__()
        self.config = config = config or TransformerConfig()
        self.embed = nn.Linear(config.input_size, config.hidden_size)
        inner = config.widening * config.hidden_size
        self.blocks = nn.ModuleList(
            EncoderLayer(
                config.hidden_size, config.heads, inner, norm_first=True, activation="gelu"
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.hidden_size)
        self.readout = nn.Linear(config.hidden_size, config.output_size)

    def forward(
        self, x: Tensor, state: None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Logits (B, T, output_size), and no state.

        Args:
            x: (B, T, input_size).
            state: ``None``: it has none.
            lengths: (B,) int64, valid steps of each sample; ``None``: all T. What stands behind
                them may be anything, and the logits there say nothing.

        Raises:
            ValueError: a shape or a length does not fit, or a state is given.
        """
        check_input(x, self.config.input_size, lengths)
        if state is not None:
            raise ValueError("state: a Transformer has none to go on from")
        mask = causal_mask(x.shape[1], x.device) if self.config.causal else None
        if lengths is not None:
            keep = padding_mask(lengths, x.shape[1])
            x = x.masked_fill(~keep[:, :, None], 0.0)
            seen = keep[:, None, None]
            mask = seen if mask is None else seen & mask
        places = torch.arange(x.shape[1], device=x.device)
        y = self.embed(x) + sinusoidal(places, self.config.hidden_size).to(x.dtype)
        for block in self.blocks:
            y = block(y, mask)
        return self.readout(self.norm(y)), None


def count(model: nn.Module) -> int:
    """Parameters of a model."""
    return sum(p.numel() for p in model.parameters())


def matched_width(
    units: int, input_size: int, output_size: int, layers: int = 4, heads: int = 4
) -> int:
    """The width whose parameters come nearest to those of an LSTM of ``units``.

    Raises:
        ValueError: no multiple of ``heads`` comes within 20 % of them.
    """
    with torch.device("meta"):
        wanted = count(LSTM(LSTMConfig(input_size, units, output_size)))

        def miss(width: int) -> float:
            config = TransformerConfig(input_size, width, output_size, layers, heads)
            return abs(count(Transformer(config)) / wanted - 1)

        width = min(range(heads, 2 * units + heads, heads), key=miss)
        if miss(width) > TOLERANCE:
            raise ValueError(
                f"units={units!r}: no width with {layers} layers and {heads} heads has parameters "
                f"within 20 % of the LSTM's {wanted:,}"
            )
    return width
