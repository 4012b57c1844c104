"""Pictures cut into square patches, a patch a step, the class said at the end (REA's section 6.2).

What a vision Transformer reads: the patches row by row, each with all its pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from torch import Tensor

from sab.checks import positive_int
from sab.tasks.base import Batch
from sab.tasks.images import ImageTask
from sab.tasks.pictures import SHAPES


def patched(x: Tensor, patch: int) -> Tensor:
    """Cut pictures into patches, both row by row.

    Shapes: ``x`` (B, side², channels) → (B, (side / patch)², patch² · channels).

    Raises:
        ValueError: the picture is not square or ``patch`` does not divide its side.
    """
    side = isqrt(x.shape[1])
    if side * side != x.shape[1] or side % patch:
        raise ValueError(
            f"patch={patch!r}: must divide the side of a square of {x.shape[1]} pixels"
        )
    tiles = x.unflatten(1, (side // patch, patch, side // patch, patch))
    return tiles.transpose(2, 3).flatten(3).flatten(1, 2)


@dataclass(frozen=True)
class PatchTask(ImageTask):
    """Say the class of a picture that is read patch by patch.

    Args:
        source: as in `ImageTask`.
        order: of the patches, ``"pixel"``: row by row; another makes no patches.
        patch: side of a patch in pixels; must divide that of the picture.

    Raises:
        ValueError: an unknown name, or a patch that does not fit.
    """

    order: str = "pixel"
    patch: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_int("patch", self.patch)
        side = isqrt(SHAPES[self.source][0])
        if self.order != "pixel":
            raise ValueError(f"order={self.order!r}: must be 'pixel'; patches are squares")
        if side % self.patch:
            raise ValueError(f"patch={self.patch!r}: must divide the side, {side}")

    @property
    def input_size(self) -> int:
        """Pixels of a patch, times channels."""
        return self.patch**2 * SHAPES[self.source][1]

    @property
    def steps(self) -> int:
        """Patches."""
        return SHAPES[self.source][0] // self.patch**2

    @property
    def about(self) -> str:
        """What was read and how it was cut, for the record."""
        return f"{self.pictures.about}; patches of {self.patch} x {self.patch}, row by row"

    def take(self, part: str, which: Tensor) -> Batch:
        """Pictures ``which (B,)``: x (B, patches, input_size) float32 in 0…1, y (B,) int64."""
        x, y = super().take(part, which)
        return Batch(patched(x, self.patch), y)
