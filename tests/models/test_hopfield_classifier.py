"""The classifier that looks its answer up among stored examples."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from sab.experiments import tables
from sab.experiments.rows import expand
from sab.experiments.weights import build_model
from sab.models.hopfield import (
    HopfieldClassifier,
    HopfieldConfig,
    HopfieldReader,
    HopfieldReaderConfig,
)
from sab.ops.attention import attention_weights
from sab.tasks.images import ImageTask


def model() -> HopfieldClassifier:
    torch.manual_seed(0)
    found = HopfieldClassifier(HopfieldConfig(input_size=5, hidden_size=4, output_size=3)).double()
    found.store(torch.randn(6, 5).double(), torch.tensor([0, 0, 1, 1, 2, 2]))
    return found


def test_forward_is_the_equation_and_learns() -> None:
    layer = model()
    x = torch.randn(4, 5, dtype=torch.float64)
    with torch.no_grad():
        for query, found in zip(x, layer(x).exp(), strict=True):
            share = torch.zeros(3, dtype=torch.float64)
            total = 0.0
            for example, label in zip(layer.examples, layer.labels, strict=True):
                a, b = layer.embed.weight @ query, layer.embed.weight @ example
                weight = (4.0 * (a @ b) / a.norm() / b.norm()).exp()
                share[label] += weight
                total += float(weight)
            torch.testing.assert_close(found, share / total, atol=1e-7, rtol=0)
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))
    layer(x).sum().backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in layer.parameters())


def test_a_masked_example_has_no_say() -> None:
    layer = model()
    x = torch.randn(2, 5, dtype=torch.float64)
    mask = torch.tensor([True, True, True, True, False, False]).expand(2, 6)
    hidden = layer(x, mask)
    assert torch.autograd.gradcheck(lambda x: layer(x, mask)[:, :2], (x.clone().requires_grad_(),))
    assert torch.autograd.gradcheck(
        lambda x: attention_weights(layer.scores(x), mask), (x.clone().requires_grad_(),)
    )
    layer.examples, layer.labels = layer.examples[:4], layer.labels[:4]
    torch.testing.assert_close(hidden, layer(x), atol=1e-12, rtol=0)
    assert (hidden[:, 2] < -20).all()


def test_a_new_class_needs_no_training() -> None:
    layer = model()
    new = functional.normalize(torch.randn(1, 5, dtype=torch.float64), dim=1)
    layer.labels.clamp_(max=1)
    with torch.no_grad():
        layer.log_beta.fill_(4.0)
    assert layer(new).argmax().item() < 2
    layer.store(new, torch.tensor([2]))
    assert layer(new).argmax().item() == 2


def test_errors() -> None:
    with pytest.raises(ValueError, match="beta=0"):
        HopfieldConfig(beta=0)
    with pytest.raises(ValueError, match="hidden_size=0"):
        HopfieldConfig(hidden_size=0)
    layer = HopfieldClassifier()
    with pytest.raises(ValueError, match="nothing is stored"):
        layer(torch.zeros(1, 64))
    with pytest.raises(ValueError, match="labels: must be between 0 and 9"):
        layer.store(torch.zeros(1, 64), torch.tensor([10]))
    with pytest.raises(ValueError, match=r"labels has dtype torch\.float32: must be torch\.int64"):
        layer.store(torch.zeros(1, 64), torch.tensor([1.5]))
    with pytest.raises(ValueError, match="labels has shape"):
        layer.store(torch.zeros(1, 64), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="x has shape"):
        model()(torch.zeros(1, 4).double())
    with pytest.raises(ValueError, match="all False"):
        model()(torch.zeros(1, 5).double(), torch.zeros(1, 6, dtype=torch.bool))


def test_the_reader_is_the_classifier_and_hides_an_example_from_itself() -> None:
    torch.manual_seed(0)
    reader = HopfieldReader(HopfieldReaderConfig(2, 3, steps=4, hidden_size=5))
    x, y = torch.randn(6, 4, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    reader.remember(x, y)
    reader.eval()
    logits, state = reader(x)
    assert logits.shape == (6, 1, 3) and state is None
    torch.testing.assert_close(logits[:, 0], reader.classifier(x.flatten(1)))
    reader.train()
    hidden = reader(x)[0][:, 0]
    torch.testing.assert_close(hidden, reader.classifier(x.flatten(1), ~torch.eye(6).bool()))
    copied = HopfieldReader(HopfieldReaderConfig(2, 3, steps=4, hidden_size=5))
    copied.classifier.embed = reader.classifier.embed
    copied.remember(torch.cat([x, x[:1]]), torch.cat([y, y[:1]]))
    seen = torch.ones(1, 7).bool()
    seen[0, [0, 6]] = False  # its copy, too
    expected = copied.classifier(x[:1].flatten(1), seen)
    torch.testing.assert_close(copied(x[:1])[0][:, 0], expected)


def test_a_run_has_the_training_part_as_its_memory() -> None:
    run = expand(tables.find("digits_memory"), "smoke")[0]
    built = build_model(run)
    assert isinstance(built, HopfieldReader)
    task = ImageTask("digits", "pixel")
    assert len(built.classifier.labels) == task.sequences("train")
    x, y = task.take("train", torch.arange(3))
    assert torch.equal(built.classifier.examples[:3], x.flatten(1))
    assert torch.equal(built.classifier.labels[:3], y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"input_size": 0}, "input_size=0"), ({"steps": 0}, "steps=0"), ({"beta": 0}, "beta=0")],
)
def test_bad_settings_of_the_reader(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HopfieldReaderConfig(**settings)


def test_the_reader_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match="x has shape"):
        HopfieldReader()(torch.zeros(2, 63, 1))
    with pytest.raises(ValueError, match="nothing is stored"):
        HopfieldReader()(torch.zeros(2, 64, 1))
