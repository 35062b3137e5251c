"""What servers answer with, as the objects that the same question gives on this machine."""

import json
from collections.abc import Callable
from typing import Any

from agent_fabric.domain.event_versions import body_from
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.messages import Usage
from agent_fabric.domain.runs.task import RunError, RunResult, RunStatus
from agent_fabric.wire.shape import Json, run_id_from, status_from


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


def start_query(*, model_key: str | None, network_allowed: bool, encrypt: bool) -> "dict[str, Any]":
    """Return the query that starts an agent or a workflow without waiting for it."""
    return {"wait": False, "model_key": model_key, "network_allowed": network_allowed, "encrypt": encrypt}


def started_run(answer: Json) -> RunId:
    """Return the id of the run that an answer is about."""
    return run_id_from(answer["run_id"])
