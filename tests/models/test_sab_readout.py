"""The read-out of SAB: y = V1 h + V2 s + b (Algorithm 1)."""

import torch

from sab.models.sab import SAB, SABConfig


def test_output_weighs_state_and_summary() -> None:
    torch.manual_seed(0)
    model = SAB(SABConfig(input_size=3, hidden_size=6, output_size=4, k_top=2)).double()
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    y, _ = model(x)
    h, s, _ = model.layer(x)
    expected = h @ model.v1.weight.T + s @ model.v2.weight.T + model.v1.bias
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


def test_the_summary_counts_by_itself() -> None:
    """V2 sees s apart from its part in h: with V1 = 0 the output still depends on the memory."""
    torch.manual_seed(0)
    model = SAB(SABConfig(input_size=3, hidden_size=6, output_size=4, k_top=2)).double()
    with torch.no_grad():
        model.v1.weight.zero_()
        model.v1.bias.zero_()
    y, _ = model(torch.randn(1, 9, 3, dtype=torch.float64))
    assert torch.equal(y[:, :2], torch.zeros(1, 2, 4, dtype=torch.float64))  # nothing to read yet
    assert y[:, 4:].abs().min() > 0
