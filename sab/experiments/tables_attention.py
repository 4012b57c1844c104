"""Experiments on attention and external memory: what the second part's chapters show."""

from __future__ import annotations

from sab.experiments.rows import Experiment, Row

# The norm is clipped at 2, as Vinyals et al. 2015 do (section 4.1); the rest was not searched for.
POINTING = {"lr": 4e-3, "clip": 2.0, "batch_size": 128, "schedule": "cosine", "lr_factor": 0.02}


def _sorting() -> Experiment:
    rows = tuple(
        Row(
            f"pointer_N{length}",
            f"pointer network, {length} numbers",
            "pointer",
            {"hidden_size": 64},
            {"length": length},
            {**POINTING, "updates": updates, "solved_at": None},
            seeds=2,
        )
        for length, updates in ((5, 2000), (10, 3000))
    )
    return Experiment("sorting", "Sorting numbers by pointing at them", "sorting", rows)


def _hull() -> Experiment:
    rows = tuple(
        Row(
            f"pointer_N{length}",
            f"pointer network, {length} points",
            "pointer",
            {"hidden_size": 64},
            {"length": length},
            {**POINTING, "lr": 3e-3, "updates": 7000, "solved_at": None},
            seeds=seeds,
        )
        for length, seeds in ((5, 2), (10, 1))
    )
    return Experiment("hull", "The planar convex hull by pointing", "hull", rows)


ATTENTION = (_sorting(), _hull())
