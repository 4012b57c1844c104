"""Encoder and decoder against PyTorch's own layers with the same weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sab.models.encoder_decoder import (
    DecoderLayer,
    EncoderDecoder,
    EncoderDecoderConfig,
    EncoderLayer,
)
from sab.models.multi_head import MultiHead
from sab.ops.attention import causal_mask, padding_mask


def draw(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=source, dtype=torch.float64)


def share(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def share_rest(ours: EncoderLayer | DecoderLayer, theirs: nn.Module, norms: int) -> None:
    for number, name in ((0, "linear1"), (2, "linear2")):
        getattr(theirs, name).load_state_dict(ours.feed_forward[number].state_dict())
    for number in range(1, norms + 1):
        source = getattr(ours, f"norm{number}")
        nn.init.normal_(source.weight)
        getattr(theirs, f"norm{number}").load_state_dict(source.state_dict())


@pytest.mark.parametrize("masked", ["none", "padding", "causal"])
@pytest.mark.parametrize(("first", "activation"), [(False, "relu"), (True, "gelu")])
def test_encoder_layer_is_torch_s(masked: str, first: bool, activation: str) -> None:
    torch.manual_seed(0)
    ours = EncoderLayer(12, 3, 20, first, activation).double()
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation, batch_first=True, norm_first=first
    ).double()
    with torch.no_grad():
        share(ours.attention, theirs.self_attn)
        share_rest(ours, theirs, 2)
    x = draw(2, 5, 12).requires_grad_()
    y = x.detach().clone().requires_grad_()
    valid = padding_mask(torch.tensor([5, 3]), 5)
    mask, options = {
        "none": (None, {}),
        "padding": (valid[:, None, None], {"src_key_padding_mask": ~valid}),
        "causal": (causal_mask(5), {"src_mask": ~causal_mask(5)}),
    }[masked]
    found, expected = ours(x, mask), theirs(y, **options)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    found[:, :3].square().sum().backward()
    expected[:, :3].square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, atol=1e-11, rtol=0)


@pytest.mark.parametrize("padded", [False, True])
def test_decoder_layer_is_torch_s(padded: bool) -> None:
    torch.manual_seed(0)
    ours = DecoderLayer(12, 3, 20).double()
    theirs = nn.TransformerDecoderLayer(12, 3, 20, 0.0, batch_first=True).double()
    with torch.no_grad():
        share(ours.attention, theirs.self_attn)
        share(ours.cross, theirs.multihead_attn)
        share_rest(ours, theirs, 3)
    y, memory = draw(2, 4, 12), draw(2, 6, 12, seed=1).requires_grad_()
    other = memory.detach().clone().requires_grad_()
    valid = padding_mask(torch.tensor([6, 2]), 6)
    found = ours(y, memory, valid[:, None, None] if padded else None)
    expected = theirs(
        y, other, tgt_mask=~causal_mask(4), memory_key_padding_mask=~valid if padded else None
    )
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(memory.grad, other.grad, atol=1e-11, rtol=0)


def model(positions: str = "sinusoidal") -> EncoderDecoder:
    torch.manual_seed(0)
    settings = EncoderDecoderConfig(
        symbols=7, width=8, heads=2, hidden=16, layers=2, positions=positions, longest=9
    )
    return EncoderDecoder(settings).double()


SOURCE = torch.tensor([[1, 2, 3, 4, 5], [6, 0, 1, 1, 2]])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_a_target_depends_on_its_past_alone(positions: str) -> None:
    net = model(positions)
    changed = SOURCE.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 7
    before, after = net(SOURCE, SOURCE), net(SOURCE, changed)
    assert torch.equal(before[:, :4], after[:, :4]) and not torch.equal(before[:, 4], after[:, 4])


def test_greedy_is_told_what_it_said() -> None:
    net = model()
    said = net.greedy(SOURCE, 6)
    assert said.shape == (2, 6)
    assert torch.equal(net(SOURCE, said).argmax(2), said)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_padding_changes_nothing(positions: str) -> None:
    """No answer, no gradient and nothing said alone."""
    net, single = model(positions), model(positions)
    lengths = torch.tensor([5, 3])
    rubbish = SOURCE.clone()
    rubbish[1, 3:] = 6
    together = net(rubbish, SOURCE, lengths)
    together.square().sum().backward()
    for b, n in enumerate(lengths.tolist()):
        alone = single(SOURCE[b : b + 1, :n], SOURCE[b : b + 1])
        torch.testing.assert_close(together[b : b + 1], alone, atol=1e-12, rtol=0)
        alone.square().sum().backward()
        said = single.greedy(SOURCE[b : b + 1, :n], 4)
        assert torch.equal(net.greedy(rubbish, 4, lengths)[b : b + 1], said)
    for (name, one), other in zip(net.named_parameters(), single.named_parameters(), strict=True):
        assert one.grad is not None and other[1].grad is not None, name
        torch.testing.assert_close(one.grad, other[1].grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize("rubbish", [1e3, math.nan])
def test_a_layer_s_padded_memory_changes_nothing(rubbish: float) -> None:
    torch.manual_seed(0)
    layer = DecoderLayer(8, 2, 16).double()
    y, memory = draw(2, 4, 8), draw(2, 6, 8, seed=1)
    memory[:, 4:] = rubbish
    padded = memory.clone().requires_grad_()
    found = layer(y, padded, padding_mask(torch.tensor([4, 4]), 6)[:, None, None])
    torch.testing.assert_close(found, layer(y, memory[:, :4]), atol=1e-12, rtol=0)
    found.square().sum().backward()
    assert padded.grad is not None and (padded.grad[:, 4:] == 0).all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_without_positions_the_encoder_is_equivariant_and_the_answer_blind_to_order() -> None:
    turn = torch.tensor([3, 1, 4, 0, 2])
    for positions, same in (("none", True), ("sinusoidal", False), ("learned", False)):
        net = model(positions)
        moved, still = net.encode(SOURCE[:, turn]), net.encode(SOURCE)[:, turn]
        assert torch.allclose(moved, still, atol=1e-12) is same
        left, right = net(SOURCE[:, turn], SOURCE), net(SOURCE, SOURCE)
        assert torch.allclose(left, right, atol=1e-12) is same


def test_every_weight_learns() -> None:
    net = model("learned")
    logits = net(SOURCE, SOURCE)
    nn.functional.cross_entropy(logits.flatten(0, 1), SOURCE.flatten()).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        if "key.bias" not in name:  # the same for every key, so it cancels in the softmax
            assert parameter.grad.abs().max() > 1e-12, name


def test_errors() -> None:
    for settings in ({"positions": "rotary"}, {"layers": 0}, {"width": -1}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            EncoderDecoderConfig(**settings)
    with pytest.raises(ValueError, match="activation='tanh'"):
        EncoderLayer(8, 2, 16, activation="tanh")
    with pytest.raises(ValueError, match="heads=3: must divide width=8"):
        EncoderDecoder(EncoderDecoderConfig(width=8, heads=3))
    with pytest.raises(ValueError, match="source: must be between 0 and 6"):
        model()(SOURCE + 5, SOURCE)
    with pytest.raises(ValueError, match=r"source has dtype torch\.float32: must be torch\.int64"):
        model()(SOURCE.float(), SOURCE)
    start = SOURCE.clone()
    start[0, 4] = 7  # the model's own symbol for the beginning
    for source, target, name in ((start, SOURCE, "source"), (SOURCE, start, "target")):
        with pytest.raises(ValueError, match=f"{name}: must be between 0 and 6, got 7"):
            model()(source, target)
    with pytest.raises(ValueError, match="source: must be between 0 and 6, got 7"):
        model().greedy(start, 3)
    with pytest.raises(ValueError, match=r"source has shape .*must not be empty"):
        model()(SOURCE[:, :0], SOURCE)
    with pytest.raises(ValueError, match=r"target has shape .*must not be empty"):
        model()(SOURCE, SOURCE[:, :0])
    with pytest.raises(ValueError, match="target has shape"):
        model()(SOURCE, SOURCE[:1])
    with pytest.raises(ValueError, match="source has 10 steps: at most longest=9"):
        model("learned")(torch.cat([SOURCE, SOURCE], 1), SOURCE)
    with pytest.raises(ValueError, match="steps=0"):
        model().greedy(SOURCE, 0)
    with pytest.raises(ValueError, match=r"lengths=\[5, 0\]"):
        model()(SOURCE, SOURCE, torch.tensor([5, 0]))
