"""Stories and questions: the format, made worlds, tables of word numbers, files that are wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from data_files import hold

from sab.data import DataError, sources
from sab.data.babi import TASKS, file_name
from sab.tasks import babi
from sab.tasks.babi import SIZES, BabiTask, as_table, known_words
from sab.tasks.stories import WORLDS, Question, parse, tell

TEXT = """1 Ann went to the shop.
2 Ben took the bag.
3 Where is Ann?\tshop\t1
4 Ben went to the park.
5 Where is the bag? \tpark\t2 4
1 Ben went home.
2 Where is Ben?\tHome,Park\t1
"""


def test_the_format() -> None:
    first, second, third = parse(TEXT)
    assert first.story == (("ann", "went", "to", "the", "shop"), ("ben", "took", "the", "bag"))
    assert first.words == ("where", "is", "ann") and first.answer == "shop"
    assert first.support == (0,)
    assert len(second.story) == 3 and second.support == (1, 2)  # questions are no sentences
    assert third == Question((("ben", "went", "home"),), ("where", "is", "ben"), "home,park", (0,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ann went home.", "text, line 1: 'Ann went home.': must be a number and a sentence"),
        ("1 Where is Ann?\tshop", "text, line 1: "),
        ("1 A b.\n2 Where?\tx\t3", "text, line 2: support '3': must be numbers of sentences"),
        ("1 A b.\n2 Where?\tx\tone", "text, line 2: support 'one'"),
        ("1 Ann went home.", "text: holds no question"),
        ("", "text: holds no question"),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("world", WORLDS)
def test_made_stories_have_right_answers(world: str) -> None:
    """Follow each story with a map of who is where and has what."""
    questions = parse(tell(world, 150, 3))
    assert len(questions) == 150 and questions == parse(tell(world, 150, 3))
    assert questions != parse(tell(world, 150, 4))
    for question in questions:
        place: dict[str, str] = {}
        keeper: dict[str, str] = {}
        for sentence in question.story:
            if "took" in sentence:
                keeper[sentence[-1]] = sentence[0]
            else:
                place[sentence[0]] = sentence[-1]
        asked = question.words[-1]
        assert question.answer == place[keeper.get(asked, asked)]
        assert question.story[question.support[-1]][-1] == question.answer
        assert len(question.support) == WORLDS.index(world) + 1
        assert len(question.story) >= 8
    assert len({question.answer for question in questions}) == 6


def test_a_table_has_the_question_then_the_newest_sentence() -> None:
    question = parse(TEXT)[1]
    numbers = {word: i for i, word in enumerate(known_words(parse(TEXT)), 1)}
    table, answer = as_table(question, numbers, 6, 2)
    assert table.shape == (3, 6) and answer == numbers["park"]
    for row, sentence in enumerate(
        ("where is the bag", "ben went to the park", "ben took the bag")
    ):
        words = [numbers[word] for word in sentence.split()]
        assert table[row].tolist() == words + [0] * (6 - len(words))
    with pytest.raises(ValueError, match="sentence='ben went to the park': must have at most 4"):
        as_table(question, numbers, 4, 2)
    del numbers["bag"]
    with pytest.raises(ValueError, match="word='bag': is not in the vocabulary"):
        as_table(question, numbers, 6, 2)


@pytest.mark.parametrize("world", WORLDS)
def test_a_made_task(world: str) -> None:
    task = BabiTask(world=world, memory=12)
    task.prepare()
    assert {part: task.sequences(part) for part in ("train", "valid", "test")} == babi.MADE
    x, y = task.take("test", torch.arange(40))
    assert x.dtype == y.dtype == torch.int64 and x.shape[2] == task.input_size
    assert x.shape[1] <= task.steps and x.max() < task.output_size
    assert x[:, -1].any()  # no row more than the longest story needs
    words = ("", *task.library.words)
    question = task.library.questions["test"][5]
    assert words[int(y[5])] == question.answer
    assert [words[i] for i in x[5, 1] if i] == list(question.story[-1])
    drawn = task.batch(7, torch.Generator().manual_seed(0))
    assert len(drawn.y) == 7 == task.weight(drawn.y)
    blind = task.baselines()
    assert 1 / 6 - 0.03 < blind["accuracy"] < 0.3
    assert math.log(6) - 0.1 < blind["ce"] < math.log(6) + 0.1
    counts = torch.bincount(task.take("train", torch.arange(1000)).y, minlength=task.output_size)
    logits = ((counts + 1) / (1000 + task.output_size - 1)).log().clone()
    logits[0] = -torch.inf
    every = task.take("test", torch.arange(1000)).y
    assert task.loss(logits.expand(1000, -1), every).item() == pytest.approx(blind["ce"], rel=1e-5)
    logits = torch.nn.functional.one_hot(y, task.output_size).float() * 50
    assert task.metrics(logits, y) == {"accuracy": 1.0, "ce": pytest.approx(0, abs=1e-6)}
    assert task.metrics(-logits, y)["accuracy"] == 0.0
    assert "made" in task.about and task.goal == ("ce", "min")


@pytest.fixture
def fresh() -> Iterator[None]:
    babi._from_files.cache_clear()
    babi._tables.cache_clear()
    yield
    babi._from_files.cache_clear()
    babi._tables.cache_clear()


def test_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh: None) -> None:
    story = "1 Ann went home.\n2 Where is Ann?\thome\t1\n"
    contents = {file_name(3, "train"): (story * 20).encode(), file_name(3, "test"): TEXT.encode()}
    hold(monkeypatch, tmp_path, "babi", contents)
    task = BabiTask(3)
    assert [task.sequences(part) for part in ("train", "valid", "test")] == [18, 2, 3]
    assert task.about == "bAbI en-1k, task 3"
    with pytest.raises(ValueError, match="bAbI en-1k, task 3: has 13 words, not 34"):
        task.prepare()
    monkeypatch.setitem(SIZES, 3, (5, 13))
    task.prepare()
    assert task.take("test", torch.tensor([2])).x.shape == (1, 2, 5)
    contents[file_name(3, "test")] = b"1 broken\tline\n"
    hold(monkeypatch, tmp_path, "babi", contents)
    babi._from_files.cache_clear()
    with pytest.raises(ValueError, match=r"qa3_.*_test.txt, line 1"):
        task.prepare()


def test_missing_files_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh: None
) -> None:
    hold(monkeypatch, tmp_path, "babi", {file_name(1, "train"): b"x"})
    (tmp_path / sources.DATASETS["babi"].folder / file_name(1, "train")).unlink()
    with pytest.raises(DataError) as error:
        BabiTask(1).sequences("train")
    assert "qa1_single-supporting-fact_train.txt of babi: cannot be fetched" in str(error.value)
    assert "babi_en_1k" in str(error.value) and "SAB_DATA" in str(error.value)


def test_a_plan_needs_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAB_DATA", str(tmp_path))
    assert set(SIZES) == set(TASKS) == set(range(1, 21))
    for number in TASKS:
        task = BabiTask(number)
        assert (task.input_size, task.output_size - 1) == SIZES[number] and task.steps == 51


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": 21}, "task=21: must be one of 1, 2"),
        ({"world": "three facts"}, "world='three facts': must be one of"),
        ({"memory": 0}, "memory=0: must be an integer of at least 1"),
        ({"sentences": 2}, "sentences=2: must be an integer of at least 3"),
    ],
)
def test_bad_settings(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        BabiTask(**settings)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_bad_worlds() -> None:
    with pytest.raises(ValueError, match="world='moon': must be one of"):
        tell("moon", 1, 0)
    with pytest.raises(ValueError, match="stories=0"):
        tell("one fact", 0, 0)
    with pytest.raises(ValueError, match="sentences=1"):
        tell("one fact", 1, 0, 1)
    with pytest.raises(ValueError, match="batch_size=0"):
        BabiTask(world="one fact").batch(0, torch.Generator())
