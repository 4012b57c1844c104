"""The whole set, one script after the other, at one of three sizes.

    python -m benchmarks.everything --size cpu --out results/bench

``smoke`` is for trying out (its numbers mean nothing), ``short`` takes a few minutes, ``cpu`` about
ten on two quiet cores. Give ``--weights`` to measure copy with a trained model as well.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks import gpu, lazy, measure, parts, scaling, scan
from sab.ops.sab_scan.cpp import load_scan

Main = Callable[[Sequence[str] | None], int]
ALL = "lstm,cpp,cpp_recompute,torch,reference,released,released_lean"
MAINS: dict[str, Main] = {
    "scan": scan.main, "scaling": scaling.main, "lazy": lazy.main, "parts": parts.main
}  # fmt: skip
TINY = "--hidden 16"
SIZES: dict[str, dict[str, str]] = {
    "smoke": {
        "scan": f"--lengths 20 --batch 4 {TINY} --repeats 2 --forms lstm,cpp,torch,released",
        "scaling": f"--train 10,20,40 --infer 10,20,40 --stream 200 --chunk 50 --evaluate 40 "
        f"--batch 4 --infer-batch 4 --stream-batch 2 --budget 0.1 {TINY} --forms lstm,cpp,torch",
        "lazy": f"--lengths 20,40 --batch 4 --repeats 1 {TINY}",
        "parts": f"--lengths 20 --batch 4 --repeats 1 {TINY} --forms cpp,torch",
    },
    "short": {
        "scan": f"--lengths 100 --repeats 3 --slow-repeats 2 --forms {ALL}",
        "scaling": "--train 50,100,200 --infer 100,300,1000 --stream 3000 --chunk 250 "
        "--evaluate 1000 --budget 1",
        "lazy": "--lengths 300,1000 --repeats 1",
        "parts": "--lengths 100 --repeats 2",
    },
    "cpu": {
        "scan": f"--lengths 300 --repeats 9 --slow-repeats 3 --forms {ALL}",
        "scaling": "--train 50,100,200,300,400,800 --infer 100,300,500,1000,2000,5000 "
        "--stream 20000 --chunk 500 --evaluate 5000 --budget 8",
        "lazy": "--lengths 300,5000 --repeats 1",
        "parts": "--lengths 300 --repeats 7",
    },
}


def commands(
    size: str, out: Path, weights: str | None, note: str | None, compiler: bool = True
) -> list[list[str]]:
    """Each script's name and arguments, in order; without a compiler the C++ forms are left out."""
    made = []
    for name, line in SIZES[size].items():
        if not compiler:
            if name == "lazy":
                continue
            line = re.sub(r"cpp(_\w+)?,", "", line)
            line += " --forms torch" if name == "parts" and "--forms" not in line else ""
            line += " --forms lstm,torch" if name == "scaling" and "--forms" not in line else ""
        target = "scan-random" if name == "scan" else name
        common = ["--json", str(out / f"{target}.json"), *(["--note", note] if note else [])]
        trained = ["--weights", weights] if weights else []
        made.append(
            [name, *line.split(), *common, *(trained if name in ("scaling", "lazy") else [])]
        )
        if name == "scan" and trained:
            copy = ["--json", str(out / "scan-copy.json"), *common[2:]]
            few = ["--input", "copy", "--forms"]
            few += ["lstm,cpp,torch,released" if compiler else "lstm,torch,released"]
            made.append([name, *line.split(), *few, *trained, *copy])
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run them all; the first that fails ends it with its status."""
    options = argparse.ArgumentParser(prog="benchmarks.everything")
    options.add_argument("--size", choices=tuple(SIZES), default="cpu")
    options.add_argument("--out", type=Path, default=measure.BENCH)
    options.add_argument("--weights", help="trained SAB weights (.npz)")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--note", help="a sentence to keep in the records")
    options.add_argument("--only", type=measure.names, default=[*MAINS], help=",".join(MAINS))
    args = options.parse_args(argv)
    measure.check_weights(options, args.weights)
    unknown = set(args.only) - set(MAINS)
    if unknown or args.threads < 1:
        options.error(f"--only {','.join(args.only)} --threads {args.threads}: not understood")
    for name, *rest in commands(
        args.size, args.out, args.weights, args.note, load_scan() is not None
    ):
        if name not in args.only:
            continue
        measure.say(f"== {name} {' '.join(rest)}")
        begin = time.perf_counter()
        status = MAINS[name]([*rest, "--threads", str(args.threads)])
        measure.say(f"== {name}: {time.perf_counter() - begin:.0f} s")
        if status:
            return status
    if torch.cuda.is_available() and args.size != "smoke":
        return gpu.main(["--threads", str(args.threads)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
