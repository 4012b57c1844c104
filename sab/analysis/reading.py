"""A language model at work: what each character costs, what is recalled for it, what it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sab.checks import finite_float, positive_int, shape
from sab.tasks.base import Batch
from sab.tasks.charlm import IGNORED

AGAIN = re.compile(r"(?<![a-z])(?P<first>[a-z]+), says [a-z]+, so it is (?P<second>[a-z]+)\.\n")


def character_bits(outputs: Tensor, y: Tensor) -> Tensor:
    """Bits (B, T) that each target cost: −log2 of its probability; NaN where none counts.

    Args:
        outputs: (B, T, symbols), logits.
        y: (B, T) int64, `sab.tasks.charlm.IGNORED` where nothing is to be said.

    Raises:
        ValueError: a shape does not fit.
    """
    shape("outputs", outputs, (None, None, None))
    shape("y", y, tuple(outputs.shape[:2]))
    nats = functional.cross_entropy(
        outputs.flatten(0, 1), y.flatten(), ignore_index=IGNORED, reduction="none"
    )
    bits = nats.view_as(y) / math.log(2)
    return torch.where(y == IGNORED, torch.nan, bits)


def sayings(text: str) -> Tensor:
    """Mark the made text of colours: 1 where one is named first, 2 where again, 0 elsewhere.

    A line that is cut off at either end of the text is left at 0.

    Returns:
        (len(text),) int64.
    """
    marks = torch.zeros(len(text), dtype=torch.int64)
    for match in AGAIN.finditer(text):
        if match["first"] != match["second"]:  # its beginning was cut off
            continue
        for mark, name in enumerate(("first", "second"), 1):
            marks[match.start(name) : match.end(name)] = mark
    return marks


def lines_batch(task: Any, lines: Sequence[str]) -> Batch:
    """Lines of text as sequences of their own, each from a fresh start.

    Args:
        task: a `sab.tasks.charlm.CharLMTask`, for its alphabet.
        lines: texts; line ends count as characters.

    Returns:
        x (B, T, symbols) float32, one-hot, the character before each target; y (B, T) int64. T is
        the longest line's length; `sab.tasks.charlm.IGNORED` fills the others up.

    Raises:
        ValueError: there is no line, or a character is not in the alphabet.
    """
    if not lines or not all(lines):
        raise ValueError(f"lines={list(lines)!r}: must hold at least one, and none empty")
    text = task.text
    place = {character: code for code, character in enumerate(text.alphabet)}
    strangers = sorted(set("".join(lines)) - set(place))
    if strangers:
        raise ValueError(f"lines: {strangers[0]!r} is not in the alphabet")
    longest = max(map(len, lines))
    y = torch.full((len(lines), longest), IGNORED)
    before = torch.full((len(lines), longest), text.start)
    for row, line in enumerate(lines):
        codes = torch.tensor([place[character] for character in line])
        y[row, : len(line)] = codes
        before[row, 1 : len(line)] = codes[:-1]
    return Batch(functional.one_hot(before, task.input_size).float(), y)


def over_blocks(weights: Tensor, k_att: int) -> Tensor:
    """Spread what is read of a memory evenly over the steps since the one before it.

    A memory is a state, made by the steps up to its own. Those since the last write belong to no
    earlier memory.

    Args:
        weights: (…, T), column s for what was written at step s + 1, as ``Recall.matrix`` gives.
        k_att: steps from one write to the next.

    Returns:
        (…, T), with the same sum over the last axis.

    Raises:
        ValueError: ``k_att`` is not a positive integer, or a weight stands where nothing was
            written.
    """
    positive_int("k_att", k_att)
    steps = weights.shape[-1]
    written = torch.arange(1, steps + 1) % k_att == 0
    if weights[..., ~written].any():
        raise ValueError(f"weights: one stands at a step that is no multiple of k_att={k_att}")
    out = torch.zeros_like(weights)
    whole = steps // k_att * k_att
    blocks = weights[..., k_att - 1 : whole : k_att] / k_att
    out[..., :whole] = blocks.repeat_interleave(k_att, dim=-1)
    return out


@torch.no_grad()
def write_on(
    model: nn.Module,
    task: Any,
    start: str,
    count: int,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> str:
    """Let a model write: feed it ``start``, then its own draws, carrying its whole state.

    Args:
        model: called as ``model(x, state)``, with x (1, steps, symbols).
        task: a `sab.tasks.charlm.CharLMTask`, for its alphabet.
        start: what comes before; the character before a text's first is put before it.
        count: characters to draw.
        generator: source of the draws.
        temperature: divides the logits; 1 draws from the model's own distribution.

    Returns:
        The ``count`` characters.

    Raises:
        ValueError: a character of ``start`` is not in the alphabet, or a number is out of range.
    """
    positive_int("count", count)
    if finite_float("temperature", temperature) <= 0:
        raise ValueError(f"temperature={temperature!r}: must be above 0")
    text = task.text
    x = lines_batch(task, [start + text.alphabet[0]]).x  # the last target is not used
    written: list[int] = []
    state = None
    for _ in range(count):
        outputs, state = (model(x) if state is None else model(x, state))[:2]
        shares = torch.softmax(outputs[0, -1] / temperature, 0)
        written.append(int(torch.multinomial(shares, 1, generator=generator)))
        x = functional.one_hot(torch.tensor([written[-1:]]), task.input_size).float()
    return text.decode(torch.tensor(written))
