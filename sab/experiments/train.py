"""The trainer: one run from its seed to its record, interrupted and resumed at will.

Five random streams a run, from its seed: initial weights, training data, held-out data (drawn
once, the same at every evaluation), test data (never seen before the end), and what the model
itself draws (dropout, a hard choice). A finite data set has
its own held-out and test parts; only the order of training is drawn. Data are made on the CPU, so
that they are the same everywhere. On the CPU a run that was killed and started again gives
the same numbers, to the last digit, as one left alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sab.checks import one_of
from sab.experiments import records
from sab.experiments.carry import pack, unpack
from sab.experiments.config import RunConfig, TrainConfig, scan_form
from sab.experiments.evaluate import evaluate, kept_mb, objective
from sab.experiments.feed import is_finite, make_feed
from sab.experiments.files import check_writable
from sab.experiments.progress import Progress
from sab.experiments.progression import Norms, Progression, Window
from sab.experiments.records import Record
from sab.experiments.weights import (
    build_model,
    load_checkpoint,
    save_checkpoint,
    save_weights,
    snapshot_name,
)
from sab.tasks import registry as tasks


def pick_device(name: str = "auto") -> torch.device:
    """Return the device called ``name``; ``"auto"`` takes cuda, then mps, then cpu.

    Raises:
        ValueError: the name is unknown or this machine has no such device.
    """
    one_of("device", name, ("auto", "cpu", "cuda", "mps"))
    have = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind, here in have.items() if here)
    if not have[name]:
        raise ValueError(f"device={name!r}: this machine has none; take auto or cpu")
    return torch.device(name)


@contextmanager
def tiny_is_zero() -> Iterator[None]:
    """Let the CPU take denormal numbers for zero.

    A gradient that vanishes over hundreds of steps ends in denormals, with which a processor
    computes ten times as slowly (permuted MNIST's LSTM: 3.3 s instead of 0.3 s for a backward).
    """
    before = torch.tensor(1e-40).mul(1.0).item() == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Trainer:
    """One run being trained; :func:`train` drives it."""

    def __init__(self, run: RunConfig, out: Path, device: torch.device) -> None:
        self.run, self.out, self.device = run, out, device
        self.config: TrainConfig = run.train
        self.task = tasks.build(run.task, run.task_config)
        self.model = build_model(run).to(device)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.fused = device.type in ("cpu", "cuda")
        self.optimiser = torch.optim.Adam(self.parameters, lr=self.config.lr, fused=self.fused)
        self.feed = make_feed(self.task, run)
        self.state: Any = None
        self.at = Progression()
        self.norms = Norms()
        self.best: dict[str, Tensor] = {}
        self.limit = math.inf if self.config.clip is None else self.config.clip
        self.started = time.perf_counter()
        # On a busy machine the processor's own time is the steadier measure of a step.
        self.clock = time.process_time if device.type == "cpu" else time.perf_counter

    # One update -------------------------------------------------------------------------------

    def step(self) -> None:
        """Take a batch, follow its gradient; nothing is read from the device but a logged loss."""
        at, config, began = self.at, self.config, self.clock()
        batch, fresh = self.feed.next(at.update)
        self.optimiser.param_groups[0]["lr"] = config.lr_at(at.update + 1, at.drops)
        self.optimiser.zero_grad(set_to_none=True)
        x, y = batch.x.to(self.device), batch.y.to(self.device)
        state = None if fresh else self.state
        loss, self.state = objective(self.model, self.task, x, y, state)
        loss.backward()
        self.descend(nn.utils.clip_grad_norm_(self.parameters, self.limit))
        at.update += 1
        if at.update % config.log_every == 0:
            at.window.losses.append(loss.item())
        known = (config.log_every, config.eval_every, config.checkpoint_every)
        if any(at.update % every == 0 for every in known):
            self.catch_up()
        at.stepping += self.clock() - began

    def descend(self, norm: Tensor) -> None:
        """Let the optimiser follow the clipped gradient, unless its ``norm`` was not finite.

        One infinite gradient would leave NaN in every weight. The fused optimiser is told so by a
        flag on the device; any other has to wait for the norm.
        """
        self.norms.add(norm)
        bad = ~torch.isfinite(norm)
        if self.fused:
            self.optimiser.found_inf = bad.to(torch.float32)  # type: ignore[attr-defined]
            self.optimiser.step()
        elif not bad:
            self.optimiser.step()

    def catch_up(self) -> None:
        """Read the norms that still lie on the device; a run that diverged is found out here."""
        for norm in self.norms.read():
            self.at.count(norm)

    # One evaluation ---------------------------------------------------------------------------

    def judge(self) -> dict[str, Any]:
        """Evaluate on held-out data, keep the model if it is the best, decide whether to stop.

        A model that says it is ``warming_up`` is not yet what it will be: it is judged, but neither
        chosen nor solved, and patience does not run.
        """
        self.catch_up()
        at, config = self.at, self.config
        metrics, places = evaluate(self.model, self.task, self.feed.held_out(), self.device)
        name, direction = self.task.goal
        value = metrics[name]
        sign = 1.0 if direction == "max" else -1.0
        lr = self.optimiser.param_groups[0]["lr"]
        entry = {"update": at.update, **at.window.summary(), **metrics, "lr": lr}
        if self.feed.sequences is not None:
            entry["epoch"] = self.epochs()
        if places:
            entry["positions"] = places
        entry["seconds"] = round(self.seconds(), 3)
        at.history.append(records.finite(entry))
        at.window = Window()
        if getattr(self.model, "warming_up", False):
            return entry
        if math.isfinite(value) and (at.best_value is None or sign * (value - at.best_value) > 0):
            at.best_value, at.best_update, at.since_better = value, at.update, 0
            self.best = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        else:
            at.since_better += 1
            if config.schedule == "plateau" and at.since_better % config.plateau == 0:
                at.drops += 1
        solved = config.solved_at is not None and sign * (value - config.solved_at) >= 0
        at.solved_running = at.solved_running + 1 if solved else 0
        if at.solved_running == config.solved_times:
            at.solved_update = at.update
            at.stopped = at.stopped or "solved"
        if config.patience is not None and at.since_better >= config.patience:
            at.stopped = at.stopped or "finished"
        return entry

    def epochs(self) -> float:
        """How often the training part has been seen; of a finite data set only."""
        seen = self.at.update * self.config.batch_size
        return round(seen / (self.feed.sequences or 1), 4)

    def snapshot(self) -> None:
        """Keep the weights of now, where the run asks for them."""
        if self.at.update in self.config.snapshots:
            path = self.out / snapshot_name(self.at.update)
            save_weights(path, self.run, self.model.state_dict())

    # Stopping and going on ----------------------------------------------------------------------

    def seconds(self) -> float:
        """Time spent on this run, over all restarts."""
        return self.at.seconds + time.perf_counter() - self.started

    def save(self) -> None:
        """Write the checkpoint."""
        self.catch_up()
        self.at.seconds, self.started = self.seconds(), time.perf_counter()
        self.at.peak_mb = max(self.at.peak_mb, records.peak_mb(self.device))
        at = dict(vars(self.at))
        at["window"] = vars(self.at.window)
        state: dict[str, Any] = {
            "at": at,
            "model": self.model.state_dict(),
            "best": self.best,
            "optimiser": self.optimiser.state_dict(),
            "data": self.feed.state(),
            "carried": pack(self.state),
            "rng": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(self.device)
        save_checkpoint(self.out, self.run, state)

    def restore(self) -> bool:
        """Take up the checkpoint; return whether there was one.

        Raises:
            CheckpointError: it is damaged or belongs to other settings.
        """
        state = load_checkpoint(self.out, self.run, self.device)
        if state is None:
            return False
        self.model.load_state_dict(state["model"])
        self.best = {k: v.to(self.device) for k, v in state["best"].items()}
        self.optimiser.load_state_dict(state["optimiser"])
        self.feed.restore(state["data"])
        self.state = unpack(state.get("carried"), self.device)
        torch.set_rng_state(state["rng"])
        if "cuda_rng" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_rng"], self.device)
        at = dict(state["at"])
        at["window"] = Window(**at["window"])
        self.at = Progression(**at)
        return True

    def record(self) -> Record:
        """Test the chosen model on fresh data and describe the run."""
        at, run = self.at, self.run
        seconds = self.seconds()
        if self.best:
            self.model.load_state_dict(self.best)
        metrics, places = evaluate(self.model, self.task, self.feed.test(), self.device)
        metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
        metrics |= {f"{self.task.goal[0]}_p{i}": v for i, v in enumerate(places, 1)}
        metrics |= {"updates": at.update, "best_update": at.best_update}
        metrics |= {
            "skipped_updates": at.skipped,
            "seconds_per_update": seconds / max(at.update, 1),
            "step_seconds": at.stepping / max(at.update, 1),
        }
        metrics["parameters"] = sum(p.numel() for p in self.parameters)
        metrics["test_sequences"] = self.feed.tested
        # Measured when nothing is trained any more, so that it disturbs nothing.
        metrics["kept_mb"] = round(
            kept_mb(self.model, self.task, self.feed.sample(), self.device), 3
        )
        if self.feed.sequences is not None:
            metrics["epochs"] = self.epochs()
        if at.best_value is not None:
            metrics[f"held_out_{self.task.goal[0]}"] = at.best_value
        if at.solved_update is not None:
            metrics["solved_update"] = at.solved_update
        norms = [e["grad_norm_max"] for e in at.history if e["grad_norm_max"] is not None]
        if norms:
            metrics["grad_norm_max"] = max(norms)
        described = {"data": self.task.about} if is_finite(self.task) else {}  # type: ignore[attr-defined]
        return Record(
            experiment=run.experiment,
            row=run.row,
            config={**run.resolved(), **described},
            seed=run.seed,
            profile=run.profile,
            metrics=metrics,
            history=at.history,
            machine=records.machine(self.device, scan_form(run, self.device)),
            seconds=round(seconds, 2),
            peak_mb=max(at.peak_mb, records.peak_mb(self.device)),
            commit=records.commit(),
            created=records.now(),
            status=at.stopped or "finished",
        )


def train(
    run: RunConfig,
    out: Path,
    resume: bool = True,
    device: str = "auto",
    progress: str = "auto",
) -> Record:
    """Train one run and return its record; the caller writes it.

    Args:
        run: what to train.
        out: the run's folder for its checkpoint, chosen weights and snapshots.
        resume: go on from the checkpoint in ``out``, if there is one.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
        progress: ``"bar"``, ``"lines"`` (one an evaluation), ``"none"``, or ``"auto"``: a bar on a
            terminal, lines elsewhere.

    Raises:
        ValueError: no such device, or the checkpoint is damaged or belongs to other settings.
        OSError: ``out`` cannot be written or the disk is full; the last checkpoint is kept.
    """
    check_writable(out)
    where = pick_device(device)
    title = f"{run.experiment} {run.name}"
    with torch.random.fork_rng([where] if where.type == "cuda" else []):
        torch.manual_seed(run.stream("draws"))
        trainer = Trainer(run, out, where)
        at_start = not (resume and trainer.restore())
        with tiny_is_zero(), Progress(title, run.train.updates, progress) as bar:
            if at_start:
                trainer.snapshot()
                trainer.judge()
            config = run.train
            bar.update(trainer.at.update)
            while trainer.at.update < config.updates and not trainer.at.stopped:
                trainer.step()
                update = trainer.at.update
                bar.update(update)
                trainer.snapshot()
                last = update == config.updates or bool(trainer.at.stopped)
                if update % config.eval_every == 0 or last:
                    bar.report(update, trainer.judge())
                if update % config.checkpoint_every == 0 or last or trainer.at.stopped:
                    trainer.save()
        save_weights(out / snapshot_name(None), run, trainer.best or trainer.model.state_dict())
        return trainer.record()
