"""The scan as one `torch.autograd.Function` with a hand-derived, sparse backward.

The loop itself is an engine: `scan.cpp` (compiled, CPU) or `torch_engine.py` (torch operations, CPU
and GPU). Both take and return the same tensors. Here are the packing, the weight gradients and the
node in autograd's graph.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sab.checks import one_of
from sab.ops.sab_scan.types import (
    MemoryBuffer,
    Recall,
    SABState,
    ScanOptions,
    ScanWeights,
    check_scan,
    written_steps,
)

SAVES = ("activations", "recompute")
_REPLAY = {"full": 0, "write_step": 1, "none": 2}
_SHORT = {"margin": 0, "softmax": 1, "raw": 2}
_SAVE = {"nothing": 0, "activations": 1, "recompute": 2}


class Engine(Protocol):
    """What runs the loop; see the comments of `scan.cpp` for the tensors."""

    def forward(self, *args: Any) -> list[Tensor]:
        """The recurrence."""
        ...

    def backward(self, *args: Any) -> list[Tensor]:
        """Its gradient: of the gates, the keys, the queries and w3.

        That of the gates may take the place of the saved activations.
        """
        ...

    def give_back(self, gates: Tensor) -> None:
        """Hear that nobody reads these any more."""
        ...


def check_fast(options: ScanOptions) -> None:
    """Refuse what only the reference form computes.

    Raises:
        ValueError: sliding truncation.
    """
    if options.truncation == "sliding" and options.k_trunc is not None:
        raise ValueError(
            "truncation='sliding': only form='reference' computes it; the fast forms take 'block'"
        )


def encode(options: ScanOptions, save: str, lazy: bool) -> list[int]:
    """The options as the integers the engines take."""
    return [
        options.k_top,
        options.k_att,
        options.k_trunc or 0,
        options.block_offset,
        _REPLAY[options.replay],
        int(options.score_gradient == "states"),
        int(options.score == "separable"),
        int(options.threshold == "k_top"),
        _SHORT[options.short_memory],
        options.zero_slots,
        _SAVE[save],
        int(lazy),
    ]


def pack(w_ih: Tensor, w_hh: Tensor, bias: Tensor) -> Tensor:
    """Return [W_hh | W_ih | b | 0]: its product with [h, x, 1, 0] gives all gates.

    Args:
        w_ih: (4n, input_size).
        w_hh: (4n, n).
        bias: (4n,).

    Returns:
        (4n, width), the width padded with zeros to a multiple of 16.
    """
    wide = w_hh.shape[1] + w_ih.shape[1] + 1
    padding = w_hh.new_zeros(len(w_hh), -wide % 16)  # whole cache lines
    return torch.cat([w_hh, w_ih, bias[:, None], padding], 1)


def input_gradients(
    dg: Tensor, z: Tensor, w_ih: Tensor, n: int, inputs: int, wants_x: bool
) -> tuple[Tensor | None, Tensor, Tensor, Tensor]:
    """Return the gradients of x, w_ih, w_hh and the bias from that of the gates.

    Args:
        dg: (T, B, 4n), gradient of the gates before activation.
        z: (T + 1, B, width), the rows [h, x, 1, 0] that `pack`'s matrix multiplied.
        w_ih: (4n, inputs).
        n: hidden size.
        inputs: input size.
        wants_x: whether x needs one; else its place holds ``None``.
    """
    dw_all = (z[:-1].flatten(0, 1).T @ dg.flatten(0, 1)).T  # faster than dgᵀ z
    dx = (dg @ w_ih) if wants_x else None
    return dx, dw_all[:, n : n + inputs], dw_all[:, :n], dw_all[:, n + inputs]


def scorer_gradients(dk: Tensor, memory: Tensor, dq: Tensor, hh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients (d, n) of W1 and W2 of the additive score, one product each.

    Args:
        dk: (B, M, d), gradient of the keys W1 m.
        memory: (B, M, n).
        dq: (T, B, d), gradient of the queries W2 ĥ.
        hh: (T, B, n), ĥ.
    """
    return dk.flatten(0, 1).T @ memory.flatten(0, 1), dq.flatten(0, 1).T @ hh.flatten(0, 1)


class _Scan(torch.autograd.Function):
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
        codes: list[int],
        engine: Engine,
    ) -> tuple[Tensor, ...]:
        w_all = pack(w_ih, w_hh, bias)
        w1, w2, w3 = w1.contiguous(), w2.contiguous(), w3.contiguous()
        x = x.contiguous()
        loop = (state.memory, keys, state.step, lengths)
        out = engine.forward(x, w_all, w1, w2, w3, state.h, state.c, *loop, codes)
        h, s, h_end, c_end, index, alpha, mode, counts, z, gates, c, hh, q, total = out
        ctx.save_for_backward(
            w_ih, w_all, w1, w2, w3, *loop, index, alpha, mode, z, gates, c, hh, q, total
        )
        ctx.codes, ctx.engine, ctx.inputs = [*codes], engine, x.shape[2]
        ctx.mark_non_differentiable(h_end, c_end, index, alpha, mode, counts)
        return h, s, h_end, c_end, index, alpha, mode, counts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor, ds: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        w_ih, w_all, w1, w2, w3, memory, keys, *rest = ctx.saved_tensors
        z, hh, separable = rest[5], rest[8], bool(ctx.codes[6])
        dg, dk, dq, dw3 = ctx.engine.backward(
            dh.contiguous(), ds.contiguous(), w_all, w1, w2, w3, memory, keys, *rest, ctx.codes
        )
        ctx.codes[10] = _SAVE["recompute"]  # a second pass finds no activations
        n, inputs = memory.shape[2], ctx.inputs
        grads = input_gradients(dg, z, w_ih, n, inputs, ctx.needs_input_grad[0])
        if separable:
            dw1 = (dk * torch.tanh(memory)).sum((0, 1))[None]
            dw2 = (dq * torch.tanh(hh)).sum((0, 1))[None]
        else:
            dw1, dw2 = scorer_gradients(dk, memory, dq, hh)
        ctx.engine.give_back(dg)
        return *grads, dw1, dw2, dw3, None, None, None, None, None


def digest(values: Tensor) -> int:
    """Return a number that changes with any value and with their order."""
    bits = torch.int64 if values.element_size() == 8 else torch.int32
    flat = values.detach().flatten().view(bits).long()
    return int((flat * torch.arange(1, len(flat) + 1, device=flat.device)).sum())


@torch.no_grad()
def room(state: SABState, w1: Tensor, separable: bool, capacity: int, keep: bool) -> MemoryBuffer:
    """Return the memories held and their keys, with room for ``capacity``.

    With ``keep``, the state's own buffer serves again if nobody wrote past this state and the
    scorer has not changed since. The tag tells: address, version counter and a digest of w1, which
    also sees a change by ``.data``. Without a match the keys are computed anew. A carried state
    gets twice the room, so that streaming copies each memory O(1) times.

    Args:
        state: what is carried; M memories.
        w1: (d, n), the memories' part of the scorer; (1, n) for the separable score.
        separable: the keys are w1 tanh(m), not w1 m.
        capacity: memories held at the end.
        keep: whether the buffer outlives the call (no gradient is wanted).
    """
    tag = (w1.data_ptr(), w1._version, digest(w1)) if keep else ()
    carried = min(state.memory.shape[1], capacity)
    old = state.buffer
    if keep and old is not None and old.tag == tag and old.still_holds(state):
        if old.memory.shape[1] >= capacity:
            return old
        keys_held = old.keys[:, :carried]
    else:
        held = state.memory[:, :carried]
        keys_held = (torch.tanh(held) if separable else held) @ w1.T
    size = max(capacity, 2 * carried) if keep and bool(state.step.any()) else capacity
    memory = w1.new_zeros(len(state.memory), size, w1.shape[1])
    keys = w1.new_zeros(len(state.memory), size, w1.shape[0])
    memory[:, :carried], keys[:, :carried] = state.memory[:, :carried], keys_held
    return MemoryBuffer(memory, keys, tag)


def fused_scan(
    x: Tensor,
    weights: ScanWeights,
    state: SABState,
    options: ScanOptions,
    lengths: Tensor | None,
    engine: Engine,
    save: str = "activations",
    lazy: bool = True,
    stream: bool = True,
) -> tuple[Tensor, Tensor, SABState, Recall, Tensor]:
    """Run the scan with an engine.

    Args:
        x: (T, B, input_size).
        weights: as for `sab_scan`.
        state: as for `sab_scan`.
        options: as for `sab_scan`.
        lengths: as for `sab_scan`.
        engine: `scan.cpp`'s module or `torch_engine`.
        save: ``"activations"`` keeps the gates for the backward pass; ``"recompute"`` computes them
            again, which saves their room between the passes (in the backward pass it is where
            their gradient goes). Either way the saved state is O(T·(n + d + k_top)) a sample.
        lazy: skip scores that provably cannot enter the selection (same selection; C++ engine
            only).
        stream: without a graph, keep the keys with the state for the next call.

    Returns:
        h (T, B, n), s (T, B, n), the final state, what was recalled, and (2,) int64: scores
        computed, scores held (zeros from the torch engine, which does not count).

    Raises:
        ValueError: a shape does not fit, or an option only the reference form supports.

    Source: paper section 3, Algorithm 1; the backward follows from section 3.2 by hand.
    """
    one_of("save", save, SAVES)
    check_fast(options)
    steps, batch, _ = x.shape
    separable = options.score == "separable"
    check_scan(
        x.new_empty(steps, batch, weights.w_ih.shape[0], device="meta"),
        weights.w_hh,
        weights.scorer,
        state,
        options,
        lengths,
    )
    # Time is kept on the CPU, so that no step has to wait for a GPU to know it.
    lengths = torch.full((batch,), steps) if lengths is None else lengths.cpu()
    state = state.detach()
    scorer = weights.scorer
    w1, w2 = scorer[0], scorer[1]
    w3 = x.new_empty(0) if separable else scorer[2]
    if separable:
        w1, w2 = w1[None], w2[None]
    differentiable = (x, weights.w_ih, weights.w_hh, weights.bias, *scorer)
    learning = torch.is_grad_enabled() and any(t.requires_grad for t in differentiable)
    codes = encode(options, save if learning else "nothing", lazy)
    capacity = int(options.held(int((state.step + lengths).max())))
    buffer = room(state, w1, separable, capacity, keep=stream and not learning)
    memory, keys = buffer.memory, buffer.keys
    start = SABState(state.h.contiguous(), state.c.contiguous(), memory, state.step.contiguous())
    h, s, h_end, c_end, index, alpha, mode, counts = _Scan.apply(
        x,
        weights.w_ih,
        weights.w_hh,
        weights.bias,
        w1,
        w2,
        w3,
        start,
        keys,
        lengths.contiguous(),
        codes,
        engine,
    )
    slots = index.transpose(0, 1).long()
    recall = Recall(
        slots, alpha.transpose(0, 1), mode.transpose(0, 1) == 0, written_steps(slots, options)
    )
    held, step = memory[:, :capacity], state.step + lengths
    level = bool(
        (torch.as_tensor(options.held(step)) == capacity).all()
    )  # else two continuations could collide
    buffer.wrote(held, level)
    end = SABState(h_end, c_end, held, step, buffer if stream and not learning else None)
    return h, s, end, recall, counts
