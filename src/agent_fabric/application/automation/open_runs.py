"""How the runs of a schedule ended, one after another."""

from collections.abc import Sequence

from agent_fabric.application.ports.automation import OpenRun
from agent_fabric.domain.runs.task import RunStatus


def failures_after(failures: int, over: Sequence[OpenRun]) -> int:
    """Return how many runs have failed in a row, after those that have ended since."""
    for run in sorted(over, key=lambda each: each.due_at):
        if run.status is RunStatus.FAILED:
            failures += 1
        elif run.status is RunStatus.COMPLETED:
            failures = 0
    return failures
