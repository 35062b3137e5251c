"""Work on machines that a person has to agree to: a run asks them, and does it when they have agreed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from agent_fabric.application.fleet.fleet_policy import FLEET_PLAN, NODE_COMMAND
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, Task
from agent_fabric.domain.workflows.definition import definition_from

ASKED_TIMEOUT_S = 20.0
PAUSE_S = 0.02


class StartRun(Protocol):
    """Starts runs for a caller, within their limits, and once for each attempt of one request."""

    def __call__(self, task: Task, *, attempt: int = 0) -> Awaitable[Drive | RunResult]:
        """Start a run, or find the one that the same request has started before."""
        ...


class Caller(NamedTuple):
    """Who wants something done on machines, and how runs are started for them."""

    principal: Principal
    start: StartRun


@dataclass(frozen=True, slots=True)
class AskWithRun:
    """Use case: start a run that asks a person about a command or a plan."""

    task_for: Callable[[SoundWorkflow, Mapping[str, Any]], Task]
    approvals: ApprovalRepository

    async def about_command(self, call: Mapping[str, Any], by: Caller, attempt: int = 0) -> Drive | RunResult:
        """Ask about one command; `attempt` numbers the questions of one request."""
        return await self._start(_COMMAND, {"call": call}, by, attempt)

    async def about_plan(self, plan: Mapping[str, Any], by: Caller) -> RunId:
        return (await self._start(_PLAN, {"plan": plan}, by)).run_id

    async def _start(
        self, plain: Mapping[str, Any], inputs: Mapping[str, Any], by: Caller, attempt: int = 0
    ) -> Drive | RunResult:
        workflow = SoundWorkflow(plain=plain, definition=definition_from(plain), source="")
        return await by.start(self.task_for(workflow, inputs).asked_by(by.principal), attempt=attempt)

    async def approval_of(self, run_id: RunId) -> str:
        """Wait until a run has asked, wherever it is driven, and return the id of its question."""
        async with asyncio.timeout(ASKED_TIMEOUT_S):
            while not (  # noqa: ASYNC110 - another process may drive the run
                cards := await self.approvals.list(run_id=run_id, pending_only=False)
            ):
                await asyncio.sleep(PAUSE_S)
        return cards[-1].approval_id


def _one_step(action: str, description: str, given: str, step: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the workflow of one action. What it does twice counts once: commands and plans have ids."""
    inputs = {name: f"{{{{ inputs.{given}.{name} }}}}" for name in names}
    return {
        "name": action,
        "description": description,
        "inputs": {given: {"type": "object", "required": True}},
        "steps": [{"id": step, "action": action, "inputs": inputs, "idempotent": True}],
    }


_COMMAND = _one_step(
    NODE_COMMAND,
    "one command on a machine of the fleet",
    "call",
    "execute",
    ("node", "tool_name", "arguments", "execution_id"),
)
_PLAN = _one_step(
    FLEET_PLAN,
    "one command on many machines of the fleet",
    "plan",
    "apply",
    ("plan_id", "hash", "tool_name", "arguments", "nodes", "waves", "check"),
)
