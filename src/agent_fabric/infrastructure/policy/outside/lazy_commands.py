"""Commands outside the box, built when the first is to be asked about: most runs never need it."""

from functools import cached_property
from typing import TYPE_CHECKING

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.domain.tools.specs import ToolResult

if TYPE_CHECKING:
    from agent_fabric.application.ports.outside import OutsideCommands
    from agent_fabric.domain.policy.outside import OutsideCall


class LazyOutside:
    """`OutsideCommands` that stands in until it is used."""

    @cached_property
    def _commands(self) -> "OutsideCommands":
        from agent_fabric.infrastructure.policy.outside.commands import UsersCommands  # noqa: PLC0415 - see above

        return UsersCommands()

    async def plan(self, call: "OutsideCall", run_id: RunId, workspace: str) -> Outside | None:
        return await self._commands.plan(call, run_id, workspace)

    async def run(
        self, agreed: Outside, call: "OutsideCall", run_id: RunId, workspace: str, *, timeout_s: float
    ) -> ToolResult:
        return await self._commands.run(agreed, call, run_id, workspace, timeout_s=timeout_s)
