"""A model of your own: a GRU, beside SAB on the copy task."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.train import train
from sab.models.registry import register


@dataclass(frozen=True)
class GRUConfig:
    input_size: int = 10
    hidden_size: int = 128
    output_size: int = 10


class GRU(nn.Module):
    def __init__(self, config: GRUConfig) -> None:
        super().__init__()
        self.gru = nn.GRU(config.input_size, config.hidden_size, batch_first=True)
        self.readout = nn.Linear(config.hidden_size, config.output_size)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h, state = self.gru(x, state)
        return self.readout(h), state.detach()


def main(out: Path) -> dict[str, float]:
    register("gru", GRUConfig, GRU)
    few = TrainConfig(updates=600, batch_size=32, lr=1e-2, clip=1.0, eval_every=50)
    task = {"T": 3, "length": 2, "symbols": 4}
    found = {}
    for model in ("gru", "sab"):
        run = RunConfig("own", model, "copy", model, task, {"hidden_size": 32}, few)
        found[model] = train(run, out / model).metrics["accuracy"]
    return found


if __name__ == "__main__":
    print(main(Path("runs/own")))
