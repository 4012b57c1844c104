"""Stories with questions: the bAbI text format, and small worlds of our own in it.

A line is a number, a blank and a sentence; a question's line has a tab, the answer, a tab and the
numbers of the sentences that it rests on. The number 1 starts a new story (Weston et al. 2015).
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from sab.checks import one_of, positive_int

PEOPLE = ("mary", "john", "sandra", "daniel")
PLACES = ("kitchen", "garden", "office", "hallway", "bathroom", "bedroom")
THINGS = ("apple", "football", "milk")
MOVES = ("went to", "moved to", "travelled to", "journeyed to")
WORLDS = ("one fact", "two facts")


@dataclass(frozen=True)
class Question:
    """A question and what was told before it.

    Attributes:
        story: sentences, as words in small letters, in the order told.
        words: the question's words.
        answer: one word; a list of several is one answer, with commas.
        support: places in ``story`` (from 0) of the sentences that the answer rests on.
    """

    story: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]
    answer: str
    support: tuple[int, ...]


def split(sentence: str) -> tuple[str, ...]:
    """Words of a sentence, in small letters, without marks."""
    return tuple(re.findall(r"[a-z0-9']+", sentence.lower()))


def parse(text: str, name: str = "text") -> list[Question]:
    """Read the bAbI format.

    Args:
        text: the lines.
        name: what a message calls it.

    Raises:
        ValueError: a line breaks the format; the message says which.
    """
    found: list[Question] = []
    story: list[tuple[str, ...]] = []
    places: dict[int, int] = {}  # line number → place in the story
    for row, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        number, _, rest = line.strip().partition(" ")
        parts = rest.split("\t")
        if not number.isdigit() or not rest or len(parts) not in (1, 3):
            raise ValueError(f"{name}, line {row}: {line!r}: must be a number and a sentence, or "
                             "a question, its answer and its support between tabs")  # fmt: skip
        if number == "1":
            story, places = [], {}
        if len(parts) == 1:
            places[int(number)] = len(story)
            story.append(split(rest))
            continue
        try:
            support = tuple(places[int(item)] for item in parts[2].split())
        except (KeyError, ValueError):
            raise ValueError(
                f"{name}, line {row}: support {parts[2]!r}: must be numbers of sentences before it"
            ) from None
        found.append(Question(tuple(story), split(parts[0]), parts[1].strip().lower(), support))
    if not found:
        raise ValueError(f"{name}: holds no question")
    return found


def tell(world: str, stories: int, seed: int, sentences: int = 8) -> str:
    """Make stories in the bAbI format, each with one question at its end.

    ``"one fact"``: people move about; where is one of them? ``"two facts"``: they also take things
    along; where is a thing? (Like bAbI's tasks 1 and 2, but ours: no text of theirs.)

    Args:
        world: one of ``WORLDS``.
        stories: how many.
        seed: of the draw.
        sentences: of a story.

    Raises:
        ValueError: an argument is out of range.
    """
    one_of("world", world, WORLDS)
    positive_int("stories", stories)
    positive_int("sentences", sentences, 3)
    draw = random.Random(seed)
    lines: list[str] = []
    for _ in range(stories):
        lines += _story(draw, sentences) if world == "one fact" else _carried(draw, sentences)
    return "\n".join(lines) + "\n"


def _numbered(told: list[str]) -> list[str]:
    return [f"{i} {sentence}" for i, sentence in enumerate(told, 1)]


def _story(draw: random.Random, sentences: int) -> list[str]:
    """People move; the question is about one who did."""
    told, last = [], {}
    for i in range(sentences):
        who, place = draw.choice(PEOPLE), draw.choice(PLACES)
        told.append(f"{who.title()} {draw.choice(MOVES)} the {place}.")
        last[who] = (i + 1, place)
    asked = draw.choice(sorted(last))
    number, place = last[asked]
    return [*_numbered(told), f"{sentences + 1} Where is {asked.title()}?\t{place}\t{number}"]


def _carried(draw: random.Random, sentences: int) -> list[str]:
    """People move and take things; the question is about a thing whose taker has a known place."""
    told: list[str] = []
    taken: dict[str, tuple[str, int]] = {}  # thing → who has it, and since which line
    place: dict[str, tuple[str, int]] = {}  # who → where, and since which line
    while len(told) < sentences or not any(who in place for who, _ in taken.values()):
        who, line = draw.choice(PEOPLE), len(told) + 1
        free = [thing for thing in THINGS if thing not in taken]
        if free and draw.random() < 0.3:
            thing = draw.choice(free)
            taken[thing] = (who, line)
            told.append(f"{who.title()} took the {thing}.")
        else:
            place[who] = (draw.choice(PLACES), line)
            told.append(f"{who.title()} {draw.choice(MOVES)} the {place[who][0]}.")
    asked = draw.choice(sorted(thing for thing, (who, _) in taken.items() if who in place))
    who, since = taken[asked]
    where, moved = place[who]
    question = f"{len(told) + 1} Where is the {asked}?\t{where}\t{since} {moved}"
    return [*_numbered(told), question]
