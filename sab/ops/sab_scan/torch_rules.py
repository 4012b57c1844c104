"""The rules of the torch engine: which memories a step holds, cuts, writes and reads.

`schedule` does the bookkeeping of a whole sequence ahead of the loop; `select_best`, `weigh` and
`weigh_backward` are the sparse read and its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sab.ops.sparse_weights import RELEASED_EPS, few_ulp

FIXED, MARGIN, SOFTMAX, RAW = range(4)  # how a read's weights depend on its scores
FULL, WRITE_STEP, NONE = range(3)  # replay
NOTHING, ACTIVATIONS, RECOMPUTE = range(3)  # save


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
    """The bookkeeping of every step, from per-sample clocks kept on the CPU.

    Args:
        steps: T.
        start: (B,) int64, steps taken before.
        lengths: (B,) int64, valid steps of each sample.
        codes: the options.
        device: where the masks are wanted.
    """
    start, lengths = start.cpu(), lengths.cpu()
    t = torch.arange(steps)[:, None]
    live = t < lengths  # (T, B), like all that follows
    now = start + torch.minimum(t + 1, lengths)
    count = (now - live.long()) // codes.k_att + codes.zero_slots
    writes = live & (now % codes.k_att == 0)
    slots = now // codes.k_att - 1 + codes.zero_slots
    cuts = torch.zeros_like(live)
    if codes.k_trunc:
        cuts = live & ((now - codes.block_offset) % codes.k_trunc == 0)

    def every(mask: Tensor) -> list[bool]:
        found: list[bool] = mask.all(1).tolist()
        return found

    def some(mask: Tensor) -> list[bool]:
        found: list[bool] = mask.any(1).tolist()
        return found

    same_count, same_slot = every(count == count[:, :1]), every(slots == slots[:, :1])
    all_write, any_write = every(writes), some(writes)
    all_cut, any_cut, all_live = every(cuts), some(cuts), every(live)
    most, first_slot = count.amax(1).tolist(), slots[:, 0].tolist()
    return [
        Step(
            most=most[i],
            count=None if same_count[i] else count[i].to(device),
            writes=any_write[i],
            write_mask=writes[i].to(device) if any_write[i] and not all_write[i] else None,
            slots=first_slot[i] if same_slot[i] else slots[i].to(device),
            cuts=all_cut[i],
            keep_mask=~cuts[i, :, None].to(device) if any_cut[i] and not all_cut[i] else None,
            live=None if all_live[i] else live[i, :, None].to(device),
        )
        for i in range(steps)
    ]


def quick_weights(
    scores: Tensor, step: Step, codes: Codes, out: tuple[Tensor, Tensor]
) -> Tensor | None:
    """Choose and weigh an ordinary read, on a CPU, in a third of the operations.

    Ordinary: the margin rule, all samples alike, at least three candidates, and scores that are
    neither tied nor NaN.

    Args:
        scores: (B, M).
        step: the step's bookkeeping.
        codes: the options.
        out: takes the weights (in the first columns of (B, K)) and their divisor (B,).

    Returns:
        The candidates' indices, best first; ``None`` where the read is no ordinary one, and has to
        go through `select_best` and `weigh`.
    """
    held = step.most
    fits = min(codes.width, held)
    uneven = step.count is not None or step.live is not None
    by_margin = not codes.released_threshold and (held > codes.k_top or not codes.short_memory)
    if scores.device.type != "cpu" or uneven or not by_margin or fits < 3:
        return None
    best, indices = scores.topk(min(codes.width + 1, held), 1)
    if not float((best[:, :-1] - best[:, 1:]).min()) > 0:
        return None  # topk breaks ties as it likes
    best, (alpha, total) = best[:, :fits], out
    margins = best - best[:, -1:]
    torch.sum(margins, 1, out=total)
    if not float(total.min()) > float(few_ulp(best.abs().max())):
        return None
    torch.div(margins, total[:, None], out=alpha[:, :fits])
    return indices[:, :fits]


def select_best(scores: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Values and indices of the best ``width``, by (score descending, index ascending).

    Args:
        scores: (B, M), −inf where a memory is not held.
        width: K; fewer come back where M is smaller.
    """
    keep = min(width, scores.shape[1])
    if scores.device.type == "cpu":
        best, indices = scores.topk(keep, 1)
        # topk breaks ties as it likes; they are rare, so look for them first.
        clear = (best[:, :-1] > best[:, 1:]).all() and (
            (scores >= best[:, -1:]).sum() == keep * len(scores)
        )
        if clear:
            return best, indices
    best, indices = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :keep], indices[:, :keep]


def weigh(best: Tensor, count: Tensor | int, codes: Codes) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of a read by the rule of `sparse_weights.weigh`.

    Args:
        best: (B, K), scores of the candidates, best first; −inf where a sample holds fewer.
        count: memories held, (B,) or one number for all samples.
        codes: the options.

    Returns:
        The weights (B, K), their divisor (B,), and how they depend on the scores (B,): FIXED,
        MARGIN, SOFTMAX or RAW.

    Source: paper, Algorithm 1, the lines from τ to ã.
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
        spread = total > few_ulp(size)
        free = spread & ((margins > 0).sum(1) > 1)
        read = held.clamp(max=min(codes.k_top, best.shape[1]))
        uniform = (ranks < read).to(best.dtype) / read.clamp(min=1)
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
    """Gradient of the candidates' scores (B, K) from that of their weights.

    Args:
        mode: (B,), how the weights depend on the scores, from `weigh`.
        alpha: (B, K), the weights.
        total: (B,), their divisor.
        g: (B, K), the gradient of the weights.
        last: (B, 1) int64, the place of C's last, which τ's gradient goes to.
    """
    mode = mode[:, None]
    centred = g - (alpha * g).sum(1, keepdim=True)
    margin = torch.where(alpha > 0, centred / total[:, None], 0.0)
    margin = margin.scatter_add(1, last, -margin.sum(1, keepdim=True))
    da = torch.where(mode == SOFTMAX, alpha * centred, margin)
    return torch.where(mode == RAW, g, da) * (mode != FIXED)
