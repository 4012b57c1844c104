"""The scan's loop in torch operations: the portable engine, on CPU and GPU.

Takes and returns the same tensors as `scan.cpp`; the comments there name them. On a GPU nothing
waits for a value, so the whole loop can be captured in a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sab.ops.sparse_weights import RELEASED_EPS

FIXED, MARGIN, SOFTMAX, RAW = range(4)
FULL, WRITE_STEP, NONE = range(3)
NOTHING, ACTIVATIONS, RECOMPUTE = range(3)
REACH = 40.0  # |k|, |q| up to here: e^{2k} e^{2q} may overflow or vanish, and tanh is still right


class Codes(NamedTuple):
    """The options as `fused.encode` gives them."""

    k_top: int
    k_att: int
    k_trunc: int
    block_offset: int
    replay: int
    states: int
    separable: int
    released_threshold: int
    short_memory: int
    zero_slots: int
    save: int
    lazy: int

    @property
    def width(self) -> int:
        """Candidates of a read."""
        return self.k_top if self.released_threshold else self.k_top + 1


@dataclass
class Step:
    """One step's bookkeeping; a mask is ``None`` where it would be the same for all samples."""

    most: int  # memories held by the sample that holds most
    count: Tensor | None  # (B,), memories held
    writes: bool
    write_mask: Tensor | None  # (B,)
    slots: Tensor | int  # slot written, per sample or for all
    cuts: bool
    keep_mask: Tensor | None  # (B, 1), 0 where the recurrence is cut
    live: Tensor | None  # (B, 1)


def schedule(
    steps: int, start: Tensor, lengths: Tensor, codes: Codes, device: torch.device
) -> list[Step]:
    """The bookkeeping of every step, from per-sample clocks kept on the CPU."""
    start, lengths = start.cpu(), lengths.cpu()
    out = []
    for t in range(steps):
        live = t < lengths
        now = start + lengths.clamp(max=t + 1)
        count = (now - live.long()) // codes.k_att + codes.zero_slots
        writes = live & (now % codes.k_att == 0)
        slots = now // codes.k_att - 1 + codes.zero_slots
        cuts = torch.zeros_like(live)
        if codes.k_trunc:
            cuts = live & ((now - codes.block_offset) % codes.k_trunc == 0)

        def some(mask: Tensor) -> bool:
            return bool(mask.any()) and not bool(mask.all())

        mixed = bool((slots != slots[0]).any())
        out.append(
            Step(
                most=int(count.max()),
                count=None if bool((count == count[0]).all()) else count.to(device),
                writes=bool(writes.any()),
                write_mask=writes.to(device) if some(writes) else None,
                slots=slots.to(device) if mixed else int(slots[0]),
                cuts=bool(cuts.all()),
                keep_mask=(~cuts)[:, None].to(device) if some(cuts) else None,
                live=None if bool(live.all()) else live[:, None].to(device),
            )
        )
    return out


def select_best(scores: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Values and indices of the best ``width``, by (score descending, index ascending)."""
    keep = min(width, scores.shape[1])
    if scores.device.type == "cpu":
        best, indices = scores.topk(keep, 1)
        # topk breaks ties as it likes; they are rare, so look first
        clear = (best[:, :-1] > best[:, 1:]).all() and (
            (scores >= best[:, -1:]).sum() == keep * len(scores)
        )
        if clear:
            return best, indices
    best, indices = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :keep], indices[:, :keep]


def weigh(best: Tensor, count: Tensor | int, codes: Codes) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (B, K), their divisor (B,) and how they depend on the scores (B,);
    `sparse_weights.weigh`'s rule.

    best: (B, K), −inf where a sample holds fewer; count: memories held.
    """
    ranks = torch.arange(best.shape[1], device=best.device)
    if isinstance(count, Tensor):
        used = ranks < count[:, None]
        held = count[:, None]
        last = (count.clamp(max=best.shape[1]) - 1).clamp(min=0)[:, None]
        tau = torch.where(held > 0, best.gather(1, last), 0.0)
        best = torch.where(used, best, tau)
    else:
        held = torch.full((best.shape[0], 1), count, device=best.device)
        tau = best[:, -1:]
    one = torch.ones((), dtype=best.dtype, device=best.device)
    if codes.released_threshold:
        margins = torch.relu(best - (tau + RELEASED_EPS))
        total = margins.sum(1) + RELEASED_EPS
        alpha = margins / total[:, None]
        mode = torch.where((margins > 0).any(1), MARGIN, FIXED)
    else:
        margins = torch.relu(best - tau)
        total = margins.sum(1)
        size = torch.maximum(best[:, 0].abs(), tau[:, 0].abs())
        spread = total > 8 * torch.finfo(best.dtype).eps * size
        free = spread & ((margins > 0).sum(1) > 1)
        read = held.clamp(max=min(codes.k_top, best.shape[1]))
        uniform = (ranks < read) / read.clamp(min=1)
        fixed = torch.where(spread[:, None], (ranks == 0) * one, uniform.to(best.dtype))
        total = torch.where(free, total, one)
        alpha = torch.where(free[:, None], margins / total[:, None], fixed)
        mode = torch.where(free, MARGIN, FIXED)
    if codes.short_memory:
        short = (held <= codes.k_top) & (held > 0)
        if codes.short_memory == 1:
            masked = torch.where(ranks < held, best, -torch.inf)
            by_short = torch.softmax(torch.where(short, masked, 0.0), 1)
            kind = torch.where(held == 1, FIXED, SOFTMAX)
        else:
            by_short, kind = best, torch.full_like(held, RAW)
        alpha = torch.where(short, by_short * (ranks < held), alpha)
        total = torch.where(short[:, 0], one, total)
        mode = torch.where(short[:, 0], kind[:, 0], mode)
    empty = held[:, 0] == 0
    return alpha, total, torch.where(empty, FIXED, mode)


def weigh_backward(mode: Tensor, alpha: Tensor, total: Tensor, g: Tensor, last: Tensor) -> Tensor:
    """Gradient of the candidates' scores (B, K) from the gradient ``g`` of their weights; last: (B,
    1), C's last."""
    mode = mode[:, None]
    centred = g - (alpha * g).sum(1, keepdim=True)
    margin = torch.where(alpha > 0, centred / total[:, None], 0.0)
    margin = margin.scatter_add(1, last, -margin.sum(1, keepdim=True))
    da = torch.where(mode == SOFTMAX, alpha * centred, margin)
    return torch.where(mode == RAW, g, da) * (mode != FIXED)


def _activate(gates: Tensor, n: int) -> tuple[Tensor, ...]:
    """Gates i, f, g, o in place; returns the four views."""
    gates[:, : 2 * n].sigmoid_()
    gates[:, 2 * n : 3 * n].tanh_()
    gates[:, 3 * n :].sigmoid_()
    return gates.chunk(4, 1)


def cell_backward(
    gates: Tensor, c_prev: Tensor, c: Tensor, dhat: Tensor, dc: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradient of the gates before activation (B, 4n) and of c_prev (B, n)."""
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
    """The recurrence; see `scan.cpp`. Scores past ``REACH`` are found at the end, and the loop run
    again with tanh."""
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
        i, f, g, o = _activate(torch.mm(z[zt], w_all.T, out=gates[gk]), n)
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
            _activate(gates_t, n)
        dhat = carry + dh_out[t]
        sent = None
        if (
            replays and step.writes
        ):  # what later reads sent to this step's memory, as value and through its key
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
