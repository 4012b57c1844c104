"""The scan's loop in torch operations: the portable engine, on CPU and GPU.

Takes and returns the same tensors as `scan.cpp`; the comments there name them. Without padding, and
with all samples at the same step, nothing waits for a value of the GPU, so the whole loop can be
captured in a CUDA graph. The bookkeeping of the steps and the rule of the weights are in
`torch_rules.py`, the way back in `torch_backward.py`.

A step is some forty small operations, so what counts is how many there are: views of every step are
made once, and on a CPU the weights of an ordinary read take a short cut (`quick_weights`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.ops.sab_scan.torch_backward import backward as backward
from sab.ops.sab_scan.torch_rules import (
    ACTIVATIONS,
    MARGIN,
    NOTHING,
    Codes,
    Step,
    quick_weights,
    schedule,
    select_best,
    weigh,
)

REACH = 40.0  # |k|, |q| up to here: e^{2k} e^{2q} may overflow or vanish, and tanh is still right


_spare: list[Tensor] = []  # the gates of the last step that was trained on


def give_back(gates: Tensor) -> None:
    """Take the room of a graph's gates, which nobody reads any more, for the next graph's.

    Fresh memory of that size costs a CPU more than the work done in it.
    """
    if gates.device.type == "cpu":
        _spare[:] = [gates.data]


def gates_room(steps: int, batch: int, wide: int, like: Tensor) -> Tensor:
    """A (steps, batch, wide) tensor like ``like``, not yet written."""
    shape = (steps, batch, wide)
    try:
        spare = _spare.pop()
    except IndexError:
        return like.new_empty(shape)
    fits = spare.shape == shape and spare.dtype == like.dtype and like.device.type == "cpu"
    return spare if fits and not spare.is_inference() else like.new_empty(shape)


def forward(
    x: Tensor,
    w_all: Tensor,
    w1: Tensor,
    w2: Tensor,
    w3: Tensor,
    h0: Tensor,
    c0: Tensor,
    memory: Tensor,
    keys: Tensor,
    start: Tensor,
    lengths: Tensor,
    options: list[int],
) -> list[Tensor]:
    """The recurrence; see `scan.cpp`.

    On the CPU tanh(k + q) is computed from e^{2k} and e^{2q}. Where a key or a query was past
    ``REACH``, which is known at the end, the loop runs again with tanh itself.
    """
    by_exp = x.device.type == "cpu" and not Codes(*options).separable
    arguments = (x, w_all, w1, w2, w3, h0, c0, memory, keys, start, lengths, options)
    out = _forward(*arguments, by_exp)
    if by_exp:
        reach = max((float(v.abs().max()) if v.numel() else 0.0) for v in (keys, out[-1]))
        if not reach < REACH:
            out = _forward(*arguments, False)
    return out[:-1]


def _forward(
    x: Tensor,
    w_all: Tensor,
    w1: Tensor,
    w2: Tensor,
    w3: Tensor,
    h0: Tensor,
    c0: Tensor,
    memory: Tensor,
    keys: Tensor,
    start: Tensor,
    lengths: Tensor,
    options: list[int],
    by_exp: bool,
) -> list[Tensor]:
    codes = Codes(*options)
    steps, batch, inputs = x.shape
    n, wide = w_all.shape[0] // 4, w_all.shape[1]
    depth, capacity, width = keys.shape[2], memory.shape[1], codes.width
    saving = codes.save != NOTHING
    kept = steps if saving else 1
    new = x.new_empty
    z = x.new_zeros(steps + 1 if saving else 2, batch, wide)
    gates = gates_room(steps if codes.save == ACTIVATIONS else 1, batch, 4 * n, x)
    c, hh, q = new(kept + 1, batch, n), new(kept, batch, n), new(kept, batch, depth)
    h, s = new(steps, batch, n), new(steps, batch, n)
    index = torch.full((steps, batch, width), -1, dtype=torch.int32, device=x.device)
    alpha, total = x.new_zeros(steps, batch, width), x.new_ones(kept, batch)
    mode = torch.zeros(steps, batch, dtype=torch.uint8, device=x.device)
    q_reach = x.new_zeros(())
    work = new(0 if codes.separable else batch * capacity * depth)
    plan = schedule(steps, start, lengths, codes, x.device)
    sample = torch.arange(batch, device=x.device)
    base = (sample * capacity)[:, None]
    flat_memory = memory.view(batch * capacity, n)
    # With e^{2k}, what is stored and multiplied is twice the key or query: exact, and halved after.
    w2_t, w1_t = (2 * w2 if by_exp else w2).T, w1.T
    one, weight_sum, w3_scaled = x.new_ones(()), w3.sum()[None], -2 * w3

    def scored_key(key: Tensor) -> Tensor:
        """What scoring keeps of a key: itself, or e^{2k}."""
        return (2 * key).exp_() if by_exp else key

    def score(held: int, query: Tensor) -> Tensor:
        """Scores (B, held) of the query (B, d): 1 − 2/(1 + e^{2k} e^{2q}) is tanh(k + q)."""
        if codes.separable:
            return keys[:, :held, 0] + query
        flat = work[: batch * held * depth].view(batch * held, depth)
        pairs = flat.view(batch, held, depth)
        if not by_exp:
            torch.add(keys[:, :held], query[:, None], out=pairs).tanh_()
            return (flat @ w3).view(batch, held)
        torch.addcmul(one, scored[:, :held], query.exp()[:, None], out=pairs).reciprocal_()
        return torch.addmv(weight_sum, flat, w3_scaled).view(batch, held)

    def read(t: int, k: int, step: Step, scores: Tensor) -> None:
        """Choose, weigh and sum: index, alpha, total, mode and s of a step."""
        held = step.most
        quick = quick_weights(scores, step, codes, out=(alphas[t], totals[k]))
        if quick is not None:
            chosen, a = quick, alphas[t][:, : quick.shape[1]]
            mode[t] = MARGIN
            index[t, :, : chosen.shape[1]] = chosen
        else:
            if step.count is not None:
                slots = torch.arange(held, device=x.device)
                scores = scores.masked_fill(slots >= step.count[:, None], -torch.inf)
            best, chosen = select_best(scores, width)
            fits = best.shape[1]
            a, divisor, how = weigh(best, held if step.count is None else step.count, codes)
            shown = chosen
            if step.live is not None:
                a, how = a * step.live, how * step.live[:, 0]
                shown = torch.where(step.live, shown, -1)
            if step.count is not None:
                ranks = torch.arange(fits, device=x.device)
                shown = torch.where(ranks < step.count[:, None], shown, -1)
            index[t, :, :fits] = shown
            alpha[t, :, :fits], total[k], mode[t] = a, divisor, how
        chosen, a = chosen[:, : codes.k_top], a[:, : codes.k_top]  # they hold all the weight
        values = flat_memory.index_select(0, (chosen + base).flatten()).view(batch, -1, n)
        torch.bmm(a[:, None], values, out=all_s[t][:, None])

    def views(whole: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Columns first … last of every step of a (T, B, …) tensor."""
        return whole[:, :, first:last].unbind(0)

    held_now = plan[0].most
    scored = torch.empty_like(keys) if by_exp else keys
    scored[:, :held_now] = scored_key(keys[:, :held_now])
    z[:, :, n + inputs] = 1
    if saving:
        z[:-1, :, n : n + inputs] = x
    z[0, :, :n], c[0] = h0, c0
    rows, states, all_gates, all_c = z.unbind(0), views(z, 0, n), gates.unbind(0), c.unbind(0)
    i, f, g, o = (views(gates, part * n, (part + 1) * n) for part in range(4))
    all_hh, all_q, all_h, all_s = hh.unbind(0), q.unbind(0), h.unbind(0), s.unbind(0)
    alphas, totals = alpha.unbind(0), total.unbind(0)
    for t, step in enumerate(plan):
        zt, zn = (t, t + 1) if saving else (t % 2, (t + 1) % 2)
        k, gk = (t if saving else 0), (t if codes.save == ACTIVATIONS else 0)
        if not saving:
            rows[zt][:, n : n + inputs] = x[t]
        torch.mm(rows[zt], w_all.T, out=all_gates[gk])
        g[gk].mul_(2)  # as `activate` does
        all_gates[gk].sigmoid_()
        g[gk].mul_(2).sub_(1)
        torch.mul(f[gk], all_c[zt], out=all_c[zn]).addcmul_(i[gk], g[gk])
        hat, query = all_hh[k], all_q[k]
        torch.mul(o[gk], torch.tanh(all_c[zn]), out=hat)
        torch.mm(torch.tanh(hat) if codes.separable else hat, w2_t, out=query)
        if step.most:
            if by_exp and not saving:
                q_reach = torch.maximum(q_reach, query.abs().max())
            read(t, k, step, score(step.most, query))
        else:
            all_s[t].zero_()
        torch.add(hat, all_s[t], out=all_h[t])
        if step.live is None:
            states[zn].copy_(all_h[t])
        else:
            states[zn].copy_(torch.where(step.live, all_h[t], states[zt]))
            all_c[zn].copy_(torch.where(step.live, all_c[zn], all_c[zt]))
            all_s[t].mul_(step.live)
            all_h[t].mul_(step.live)
        if step.writes:
            written = all_h[t]
            key = (torch.tanh(written) if codes.separable else written) @ w1_t
            if step.write_mask is None and isinstance(step.slots, int):
                memory[:, step.slots], keys[:, step.slots] = written, key
                if by_exp:
                    scored[:, step.slots] = scored_key(key)
                continue
            at = sample if step.write_mask is None else step.write_mask.nonzero()[:, 0]
            where = step.slots[at] if isinstance(step.slots, Tensor) else step.slots
            memory[at, where], keys[at, where] = written[at], key[at]
            if by_exp:
                scored[at, where] = scored_key(key[at])
    last_z = steps if saving else steps % 2
    if by_exp:
        q_reach = (q.abs().max() if saving and q.numel() else q_reach) / 2
        q.mul_(0.5)
    counts = torch.zeros(2, dtype=torch.int64)
    ends = [states[last_z].clone(), all_c[last_z].clone()]
    return [h, s, *ends, index, alpha, mode, counts, z, gates, c, hh, q, total, q_reach]
