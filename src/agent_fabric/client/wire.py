"""What servers answer with, as the objects that the same question gives on this machine."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.approvals import Question
from agent_fabric.domain.event_versions import body_from
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.messages import Usage
from agent_fabric.domain.runs.task import RunError, RunResult, RunStatus

Json = Mapping[str, Any]
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def run_id_from(value: Any) -> RunId:
    """Return a run's id.

    Raises:
        ValueError: it is none: whoever names a file after it would be led elsewhere.
    """
    if not isinstance(value, str) or _RUN_ID.fullmatch(value) is None:
        raise ValueError(f"{value!r} is no id of a run")
    return RunId(value)


def status_from(value: Any) -> RunStatus:
    """Return where a run stands; what only a newer server knows is not settled, and nothing for us to do."""
    try:
        return RunStatus(str(value))
    except ValueError:
        return RunStatus.WAITING


def event_from(line: Json) -> Event:
    """Return an event of a log that was asked for in full."""
    lane = line.get("lane")
    body = body_from(str(line["kind"]), int(line.get("version", 1)), line["payload"])
    return Event(int(line["seq"]), float(line["ts"]), None if lane is None else LaneId(lane), str(line["step"]), body)


def result_from(shown: Json) -> RunResult:
    """Return what came of a run, from the object that shows it."""
    meta = shown["_meta"]
    status = status_from(meta["status"])
    payload = {key: value for key, value in shown.items() if key not in {"_meta", "error"}}
    if status is RunStatus.COMPLETED and payload.get("action") == "final":
        del payload["action"]  # put there for those who look for it
    told = shown.get("error")
    usage = meta["usage"]
    return RunResult(
        run_id=run_id_from(meta["run_id"]),
        status=status,
        payload=payload,
        error=None if told is None else RunError(code=told["code"], message=told["message"], hint=told["hint"]),
        specialist_ids=tuple(SpecialistId(each) for each in meta["specialist_ids"]),
        model=meta["model"],
        steps=meta["steps"],
        usage=Usage(usage["prompt_tokens"], usage["completion_tokens"], usage["cached_tokens"]),
        cost=meta["cost"],
        egress=tuple(meta["egress"]),
        duration_s=meta["duration_s"],
        proof=meta["proof"] or "",
        routing_method=meta.get("routing_method") or "",
        workspace=meta["workspace"],
        waiting_for=tuple(meta["approvals"]),
    )


def record_from(line: Json) -> RunRecord:
    """Return one line about a run."""
    return RunRecord(
        run_id=run_id_from(line["run_id"]),
        status=status_from(line["status"]),
        created_at=line["created_at"],
        updated_at=line["updated_at"],
        prompt=line["prompt"],
        specialist_ids=tuple(line["specialist_ids"]),
        summary=line["summary"],
    )


def records_from(answer: Json) -> Sequence[RunRecord]:
    """Return the runs of a list."""
    return [record_from(line) for line in answer["runs"]]


def card_from(shown: Json) -> ApprovalCard:
    """Return a question that a run has asked."""
    return ApprovalCard(
        approval_id=shown["id"],
        run_id=run_id_from(shown["run_id"]),
        call_id=shown["call_id"],
        tool=shown["tool"],
        args=shown["args"],
        question=Question(shown["question"]),
        reason=shown["reason"],
        rule=shown["rule"],
        subject=shown["subject"],
        alike=shown["for_run"] or "",
        agent=shown["agent"],
        target=shown["target"],
        sandbox=shown["sandbox"],
        untrusted=tuple(shown["untrusted"]),
        policy_version=shown["policy_version"],
        args_hash=shown["args_hash"],
        created_at=shown["created_at"],
        expires_at=shown["expires_at"],
        status=ApprovalStatus(shown["status"]),
        decided_by=shown["decided_by"] or "",
        decided_at=shown["decided_at"],
        decided_because=shown["decided_because"] or "",
    )


def loaded(text: str) -> Any:
    """Return what a text of JSON says.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_from(*required: str) -> Callable[[Any], Json]:
    """Return what reads an answer that stays the JSON object which it is, with at least these fields."""

    def read(answer: Any) -> Json:
        if missing := [name for name in required if name not in answer]:
            raise KeyError(missing[0])
        shown: Json = answer
        return shown

    return read
