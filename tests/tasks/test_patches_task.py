"""Patches: every pixel in its place, sizes, what is refused."""

from __future__ import annotations

import pytest
import torch

from sab.tasks.images import ImageTask
from sab.tasks.patches import PatchTask, patched


def test_patches_are_squares_row_by_row() -> None:
    picture = torch.arange(36.0).view(1, 36, 1)  # 6 x 6
    found = patched(picture, 2)
    assert found.shape == (1, 9, 4)
    assert found[0, 0].tolist() == [0, 1, 6, 7]
    assert found[0, 2].tolist() == [4, 5, 10, 11]
    assert found[0, 3].tolist() == [12, 13, 18, 19]
    coloured = torch.arange(16.0 * 3).view(1, 16, 3)
    assert patched(coloured, 2)[0, 1].tolist() == [6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23]
    assert torch.equal(patched(picture, 6)[0, 0], picture.flatten())


def test_the_task_holds_the_same_pictures() -> None:
    task, pixels = PatchTask("digits", patch=2), ImageTask("digits", "pixel")
    which = torch.tensor([5, 0, 11])
    x, y = task.take("valid", which)
    whole, labels = pixels.take("valid", which)
    assert x.shape == (3, 16, 4) == (3, task.steps, task.input_size)
    assert torch.equal(y, labels) and torch.equal(x, patched(whole, 2))
    assert torch.equal(x.sum((1, 2)), whole.sum((1, 2))) and x.max() <= 1
    assert "patches of 2 x 2" in task.about
    mnist = PatchTask()
    assert (mnist.steps, mnist.input_size, mnist.output_size) == (49, 16, 10)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"patch=3: must divide the side, 8"):
        PatchTask("digits", patch=3)
    with pytest.raises(ValueError, match="patch=0"):
        PatchTask("digits", patch=0)
    with pytest.raises(ValueError, match="order='permuted'"):
        PatchTask("digits", order="permuted", patch=2)
    with pytest.raises(ValueError, match="patch=5"):
        patched(torch.zeros(1, 36, 1), 5)
    with pytest.raises(ValueError, match="square of 35"):
        patched(torch.zeros(1, 35, 1), 5)
