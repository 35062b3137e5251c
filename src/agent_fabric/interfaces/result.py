"""A run's result as one JSON object: the same for the command line and for HTTP."""

from typing import Any

from agent_fabric.domain.errors import FabricError, Interrupted
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus


def result_object(result: RunResult, run_dir: str) -> dict[str, Any]:
    """Return the finish payload with `_meta`, and `error` when there is one.

    A run that completed says `"action": "final"`, which the seeds' clients look for, unless its pack says otherwise.
    """
    final = {"action": "final"} if result.status is RunStatus.COMPLETED else {}
    shown: dict[str, Any] = {**final, **result.payload}
    shown.pop("error", None)
    shown["_meta"] = {
        "run_id": result.run_id,
        "status": result.status.value,
        "run_dir": run_dir,
        "workspace": result.workspace,
        "specialist_ids": list(result.specialist_ids),
        "routing_method": result.routing_method or None,
        "model": result.model,
        "steps": result.steps,
        "usage": {
            "prompt_tokens": result.usage.prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "cached_tokens": result.usage.cached_tokens,
        },
        "cost": result.cost,
        "egress": list(result.egress),
        "duration_s": result.duration_s,
        "proof": result.proof or None,
        "approvals": list(result.waiting_for),
    }
    if result.error is not None:
        shown["error"] = {"code": result.error.code, "message": result.error.message, "hint": result.error.hint}
    return shown


def error_object(problem: FabricError, *, run_id: RunId | None = None) -> dict[str, Any]:
    """Return an error that kept a run from starting, or us from knowing how it stands, in the shape of a result."""
    return {
        "error": {"code": problem.code, "message": problem.message, "hint": problem.hint},
        "_meta": {"run_id": run_id, "status": "interrupted" if isinstance(problem, Interrupted) else None},
    }
