"""The action that a step with an effect takes, as a package brings it along."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.extend import Effect, ToolContext, action

PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@action(name="add-one", parameters=PARAMETERS, effect=Effect.IDEMPOTENT)
async def add_one(inputs: Mapping[str, Any], context: ToolContext) -> dict[str, int]:  # noqa: ARG001 - as every action
    """Add one to a number."""
    return {"value": inputs["number"] + 1}
