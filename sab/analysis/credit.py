"""Who receives credit from whom: which losses reach which inputs, by rule and by autograd.

Steps are 1-based in the formulas, as in the paper, and 0-based in arrays: entry ``[b, t, s]`` of a
credit matrix belongs to the loss at step t + 1 and the input at step s + 1.

The rule (paper section 3.2; the switches are those of ``ScanOptions``). Let first(t) be the first
cell that a gradient entering at step t still reaches, and R(v) the memories that the read at v
passes gradient to. Then the inputs reached from step t are

    reach(t) = union over v = first(t) … t of {v} ∪ (union over u in R(v) of replay(u)),

    replay(u) = reach(u) with mental updates, {u} with "write_step", nothing with "none".

Nothing else is needed: the output reads h and s of its step and h = ĥ + s, so a gradient at h(t)
enters both the cell t and the read at t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sab.checks import positive_int, shape
from sab.ops.sab_scan.types import Recall, ScanOptions


def first_step(step: int, options: ScanOptions) -> int:
    """First cell (1-based) that a gradient entering at ``step`` reaches through the recurrence.

    Args:
        step: 1-based step of the loss, or of a recalled memory's write.
        options: uses ``k_trunc``, ``truncation`` and ``block_offset``.

    Returns:
        A step between 1 and ``step``.

    Source: paper section 3.2. Sliding: the last k_trunc cells. Block: back to the last border τ ≤
    step with (τ − block_offset) mod k_trunc = 0, where h and c are detached.
    """
    if options.k_trunc is None:
        return 1
    if options.truncation == "sliding":
        return max(1, step - options.k_trunc + 1)
    return max(1, step - (step - options.block_offset) % options.k_trunc)


def chain_graph(options: ScanOptions, steps: int) -> Tensor:
    """Credit matrix of the recurrence alone, as if nothing were ever read: BPTT or TBPTT.

    Args:
        options: uses ``k_trunc``, ``truncation`` and ``block_offset``.
        steps: T ≥ 1.

    Returns:
        bool (T, T): ``[t, s]`` True where ∂L_t/∂x_s may be non-zero.

    Raises:
        ValueError: ``steps`` is not a positive integer.

    Source: paper section 1.1 (BPTT and TBPTT).
    """
    positive_int("steps", steps)
    graph = torch.zeros(steps, steps, dtype=torch.bool)
    for step in range(1, steps + 1):
        graph[step - 1, first_step(step, options) - 1 : step] = True
    return graph


def gradient_reads(recall: Recall, options: ScanOptions, start: int | Tensor = 0) -> Tensor:
    """Which candidates of each read pass gradient on to their memory.

    A positive weight opens the value path. With ``score_gradient="states"`` the weights' own
    gradient enters the scored memories too: those with a weight, and the threshold candidate (the
    last of the candidates). Steps marked ``tied`` have constant weights, hence no score path; nor
    have steps that read the zero initial memory alone.

    Args:
        recall: candidates and weights, (B, T, K).
        options: the switches of the run.
        start: steps taken before the first one, a number or (B,).

    Returns:
        bool (B, T, K).

    Source: paper section 3.1, Algorithm 1; which path carries gradient: section 3.2 and
    ``ScanOptions``.
    """
    if options.replay == "none":
        return torch.zeros_like(recall.indices, dtype=torch.bool)
    used = recall.indices >= 0
    opened = used & (recall.weights != 0)
    if options.score_gradient == "states":
        last = torch.arange(used.shape[2], device=used.device) == used.sum(2, keepdim=True) - 1
        scored = opened | (used & last)
        if (
            options.short_memory == "raw"
        ):  # a raw score of exactly 0 is a weight of 0 with a gradient
            before = torch.arange(used.shape[1], device=used.device)[None, :]
            held = options.held(before + torch.as_tensor(start, device=used.device).reshape(-1, 1))
            scored = scored | (used & (torch.as_tensor(held) <= options.k_top)[..., None])
        # ∂s/∂α is the memory itself: where only the zero memory is read, the scores get nothing.
        felt = ~recall.tied & (opened & (recall.steps > 0)).any(2)
        opened = opened | (scored & felt[..., None])
    return opened & (recall.steps > 0)  # the zero initial memory was written by no cell


def credit_graph(
    recall: Recall,
    options: ScanOptions,
    steps: int,
    lengths: Tensor | None = None,
    start: int | Tensor = 0,
) -> Tensor:
    """Which loss may reach which input, from the recorded indices and the switches alone.

    Args:
        recall: what a run recalled, (B, T, K).
        options: the switches of that run.
        steps: T, the number of steps.
        lengths: (B,) valid steps of each sample; rows and columns after them are False.
        start: steps taken before the first one (carried state), a number or (B,). Memories written
            before it are detached.

    Returns:
        bool (B, T, T): ``[b, t, s]`` True where ∂L_t/∂x_s may be non-zero, L_t being any function
        of the output at t. Where it is False the derivative is exactly 0.

    Raises:
        ValueError: a shape does not fit, or a memory is read before it was written.

    Source: paper section 3.2 and Figure 2; the module's docstring has the rule.
    """
    positive_int("steps", steps)
    batch = recall.indices.shape[0]
    shape("recall.indices", recall.indices, (batch, steps, None))
    if lengths is not None:
        shape("lengths", lengths, (batch,))
    offset = torch.as_tensor(start).expand(batch).tolist()
    valid = [steps] * batch if lengths is None else lengths.tolist()
    opened = gradient_reads(recall, options, start).cpu().numpy()
    written = recall.steps.cpu().numpy()
    graph = np.zeros((batch, steps, steps), dtype=bool)
    for b in range(batch):
        # reached[v]: the inputs reached by cell v and by the read at v
        reached = np.zeros((steps, steps), dtype=bool)
        for v in range(valid[b]):
            reached[v, v] = True
            for u in written[b, v][opened[b, v]] - offset[b] - 1:
                if u < 0:
                    continue  # written in an earlier call, hence detached
                if u >= v:
                    raise ValueError(
                        f"recall.steps has {u + offset[b] + 1} at step {v + offset[b] + 1}: must "
                        f"be earlier; is start={offset[b]} the number of steps taken before?"
                    )
                if options.replay == "full":
                    reached[v] |= graph[b, u]
                else:
                    reached[v, u] = True
            first = max(first_step(offset[b] + v + 1, options) - offset[b] - 1, 0)
            graph[b, v] = reached[first : v + 1].any(axis=0)
    return torch.from_numpy(graph)


@dataclass(frozen=True)
class CreditPaths:
    """Where the gradient of one loss goes, edge by edge. All steps are 1-based.

    Attributes:
        source: step of the loss.
        cells: cells that receive gradient.
        carries: (t, t − 1) pairs: gradient passes from cell t to the state before it.
        cuts: steps t at which a gradient that reached cell t is stopped before t − 1.
        skips: (t, u) pairs: the read at t passes gradient to the memory written at u.
        closed: (t, u) pairs: a read of a memory that passes no gradient on (``replay="none"``).
    """

    source: int
    cells: frozenset[int]
    carries: frozenset[tuple[int, int]]
    cuts: frozenset[int]
    skips: frozenset[tuple[int, int]]
    closed: frozenset[tuple[int, int]] = field(default_factory=frozenset)


def credit_paths(
    reads: Mapping[int, Sequence[int]], options: ScanOptions, steps: int, source: int | None = None
) -> CreditPaths:
    """Follow the gradient of the loss at ``source`` back through recurrence and reads.

    Args:
        reads: step → steps at which the memories it reads with gradient were written.
        options: uses ``k_att``, ``k_trunc``, ``truncation``, ``block_offset`` and ``replay``.
        steps: T.
        source: step of the loss; ``None``: the last.

    Returns:
        CreditPaths; its ``cells`` are the True entries of that row of ``credit_graph``.

    Raises:
        ValueError: a step is out of range, or a memory could not have been written when it is read.

    Source: paper section 3.2, Figure 2.
    """
    positive_int("steps", steps)
    loss = steps if source is None else positive_int("source", source)
    if loss > steps:
        raise ValueError(f"source={source!r}: must be at most steps={steps}")
    for reader, written in reads.items():
        for u in written:
            if not (1 <= u < reader <= steps and u % options.k_att == 0):
                raise ValueError(
                    f"reads[{reader}] names {u}: must be a multiple of k_att={options.k_att} "
                    f"from 1 to {reader - 1}, and the reader at most {steps}"
                )
    cells: set[int] = set()
    carries: set[tuple[int, int]] = set()
    cuts: set[int] = set()
    skips: set[tuple[int, int]] = set()
    closed: set[tuple[int, int]] = set()
    seen: set[int] = set()
    waiting = [loss]  # states into which a gradient enters with a fresh count
    while waiting:
        entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        first = first_step(entry, options)
        for v in range(entry, first - 1, -1):
            cells.add(v)
            if v > first:
                carries.add((v, v - 1))
            elif v > 1:
                cuts.add(v)
            for u in reads.get(v, ()):
                if options.replay == "none":
                    closed.add((v, u))
                    continue
                skips.add((v, u))
                if options.replay == "full":
                    waiting.append(u)
                else:
                    cells.add(u)
                    if u > 1:
                        cuts.add(u)
    cuts -= {t for t, _ in carries}
    frozen = [frozenset(edges) for edges in (cells, carries, cuts, skips, closed)]
    return CreditPaths(loss, *frozen)  # type: ignore[arg-type]


def _outputs(result: Any, batch: int, steps: int) -> list[Tensor]:
    parts = result if isinstance(result, tuple) else (result,)
    found = [
        part for part in parts
        if isinstance(part, Tensor) and part.dim() == 3 and part.shape[:2] == (batch, steps)
        and part.grad_fn is not None
    ]  # fmt: skip
    if not found:
        raise ValueError("layer returned no differentiable output of shape (B, T, features)")
    return found


def credit_autograd(
    layer: Callable[..., Any], x: Tensor, seed: int = 0, lengths: Tensor | None = None
) -> Tensor:
    """Gradient norms from every output step to every input step, by autograd.

    The output at t (h and s together, or the logits) is multiplied by a fixed random vector, so
    that two paths cancel with probability 0 only. One backward pass a step: meant for short
    sequences.

    Args:
        layer: any module or function from x (B, T, features) to an output (B, T, ·), or to a tuple
            in which every (B, T, ·) tensor is an output.
        x: (B, T, features).
        seed: of the random vectors.
        lengths: (B,), handed on to ``layer`` when given.

    Returns:
        (B, T, T): ``[b, t, s]`` = ‖∂(p·output_t)/∂x_s‖₂ of sample b, in x's dtype.

    Raises:
        ValueError: x does not have three dimensions, or no output fits.
    """
    shape("x", x, (None, None, None))
    batch, steps, _ = x.shape
    probe = x.detach().clone().requires_grad_(True)
    outputs = _outputs(
        layer(probe) if lengths is None else layer(probe, lengths=lengths), batch, steps
    )
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(batch, steps, dtype=x.dtype, device=x.device)
    for output in outputs:
        vector = torch.randn(output.shape[2], generator=generator, dtype=torch.float64)
        total = total + output @ vector.to(output)
    norms = []
    for t in range(steps):
        (grad,) = torch.autograd.grad(total[:, t].sum(), probe, retain_graph=True)
        norms.append(grad.norm(dim=2))
    return torch.stack(norms, dim=1)


@dataclass(frozen=True)
class GradientByDistance:
    """Credit against the distance from loss to input.

    Attributes:
        distance: (T,) int64, 0 … T − 1 steps.
        mean: (T,) mean norm over all pairs at that distance, zeros counted.
        reached: (T,) fraction of those pairs whose norm is not exactly 0.
    """

    distance: Tensor
    mean: Tensor
    reached: Tensor


def gradient_by_distance(norms: Tensor, outputs: Sequence[int] | None = None) -> GradientByDistance:
    """Average gradient norms over all pairs (t, s) that are equally far apart.

    Args:
        norms: (B, T, T) or (T, T), as ``credit_autograd`` gives them.
        outputs: 0-based output steps to count; ``None``: all. A distance that none of them has
            gives NaN.

    Returns:
        GradientByDistance over the distances 0 … T − 1.

    Raises:
        ValueError: ``norms`` is not square, or an output step is out of range.
    """
    matrix = norms if norms.dim() == 3 else norms[None]
    steps = matrix.shape[-1]
    shape("norms", matrix, (None, steps, steps))
    rows = list(range(steps)) if outputs is None else list(outputs)
    if not rows or min(rows) < 0 or max(rows) >= steps:
        raise ValueError(f"outputs={outputs!r}: must be steps between 0 and {steps - 1}")
    kept = torch.tensor(rows)
    mean, reached = [], []
    for lag in range(steps):
        late = kept[kept >= lag]
        pairs = matrix[:, late, late - lag].double()
        mean.append(pairs.mean())
        reached.append((pairs != 0).double().mean())
    return GradientByDistance(torch.arange(steps), torch.stack(mean), torch.stack(reached))
