"""How numbers may be written, what "nothing to do" may be called, and last sentences in the language of the prompt."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Final

from training.tasks.task import Step, Task, finish, shell

SHOWN_BYTES: Final = 240
"""Of each file, before the first step."""
NOTHING: Final = (
    r"already|nothing|\bnot\b|\bno\b|none|n't|without|schon|bereits|nicht|kein|déjà|rien|\bpas\b|aucun|\bya\b|nada|ningun|"
    r"ningún|\bjá\b|não|nenhum"
)
"""A pattern for an answer that says that something is not there or needs no change."""


def forms(value: Decimal | float | str) -> list[str]:
    """Return how a number may be written, exactly."""
    exact = Decimal(str(value))
    plain = f"{exact.normalize():f}"
    places = len(plain.partition(".")[2])
    return [plain, *(f"{exact:.{digits}f}" for digits in range(places, 4) if digits)]


def quotient(total: Decimal | float | str, count: int, digits: int) -> list[str]:
    """Return how a quotient may be written, rounded; of a half, both neighbours are right."""
    exact, unit = Decimal(str(total)) / count, Decimal(1).scaleb(-digits)
    both = {exact.quantize(unit, rounding=way) for way in (ROUND_HALF_EVEN, ROUND_HALF_UP)}
    return sorted({f"{each:.{digits}f}" for each in both} | {form for each in both for form in forms(each)})


def seen_first(path: str, text: str) -> list[Step]:
    """Return the step that looks at a file, if more is in it than the loop shows."""
    return [] if len(text.encode()) <= SHOWN_BYTES else [shell(f"cat {path}")]


def told(task: Task, texts: Mapping[str, str]) -> Task:
    """Return the task with its last sentence in the language of its prompt."""
    if task.language not in texts:
        return task
    return replace(task, steps=[*task.steps[:-1], finish(texts[task.language])])
