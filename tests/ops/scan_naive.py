"""A second writing of Algorithm 1, over Python lists: slow, plain, and independent of `sab.ops`."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from scan_cases import Case, Outcome, differentiate
from torch import Tensor

from sab.ops.sab_scan import Recall, SABState, ScanOptions, ScanWeights


def naive(case: Case) -> tuple[Outcome, float]:
    """Algorithm 1 over Python lists, one sample after the other; block truncation only.

    Goes straight from the equations and shares nothing with `sab.ops` but the options and the way
    results are handed over. Also returns the smallest gap between neighbours among the sorted
    scores that matter (the candidates and the first one left out): where it is large, no rounding
    can change what is selected.
    """
    o, x = case.options, case.view(case.x)
    steps, batch, _ = x.shape
    n = case.weights.w_hh.shape[1]
    k = o.k_top if o.threshold == "k_top" else o.k_top + 1
    h_rows, s_rows, ends, gap = [], [], [], math.inf
    indices = torch.full((batch, steps, k), -1)
    weights = torch.zeros(batch, steps, k, dtype=x.dtype)
    written_at = torch.full((batch, steps, k), -1)
    tied = torch.ones(batch, steps, dtype=torch.bool)
    for b in range(batch):
        began = int(case.state.step[b])
        count = began // o.k_att + (o.initial_memory == "zero")
        memory = list(case.state.memory[b, :count])
        keyed = list(memory)  # what the scorer sees of each memory
        when = [(i + (o.initial_memory == "empty")) * o.k_att for i in range(count)]
        h, c = case.state.h[b], case.state.c[b]
        hs, ss = [], []
        length = steps if case.lengths is None else int(case.lengths[b])
        for t in range(length):
            now = began + t + 1
            if o.k_trunc is not None and (now - o.block_offset) % o.k_trunc == 0:
                h, c = h.detach(), c.detach()
            hat, c_next = _cell(case.weights, x[t, b], h, c)
            query = hat.detach() if o.score_gradient == "scorer" else hat
            scores = [_score(case, m, query) for m in keyed]
            values = [v.item() for v in scores]
            order = sorted(range(len(values)), key=lambda i: (-values[i], i))
            for p, q in pairwise(order[: k + 1]):
                gap = min(gap, values[p] - values[q])
            order = order[:k]
            alpha, free = _weigh(o, [scores[i] for i in order], len(scores))
            s = torch.zeros(n, dtype=x.dtype)
            for a, i in zip(alpha, order, strict=True):
                s = s + a * memory[i]
            for p, (a, i) in enumerate(zip(alpha, order, strict=True)):
                indices[b, t, p], weights[b, t, p] = i, a.item()
                written_at[b, t, p] = when[i]
            tied[b, t] = not free
            h_next = hat + s
            if now % o.k_att == 0:
                kept = h_next
                if o.replay == "none":
                    kept = h_next.detach()
                elif o.replay == "write_step":
                    kept = _cell(case.weights, x[t, b], h.detach(), c.detach())[0] + s.detach()
                memory.append(kept)
                keyed.append(kept.detach() if o.score_gradient == "scorer" else kept)
                when.append(now)
            h, c = h_next, c_next
            hs.append(h)
            ss.append(s)
        padding = [torch.zeros(n, dtype=x.dtype)] * (steps - length)
        h_rows.append(torch.stack(hs + padding))
        s_rows.append(torch.stack(ss + padding))
        ends.append((h.detach(), c.detach(), [m.detach() for m in memory], began + length))
    most = max(len(m) for _, _, m, _ in ends)
    end_memory = torch.zeros(batch, most, n, dtype=x.dtype)
    for b, (_, _, held, _) in enumerate(ends):
        for i, m in enumerate(held):
            end_memory[b, i] = m
    end = SABState(
        torch.stack([h for h, *_ in ends]),
        torch.stack([c for _, c, *_ in ends]),
        end_memory,
        torch.tensor([step for *_, step in ends]),
    )
    out = Outcome(
        torch.stack(h_rows, 1),
        torch.stack(s_rows, 1),
        end,
        Recall(indices, weights, tied, written_at),
    )
    return differentiate(case, out), gap


def _cell(weights: ScanWeights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = (weights.w_ih @ x + weights.w_hh @ h + weights.bias).split(len(h))
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _score(case: Case, memory: Tensor, query: Tensor) -> Tensor:
    if case.options.score == "separable":
        w_memory, w_query = case.weights.scorer
        return w_memory @ memory.tanh() + w_query @ query.tanh()
    w1, w2, w3 = case.weights.scorer
    return w3 @ (w1 @ memory + w2 @ query).tanh()


def _weigh(o: ScanOptions, a: list[Tensor], held: int) -> tuple[list[Tensor], bool]:
    """Weights of the sorted candidates' scores, and whether they depend on them."""
    if not a:
        return [], False
    if held <= o.k_top and o.short_memory == "raw":
        return a, True
    if held <= o.k_top and o.short_memory == "softmax":
        return list(torch.stack(a).softmax(0)), held > 1
    if o.threshold == "k_top":
        margins = [(v - (a[-1] + 1e-7)).relu() for v in a]
        total = sum(margins, torch.zeros_like(a[0])) + 1e-7
        return [m / total for m in margins], any(m > 0 for m in margins)
    margins = [(v - a[-1]).relu() for v in a]
    total = sum(margins, torch.zeros_like(a[0]))
    ulp = torch.finfo(a[0].dtype).eps * max(abs(a[0].item()), abs(a[-1].item()))
    if total.item() <= 8 * ulp:
        read = min(o.k_top, held)
        return [torch.full_like(v, (p < read) / read) for p, v in enumerate(a)], False
    if sum(m > 0 for m in margins) == 1:
        return [torch.full_like(v, float(p == 0)) for p, v in enumerate(a)], False
    return [m / total for m in margins], True
