"""Commands of machines, as a caller may see them."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.application.runs.find_run import FindRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import NodeNotFound, RunNotFound
from agent_fabric.domain.fleet.commands import NodeCommand
from agent_fabric.domain.identity.principals import Principal, Scope


@dataclass(frozen=True, slots=True)
class ShowCommands:
    """Use case: show commands without what a private run of someone else asked for, and what came of it.

    That there was a command, whose and when, is shown: others look after the same machine.
    """

    find: FindRun

    async def __call__(self, commands: Sequence[NodeCommand], *, by: Principal) -> list[NodeCommand]:
        """Return the commands, some of them `withheld`.

        Raises:
            StoreFull, StoreUnavailable: that a private run was read cannot be recorded, so it does not happen.
        """
        hidden = {run for run in {each.run_id for each in commands} if not await self._may_see(run, by)}
        return [_without_content(each) if each.run_id in hidden else each for each in commands]

    async def require(self, command: NodeCommand, *, by: Principal) -> None:
        """Check that a caller may see all of a command.

        Raises:
            NodeNotFound: it is of a private run of someone else.
        """
        if not await self._may_see(command.run_id, by):
            raise NodeNotFound(f"There is no output of the command {command.execution_id!r}", hint="It is private.")

    async def _may_see(self, run_id: str, by: Principal) -> bool:
        if not run_id:
            return True
        try:
            await self.find(run_id, by=by)
        except RunNotFound:
            return by.may(Scope.RUNS_ALL)  # it was removed, and no one can tell who saw it
        return True


def _without_content(command: NodeCommand) -> NodeCommand:
    return replace(command, arguments={}, result=None, args_hash="", bound_hash="", run_id="", withheld=True)
