"""What is wrong with a definition, in words for the person who wrote it. Workflows and agents share this."""

from collections.abc import Iterable
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidDefinition

Path = tuple[str | int, ...]
"""Where something is, from the top of a definition on: `("steps", 3, "inputs", "count")`."""

MAX_PROBLEMS: Final = 50
"""Problems named at once; more would not be read, and the rest often follows from the first."""

_MAX_CANDIDATES: Final = 500
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that must be changed before a definition can be used."""

    path: Path
    """Where it is, from the top of the definition on: `("steps", 3, "inputs", "count")`."""
    message: str
    hint: str = ""
    step: str = ""
    """The step that it is about; empty: none."""
    other: Path = ()
    """A second place that has to do with it, such as the first of two equal ids."""
    file: str = ""
    """Empty: the definition came from no file."""
    line: int = 0
    """Counted from one; 0: not known."""
    column: int = 0
    other_line: int = 0

    def __str__(self) -> str:
        """Return it as people and editors read it: `file.yaml:12:5: step 'fetch': what is wrong`, then the hint."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        about = f"step {self.step!r}: " if self.step else ""
        also = f" (see line {self.other_line})" if self.other_line else ""
        head = f"{place}: " if place else ""
        tail = f"\n    {self.hint}" if self.hint else ""
        return f"{head}{about}{self.message}{also}{tail}"


class DefinitionInvalid(InvalidDefinition):
    """A definition that cannot be used, with all its problems."""

    what = "The definition"

    def __init__(self, problems: Iterable[Problem], *, what: str = "") -> None:
        self.problems = tuple(problems)
        number = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{what or self.what} has {number}:", *map(str, self.problems)]))


class WorkflowInvalid(DefinitionInvalid):
    """A workflow that cannot be run."""

    code = "workflow_invalid"
    what = "The workflow"


class AgentInvalid(DefinitionInvalid):
    """An agent that cannot be used."""

    code = "agent_invalid"
    what = "The agent"


class CheckPosition(NamedTuple):
    """Where the check stands."""

    path: Path = ()
    step: str = ""
    """Id of the step around it."""
    start: int = 0
    """How much of the path leads to that step."""

    def below(self, *keys: str | int) -> "CheckPosition":
        """Return a place further down."""
        return CheckPosition((*self.path, *keys), self.step, self.start)

    @property
    def name(self) -> str:
        """How messages call it: as seen from its step, `inputs.count`."""
        return shown_path(self.path[self.start :])


@dataclass(slots=True)
class ProblemCollector:
    """Collects problems, and counts those that are too many to be named."""

    found: list[Problem] = field(default_factory=list)
    left_out: int = 0

    @property
    def is_full(self) -> bool:
        """Whether further problems are only counted."""
        return len(self.found) >= MAX_PROBLEMS

    def add(self, place: CheckPosition, message: str, hint: str = "", *, other: Path = ()) -> None:
        """Note a problem."""
        if self.is_full:
            self.left_out += 1
            return
        problem = Problem(path=place.path, message=message, hint=hint, step=place.step, other=other)
        if not self.found or self.found[-1] != problem:  # one text can make the same mistake twice
            self.found.append(problem)

    def did_you_mean(self, word: str, known: Iterable[str], *, otherwise: str = "") -> str:
        """Return a hint as `did_you_mean` does, unless the problem would only be counted."""
        return "" if self.is_full else did_you_mean(word, known, otherwise=otherwise)

    def all(self) -> list[Problem]:
        """Return what was found; the last entry tells how many more there are."""
        if not self.left_out:
            return self.found
        return [*self.found, Problem(path=(), message=f"and {self.left_out} more", hint="Correct these first.")]


def locate(problem: Problem, *, file: str, line: int = 0, column: int = 0, other_line: int = 0) -> Problem:
    """Return a problem with the place in its file."""
    return replace(problem, file=file, line=line, column=column, other_line=other_line)


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return a hint for an unknown word: what it is most like, or else `otherwise`."""
    names = list(known)
    if len(names) > _MAX_CANDIDATES:  # comparing with ten thousand names takes longer than all other checks
        names = [name for name in names if abs(len(name) - len(word)) <= 2 and name[:1] == word[:1]][:_MAX_CANDIDATES]
    near = get_close_matches(word[:100], names, n=1)
    if near:
        return f"Did you mean {str(near[0])!r}?"  # a member of an enumeration is shown as its text
    return otherwise or (f"Known: {', '.join(names[:30])}{', …' if len(names) > 30 else ''}." if names else "")


def shown_path(path: Path) -> str:
    """Return a path as people write it: `steps[3].inputs.count`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def show_value(value: object) -> str:
    """Return a value as messages show it: short, with its kind where that could be mistaken."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {_short(repr(value))}" if value else "an empty text"
        case int() | float():
            return f"the number {_short(str(value))}"
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
