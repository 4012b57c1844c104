"""A task that tells the model the right past while it trains."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sab.experiments import tables
from sab.experiments.evaluate import evaluate
from sab.experiments.rows import make_run
from sab.experiments.train import Trainer
from sab.models.pointer import Pointer
from sab.models.seq2seq import Seq2Seq, Seq2SeqConfig
from sab.tasks.dates import DatesTask


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


def test_a_task_may_be_judged_told() -> None:
    told: list[Tensor | None] = []

    class Spy(Seq2Seq):
        def forward(
            self,
            x: Tensor,
            targets: Tensor | None = None,
            lengths: Tensor | None = None,
            return_weights: bool = False,
        ) -> Any:
            told.append(targets)
            return super().forward(x, targets, lengths, return_weights)

    @dataclass(frozen=True)
    class Told(DatesTask):
        judged_told = True

    task = DatesTask()
    torch.manual_seed(0)
    model = Spy(Seq2SeqConfig(task.input_size, task.output_size, 4, 4, 11))
    batch = task.take("test", torch.arange(8))
    device = torch.device("cpu")
    evaluate(model, task, [(batch, True)], device)
    found, _ = evaluate(model, Told(), [(batch, True)], device)
    assert told[0] is None and told[1] is not None and torch.equal(told[1], batch.y)
    with torch.no_grad():
        assert found == task.metrics(model(batch.x, batch.y)[0], batch.y)
