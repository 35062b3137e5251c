"""What a diagnosis of an installation finds."""

from enum import StrEnum

from agent_fabric.domain.dataclass import dataclass


class Level(StrEnum):
    """How bad something is."""

    OK = "ok"
    WARN = "warn"
    """A task can run, but a person should know."""
    FAIL = "fail"
    """No task can run."""


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One line of a diagnosis."""

    about: str
    level: Level
    text: str
    fix: str = ""
    """What to do: a command, where there is one."""
