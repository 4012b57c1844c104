"""The released algorithm as its code computes it, in dense autograd on today's torch.

Every memory takes part in every read and in every backward step. The query is repeated beside each
memory, a weight along its memory, and the memory is copied whenever it grows; ``copies=False``
leaves out those copies that broadcasting makes needless. Values and gradients are those of the
reference form with `SABConfig.released`'s switches.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sab.checks import positive_int, shape

EPS = 1e-7


def released_weights(scores: Tensor, k_top: int, copies: bool = True) -> Tensor:
    """Weights of a read: scores less the k_top-th best and 1e-7, cut at zero, over their sum.

    Args:
        scores: (B, M).
        k_top: while no more memories than this are held, the raw scores are the weights.
        copies: repeat threshold and sum along the memories, as the released code does.

    Returns:
        (B, M).

    Source: the released code (register D2, D3).
    """
    if scores.shape[1] <= k_top:
        return scores
    reach = scores.shape[1] if copies else 1
    threshold = scores.topk(k_top, 1).values[:, -1:] + EPS
    margins = (scores - threshold.repeat(1, reach)).clamp(min=0)
    return margins / (margins.sum(1, keepdim=True) + EPS).repeat(1, reach)


class Released(nn.Module):
    """LSTM cell, dense separable scores over a growing memory, read-out of [h; s].

    Shapes: x (B, T, input_size) → logits (B, T, output_size).
    """

    def __init__(
        self,
        input_size: int = 10,
        hidden_size: int = 128,
        output_size: int = 10,
        *,
        k_top: int = 5,
        k_att: int = 2,
        k_trunc: int = 5,
        copies: bool = True,
    ) -> None:
        """Build the weights; ``copies``: see the module.

        Raises:
            ValueError: a size is not a positive integer.
        """
        super().__init__()
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "output_size": output_size}
        for name, value in {**sizes, "k_top": k_top, "k_att": k_att, "k_trunc": k_trunc}.items():
            positive_int(name, value)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.k_top, self.k_att, self.k_trunc = k_top, k_att, k_trunc
        self.copies = copies
        self.cell = nn.LSTMCell(input_size, hidden_size)
        self.w = nn.Parameter(torch.empty(2 * hidden_size, 1).normal_(std=0.01))
        self.readout = nn.Linear(2 * hidden_size, output_size)

    def states(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states and summaries, both (B, T, n), of x (B, T, input_size).

        Raises:
            ValueError: x has another shape.
        """
        shape("x", x, (None, None, self.input_size))
        h = x.new_zeros(x.shape[0], self.hidden_size)
        c = torch.zeros_like(h)
        memory = h[:, None]  # starts with a zero state
        all_h, all_s = [], []
        for t, x_t in enumerate(x.unbind(1), start=1):
            if t % self.k_trunc == 0:
                h, c = h.detach(), c.detach()
            h, c = self.cell(x_t, (h, c))
            held, n = memory.shape[1:]
            query = (
                h[:, None].repeat(1, held, 1) if self.copies else h[:, None].expand(memory.shape)
            )
            pairs = torch.tanh(torch.cat([query, memory], 2))
            scores = (pairs.flatten(0, 1) @ self.w).view(-1, held)
            weights = released_weights(scores, self.k_top, self.copies)[..., None]
            s = ((weights.repeat(1, 1, n) if self.copies else weights) * memory).sum(1)
            h = h + s
            if t % self.k_att == 0:
                memory = torch.cat([memory, h[:, None]], 1)
            all_h.append(h)
            all_s.append(s)
        return torch.stack(all_h, 1), torch.stack(all_s, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, T, output_size) of x (B, T, input_size)."""
        logits: Tensor = self.readout(torch.cat(self.states(x), 2))
        return logits
