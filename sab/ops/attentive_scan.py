"""The LSTM that reads every past state by softmax attention: the paper's dense baseline.

Same cell, scorer and fusion as Algorithm 1, with softmax over all memories in place of the sparse
rule, and every state written (paper section 4). Three forms: `reference` (plain autograd), and one
`torch.autograd.Function` with a hand-derived backward over a loop in C++ or in torch operations.
Time first: x (T, B, input_size).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sab.checks import positive_int
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.dispatch import choose_form
from sab.ops.sab_scan.fused import input_gradients, pack, room, scorer_gradients
from sab.ops.sab_scan.reference import lstm_cell
from sab.ops.sab_scan.torch_backward import activate, cell_backward
from sab.ops.sab_scan.types import SABState, ScanOptions, ScanWeights, check_scan, mask_padding

OPTIONS = ScanOptions(k_top=1, k_att=1, k_trunc=None)  # what the shared checks need to know


def reference(
    x: Tensor, weights: ScanWeights, state: SABState, lengths: Tensor, k_trunc: int | None
) -> tuple[Tensor, Tensor, SABState, Tensor]:
    """The recurrence in plain autograd; see `attentive_scan` for arguments and results."""
    gates = torch.nn.functional.linear(x, weights.w_ih, weights.bias)
    w1, w2, w3 = weights.scorer
    steps, batch, n = gates.shape[0], gates.shape[1], weights.w_hh.shape[1]
    start, lengths = state.step.to(x.device), lengths.to(x.device)
    h, c = state.h, state.c
    capacity = int((start + lengths).max())
    memory = gates.new_zeros(batch, capacity, n)
    carried = min(capacity, state.memory.shape[1])
    memory[:, :carried] = state.memory[:, :carried]
    slot = torch.arange(capacity, device=x.device)
    all_h, all_s, all_alpha = [], [], []
    for t in range(steps):
        count, live = start + t, (t < lengths)[:, None]
        if k_trunc is not None:
            cut = (count % k_trunc == 0)[:, None]
            h, c = torch.where(cut, h.detach(), h), torch.where(cut, c.detach(), c)
        h_hat, c_new = lstm_cell(gates[t], h, c, weights.w_hh)
        scores = torch.tanh(memory @ w1.T + (h_hat @ w2.T)[:, None]) @ w3
        held = slot < count[:, None]
        lowest = torch.finfo(scores.dtype).min
        alpha = torch.softmax(scores.masked_fill(~held, lowest), 1) * held * live
        s = (alpha[..., None] * memory).sum(1)
        here = (slot == count[:, None]) & live
        memory = torch.where(here[..., None], (h_hat + s)[:, None], memory)
        h, c = torch.where(live, h_hat + s, h), torch.where(live, c_new, c)
        all_h.append(h * live)
        all_s.append(s * live)
        all_alpha.append(alpha)
    end = SABState(h, c, memory, state.step + lengths.cpu()).detach()
    return torch.stack(all_h), torch.stack(all_s), end, torch.stack(all_alpha)


def torch_forward(
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
    saving: bool,
) -> list[Tensor]:
    """The loop in torch operations; same tensors as ``attentive_forward`` in `attentive.h`."""
    steps, batch, inputs = x.shape
    n, wide = w_all.shape[0] // 4, w_all.shape[1]
    start, lengths = start.to(x.device), lengths.to(x.device)
    z, gates = x.new_zeros(steps + 1, batch, wide), x.new_empty(steps, batch, 4 * n)
    c, hh = x.new_empty(steps + 1, batch, n), x.new_empty(steps, batch, n)
    q = x.new_empty(steps, batch, keys.shape[2])
    h, s = x.new_empty(steps, batch, n), x.new_zeros(steps, batch, n)
    alpha = x.new_zeros(steps, batch, memory.shape[1])
    z[:-1, :, n : n + inputs], z[:, :, n + inputs], z[0, :, :n], c[0] = x, 1, h0, c0
    slot = torch.arange(memory.shape[1], device=x.device)
    sample = torch.arange(batch, device=x.device)
    most = int(start.max())
    for t in range(steps):
        live = (t < lengths)[:, None]
        i, f, g, o = activate(torch.mm(z[t], w_all.T, out=gates[t]), n)
        c[t + 1] = torch.where(live, f * c[t] + i * g, c[t])
        hh[t] = o * torch.tanh(c[t + 1])
        q[t] = hh[t] @ w2.T
        held = most + t
        if held:
            scores = (keys[:, :held] + q[t][:, None]).tanh_() @ w3
            allowed = slot[:held] < (start + t)[:, None]
            lowest = torch.finfo(scores.dtype).min
            a = torch.softmax(scores.masked_fill(~allowed, lowest), 1) * (allowed & live)
            alpha[t, :, :held] = a
            s[t] = (a[:, None] @ memory[:, :held])[:, 0]
        h[t] = (hh[t] + s[t]) * live
        z[t + 1, :, :n] = torch.where(live, h[t], z[t, :, :n])
        at = (start + t).clamp(max=memory.shape[1] - 1)
        memory[sample, at] = torch.where(live, h[t], memory[sample, at])
        keys[sample, at] = torch.where(live, h[t] @ w1.T, keys[sample, at])
    return [h, s, z[-1, :, :n].clone(), c[-1].clone(), alpha, z, gates, c, hh, q]


def torch_backward(
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
    alpha: Tensor,
    z: Tensor,
    gates: Tensor,
    c: Tensor,
    hh: Tensor,
    q: Tensor,
    k_trunc: int,
) -> list[Tensor]:
    """Gradient of the gates, the keys, the queries and w3; same tensors as in `attentive.h`."""
    steps, batch, n = dh_out.shape
    start, lengths = start.to(dh_out.device), lengths.to(dh_out.device)
    dg, dq = torch.zeros_like(gates), torch.zeros_like(q)
    dk, dm, dw3 = torch.zeros_like(keys), torch.zeros_like(memory), torch.zeros_like(w3)
    carry, dc = dh_out.new_zeros(batch, n), dh_out.new_zeros(batch, n)
    sample, most = torch.arange(batch, device=dh_out.device), int(start.max())
    for t in range(steps - 1, -1, -1):
        live = (t < lengths)[:, None]
        at = (start + t).clamp(max=memory.shape[1] - 1)
        dhat = (carry + dh_out[t] + dm[sample, at] + dk[sample, at] @ w1) * live
        held = most + t
        if held:
            ds, a = (dhat + ds_out[t]) * live, alpha[t, :, :held]
            g = (memory[:, :held] @ ds[:, :, None])[:, :, 0]
            dm[:, :held] += a[:, :, None] * ds[:, None]
            da = a * (g - (a * g).sum(1, keepdim=True))
            u = (keys[:, :held] + q[t][:, None]).tanh_()
            dw3 += da.flatten() @ u.flatten(0, 1)
            v = u.square_().neg_().add_(1).mul_(w3).mul_(da[:, :, None])
            dq[t] = v.sum(1)
            dk[:, :held] += v
            dhat = dhat + dq[t] @ w2
        dg[t] = gates[t]
        cell_backward(dg[t], c[t], c[t + 1], dhat, dc)
        dg[t] *= live
        keep = live if not k_trunc else live & ((start + t) % k_trunc != 0)[:, None]
        carry, dc = (dg[t] @ w_all[:, :n]) * keep, dc * keep
    return [dg, dk, dq, dw3]


class _Attentive(torch.autograd.Function):
    """Differentiable in x, w_ih, w_hh, bias and the scorer; the state gets no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        bias: Tensor,
        w1: Tensor,
        w2: Tensor,
        w3: Tensor,
        state: SABState,
        keys: Tensor,
        lengths: Tensor,
        k_trunc: int,
        saving: bool,
        compiled: bool,
    ) -> tuple[Tensor, ...]:
        w_all = pack(w_ih, w_hh, bias)
        w1, w2, w3 = w1.contiguous(), w2.contiguous(), w3.contiguous()
        loop = (state.memory, keys, state.step, lengths)
        engine = cast(Any, load_scan()).attentive_forward if compiled else torch_forward
        out = engine(x.contiguous(), w_all, w1, w2, w3, state.h, state.c, *loop, saving)
        h, s, h_end, c_end, alpha, *saved = out
        ctx.save_for_backward(w_ih, w_all, w1, w2, w3, *loop, alpha, *saved)
        ctx.setting = (k_trunc, compiled, x.shape[2])
        ctx.mark_non_differentiable(h_end, c_end, alpha)
        return h, s, h_end, c_end, alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor, ds: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        w_ih, w_all, w1, w2, w3, memory, keys, *rest = ctx.saved_tensors
        k_trunc, compiled, inputs = ctx.setting
        engine: Any = torch_backward
        if compiled:
            engine = cast(Any, load_scan()).attentive_backward
        dg, dk, dq, dw3 = engine(
            dh.contiguous(), ds.contiguous(), w_all, w1, w2, w3, memory, keys, *rest, k_trunc
        )
        z, hh, n = rest[3], rest[6], memory.shape[2]
        grads = input_gradients(dg, z, w_ih, n, inputs, ctx.needs_input_grad[0])
        dw1, dw2 = scorer_gradients(dk, memory, dq, hh)
        return *grads, dw1, dw2, dw3, None, None, None, None, None, None


def attentive_scan(
    x: Tensor,
    weights: ScanWeights,
    state: SABState,
    lengths: Tensor | None = None,
    k_trunc: int | None = None,
    form: str = "auto",
) -> tuple[Tensor, Tensor, SABState, Tensor | None]:
    """Run the LSTM with softmax attention over all its past states.

    Args:
        x: (T, B, input_size).
        weights: the parameters; the scorer is additive.
        state: where to start; it gets no gradient.
        lengths: (B,) int64, valid steps of each sample; ``None``: all T.
        k_trunc: steps of sequential backpropagation, in blocks 1…k, k+1…2k; ``None``: full BPTT.
            Reads are not cut.
        form: as for `sab_scan`; ``"graph"`` runs the torch form as it is, without a CUDA graph.

    Returns:
        h (T, B, n), s (T, B, n), the final state (detached), and the weights (T, B, N) over the N
        states written (``None`` where no gradient is wanted and the C++ form runs, which then does
        not keep them).

    Raises:
        ValueError: a shape does not fit, an unknown form, or a k_trunc below 1.

    Source: paper section 4 (baselines); score as Algorithm 1, weights by softmax.
    """
    if k_trunc is not None:
        positive_int("k_trunc", k_trunc)
    steps, batch, _ = x.shape
    form = choose_form(form, OPTIONS, x.device)
    check_scan(
        x.new_empty(steps, batch, weights.w_ih.shape[0], device="meta"),
        weights.w_hh,
        weights.scorer,
        state,
        OPTIONS,
        lengths,
    )
    if lengths is not None:  # what is padded must not reach even a product with zero
        x = mask_padding(x, lengths)
    lengths = torch.full((batch,), steps) if lengths is None else lengths.cpu()
    state = state.detach()
    if form == "reference":
        return reference(x, weights, state, lengths, k_trunc)
    w1, w2, w3 = weights.scorer
    capacity = int((state.step + lengths).max())
    held = room(state, w1, separable=False, capacity=capacity, keep=False)
    memory, keys = held.memory, held.keys
    parameters = (weights.w_ih, weights.w_hh, weights.bias, w1, w2, w3)
    saving = torch.is_grad_enabled() and any(t.requires_grad for t in (x, *parameters))
    start = SABState(state.h.contiguous(), state.c.contiguous(), memory, state.step)
    compiled = form == "cpp"
    h, s, h_end, c_end, alpha = _Attentive.apply(
        x, *parameters, start, keys, lengths, k_trunc or 0, saving, compiled
    )
    end = SABState(h_end, c_end, memory, state.step + lengths)
    return h, s, end, (alpha if saving or not compiled else None)
