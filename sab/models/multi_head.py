"""Multi-head attention: several queries at once, each head with projections of its own.

Source: Vaswani et al. 2017, section 3.2.2. Equal to `torch.nn.MultiheadAttention` (batch first,
without dropout) when it holds the same weights; a test compares them.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from sab.checks import dtype, positive_int, shape
from sab.ops.attention import Read, check_mask, scaled_dot_product


class MultiHead(nn.Module):
    """``(H_1 ⊕ … ⊕ H_h) W_o`` with ``H_i = softmax(Q_i K_iᵀ / √d) V_i``, d = width / heads.

    Args:
        width: of queries, keys, values and output.
        heads: how many; must divide ``width``.

    Raises:
        ValueError: a size is not a positive integer, or ``heads`` does not divide ``width``.
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        """Make the four projections, each (width, width) with a bias."""
        super().__init__()
        positive_int("width", width)
        positive_int("heads", heads)
        if width % heads:
            raise ValueError(f"heads={heads!r}: must divide width={width}")
        self.width, self.heads = width, heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def _split(self, x: Tensor) -> Tensor:
        """(B, N, width) → (B, heads, N, width / heads)."""
        batch, count, _ = x.shape
        return x.view(batch, count, self.heads, -1).transpose(1, 2)

    def _projected(
        self, queries: Tensor, memories: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, heads, M, width / heads), keys and values of all heads.

        A memory that no query may read is zeros here, so there it may hold anything.
        """
        memories = queries if memories is None else memories
        shape("queries", queries, (None, None, self.width))
        shape("memories", memories, (queries.shape[0], None, self.width))
        dtype("memories", memories, queries.dtype)
        if mask is not None:
            batch, asking, _ = queries.shape
            like = queries.new_empty(1).expand(batch, self.heads, asking, memories.shape[1])
            check_mask(like, mask)
            memories = memories.masked_fill(~_read_by_any(mask), 0.0)
        return (
            self._split(self.query(queries)),
            self._split(self.key(memories)),
            self._split(self.value(memories)),
        )

    def read(
        self, queries: Tensor, memories: Tensor | None = None, mask: Tensor | None = None
    ) -> Read:
        """Attend from ``queries`` to ``memories`` (to themselves if ``None``).

        Args:
            queries: (B, M, width).
            memories: (B, N, width), keys and values both.
            mask: boolean, broadcastable to (B, heads, M, N): (M, N) for a causal mask,
                ``padding[:, None, None]`` for a padding mask (B, N). A memory that no query may
                read may hold anything; as a query, in self-attention, it has to be finite.

        Returns:
            Outputs (B, M, width) and weights (B, heads, M, N).

        Raises:
            ValueError: a shape, a type or the mask does not fit, or the mask empties a row.
        """
        found = scaled_dot_product(*self._projected(queries, memories, mask), mask)
        joined = found.output.transpose(1, 2).flatten(2)
        return Read(self.output(joined), found.weights)

    def forward(
        self, queries: Tensor, memories: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Outputs (B, M, width) alone, without keeping the weights; see `read`."""
        q, k, v = self._projected(queries, memories, mask)
        seen = functional.scaled_dot_product_attention(q, k, v, mask)
        return self.output(seen.transpose(1, 2).flatten(2))


def _read_by_any(mask: Tensor) -> Tensor:
    """Which memories any query of any head may read: (B, N, 1), or (1, N, 1) for all samples.

    ``mask`` broadcasts to (B, heads, M, N).
    """
    whole = mask[(None,) * (4 - mask.dim())]
    return whole.any(2).any(1)[..., None]
