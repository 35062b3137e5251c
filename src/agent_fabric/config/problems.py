"""What is wrong with the configuration, in words for the person who wrote it."""

from collections.abc import Sequence
from typing import Final

MAX_REPORTED: Final = 10
"""Problems named in one message; more would hide the first."""


class ConfigProblem(ValueError):
    """The configuration cannot be used; `message` says why and `hint` what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def combine(problems: Sequence[ConfigProblem], *, count: int | None = None) -> ConfigProblem:
    """Make one problem of several, so that a person can correct all of them at once.

    `count` tells how many there are if `problems` holds only the first of them.
    """
    count = len(problems) if count is None else count
    if count == 1:
        return problems[0]
    named = problems[:MAX_REPORTED]
    lines = [f"{count} problems in the configuration:", *(f"  - {problem.message}" for problem in named)]
    if count > len(named):
        lines.append(f"  … and {count - len(named)} more")
    hints = dict.fromkeys(problem.hint for problem in named if problem.hint)
    return ConfigProblem("\n".join(lines), hint="\n".join(hints))
