"""Tasks: what goes in, what should come out, and how an answer is judged."""

from sab.tasks.adding import AddingTask
from sab.tasks.base import Batch, Task
from sab.tasks.charlm import CharLMTask
from sab.tasks.copy import CopyTask
from sab.tasks.events import EventsTask
from sab.tasks.images import ImageTask
from sab.tasks.registry import TASKS, build, register

__all__ = [
    "TASKS",
    "AddingTask",
    "Batch",
    "CharLMTask",
    "CopyTask",
    "EventsTask",
    "ImageTask",
    "Task",
    "build",
    "register",
]
