"""Positions as phases: each pair of channels is a sine and a cosine of one wavelength.

Source: Vaswani et al. 2017, section 3.5.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sab.checks import one_of, positive_int

LAYOUTS = ("pairs", "halves")


def sinusoidal(places: Tensor | int, width: int, layout: str = "pairs") -> Tensor:
    """Sines and cosines of ``place / 10000^(i / half)``: wavelengths from 2π up to 20,000π.

    Args:
        places: (…), counted from 0; integers, or floats in whose precision it is computed. A
            number stands for so many places from 0 on, computed in double precision.
        width: channels; of an odd number the last cosine is left out.
        layout: how the channels are ordered: ``"pairs"``: sine, cosine, sine, cosine …, as the
            source has them; ``"halves"``: all sines, then all cosines.

    Returns:
        (…, width), every entry between -1 and 1; float32 unless ``places`` are floats.

    Raises:
        ValueError: a size is not a positive integer, or the layout is unknown.
    """
    if not isinstance(places, Tensor):
        count = positive_int("places", places)
        return sinusoidal(torch.arange(count, dtype=torch.float64), width, layout).float()
    half = -(-positive_int("width", width) // 2)
    one_of("layout", layout, LAYOUTS)
    kind = places.dtype if places.is_floating_point() else torch.float32
    steps = torch.arange(half, device=places.device, dtype=kind)
    angles = places[..., None] * torch.exp(-math.log(10_000) * steps / half)
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()], -1)[..., :width]
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width]
