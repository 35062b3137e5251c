"""The tool that shows a whole small workspace at once, for small models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, object_schema
from agent_fabric.infrastructure.tools.table_shape import read_table
from agent_fabric.infrastructure.tools.workspace_diff import begins

MAX_NAMED = 60
MAX_OPENED = 8
"""Files whose beginning is shown; the others are only named."""
SHOWN_BYTES = 240

WORKSPACE_OVERVIEW = ToolSpec(
    name="look",
    description="Show which files there are and how they begin.",
    parameters=object_schema({}),
    effect=Effect.READS,
)


@dataclass(frozen=True, slots=True)
class WorkspaceOverview:
    """Tool: name the files of the workspace and show how the first ones begin."""

    sandbox: Sandbox

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        """Look around.

        Raises:
            OSError: the workspace cannot be listed.
        """
        names, more = await self.sandbox.list_files(".", max_entries=MAX_NAMED)
        shown: dict[str, str] = {}
        for name in names:
            opened = len(shown) < MAX_OPENED and not name.endswith("/")
            shown[name] = await self._beginning(name) if opened else ""
        if not shown:
            return ToolResult(output={"files": "(none: the folder is empty)"})
        return ToolResult(output={"files": shown, "truncated": True} if more else {"files": shown})

    async def _beginning(self, name: str) -> str:
        try:
            data, size = await self.sandbox.read_file(name, max_bytes=SHOWN_BYTES)
        except OSError as problem:
            return f"({problem.strerror or 'cannot be read'})"
        shown = begins(data, whole=size <= len(data))
        table = await read_table(self.sandbox, name)
        return f"({table.in_full()})\n{shown}" if table else shown
