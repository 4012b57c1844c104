"""A task of your own: after T steps of noise, name the symbol that came first."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.train import train
from sab.tasks import Batch, register


@dataclass(frozen=True)
class FirstSymbol:
    T: int = 20
    kinds: int = 4
    goal = ("accuracy", "max")
    input_size = property(lambda self: self.kinds)
    output_size = property(lambda self: self.kinds)
    steps = property(lambda self: self.T + 1)

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        x = torch.rand(batch_size, self.steps, self.kinds, generator=generator) / 10
        y = torch.randint(self.kinds, (batch_size,), generator=generator)
        x[torch.arange(batch_size), 0, y] = 1.0
        return Batch(x, y)

    def loss(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs[:, -1], y)

    def metrics(self, outputs: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
        return {"accuracy": (outputs[:, -1].argmax(1) == y).float().mean().item()}

    def baselines(self) -> dict[str, float]:
        return {"accuracy": 1 / self.kinds}


def main(out: Path) -> float:
    register("first_symbol", FirstSymbol)
    few = TrainConfig(updates=200, batch_size=32, eval_every=50)
    run = RunConfig("own", "sab", "first_symbol", "sab", {}, {"hidden_size": 32}, few)
    return train(run, out).metrics["accuracy"]


if __name__ == "__main__":
    print(main(Path("runs/own")))
