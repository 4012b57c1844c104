"""A task that tells the model the right past while it trains."""

from pathlib import Path

import torch
from torch import Tensor

from sab.experiments import tables
from sab.experiments.rows import make_run
from sab.experiments.train import Trainer
from sab.models.pointer import Pointer


def test_the_teacher_speaks_in_training_only(tmp_path: Path) -> None:
    seen = []

    class Spy(Pointer):
        def forward(
            self, x: Tensor, targets: Tensor | None = None, lengths: Tensor | None = None
        ) -> tuple[Tensor, None]:
            seen.append((self.training, targets is not None))
            return super().forward(x, targets, lengths)

    item = tables.find("sorting")
    run = make_run(item, item.row("pointer_N5"), "smoke", 0)
    trainer = Trainer(run, tmp_path, torch.device("cpu"))
    trainer.model.__class__ = Spy
    trainer.step()
    trainer.judge()
    assert set(seen) == {(True, True), (False, False)}
