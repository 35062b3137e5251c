"""Runs an agent, and tries again as often as it allows."""

from collections.abc import Callable

from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus, Task

_HOPELESS = frozenset({"pack_unknown", "pack_broken", "config_invalid", "offline", "extra_missing"})
"""Codes of failures that would only come again."""


@dataclass(frozen=True, slots=True)
class RunAgent:
    """Use case: see an agent's task through; each attempt is a run of its own."""

    execute: ExecuteTask

    async def __call__(self, task: Task, *, on_created: Callable[[RunId], None] | None = None) -> RunResult:
        """Do the task and return what came of the last attempt.

        Raises:
            RecruitError: it builds on a pack that does not exist; no run is created.
        """
        result = await self.execute(task, on_created=on_created)
        for _ in range(task.agent.retries if task.agent is not None else 0):
            if not worth_another_attempt(result):
                break
            result = await self.execute(task, on_created=on_created)
        return result


def worth_another_attempt(result: RunResult) -> bool:
    """Tell whether trying again might help."""
    return result.status is RunStatus.FAILED and result.error is not None and result.error.code not in _HOPELESS
