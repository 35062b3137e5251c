"""What executes a tool. Only `application.tools.invoke_tool` may use this; import-linter sees to it."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from agent_fabric.domain.tools.specs import ToolContext, ToolResult


@runtime_checkable
class ToolExecutor(Protocol):
    """The side of a pack that does things."""

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run one tool. May block nothing; may be cancelled at any moment.

        Raises:
            KeyError: the pack has no such tool; `finish_task` is never one.
            PermissionError: the call reached for something outside its box.
            Exception: anything else the tool raises; the model is told.
        """
        ...
