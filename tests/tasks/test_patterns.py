import pytest
import torch

from sab.tasks.patterns import LETTERS, SIDE, flip, letter, letters, random_patterns


def test_letters_are_squares_of_ink_and_paper() -> None:
    drawn = letters(LETTERS)
    assert drawn.shape == (len(LETTERS), SIDE * SIDE)
    assert set(drawn.unique().tolist()) == {-1.0, 1.0}
    assert len(drawn.unique(dim=0)) == len(LETTERS)
    assert letter("T").view(10, 10)[0].eq(1).all() and letter("T").view(10, 10)[5].sum() == -6


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 1.0])
def test_flip_flips_exactly_so_many(fraction: float) -> None:
    source = torch.Generator().manual_seed(0)
    patterns = random_patterns(50, 100, source)
    noisy = flip(patterns, fraction, source)
    assert ((noisy != patterns).sum(1) == round(100 * fraction)).all()
    if 0 < fraction < 1:
        assert len((noisy != patterns).unique(dim=0)) > 40


def test_random_patterns_are_fair() -> None:
    drawn = random_patterns(200, 100, torch.Generator().manual_seed(0))
    assert abs(drawn.mean().item()) < 5 / 20_000**0.5
    assert abs((drawn @ drawn.T).fill_diagonal_(0).mean().item()) < 0.5


def test_errors() -> None:
    with pytest.raises(ValueError, match="name='Q'"):
        letter("Q")
    with pytest.raises(ValueError, match="names=''"):
        letters("")
    with pytest.raises(ValueError, match=r"fraction=1\.5"):
        flip(letters("A"), 1.5, torch.Generator())
    with pytest.raises(ValueError, match="neurons=0"):
        random_patterns(1, 0, torch.Generator())
