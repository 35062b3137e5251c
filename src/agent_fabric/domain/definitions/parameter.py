"""One declared input or output of a workflow or an agent."""

from collections.abc import Mapping
from typing import Any, Self

from agent_fabric.domain.dataclass import dataclass


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

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | str) -> Self:
        """Return the input or output that a sound definition declares."""
        if isinstance(plain, str):  # for short: `name: string`, and of an output `name: "{{ STEP.FIELD }}"`
            return cls(value=plain) if "{{" in plain else cls(type=plain)
        return cls(
            type=plain.get("type", "any"),
            description=plain.get("description", ""),
            required=bool(plain.get("required", False)),
            default=plain.get("default"),
            has_default="default" in plain,
            choices=tuple(plain.get("enum") or ()),
            value=plain.get("value"),
        )

    @property
    def limits(self) -> Mapping[str, Any]:
        """Its `default` and `enum`, as far as they are declared."""
        default = {"default": self.default} if self.has_default else {}
        return {**default, "enum": list(self.choices)} if self.choices else default
