from dataclasses import dataclass

import pytest

from sab.tasks import TASKS, AddingTask, CopyTask, Task, build, register


def test_build() -> None:
    assert build("copy", {"T": 7}) == CopyTask(T=7)
    assert build("adding") == AddingTask()
    assert all(isinstance(build(name), Task) for name in ("copy", "adding"))


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(ValueError, match="did you mean 'copy'"):
        build("coppy")
    with pytest.raises(ValueError, match=r"delay=3: copy has T, symbols, length, encoding"):
        build("copy", {"delay": 3})


def test_register_checks_the_interface() -> None:
    class Empty:
        pass

    with pytest.raises(ValueError, match=r"lacks input_size, .*, baselines"):
        register("empty", Empty)
    with pytest.raises(ValueError, match="already taken by CopyTask"):
        register("copy", AddingTask)
    assert "empty" not in TASKS


def test_register_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Short(CopyTask):
        T: int = 3

    monkeypatch.setattr("sab.tasks.registry.TASKS", dict(TASKS))
    register("short", Short)
    assert build("short").steps == 23
