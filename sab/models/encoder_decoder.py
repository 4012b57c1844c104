"""The Transformer as it was first drawn: encoder, decoder, positions.

Source: Vaswani et al. 2017, section 3. Post-norm: each part is ``LayerNorm(x + part(x))``. The
layers equal PyTorch's own, without dropout, when they hold the same weights; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from sab.checks import one_of, positive_int, shape, within
from sab.models.multi_head import MultiHead
from sab.ops.attention import causal_mask, padding_mask
from sab.ops.positions import sinusoidal

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
POSITIONS = ("sinusoidal", "learned", "none")


class FeedForward(nn.Sequential):
    """``W2 f(W1 x + b1) + b2``, the same at every position (section 3.3); f is ReLU there."""

    def __init__(self, width: int, hidden: int, activation: str = "relu") -> None:
        """Make both maps: width → hidden → width."""
        positive_int("hidden", hidden)
        one_of("activation", activation, ACTIVATIONS)
        between = ACTIVATIONS[activation]()
        super().__init__(nn.Linear(width, hidden), between, nn.Linear(hidden, width))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward part, each added to its input.

    Args:
        width, heads, hidden: of the vectors, the attention, the feed-forward part.
        norm_first: ``False``: each sum is normalised, as the source has it; ``True``: what goes
            into a part is, and the sum is left alone (Xiong et al. 2020).
        activation: ``"relu"`` or ``"gelu"``.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        norm_first: bool = False,
        activation: str = "relu",
    ) -> None:
        """Make the layer; errors as in `MultiHead`."""
        super().__init__()
        self.attention = MultiHead(width, heads)
        self.feed_forward = FeedForward(width, hidden, activation)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_first = norm_first

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, N, width) → (B, N, width); ``mask`` as in `MultiHead.read`."""
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask=mask)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask=mask))
        return self.norm2(x + self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then the feed-forward part."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        """Make the layer; errors as in `MultiHead`."""
        super().__init__()
        self.attention = MultiHead(width, heads)
        self.cross = MultiHead(width, heads)
        self.feed_forward = FeedForward(width, hidden)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))

    def forward(self, y: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        """(B, M, width) → (B, M, width); position m sees y up to m, and all of the memory.

        Args:
            y: (B, M, width).
            memory: (B, N, width), the encoder's output.
            memory_mask: as in `MultiHead.read`.
        """
        causal = causal_mask(y.shape[1], y.device)
        y = self.norm1(y + self.attention(y, mask=causal))
        y = self.norm2(y + self.cross(y, memory, memory_mask))
        return self.norm3(y + self.feed_forward(y))


@dataclass(frozen=True)
class EncoderDecoderConfig:
    """Settings of `EncoderDecoder`.

    Attributes:
        symbols: kinds of symbol; one more is made, for the beginning.
        width, heads, hidden, layers: of encoder and decoder alike.
        positions: ``"sinusoidal"``, ``"learned"`` or ``"none"``.
        longest: most positions that ``"learned"`` has a vector for.
    """

    symbols: int = 10
    width: int = 32
    heads: int = 4
    hidden: int = 64
    layers: int = 1
    positions: str = "sinusoidal"
    longest: int = 64

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and unknown positions (ValueError)."""
        for name in ("symbols", "width", "heads", "hidden", "layers", "longest"):
            positive_int(name, getattr(self, name))
        one_of("positions", self.positions, POSITIONS)


class EncoderDecoder(nn.Module):
    """From one sequence of symbols to another.

    Shapes: source (B, N) int64 and target (B, M) int64 → logits (B, M, symbols).
    """

    def __init__(self, config: EncoderDecoderConfig | None = None) -> None:
        """Build embedding, layers and the answer from ``config``."""
        super().__init__()
        self.config = config or EncoderDecoderConfig()
        c = self.config
        self.embed = nn.Embedding(c.symbols + 1, c.width)
        if c.positions == "learned":
            self.place = nn.Parameter(0.1 * torch.randn(c.longest, c.width))
        self.encoder = nn.ModuleList(
            EncoderLayer(c.width, c.heads, c.hidden) for _ in range(c.layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(c.width, c.heads, c.hidden) for _ in range(c.layers)
        )
        self.answer = nn.Linear(c.width, c.symbols)

    def _check_symbols(self, name: str, symbols: Tensor, batch: int | None = None) -> None:
        """Refuse what is no sequence of symbols (the one for the beginning is the model's own)."""
        shape(name, symbols, (batch, None))
        if symbols.numel() == 0:
            raise ValueError(f"{name} has shape {tuple(symbols.shape)}: must not be empty")
        within(name, symbols, 0, self.config.symbols - 1)

    def _embedded(self, name: str, symbols: Tensor) -> Tensor:
        x = self.embed(symbols)
        steps = symbols.shape[1]
        if self.config.positions == "sinusoidal":
            x = x + sinusoidal(steps, self.config.width).to(x)
        if self.config.positions == "learned":
            if steps > self.config.longest:
                raise ValueError(f"{name} has {steps} steps: at most longest={self.config.longest}")
            x = x + self.place[:steps]
        return x

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The encoder's output (B, N, width).

        Args:
            source: (B, N) int64.
            lengths: (B,), valid symbols of each sample; ``None``: all.

        Raises:
            ValueError: a shape, a symbol or a length does not fit.
        """
        self._check_symbols("source", source)
        x = self._embedded("source", source)
        mask = None if lengths is None else padding_mask(lengths, source.shape[1])[:, None, None]
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    def forward(self, source: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits (B, M, symbols) of each target symbol, given the source and those before it.

        Raises:
            ValueError: a shape, a symbol or a length does not fit.
        """
        memory = self.encode(source, lengths)
        self._check_symbols("target", target, source.shape[0])
        told = functional.pad(target[:, :-1], (1, 0), value=self.config.symbols)
        return self._decode(told, memory, lengths)

    def _decode(self, told: Tensor, memory: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else padding_mask(lengths, memory.shape[1])[:, None, None]
        y = self._embedded("target", told)
        for layer in self.decoder:
            y = layer(y, memory, mask)
        return self.answer(y)

    @torch.no_grad()
    def greedy(self, source: Tensor, steps: int, lengths: Tensor | None = None) -> Tensor:
        """The likeliest symbol at each of ``steps`` steps, each told its own past; (B, steps).

        Raises:
            ValueError: as for `forward`, or ``steps`` is not a positive integer.
        """
        positive_int("steps", steps)
        memory = self.encode(source, lengths)
        told = source.new_full((source.shape[0], 1), self.config.symbols)
        for _ in range(steps):
            choice = self._decode(told, memory, lengths)[:, -1].argmax(1)
            told = torch.cat([told, choice[:, None]], 1)
        return told[:, 1:]


@dataclass(frozen=True)
class TranscriberConfig:
    """Settings of `Transcriber`.

    Attributes:
        input_size, output_size: kinds of symbol, the same on both sides.
        width, heads, hidden, layers, positions, longest: as in `EncoderDecoderConfig`.
    """

    input_size: int = 10
    output_size: int = 10
    width: int = 32
    heads: int = 4
    hidden: int = 64
    layers: int = 1
    positions: str = "sinusoidal"
    longest: int = 64

    def __post_init__(self) -> None:
        """Refuse alphabets that differ, and what `EncoderDecoderConfig` refuses (ValueError)."""
        positive_int("input_size", self.input_size)
        if self.output_size != self.input_size:
            raise ValueError(
                f"output_size={self.output_size!r}: must equal input_size={self.input_size!r}"
            )
        self.inside()

    def inside(self) -> EncoderDecoderConfig:
        """The settings of the model inside."""
        return EncoderDecoderConfig(
            self.input_size, self.width, self.heads, self.hidden, self.layers, self.positions,
            self.longest,
        )  # fmt: skip


class Transcriber(nn.Module):
    """`EncoderDecoder` for the trainer: an answer as long as the source, told or alone.

    Shapes: x (B, N) int64 → logits (B, N, symbols), and ``None`` for the state.
    """

    def __init__(self, config: TranscriberConfig | None = None) -> None:
        """Build the model inside."""
        super().__init__()
        self.config = config or TranscriberConfig()
        self.model = EncoderDecoder(self.config.inside())

    def forward(self, x: Tensor, targets: Tensor | None = None) -> tuple[Tensor, None]:
        """Logits given the right past ``targets`` (B, N), or given what it wrote itself.

        Raises:
            ValueError: a shape or a symbol does not fit.
        """
        told = self.model.greedy(x, x.shape[1]) if targets is None else targets
        logits: Tensor = self.model(x, told)
        return logits, None
