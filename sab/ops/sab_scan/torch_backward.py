"""The scan's way back in torch operations; the loop itself is in `torch_engine.py`.

Only the recurrence has to be walked step by step. With ``score_gradient="scorer"`` nothing of the
scorer's gradient returns to the states, so that is computed after the loop, many steps at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.ops.sab_scan.torch_rules import (
    FULL,
    NONE,
    RECOMPUTE,
    WRITE_STEP,
    Codes,
    schedule,
    weigh_backward,
)

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # g y (1 − y), in one pass
tanh_backward = torch.ops.aten.tanh_backward.grad_input  # g (1 − y²)
TOGETHER = 1 << 18  # numbers of the scorer that are worked on at once: they fit a cache


def activate(gates: Tensor, n: int) -> tuple[Tensor, ...]:
    """Activate the gates (B, 4n) of one step in place; returns the views i, f, g, o (B, n).

    tanh(x) = 2 σ(2x) − 1, so that one pass over all of them does: on a part, tanh is slow.
    """
    i, f, g, o = gates.split(n, 1)
    g.mul_(2)
    gates.sigmoid_()
    g.mul_(2).sub_(1)
    return i, f, g, o


def cell_backward(gates: Tensor, c_prev: Tensor, c: Tensor, dhat: Tensor, dc: Tensor) -> None:
    """Gradient of one LSTM step, in place.

    Args:
        gates: (B, 4n), after activation, in the order i, f, g, o; becomes the gradient of the gates
            before activation.
        c_prev: (B, n), the cell state before the step.
        c: (B, n), the cell state after it.
        dhat: (B, n), gradient of the step's output ĥ.
        dc: (B, n), gradient of ``c`` from later steps; becomes that of ``c_prev``.
    """
    i, f, g, o = gates.chunk(4, 1)
    tc = torch.tanh(c)
    through = dhat * o
    dc += tanh_backward(through, tc, grad_input=through)
    sigmoid_backward(tc.mul_(dhat), o, grad_input=o)
    to_i, to_f, to_g = dc * g, dc * c_prev, dc * i
    dc *= f
    sigmoid_backward(to_i, i, grad_input=i)
    sigmoid_backward(to_f, f, grad_input=f)
    tanh_backward(to_g, g, grad_input=g)


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
    """Gradient of the gates, the keys, the queries and w3; see `scan.cpp`.

    As there, the activated gates become the gradient of the gates before activation.
    """
    codes = Codes(*options)
    steps, batch, n = dh_out.shape
    depth, capacity, width = keys.shape[2], memory.shape[1], codes.width
    replays, recompute = codes.replay != NONE, codes.save == RECOMPUTE
    to_states, separable = bool(codes.states), bool(codes.separable)
    new = dh_out.new_empty
    dg = new(steps, batch, 4 * n) if recompute else gates.data  # autograd counts no change of it
    dq, dk, dm = torch.zeros_like(q), torch.zeros_like(keys), torch.zeros_like(memory)
    flat_memory, flat_keys = memory.view(-1, n), keys.view(-1, depth)
    flat_dm, flat_dk = dm.view(-1, n), dk.view(-1, depth)
    carry, dc, dhat = new(batch, n).zero_(), new(batch, n).zero_(), new(batch, n)
    ds = new(1 if to_states else steps, batch, n)  # the gradient of s, kept where the scorer waits
    dw3 = torch.zeros_like(w3)
    plan = schedule(steps, start, lengths, codes, dh_out.device)
    sample = torch.arange(batch, device=dh_out.device)
    at = index.clamp(min=0) + (sample * capacity)[:, None]  # rows of flat_memory
    w_hh = w_all[:, :n]
    stride = 1 if to_states else max(1, TOGETHER // (batch * width * max(n, depth)))
    size = stride * batch * width
    room_m, room_u, room_v = new(size, n), new(size, depth), new(size, depth)

    def through_scores(first: int, last: int, ds: Tensor) -> None:
        """From ds of steps first … last to dq, dk and dw3."""
        rows, size = at[first:last].flatten(), (last - first) * batch
        used = (index[first:last] >= 0).view(size, width)
        a = alpha[first:last].view(size, width)
        values = torch.index_select(flat_memory, 0, rows, out=room_m[: len(rows)])
        weight_grad = (values.view(size, width, n) @ ds.view(size, n, 1))[:, :, 0]
        final = (used.sum(1, keepdim=True) - 1).clamp(min=0)
        how, divisor = mode[first:last].flatten(), total[first:last].flatten()
        da = weigh_backward(how, a, divisor, weight_grad, final) * used
        if separable:
            dq[first:last] = da.sum(1, keepdim=True).view(-1, batch, 1)
            flat_dk.index_add_(0, rows, da.reshape(-1, 1))
            return
        u = torch.index_select(flat_keys, 0, rows, out=room_u[: len(rows)])
        u.view(size, width, depth).add_(q[first:last].view(size, 1, depth)).tanh_()
        dw3.add_(da.flatten() @ u)
        v = torch.mul(u, u, out=room_v[: len(rows)]).neg_().add_(1).mul_(w3).mul_(da.view(-1, 1))
        torch.sum(v.view(size, width, depth), 1, out=dq[first:last].view(size, depth))
        flat_dk.index_add_(0, rows, v)

    all_dg, all_c = dg.unbind(0), c.unbind(0)
    # The first k_top candidates hold all the weight.
    read_at = at[:, :, : codes.k_top].flatten(1).unbind(0)
    alphas = alpha[:, :, : codes.k_top, None].unbind(0)
    all_dh, all_ds = dh_out.unbind(0), ds_out.unbind(0)
    for t in range(steps - 1, -1, -1):
        step, gates_t = plan[t], all_dg[t]
        if recompute:
            activate(torch.mm(z[t], w_all.T, out=gates_t), n)
        torch.add(carry, all_dh[t], out=dhat)
        sent = None
        if replays and step.writes:
            # What later reads sent to this step's memory, as value and through its key.
            level = isinstance(step.slots, int)
            own: slice | Tensor = slice(None) if level else sample
            sent = dm[own, step.slots]
            if to_states:
                through = dk[own, step.slots] @ w1
                if separable:
                    through = through * (1 - torch.tanh(memory[own, step.slots]) ** 2)
                sent = sent + through
            if step.write_mask is not None:
                sent = sent * step.write_mask[:, None]
            if codes.replay == FULL:
                dhat += sent
        if step.live is not None:
            dhat *= step.live
        if step.most:
            ds_t = torch.add(dhat, all_ds[t], out=ds[0 if to_states else t])
            if step.live is not None:
                ds_t *= step.live
            if replays:
                flat_dm.index_add_(0, read_at[t], (alphas[t] * ds_t[:, None]).flatten(0, 1))
            if to_states:
                through_scores(t, t + 1, ds_t)
                to_hat = dq[t] @ w2
                dhat += to_hat * (1 - torch.tanh(hh[t]) ** 2) if separable else to_hat
        again = gates_t.clone() if sent is not None and codes.replay == WRITE_STEP else None
        cell_backward(gates_t, all_c[t], all_c[t + 1], dhat, dc)
        if step.live is not None:
            gates_t *= step.live
        if step.cuts:
            carry.zero_()
            dc.zero_()
        else:
            torch.mm(gates_t, w_hh, out=carry)
        if step.keep_mask is not None:
            carry *= step.keep_mask
            dc *= step.keep_mask
        if again is not None and sent is not None:
            cell_backward(again, all_c[t], all_c[t + 1], sent, torch.zeros_like(sent))
            gates_t += again
    first = steps if to_states else next((t for t, step in enumerate(plan) if step.most), steps)
    for begin in range(first, steps, stride):
        end = min(begin + stride, steps)
        through_scores(begin, end, ds[begin:end])
    return [dg, dk, dq, dw3]
