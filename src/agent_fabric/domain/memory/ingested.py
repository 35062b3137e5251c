"""What a run has added to memory."""

from typing import Any

from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.domain.runs.task import RunResult, RunStatus


def outcome_of(result: RunResult) -> dict[str, Any]:
    """Return what a run has added, and what it could not read.

    Raises:
        DocumentUnreadable: it could add nothing.
    """
    added: list[Any] = []
    problems: list[Any] = []
    for step, name in (("files", "add"), ("pages", "add_page")):
        each_result = result.payload.get("outputs", {}).get(step, {}).get("results", ())
        for each in each_result:
            given = each.get(name, {})
            (problems if "problem" in given else added).append(given)
    if result.status is RunStatus.FAILED and not added:
        problem = result.error
        raise DocumentUnreadable(
            problem.message if problem is not None else "Nothing could be added",
            hint=f"See: fabric logs show {result.run_id}",
        )
    return {"run_id": result.run_id, "status": result.status.value, "added": added, "problems": problems}
