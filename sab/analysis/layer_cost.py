"""What a layer costs: multiplications counted while it runs, and how far a position can see.

The three layers of the comparison by Vaswani et al. 2017, Table 1, in their plainest form.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from sab.checks import positive_int
from sab.ops.attention import scaled_dot_product

Layer = Callable[[Tensor], Tensor]


def _weights(*size: int) -> Tensor:
    source = torch.Generator().manual_seed(sum(size))
    return torch.randn(*size, generator=source) / size[-1] ** 0.5


def self_attention_layer(width: int, projected: bool = True) -> Layer:
    """One head over x (N, width); ``projected``: with query, key, value and output projections.

    Multiplications: 2 N² width, and 4 N width² for the projections.

    Raises:
        ValueError: ``width`` is not a positive integer.
    """
    positive_int("width", width)
    w = _weights(4, width, width)

    def layer(x: Tensor) -> Tensor:
        q, k, v = (x @ w[i] for i in range(3)) if projected else (x, x, x)
        found = scaled_dot_product(q, k, v).output
        return found @ w[3] if projected else found

    return layer


def recurrent_layer(width: int, gates: int = 1) -> Layer:
    """``h = tanh(W x + U h)`` step by step over x (N, width); an LSTM has four such ``gates``.

    Multiplications: 2 gates N width². Only the first gate's value is used; the others are computed.

    Raises:
        ValueError: a size is not a positive integer.
    """
    positive_int("width", width)
    positive_int("gates", gates)
    w, u = _weights(width, gates * width), _weights(width, gates * width) * 0.5

    def layer(x: Tensor) -> Tensor:
        inputs = x @ w
        h = x.new_zeros(1, width)
        states = []
        for row in inputs.split(1):
            h = torch.tanh(row + h @ u)[:, :width]
            states.append(h)
        return torch.cat(states)

    return layer


def convolution_layer(width: int, kernel: int = 3, dilation: int = 1) -> Layer:
    """A causal convolution over x (N, width): position n sees ``kernel`` positions up to n.

    Multiplications: kernel N width².

    Raises:
        ValueError: a size is not a positive integer.
    """
    positive_int("width", width)
    positive_int("kernel", kernel)
    positive_int("dilation", dilation)
    w = _weights(width, width, kernel)

    def layer(x: Tensor) -> Tensor:
        padded = functional.pad(x.T[None], ((kernel - 1) * dilation, 0))
        return functional.conv1d(padded, w, dilation=dilation)[0].T

    return layer


def multiplications(layer: Layer, steps: int, width: int) -> int:
    """Count the multiplications of matrix products and convolutions for x (steps, width).

    Raises:
        ValueError: a size is not a positive integer.
    """
    positive_int("steps", steps)
    positive_int("width", width)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(steps, width))
    return counter.get_total_flops() // 2  # a multiplication and an addition count as two


def sees(layers: list[Layer], steps: int, width: int) -> int:
    """How many inputs the last output of a stack depends on, found by its gradient.

    Raises:
        ValueError: a size is not a positive integer.
    """
    positive_int("steps", steps)
    source = torch.Generator().manual_seed(0)
    x = torch.randn(steps, width, generator=source).requires_grad_()
    y = x
    for layer in layers:
        y = layer(y)
    (gradient,) = torch.autograd.grad(y[-1].sum(), x)
    return int((gradient != 0).any(1).sum())
