"""The inputs of a workflow or an agent, in what a user said."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.tools.json_schema import too_deep

_TEXT_TYPES = ("string", "any")


def inputs_in(text: str, declared: Mapping[str, Parameter], *, of: str) -> Mapping[str, Any]:
    """Return the inputs of a workflow or an agent: those of a JSON object, or the text as its one text input.

    Raises:
        InvalidInputs: it takes more than one, or one that is no text.
    """
    given = _object_in(text)
    if given is not None:
        if too_deep(given, text):
            raise InvalidInputs("The inputs are nested too deep", hint="Give long material as text or as files.")
        return given
    if not declared:
        return {}  # there is nothing to give, but a chat cannot be without words
    needed = [name for name, each in declared.items() if each.required and not each.has_default]
    candidates = needed or list(declared)
    if len(candidates) == 1 and declared[candidates[0]].type in _TEXT_TYPES:
        return {candidates[0]: text}
    shown = ", ".join(f"{name} ({_kind(each)})" for name, each in declared.items())
    example = ", ".join(f'"{name}": …' for name in candidates[:4])
    raise InvalidInputs(
        f"{of} takes more than one text. Its inputs: {shown}",
        hint=f"Send them as a JSON object: {{{example}}}",
    )


def _kind(parameter: Parameter) -> str:
    return f"{parameter.type}, required" if parameter.required and not parameter.has_default else parameter.type


def _object_in(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
