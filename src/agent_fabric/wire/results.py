"""What came of a run, as one JSON object."""

from collections.abc import Mapping
from typing import Annotated, Any

from agent_fabric.domain.errors import FabricError, Interrupted
from agent_fabric.domain.evidence.proofs import Proof
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import Changed, Effects, NotedCall, open_lines
from agent_fabric.domain.runs.task import RunError, RunResult, RunStatus
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.wire.shape import Json, Shape

_RUN = "d36e91a5-7d1d-4cc0-9f1c-0a4a5f1f9a3b"
_DIR: dict[str, Any] = {
    "run_dir": Annotated[str, "The run's folder, with its log."],
    "not_done?": Annotated[list[str], "What was denied, failed or is in doubt, in words; missing: nothing."],
}
META_KEYS = (
    "run_id status workspace specialist_ids routing_method? model steps usage cost egress duration_s proof outcome"
    " effects sent_back"
    " idle_since_sent_back approvals=waiting_for continues node?"
)
PROOF = Shape(Proof)
_CALL = Shape(NotedCall, name="NotedCall")
EFFECTS = Shape(Effects, name="Effects", parts=[_CALL, Shape(Changed, name="Changed")])
META = Shape(
    RunResult,
    META_KEYS,
    name="Meta",
    about="What is known about a run, besides its result.",
    also=_DIR,
    parts=[EFFECTS],
)
ERROR = Shape(RunError, name="ErrorInfo")


_DETAILS_META = Shape(
    RunResult,
    META_KEYS,
    name="RunDetailsMeta",
    about="The same, with what was asked for.",
    parts=[EFFECTS],
    also={
        **_DIR,
        "prompt": str,
        "created_at": Annotated[float, "Seconds since 1970."],
        "updated_at": float,
        "queued": Annotated[bool, "Whether it waits at the server for its turn."],
        "events": Annotated[int, "How many events it has."],
        "owner": Annotated[str, "Whose run it is: `local`, or such as `user:ada`."],
        "visibility": Annotated[str, "Who else sees it: `team` or `private`, only admins."],
    },
)
RESULT = Shape(
    RunResult,
    "*payload",
    name="Result",
    about="What came of a run: the fields of its specialist's `finish_task`, such as `summary`, and these.",
    also={"_meta": META, "error?": ERROR},
    examples=[
        {
            "action": "final",
            "summary": "hello.py prints the first ten primes.",
            "artifacts": ["hello.py"],
            "_meta": {
                "run_id": _RUN,
                "status": "completed",
                "run_dir": f"/home/me/.fabric/runs/{_RUN}",
                "workspace": f"/home/me/.fabric/runs/{_RUN}/workspace",
                "specialist_ids": ["engineering"],
                "routing_method": "keywords",
                "model": "qwen2.5:14b",
                "steps": 3,
                "usage": {"prompt_tokens": 4012, "completion_tokens": 310, "cached_tokens": 3120},
                "cost": None,
                "egress": [],
                "duration_s": 7.9,
                "proof": {
                    "kind": "program",
                    "command": "python3 hello.py",
                    "seq": 9,
                    "tests": None,
                    "own_tests": False,
                    "changed_tests": [],
                    "printed": "2\n3\n5",
                },
                "outcome": "done",
                "effects": {
                    "denied": [],
                    "failed": [],
                    "in_doubt": [],
                    "edited": [],
                    "left": [],
                    "changed": {"files": ["hello.py"], "commits": [], "machines": []},
                    "more": {},
                },
                "sent_back": False,
                "idle_since_sent_back": False,
                "approvals": [],
                "continues": None,
            },
        }
    ],
)
RUN_DETAILS = Shape(
    RunResult,
    "*payload",
    name="RunDetails",
    about="The current state of a run, with its result so far.",
    also={"_meta": _DETAILS_META, "error?": ERROR},
)


def result_object(result: RunResult, run_dir: str) -> dict[str, Any]:
    """Return the finish payload with `_meta`, and `error` when there is one.

    A run that completed says `"action": "final"`, which the seeds' clients look for, unless its pack says otherwise.
    """
    final = {"action": "final"} if result.status is RunStatus.COMPLETED else {}
    meta = {**META.dump(result), "run_dir": run_dir}
    if result.effects.open and result.status.settled:  # else it may still be done
        meta["not_done"] = [*open_lines(result.effects)]
    shown: dict[str, Any] = {**final, **result.payload, "_meta": meta}
    shown.pop("error", None)
    if result.error is not None:
        shown["error"] = ERROR.dump(result.error)
    return shown


def result_from(shown: Json) -> RunResult:
    """Return the result that `result_object` has written.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it was none.
    """
    payload = {key: value for key, value in shown.items() if key not in {"_meta", "error"}}
    told = shown.get("error")
    meta = shown["_meta"]
    if not isinstance(meta.get("proof"), Mapping):  # a server before 0.6 names only the command
        kind = ProofKind.PROGRAM if meta.get("proof") else ProofKind.NONE
        meta = {**meta, "proof": {"kind": kind, "command": meta.get("proof") or "", "seq": None, "tests": None}}
    known = META.values(meta)
    if known["status"] is RunStatus.COMPLETED and payload.get("action") == "final":
        del payload["action"]
    return RunResult(**known, payload=payload, error=None if told is None else ERROR.load(told))


def error_object(problem: FabricError, *, run_id: RunId | None = None) -> dict[str, Any]:
    """Return an error that kept a run from starting, or its state from being known, in the shape of a result."""
    return {
        "error": {"code": problem.code, "message": problem.message, "hint": problem.hint},
        "_meta": {"run_id": run_id, "status": "interrupted" if isinstance(problem, Interrupted) else None},
    }
