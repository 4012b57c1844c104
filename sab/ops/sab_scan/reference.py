"""Algorithm 1 of the paper in plain autograd: a line of the algorithm is a line of code.

Slow on purpose: it is what the fast forms are compared with. Shapes: steps T, batch B, hidden n,
memories held M, candidates K. Time is 1-based in comments, as in the paper.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.ops.sab_scan.types import (
    Recall,
    SABState,
    ScanOptions,
    check_scan,
    written_steps,
)
from sab.ops.sparse_weights import select, weigh


def lstm_cell(gates: Tensor, h: Tensor, c: Tensor, w_hh: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step (Hochreiter & Schmidhuber 1997), gate order i, f, g, o as in `torch.nn.LSTM`.

    Args:
        gates: (…, 4n), the input's part of the gates, bias included.
        h: (…, n).
        c: (…, n).
        w_hh: (4n, n).

    Returns:
        The next h and c, each (…, n).
    """
    i, f, g, o = (gates + h @ w_hh.T).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _key(memory: Tensor, scorer: tuple[Tensor, ...], options: ScanOptions) -> Tensor:
    """The memory's part of its score: W1 m (…, d), or w_memoryᵀ tanh(m) (…, 1)."""
    if options.score == "additive":
        return memory @ scorer[0].T
    return (torch.tanh(memory) @ scorer[0])[..., None]


def _scores(
    keys: Tensor, query: Tensor, scorer: tuple[Tensor, ...], options: ScanOptions
) -> Tensor:
    """Scores (B, M) from keys (B, M, d or 1) and query (B, n)."""
    if options.score == "additive":
        _, w2, w3 = scorer
        return torch.tanh(keys + (query @ w2.T)[:, None]) @ w3
    return keys[..., 0] + (torch.tanh(query) @ scorer[1])[:, None]


def _cut(state: Tensor, where: Tensor) -> Tensor:
    """``state`` (…, B, n) with the samples of ``where`` (…, B) detached."""
    return torch.where(where[..., None], state.detach(), state)


def reference_scan(
    gates: Tensor,
    w_hh: Tensor,
    scorer: tuple[Tensor, ...],
    state: SABState,
    options: ScanOptions,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor, SABState, Recall]:
    """Run Algorithm 1 over a sequence. Every switch of `ScanOptions` is supported.

    Args:
        gates: (T, B, 4n), W_ih x_t + bias.
        w_hh: (4n, n).
        scorer: (w1 (d, n), w2 (d, n), w3 (d,)), or (w_memory (n,), w_query (n,)) for the separable
            score.
        state: where to start; its tensors get no gradient.
        options: the switches.
        lengths: (B,) int64, valid steps of each sample; later steps leave the state and the memory
            as they are, and their outputs are zeros. ``None``: all T.

    Returns:
        h (T, B, n), s (T, B, n), the final state (detached), and what was recalled.

    Raises:
        ValueError: a shape does not fit.

    Source: paper section 3, Algorithm 1; section 3.2 for the gradient. The comments quote the
    algorithm's lines.
    """
    check_scan(gates, w_hh, scorer, state, options, lengths)
    state = state.detach()
    start = state.step.to(gates.device)
    steps, batch, n = gates.shape[0], gates.shape[1], w_hh.shape[1]
    full = torch.full((batch,), steps, device=gates.device)
    lengths = full if lengths is None else lengths.to(gates.device)
    sliding = options.truncation == "sliding" and options.k_trunc is not None
    # Sliding truncation is k_trunc copies of the recurrence, each cut at its own phase. At every
    # step the copy that was cut longest ago reaches exactly k_trunc cells back. All copies have
    # the same values and share the memory.
    copies = options.k_trunc if sliding and options.k_trunc is not None else 1
    h = state.h.expand(copies, batch, n)
    c = state.c.expand(copies, batch, n)
    phase = torch.arange(copies, device=gates.device)[:, None]
    sample = torch.arange(batch, device=gates.device)

    capacity = int(options.held(int((start + lengths).max())))
    memory = gates.new_zeros(batch, max(capacity, state.memory.shape[1]), n)
    memory[:, : state.memory.shape[1]] = state.memory
    keys = _key(memory, scorer, options)
    slot = torch.arange(memory.shape[1], device=gates.device)

    all_h, all_s, all_indices, all_weights, all_tied = [], [], [], [], []
    for t in range(steps):
        now = start + torch.minimum(lengths, torch.full_like(lengths, t + 1))  # the paper's t
        live = t < lengths
        count = options.held(now - live.long())  # memories written before this step
        assert isinstance(count, Tensor)

        # Truncation (section 3.2): cut the recurrence before this step.
        if sliding:
            h, c = _cut(h, now % copies == phase), _cut(c, now % copies == phase)
        elif options.k_trunc is not None:
            border = ((now - options.block_offset) % options.k_trunc == 0) & live
            h, c = _cut(h, border), _cut(c, border)

        # ĥ(t), c(t) ← LSTMCell(h(t−1), c(t−1), x(t))
        h_hat, c_new = lstm_cell(gates[t], h, c, w_hh)

        # d_i ← W1 m(i) + W2 ĥ(t);  a_i ← W3 tanh(d_i), for every memory held
        query = h_hat.detach() if options.score_gradient == "scorer" else h_hat
        scores = torch.stack([_scores(keys, q, scorer, options) for q in query])

        # a_ktop ← the (k_top + 1)-th best score;  ã ← relu(a − a_ktop), divided by its sum
        indices = select(scores[0], count, options.candidates)
        picked = indices.clamp(min=0)
        if memory.shape[1]:
            chosen = scores.gather(2, picked.expand(copies, -1, -1))
            values = memory[sample[:, None], picked]
        else:
            chosen = scores.new_zeros(copies, *indices.shape)
            values = memory.new_zeros(*indices.shape, n)
        rule = (options.k_top, options.threshold, options.short_memory)
        weighed = [weigh(a, indices, count, *rule) for a in chosen]
        weights = torch.stack([w for w, _ in weighed])

        # s(t) ← Σ ã_i m(i);  h(t) ← ĥ(t) + s(t)
        s = (weights[..., None] * values).sum(2)
        h_new = h_hat + s
        longest = (now + 1) % copies  # the copy that was cut longest ago
        s_out, h_out = s[longest, sample], h_new[longest, sample]

        # if t ≡ 0 mod k_att: append h(t) to the memory
        if options.replay == "full":
            written = h_out
        elif options.replay == "write_step":
            again, _ = lstm_cell(
                gates[t], h[longest, sample].detach(), c[longest, sample].detach(), w_hh
            )
            written = again + s_out.detach()
        else:
            written = h_out.detach()
        write = (now % options.k_att == 0) & live
        here = (slot == count[:, None]) & write[:, None]
        memory = torch.where(here[..., None], written[:, None], memory)
        scored = written.detach() if options.score_gradient == "scorer" else written
        keys = torch.where(here[..., None], _key(scored, scorer, options)[:, None], keys)

        alive = live[:, None]
        all_h.append(torch.where(alive, h_out, 0.0))
        all_s.append(torch.where(alive, s_out, 0.0))
        all_indices.append(torch.where(alive, indices, -1))
        all_weights.append(torch.where(alive, weights[longest, sample], 0.0))
        all_tied.append(weighed[0][1] | ~live)
        h, c = torch.where(alive, h_new, h), torch.where(alive, c_new, c)

    slots = torch.stack(all_indices, 1)
    recall = Recall(
        slots,
        torch.stack(all_weights, 1).detach(),
        torch.stack(all_tied, 1),
        written_steps(slots, options),
    )
    end = SABState(h[0], c[0], memory, state.step + lengths.cpu()).detach()
    return torch.stack(all_h), torch.stack(all_s), end, recall
