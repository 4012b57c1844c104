"""What models that count reach on each text: the bounds a language model has to beat.

    python -m benchmarks.ngrams --corpora ptb,books,colours

Orders 1 to 10 with Witten and Bell's fall-back, counted on the training part, in bits a character
of the test part. Beside them the sizes of the parts, so that a page needs no data to tell them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure
from sab.analysis.ngrams import ngram_bits
from sab.checks import one_of
from sab.tasks.text import CORPORA, SPLITS, corpus

ORDER = 10


def row_of(name: str) -> dict[str, Any]:
    """Sizes and bits of a corpus.

    Raises:
        ValueError, DataError: its files are not here and cannot be fetched.
    """
    text = corpus(name)
    symbols = len(text.alphabet)
    train, test = text.parts["train"], text.parts["test"]
    found = ngram_bits(train, test, symbols, ORDER, text.start).mean(1)
    bits = {str(order): round(float(mean), 4) for order, mean in enumerate(found, 1)}
    sizes = {part: len(text.parts[part]) for part in SPLITS}
    return {"corpus": name, "about": text.about, "symbols": symbols, **sizes, "bits": bits}


def main(argv: Sequence[str] | None = None) -> int:
    """Count, print and write; 2 where an option is wrong."""
    options = argparse.ArgumentParser(
        prog="benchmarks.ngrams", description=(__doc__ or "").splitlines()[0]
    )
    options.add_argument("--corpora", type=measure.names, default=["ptb", "books", "colours"])
    options.add_argument("--json", type=Path, default=measure.BENCH / "ngrams.json")
    options.add_argument("--note", help="a sentence to keep in the record")
    args = options.parse_args(argv)
    rows = []
    try:
        for name in args.corpora:
            one_of("corpus", name, [known for known in CORPORA if known != "file"])
        for name in args.corpora:
            row = row_of(name)
            told = ", ".join(f"{order}: {bits:.3f}" for order, bits in row["bits"].items())
            measure.say(f"{name:>8}: {told}")
            rows.append(row)
    except ValueError as error:
        options.error(str(error))
    head = measure.header("bits a character of models that count", 1, args.note)
    measure.write(args.json, {"header": head, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
