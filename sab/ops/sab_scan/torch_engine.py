"""The scan's loop in torch operations: the portable engine, on CPU and GPU.

Takes and returns the same tensors as `scan.cpp`; the comments there name them. Without padding, and
with all samples at the same step, nothing waits for a value of the GPU, so the whole loop can be
captured in a CUDA graph. The bookkeeping of the steps and the rule of the weights are in
`torch_rules.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.ops.sab_scan.torch_rules import (
    ACTIVATIONS,
    FULL,
    NONE,
    NOTHING,
    RECOMPUTE,
    WRITE_STEP,
    Codes,
    schedule,
    select_best,
    weigh,
    weigh_backward,
)

REACH = 40.0  # |k|, |q| up to here: e^{2k} e^{2q} may overflow or vanish, and tanh is still right


def activate(gates: Tensor, n: int) -> tuple[Tensor, ...]:
    """Activate the gates (B, 4n) of one step in place; returns the views i, f, g, o (B, n)."""
    gates[:, : 2 * n].sigmoid_()
    gates[:, 2 * n : 3 * n].tanh_()
    gates[:, 3 * n :].sigmoid_()
    return gates.chunk(4, 1)


def cell_backward(
    gates: Tensor, c_prev: Tensor, c: Tensor, dhat: Tensor, dc: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient of one LSTM step.

    Args:
        gates: (B, 4n), after activation, in the order i, f, g, o.
        c_prev: (B, n), the cell state before the step.
        c: (B, n), the cell state after it.
        dhat: (B, n), gradient of the step's output ĥ.
        dc: (B, n), gradient of ``c`` from later steps.

    Returns:
        The gradient of the gates before activation (B, 4n) and of c_prev (B, n).
    """
    i, f, g, o = gates.chunk(4, 1)
    tc = torch.tanh(c)
    dc = dc + dhat * o * (1 - tc * tc)
    parts = (
        dc * g * i * (1 - i),
        dc * c_prev * f * (1 - f),
        dc * i * (1 - g * g),
        dhat * tc * o * (1 - o),
    )
    return torch.cat(parts, 1), dc * f


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
    fast = x.device.type == "cpu"
    out = _forward(x, w_all, w1, w2, w3, h0, c0, memory, keys, start, lengths, options, fast)
    if fast and not options[6]:
        reach = max((float(v.abs().max()) if v.numel() else 0.0) for v in (keys, out[-1]))
        if not reach < REACH:
            out = _forward(
                x, w_all, w1, w2, w3, h0, c0, memory, keys, start, lengths, options, False
            )
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
    gates = new(steps if codes.save == ACTIVATIONS else 1, batch, 4 * n)
    c, hh, q = new(kept + 1, batch, n), new(kept, batch, n), new(kept, batch, depth)
    h, s = new(steps, batch, n), new(steps, batch, n)
    index = torch.full((steps, batch, width), -1, dtype=torch.int32, device=x.device)
    alpha, total = x.new_zeros(steps, batch, width), x.new_ones(kept, batch)
    mode = torch.zeros(steps, batch, dtype=torch.uint8, device=x.device)
    q_reach = x.new_zeros(())
    work = new(0 if codes.separable else batch, capacity, depth)
    weight_sum = w3.sum()
    plan = schedule(steps, start, lengths, codes, x.device)
    sample = torch.arange(batch, device=x.device)
    flat_memory = memory.view(batch * capacity, n)

    def key_scores(k: Tensor) -> Tensor:
        """What scoring keeps of a key: itself, or e^{2k}."""
        return (2 * k.clamp(-REACH, REACH)).exp_() if by_exp and not codes.separable else k

    held_now = plan[0].most
    scored = torch.empty_like(keys)
    scored[:, :held_now] = key_scores(keys[:, :held_now])
    z[:, :, n + inputs] = 1
    if saving:
        z[:-1, :, n : n + inputs] = x
    z[0, :, :n], c[0] = h0, c0
    for t, step in enumerate(plan):
        zt, zn = (t, t + 1) if saving else (t % 2, (t + 1) % 2)
        k, gk = (t if saving else 0), (t if codes.save == ACTIVATIONS else 0)
        ct, cn = (t, t + 1) if saving else (t % 2, (t + 1) % 2)
        if not saving:
            z[zt, :, n : n + inputs] = x[t]
        i, f, g, o = activate(torch.mm(z[zt], w_all.T, out=gates[gk]), n)
        torch.mul(f, c[ct], out=c[cn]).addcmul_(i, g)
        torch.mul(o, torch.tanh(c[cn]), out=hh[k])
        if codes.separable:
            torch.mm(torch.tanh(hh[k]), w2.T, out=q[k])
        else:
            torch.mm(hh[k], w2.T, out=q[k])
        held = step.most
        if held:
            if codes.separable:
                scores = keys[:, :held, 0] + q[k]
            elif by_exp:
                if not saving:
                    q_reach = torch.maximum(q_reach, q[k].abs().max())
                buffer = work[:, :held]
                eq = key_scores(q[k])[:, None]
                torch.mul(scored[:, :held], eq, out=buffer).add_(1).reciprocal_()
                scores = weight_sum - 2 * (buffer @ w3)
            else:
                buffer = work[:, :held]
                scores = torch.add(keys[:, :held], q[k][:, None], out=buffer).tanh_() @ w3
            if step.count is not None:
                scores = scores.masked_fill(
                    sample.new_tensor(range(held)) >= step.count[:, None], -torch.inf
                )
            best, chosen = select_best(scores, width)
            fits = best.shape[1]
            a, divisor, how = weigh(best, held if step.count is None else step.count, codes)
            if step.live is not None:
                a, how = a * step.live, how * step.live[:, 0]
            if step.count is not None or step.live is not None:
                ranks = torch.arange(fits, device=x.device)
                shown = ranks < (held if step.count is None else step.count[:, None])
                shown = shown & (step.live if step.live is not None else True)
                index[t, :, :fits] = torch.where(shown, chosen, -1)
            else:
                index[t, :, :fits] = chosen
            alpha[t, :, :fits], total[k], mode[t] = a, divisor, how
            values = flat_memory[chosen + (sample * capacity)[:, None]]
            torch.bmm(a[:, None], values, out=s[t][:, None])
        else:
            s[t] = 0
        torch.add(hh[k], s[t], out=h[t])
        if step.live is None:
            z[zn, :, :n] = h[t]
        else:
            z[zn, :, :n] = torch.where(step.live, h[t], z[zt, :, :n])
            c[cn] = torch.where(step.live, c[cn], c[ct])
            s[t] *= step.live
            h[t] *= step.live
        if step.writes:
            written = h[t]
            key = torch.tanh(written) @ w1.T if codes.separable else written @ w1.T
            where = step.slots
            rows: Tensor | slice = slice(None)
            if step.write_mask is not None:
                rows = step.write_mask.nonzero()[:, 0]
                where = where[rows] if isinstance(where, Tensor) else where
            at = sample if step.write_mask is None else rows
            memory[at, where], keys[at, where] = written[rows], key[rows]
            scored[at, where] = key_scores(key[rows])
    last_z, last_c = (steps, steps) if saving else (steps % 2, steps % 2)
    if saving and q.numel():
        q_reach = q.abs().max()
    counts = torch.zeros(2, dtype=torch.int64)
    ends = [z[last_z, :, :n].clone(), c[last_c].clone()]
    return [h, s, *ends, index, alpha, mode, counts, z, gates, c, hh, q, total, q_reach]


def backward(
    dh_out: Tensor,
    ds_out: Tensor,
    w_all: Tensor,
    w1: Tensor,
    w2: Tensor,
    w3: Tensor,
    memory: Tensor,
    keys: Tensor,
    start: Tensor,
    lengths: Tensor,
    index: Tensor,
    alpha: Tensor,
    mode: Tensor,
    z: Tensor,
    gates: Tensor,
    c: Tensor,
    hh: Tensor,
    q: Tensor,
    total: Tensor,
    options: list[int],
) -> list[Tensor]:
    """Gradient of the gates, the keys, the queries and w3; see `scan.cpp`."""
    codes = Codes(*options)
    steps, batch, n = dh_out.shape
    depth, capacity, width = keys.shape[2], memory.shape[1], codes.width
    replays = codes.replay != NONE
    key_to_memory = bool(codes.states) and replays
    dg, dq = dh_out.new_empty(steps, batch, 4 * n), dh_out.new_zeros(steps, batch, depth)
    dk, dm = torch.zeros_like(keys), torch.zeros_like(memory)
    flat_memory, flat_keys = memory.view(-1, n), keys.view(-1, depth)
    flat_dm, flat_dk = dm.view(-1, n), dk.view(-1, depth)
    carry, dc = dh_out.new_zeros(batch, n), dh_out.new_zeros(batch, n)
    dw3 = torch.zeros_like(w3)
    plan = schedule(steps, start, lengths, codes, dh_out.device)
    sample = torch.arange(batch, device=dh_out.device)
    w_hh = w_all[:, :n]
    for t in range(steps - 1, -1, -1):
        step = plan[t]
        gates_t = gates[t] if codes.save != RECOMPUTE else z[t] @ w_all.T
        if codes.save == RECOMPUTE:
            activate(gates_t, n)
        dhat = carry + dh_out[t]
        sent = None
        if replays and step.writes:
            # What later reads sent to this step's memory, as value and through its key.
            sent = dm[sample, step.slots]
            if key_to_memory:
                through = dk[sample, step.slots] @ w1
                if codes.separable:
                    through = through * (1 - torch.tanh(memory[sample, step.slots]) ** 2)
                sent = sent + through
            if step.write_mask is not None:
                sent = sent * step.write_mask[:, None]
            if codes.replay == FULL:
                dhat = dhat + sent
        if step.live is not None:
            dhat = dhat * step.live
        fits = min(width, step.most)
        if fits:
            ds = dhat + ds_out[t]
            if step.live is not None:
                ds = ds * step.live
            a, chosen = alpha[t, :, :fits], index[t, :, :fits]
            used = chosen >= 0
            at = (chosen.clamp(min=0).long() + (sample * capacity)[:, None]).flatten()
            values = flat_memory[at].view(batch, fits, n)
            weight_grad = (values @ ds[:, :, None])[:, :, 0]
            if replays:
                flat_dm.index_add_(0, at, (a[:, :, None] * ds[:, None]).flatten(0, 1))
            last = (used.sum(1, keepdim=True) - 1).clamp(min=0)
            da = weigh_backward(mode[t], a, total[t], weight_grad, last) * used
            if codes.separable:
                dq[t] = da.sum(1, keepdim=True)
                flat_dk.index_add_(0, at, da.reshape(-1, 1))
            else:
                u = torch.tanh(flat_keys[at].view(batch, fits, depth) + q[t][:, None])
                dw3 += da.flatten() @ u.flatten(0, 1)
                v = da[:, :, None] * w3 * (1 - u * u)
                dq[t] = v.sum(1)
                flat_dk.index_add_(0, at, v.flatten(0, 1))
            if codes.states:
                to_hat = dq[t] @ w2
                dhat = dhat + (to_hat * (1 - torch.tanh(hh[t]) ** 2) if codes.separable else to_hat)
        cell = (gates_t, c[t], c[t + 1])
        dg[t], dc = cell_backward(*cell, dhat, dc)
        if step.live is not None:
            dg[t] *= step.live
        carry = torch.zeros_like(carry) if step.cuts else dg[t] @ w_hh
        dc = torch.zeros_like(dc) if step.cuts else dc
        if step.keep_mask is not None:
            carry, dc = carry * step.keep_mask, dc * step.keep_mask
        if sent is not None and codes.replay == WRITE_STEP:
            dg[t] += cell_backward(*cell, sent, torch.zeros_like(sent))[0]
    return [dg, dk, dq, dw3]
