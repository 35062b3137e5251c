"""One declared input or output of a workflow or an agent."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One declared input or output."""

    type: str = "any"
    """A type of JSON Schema, or `any`."""
    description: str = ""
    required: bool = False
    default: Any = None
    has_default: bool = False
    choices: tuple[Any, ...] = ()
    """From `enum`; empty: anything of the type."""
    value: Any = None
    """Of a workflow's output: the expression that gives it."""
