"""Runs commands outside the box that a person has agreed to."""

from typing import TYPE_CHECKING, Protocol

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.domain.tools.specs import ToolResult

if TYPE_CHECKING:  # what reads command lines takes its time
    from agent_fabric.domain.policy.outside import OutsideCall


class OutsideCommands(Protocol):
    """Works out what a command would do outside, and does it."""

    async def plan(self, call: "OutsideCall", run_id: RunId, workspace: str) -> Outside | None:
        """Return what exactly would run, for a person to see; None: it needs nothing outside the workspace.

        Raises:
            CannotRunOutside: it would obey files of the workspace, or something that it names is not there.
        """
        ...

    async def run(
        self, agreed: Outside, call: "OutsideCall", run_id: RunId, workspace: str, *, timeout_s: float
    ) -> ToolResult:
        """Run what was agreed to, and return what a shell would have shown.

        Raises:
            CannotRunOutside: it would not be the same any more, so nothing has run.
            OSError: it cannot be started.
        """
        ...
