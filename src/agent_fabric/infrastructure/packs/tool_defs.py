"""Short ways to declare tools, for us and for authors of packs."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import Effect, ToolSpec


def make_tool_def(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    *,
    required: Sequence[str] | None = None,
    effect: Effect = Effect.CHANGES_WORKSPACE,
    timeout_s: float = 120.0,
) -> ToolSpec:
    """Declare a tool; all properties are required unless `required` says otherwise.

    The effect decides what happens to a call that a crash left in doubt. Not knowing it is the careful choice.
    """
    return ToolSpec(
        name=name,
        description=description,
        parameters=_object(properties, required),
        effect=effect,
        timeout_s=timeout_s,
    )


def make_finish_tool_def(
    properties: Mapping[str, Any],
    *,
    required: Sequence[str] | None = None,
    needs_proof: bool = False,
    needs_citations: bool = False,
    needs_reading_back: bool = False,
) -> FinishSpec:
    """Declare how a pack's tasks end; the properties become the run's payload."""
    return FinishSpec(
        parameters=_object(properties, required),
        needs_proof=needs_proof,
        needs_citations=needs_citations,
        needs_reading_back=needs_reading_back,
    )


def _object(properties: Mapping[str, Any], required: Sequence[str] | None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
    }
