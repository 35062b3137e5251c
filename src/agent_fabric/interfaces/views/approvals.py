"""The form that a workflow asks a person to fill in: its fields, and what stands in those that are left empty."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ApprovalRefused
from agent_fabric.domain.tools.json_schema import problems_with

if TYPE_CHECKING:
    from agent_fabric.domain.definitions.parameter import Parameter

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing to be filled in."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def type(self) -> str:
        """A type of JSON Schema, or `any`."""
        kind = self.schema.get("type")
        return kind if isinstance(kind, str) and kind in _TYPES else "any"

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that are allowed; empty: anything of the type."""
        choices = self.schema.get("enum")
        return tuple(choices) if isinstance(choices, list | tuple) else ()

    @property
    def description(self) -> str:
        """What it is for."""
        return str(self.schema.get("description") or self.schema.get("title") or "")

    @property
    def has_default(self) -> bool:
        """Whether it may be left empty because it has a value of its own."""
        return "default" in self.schema

    @property
    def default(self) -> Any:
        """That value."""
        return self.schema.get("default")

    @property
    def parameter(self) -> "Parameter":
        """The field as inputs of workflows are declared."""
        from agent_fabric.domain.definitions.parameter import Parameter  # noqa: PLC0415 - few runs have forms

        return Parameter(type=self.type, required=self.required, choices=self.choices)

    def value_of(self, text: str) -> Any:
        """Return what a person has typed as a value.

        Raises:
            InvalidInputs: it is not of the field's type.
        """
        from agent_fabric.domain.workflows.inputs import parse_values  # noqa: PLC0415 - as above

        return parse_values([f"{self.name}={text}"], {self.name: self.parameter}, of="The form")[self.name]

    def problem_with(self, value: Any) -> str:
        """Say what is wrong with a value; empty: nothing."""
        return "; ".join(problems_with({self.name: value}, {"properties": {self.name: self.schema}}))


def fields_of(card: ApprovalCard) -> list[FormField]:
    """Return what has to be filled in; nothing where only yes or no is asked."""
    form = card.args.get("form") if card.question is Question.ANSWER else None
    if not isinstance(form, Mapping):
        return []
    properties = form.get("properties")
    listed = form.get("required")
    required = set(listed) if isinstance(listed, list | tuple) else set()
    return [
        FormField(name, schema, name in required or schema.get("required") is True)
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
        if isinstance(schema, Mapping)
    ]


def filled_in(card: ApprovalCard, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what a person who agrees has filled in, with the form's own values for the rest.

    Where there is no form, it is returned as it came.

    Raises:
        ApprovalRefused: a field is missing that has no value of its own.
    """
    fields = fields_of(card)
    if not fields:
        return given
    values = {each.name: each.default for each in fields if each.has_default} | dict(given or {})
    missing = [each.name for each in fields if each.required and each.name not in values]
    if missing:
        raise ApprovalRefused(
            f"The form is not filled in: {', '.join(missing)}",
            hint=f"Give {' '.join(f'--set {name}=…' for name in missing)}, or over HTTP the values in `args`.",
        )
    return values
