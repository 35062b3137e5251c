"""Where things stand in a text."""

from dataclasses import dataclass, field
from typing import NamedTuple

from agent_fabric.config.formats.syntax import SyntaxProblem


class Spot(NamedTuple):
    """A place in a text, counted from one."""

    line: int
    column: int


@dataclass(slots=True)
class Spots:
    """Where a value stands, and where everything in it does."""

    at: Spot
    key_at: Spot | None = None
    """Of a value in a mapping: where its key stands."""
    inside: "dict[str | int, Spots]" = field(default_factory=dict)

    def find(self, path: tuple[str | int, ...]) -> Spot:
        """Return where the entry at a path begins; of a path that leads further than the text, its last part there."""
        here = self
        for part in path:
            below = here.inside.get(part)
            if below is None:
                break
            here = below
        return here.key_at or here.at


class Refused(SyntaxProblem):
    """A text that its format allows and we do not; the message says enough."""

    def __init__(self, message: str, at: Spot) -> None:
        super().__init__(message, line=at.line, column=at.column)
