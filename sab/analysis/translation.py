"""What a trained translator writes: sentences with their alignments, and BLEU on the test part.

A run's weights are too large to keep; what they say is small:
``results/translations/<experiment>/<row>-<profile>-s<seed>.json``. The sentences shown are our own,
in the manner of the captions; of the data set only scores are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import sab
from sab.analysis import map_files
from sab.checks import positive_int
from sab.experiments.weights import load_model
from sab.models.decoding import beam
from sab.models.seq2seq import Seq2Seq
from sab.tasks import registry as tasks
from sab.tasks.symbols import padded
from sab.tasks.translation import TranslationTask, joined, lines, vocabulary, words

SENTENCES = (
    "A man in a red shirt is riding a bicycle down the street.",
    "Two dogs are playing in the snow.",
    "A woman is sitting on a bench and reading a book.",
    "A little boy with a blue hat jumps into the water.",
)
AT_ONCE = 64  # sentences decoded together
POWER = 1.0  # beams are ranked by log-probability a word


class Bleu(NamedTuple):
    """BLEU in percent, and sacrebleu's line that says how it was computed."""

    score: float
    signature: str


@dataclass(frozen=True)
class Translation:
    """One sentence: ``weights`` has a row for each word of the answer, its end among them."""

    source: list[str]
    answer: list[str]
    weights: list[list[float]]
    score: float

    @property
    def text(self) -> str:
        """The answer as a text."""
        return joined(self.answer)


def scorer() -> Any:
    """Return sacrebleu's corpus BLEU, lower-case.

    Raises:
        ValueError: sacrebleu is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise ValueError(
            "BLEU needs sacrebleu, which is not installed: pip install 'sab[translation]'"
        ) from None
    return BLEU(lowercase=True)


def bleu(answers: Sequence[str], references: Sequence[str]) -> Bleu:
    """BLEU of answers, one reference each (Papineni et al. 2002; Post 2018).

    Raises:
        ValueError: sacrebleu is not installed, or there are not as many references as answers.
    """
    metric = scorer()
    if len(answers) != len(references) or not answers:
        raise ValueError(f"answers: must be {len(references)} texts, at least one")
    found = metric.corpus_score(list(answers), [list(references)])
    return Bleu(float(found.score), str(metric.get_signature()))


def translate(
    model: Seq2Seq, task: TranslationTask, texts: Sequence[str], width: int = 1
) -> list[Translation]:
    """Translate texts; a beam of ``width``, ranked by log-probability a word.

    Raises:
        ValueError: ``width`` is not a positive integer, or a text has no word.
    """
    positive_int("width", width)
    english, german = (vocabulary(language, task.words) for language in ("en", "de"))
    found = []
    for start in range(0, len(texts), AT_ONCE):
        sources = [words(text) for text in texts[start : start + AT_ONCE]]
        if not all(sources):
            raise ValueError(f"texts: number {start + sources.index(())} is empty")
        x = padded([english.encode(source) for source in sources])
        decoded = beam(model, x, width, power=POWER)
        for i, source in enumerate(sources):
            answer = german.decode(decoded.symbols[i].tolist())
            rows = min(len(answer) + 1, decoded.symbols.shape[1])
            weights = decoded.weights[i, :rows, : len(source)].double()
            rounded = [[round(value, 4) for value in row] for row in weights.tolist()]
            found.append(Translation(list(source), answer, rounded, float(decoded.scores[i])))
    return found


def path_of(
    experiment: str, row: str, profile: str, seed: int, results: Path | None = None
) -> Path:
    """Where a run's translations are."""
    return map_files.path_of(experiment, row, profile, seed, results, "translations")


def report(
    experiment: str,
    row: str,
    profile: str = "cpu",
    seed: int = 0,
    width: int = 5,
    score: bool = True,
    runs: Path | None = None,
    results: Path | None = None,
) -> Path:
    """Translate `SENTENCES` and, if ``score``, the test part, by a run's weights; write the file.

    Raises:
        ValueError: ``score`` without sacrebleu, or the run is no translator.
        FileNotFoundError, CheckpointError, DataError: weights or data are missing or damaged.
        OSError: the file cannot be written.
    """
    if score:
        scorer()
    model, run = load_model(experiment, row, profile, seed, None, runs, results)
    task = tasks.build(run.task, run.task_config)
    if not isinstance(model, Seq2Seq) or not isinstance(task, TranslationTask):
        raise ValueError(f"experiment={experiment!r}: {row} does not translate")
    widths = {"greedy": 1, "beam": width}
    plain: dict[str, Any] = {
        "experiment": experiment, "row": row, "profile": profile, "seed": seed,
        "version": sab.__version__, "width": width, "bleu": {}, "signature": "",
        "sentences": {
            name: [asdict(one) for one in translate(model, task, SENTENCES, size)]
            for name, size in widths.items()
        },
    }  # fmt: skip
    if score:
        sources, references = (lines("test", language) for language in ("en", "de"))
        for name, size in widths.items():
            answers = [one.text for one in translate(model, task, sources, size)]
            plain["bleu"][name], plain["signature"] = bleu(answers, references)
    path = path_of(experiment, row, profile, seed, results)
    return map_files.write(path, plain)


def _from_plain(plain: dict[str, Any]) -> dict[str, Any]:
    plain["sentences"] = {
        name: [Translation(**one) for one in group] for name, group in plain["sentences"].items()
    }
    return plain


def read(path: Path) -> dict[str, Any]:
    """Read what `report` wrote, the sentences as `Translation`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged.
    """
    return map_files.read(path, _from_plain)
