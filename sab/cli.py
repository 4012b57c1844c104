"""The command ``sab``: run experiments, print their tables, list what there is, show a record."""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sab.experiments.config import PROFILES, did_you_mean

COMMANDS = ("run", "table", "list", "show", "export", "maps", "data")


class Parser(argparse.ArgumentParser):
    """Reports a wrong argument in one line, with exit code 2."""

    def error(self, message: str) -> Any:  # noqa: D102
        words = message.split("'")
        if "invalid choice" in message and len(words) > 1:
            known = [*COMMANDS, *PROFILES]
            message = message.split(" (choose")[0] + did_you_mean(words[1], known)
        self.exit(2, f"sab: {message}; see {self.prog} --help\n")


def value_of(text: str) -> Any:
    """Read a value as typed: a number, a list, ``true``, ``false``, ``none``, or a word."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


def changes_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``field=value`` pairs.

    Raises:
        ValueError: a pair has no ``=`` or no field.
    """
    changes = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set {pair!r}: must be field=value, as in --set k_top=3")
        changes[name.strip()] = value_of(text.strip())
    return changes


def parser() -> Parser:
    """Build the command line."""
    top = Parser(prog="sab", description="Sparse Attentive Backtracking: experiments and tables.")
    commands = top.add_subparsers(dest="command", required=True, parser_class=Parser)
    where = Parser(add_help=False)
    where.add_argument("--results", metavar="DIR", help="records (default: results/)")
    where.add_argument("--runs", metavar="DIR", help="checkpoints and weights (default: runs/)")

    run = commands.add_parser("run", parents=[where], help="run what is missing of an experiment")
    run.add_argument("experiment")
    run.add_argument("--row", action="append", metavar="ROW", help="only this row; repeatable")
    run.add_argument(
        "--seed", action="append", type=int, metavar="N", help="only this seed; repeatable"
    )
    run.add_argument(
        "--profile", default="cpu", metavar="NAME", help=f"one of {', '.join(PROFILES)}"
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="change a field"
    )
    run.add_argument("--text", metavar="FILE", help="a UTF-8 text for a language model to read")
    run.add_argument("--dry-run", action="store_true", help="print the plan with estimated minutes")
    run.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    run.add_argument("--executor", default="local", choices=("local", "dask"))
    run.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a Dask scheduler, as tcp://host:8786"
    )
    run.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    run.add_argument("--force", action="store_true", help="run again what has a record")
    run.add_argument(
        "--fresh", action="store_true", help="start anew, whatever checkpoint there is"
    )
    run.add_argument("--progress", default="auto", choices=("auto", "bar", "lines", "none"))

    table = commands.add_parser("table", parents=[where], help="print a table from its records")
    table.add_argument("experiment")
    table.add_argument("--profile", metavar="NAME", help="default: the largest that has records")
    table.add_argument("--format", default="text", choices=("text", "markdown", "json"))

    listing = commands.add_parser(
        "list", parents=[where], help="list experiments, rows and profiles"
    )
    listing.add_argument("experiment", nargs="?")

    show = commands.add_parser(
        "show", parents=[where], help="show the records of a row, or one file"
    )
    show.add_argument("what", help="experiment, or the path of a record")
    show.add_argument("--row", metavar="ROW")
    show.add_argument("--profile", metavar="NAME")
    show.add_argument("--seed", type=int, metavar="N")
    show.add_argument("--history", action="store_true", help="print the learning curve too")

    export = commands.add_parser(
        "export", parents=[where], help="copy weights to results/checkpoints/"
    )
    _of_one_run(export)
    export.add_argument(
        "--update", action="append", type=int, metavar="N", help="a snapshot; repeatable"
    )
    datasets = commands.add_parser(
        "data", help="data sets: list them, fetch one, check what is here"
    )
    actions = datasets.add_subparsers(dest="action", required=True, parser_class=Parser)
    actions.add_parser("list", help="what there is, what is here, and its terms")
    actions.add_parser("check", help="compare what is here with its checksums")
    fetch = actions.add_parser("fetch", help="fetch what is missing of a data set")
    fetch.add_argument("name", metavar="NAME")

    maps = commands.add_parser(
        "maps",
        parents=[where],
        help="write what a run recalls: maps of its snapshots, of pixels, or of a line of text",
    )
    _of_one_run(maps)
    maps.add_argument(
        "--sequences", type=int, default=512, metavar="N", help="averaged over (default: 512)"
    )
    translate = commands.add_parser(
        "translate", parents=[where], help="write what a translator says, and its BLEU"
    )
    _of_one_run(translate)
    translate.add_argument("--width", type=int, default=5, metavar="N", help="of the beam")
    translate.add_argument("--no-bleu", action="store_true", help="sentences only; no sacrebleu")
    return top


def _of_one_run(command: argparse.ArgumentParser) -> None:
    """Which run a command is about."""
    command.add_argument("experiment")
    command.add_argument("--row", required=True, metavar="ROW")
    command.add_argument("--seed", type=int, default=0, metavar="N")
    command.add_argument("--profile", default="cpu", metavar="NAME")


def do_run(args: argparse.Namespace) -> int:
    """``sab run``."""
    from sab.checks import positive_int
    from sab.experiments import run as engine

    if args.workers is not None:
        positive_int("workers", args.workers)
    if args.scheduler and args.executor != "dask":
        raise ValueError(f"scheduler={args.scheduler!r}: needs --executor dask")
    rest = {"device": args.device, "progress": args.progress, "fresh": args.fresh}
    options = engine.Options.of(args.results, args.runs, **rest)
    changes = changes_of(args.set)
    runs = engine.plan(args.experiment, args.profile, args.row, args.seed, changes, args.text)
    todo = runs if args.force else engine.missing(runs, options.results)
    print(f"{len(runs)} runs, {len(runs) - len(todo)} with a record, {len(todo)} to do")
    if args.dry_run:
        total = 0.0
        for run in todo:
            minutes = engine.estimate(run, options.results)
            total += minutes
            print(f"  {run.experiment} {run.name}: about {minutes:.1f} min")
        here = total / (args.workers or os.cpu_count() or 1)
        print(f"about {total:.0f} min on one thread, {here:.0f} with all workers")
        return 0
    if not todo:
        return 0
    errors = engine.run_all(
        todo, options, args.workers, args.executor, args.scheduler, done=engine.report
    )
    for error in errors:
        print(f"sab: {error}", file=sys.stderr)
    return 2 if errors else 0


def do_table(args: argparse.Namespace) -> int:
    """``sab table``."""
    from sab.experiments import report, tables

    results = Path(args.results) if args.results else None
    parts = [
        (item, report.table(item, args.profile, results))
        for item in tables.find_all(args.experiment)
    ]
    if args.format == "json":
        lines = [line for _, found in parts for line in found]
        print(report.render(lines, "json"))
        return 0
    texts = []
    for item, lines in parts:
        title = f"{item.title} ({item.name})\n\n" if len(parts) > 1 else ""
        texts.append(title + report.render(lines, args.format))
    print("\n\n".join(texts))
    return 0


def do_list(args: argparse.Namespace) -> int:
    """``sab list``."""
    from sab.experiments import profiles, tables
    from sab.experiments.rows import seeds_of

    if args.experiment is None:
        for item in tables.EXPERIMENTS.values():
            also = f" (also: {', '.join(item.aliases)})" if item.aliases else ""
            print(f"{item.name:15} {len(item.rows):3} rows  {item.title}{also}")
        for name, profile in profiles.PROFILES.items():
            print(f"--profile {name:6} {profile.title}")
        return 0
    item = tables.find(args.experiment)
    print(item.title)
    for row in item.rows:
        counts = ", ".join(f"{p} {seeds_of(row, p)}" for p in profiles.PROFILES)
        print(f"  {row.name:28} {row.title}  (seeds: {counts})")
    return 0


def do_show(args: argparse.Namespace) -> int:
    """``sab show``."""
    from sab.experiments import records, tables

    if args.what.endswith(".json"):
        if not Path(args.what).is_file():
            raise ValueError(f"{args.what}: no such record")
        found = [records.read(Path(args.what))]
    else:
        item = tables.find(args.what)
        results = Path(args.results) if args.results else None
        found = records.load(item.name, args.row, args.profile, results)
        found = [record for record in found if args.seed in (None, record.seed)]
        if not found:
            raise ValueError(f"{item.name}: no such record; make it with: sab run {item.name}")
    for record in found:
        print(f"{record.experiment} {record.name}  {record.status}")
        facts = f"{record.seconds / 60:.1f} min, {record.peak_mb:.0f} MB, sab {record.version}"
        print(f"  {record.created}  {facts}  commit {record.commit or '?'}")
        print("  " + ", ".join(f"{k} {v}" for k, v in record.machine.items()))
        for name, value in record.metrics.items():
            print(f"  {name:28} {value if value is None else format(value, '.6g')}")
        if args.history:
            for entry in record.history:
                print("  " + json.dumps(entry))
    return 0


def do_data(args: argparse.Namespace) -> int:
    """``sab data``: list what there is, fetch a data set, check what is here."""
    from sab.data import fetch, report

    if args.action == "fetch":
        for path in fetch.files(args.name).values():
            print(path)
        return 0
    print(f"folder: {fetch.data_dir()} (SAB_DATA chooses another)")
    lines, damaged = (report.listing(), False) if args.action == "list" else report.checks()
    print("\n".join(lines))
    if damaged:
        print("sab: remove what is damaged, then: sab data fetch NAME", file=sys.stderr)
    return 2 if damaged else 0


def do_export(args: argparse.Namespace) -> int:
    """``sab export``."""
    from sab.experiments import tables, weights

    item = tables.find(args.experiment)
    runs = Path(args.runs) if args.runs else None
    results = Path(args.results) if args.results else None
    updates: list[int | None] = list(args.update) if args.update else [None]
    made = weights.export(item.name, args.row, args.profile, args.seed, updates, runs, results)
    for path in made:
        print(path)
    return 0


def do_maps(args: argparse.Namespace) -> int:
    """``sab maps``."""
    from sab.analysis import attention, excerpts, pixel_reads, places
    from sab.experiments import tables

    item = tables.find(args.experiment)
    which = (item.name, args.row, args.profile, args.seed)
    runs = Path(args.runs) if args.runs else None
    results = Path(args.results) if args.results else None
    if item.task == "charlm":
        line = excerpts.make_excerpt(*which, runs=runs, results=results)
        print(f"{excerpts.write_excerpt(line, results)}  {len(line.text)} characters")
        each = places.find_places(*which, args.sequences, runs, results)
        print(f"{places.write_places(each, results)}  {each.sequences} sequences")
    elif item.task == "images":
        seen = pixel_reads.pixel_reads(*which, args.sequences, runs, results)
        print(f"{pixel_reads.write_pixel_reads(seen, results)}  {seen.pictures.sum()} pictures")
    else:
        found = attention.attention_maps(*which, args.sequences, runs, results)
        print(f"{attention.write_maps(found, results)}  {len(found.frames)} moments")
    return 0


def do_translate(args: argparse.Namespace) -> int:
    """``sab translate``."""
    from sab.analysis import translation
    from sab.experiments import tables

    run = (tables.find(args.experiment).name, args.row, args.profile, args.seed)
    folders = (Path(name) if name else None for name in (args.runs, args.results))
    path = translation.report(*run, args.width, not args.no_bleu, *folders)
    print(path, translation.read(path)["bleu"])
    return 0


ACTIONS = {
    "run": do_run,
    "table": do_table,
    "list": do_list,
    "show": do_show,
    "export": do_export,
    "data": do_data,
    "maps": do_maps,
    "translate": do_translate,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    0: done; 2: something the user can mend, said in one line; 130: interrupted.

    ``SAB_TRACEBACK=1`` shows where an error came from.
    """
    args = parser().parse_args(arguments)
    try:
        return ACTIONS[args.command](args)
    except BrokenPipeError:  # whoever read our output, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if os.environ.get("SAB_TRACEBACK") == "1":
            raise
        print(f"sab: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "sab: interrupted; the same command goes on from the last checkpoint", file=sys.stderr
        )
        return 130


if __name__ == "__main__":
    sys.exit(main())
