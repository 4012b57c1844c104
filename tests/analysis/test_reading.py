"""What characters cost, what is recalled for them, and what a model writes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sab.analysis.reading import character_bits, lines_batch, over_blocks, sayings, write_on
from sab.models.lstm import LSTM, LSTMConfig
from sab.models.sab import SAB, SABConfig
from sab.tasks.charlm import IGNORED, CharLMTask

TASK = CharLMTask(corpus="colours", T=20)


def test_bits_are_logarithms_of_the_probabilities() -> None:
    outputs = torch.tensor([[[0.0, 0.0, 0.0, 0.0], [math.log(3), 0.0, 0.0, 0.0], [9.0, 0, 0, 0]]])
    bits = character_bits(outputs, torch.tensor([[2, 0, IGNORED]]))
    assert bits[0, :2].tolist() == pytest.approx([2.0, 1.0])
    assert bits[0, 2].isnan()
    with pytest.raises(ValueError, match="y has shape"):
        character_bits(outputs, torch.zeros(1, 2, dtype=torch.int64))


def test_their_mean_is_the_task_s_metric() -> None:
    batch = TASK.take("test", torch.arange(3))
    outputs = torch.randn(3, 20, TASK.output_size)
    mean = character_bits(outputs, batch.y).nanmean()
    assert float(mean) == pytest.approx(TASK.metrics(outputs, batch.y)["bpc"], rel=1e-5)


def test_sayings_of_whole_and_of_cut_lines() -> None:
    line = "blue, says bob, so it is blue.\n"
    marks = sayings(line).tolist()
    assert marks == [1] * 4 + [0] * 21 + [2] * 4 + [0, 0]
    assert sayings(line[1:]).sum() == 0  # "lue": its first was cut
    assert sayings(line[:-3]).sum() == 0
    assert sayings(line * 2).tolist() == marks * 2


def test_lines_start_anew_and_fill_up() -> None:
    batch = lines_batch(TASK, ["red.\n", "tom"])
    assert TASK.text.decode(batch.y[0]) == "red.\n"
    assert TASK.text.decode(batch.y[1, :3]) == "tom"
    assert batch.y[1, 3:].tolist() == [IGNORED] * 2
    assert TASK.text.decode(batch.x[0].argmax(-1)) == "\nred."
    assert batch.x.sum(-1).eq(1).all()
    for lines, message in (([], "at least one"), (["", "a"], "none empty"), (["RED"], "'D'")):
        with pytest.raises(ValueError, match=message):
            lines_batch(TASK, lines)


def test_a_memory_s_weight_is_spread_over_its_block() -> None:
    weights = torch.zeros(2, 7)
    weights[0, 2], weights[1, 5] = 0.6, 0.9
    out = over_blocks(weights, 3)
    assert torch.allclose(out[0], torch.tensor([0.2, 0.2, 0.2, 0, 0, 0, 0]))
    assert torch.allclose(out[1], torch.tensor([0, 0, 0, 0.3, 0.3, 0.3, 0]))
    assert torch.equal(over_blocks(weights, 1), weights)
    with pytest.raises(ValueError, match="no multiple of k_att=2"):
        over_blocks(weights, 2)


def test_what_sab_reads_stands_where_it_was_written() -> None:
    model = SAB(SABConfig(TASK.input_size, 8, TASK.output_size, k_top=2, k_att=3, k_trunc=3))
    batch = lines_batch(TASK, ["blue, says bob, so\n"])
    recall = model(batch.x, return_recall=True)[2]
    spread = over_blocks(recall.matrix().detach(), 3)
    assert torch.allclose(spread.sum(-1), recall.weights.sum(-1), atol=1e-6)
    for step in range(spread.shape[1]):
        assert not spread[0, step, step:].any()


class Cycle(nn.Module):
    """Says the next symbol of the alphabet, and counts what it was fed in its state."""

    def forward(self, x: Tensor, state: int = 0) -> tuple[Tensor, int]:
        return 50 * x.roll(1, dims=-1), state + x.shape[1]


def test_it_writes_what_the_model_says() -> None:
    alphabet = TASK.text.alphabet
    start = alphabet[3:6]
    drawn = write_on(Cycle(), TASK, start, 4, torch.Generator())
    assert drawn == alphabet[6:10]


@pytest.mark.parametrize("model", ["lstm", "sab"])
def test_the_state_goes_on_while_it_writes(model: str) -> None:
    torch.manual_seed(0)
    sizes = (TASK.input_size, 8, TASK.output_size)
    built = LSTM(LSTMConfig(*sizes)) if model == "lstm" else SAB(SABConfig(*sizes))
    with torch.no_grad():
        for p in built.parameters():
            p.mul_(3)
    drawn = write_on(built, TASK, "red", 12, torch.Generator().manual_seed(1), temperature=1e-3)
    batch = lines_batch(TASK, ["red" + drawn])
    likely = built(batch.x)[0].argmax(-1)[0, 3:]
    assert TASK.text.decode(likely) == drawn


def test_what_cannot_be_written() -> None:
    for changes, message in (
        ({"start": "§"}, "'§' is not in the alphabet"),
        ({"count": 0}, "count=0"),
        ({"temperature": 0.0}, r"temperature=0\.0: must be above 0"),
    ):
        settings = {"start": "red", "count": 3, "generator": torch.Generator(), **changes}
        with pytest.raises(ValueError, match=message):
            write_on(Cycle(), TASK, **settings)  # type: ignore[arg-type]
