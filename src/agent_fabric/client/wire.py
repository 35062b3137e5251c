"""What servers answer with, as the objects that the same question gives on this machine."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, get_type_hints

from agent_fabric.domain.events import Event, UnknownEvent
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.event_versions import body_from
from agent_fabric.wire.shape import Json, run_id_from

T = TypeVar("T")


def event_from(line: Json) -> Event:
    """Return an event of a log that was asked for in full."""
    lane = line.get("lane")
    body = body_from(str(line["kind"]), int(line.get("version", 1)), line["payload"])
    if problem := line.get("unreadable"):
        body = UnknownEvent(kind=str(line["kind"]), payload={}, problem=str(problem))
    at = seconds_from(line["ts"])
    return Event(int(line["seq"]), at, None if lane is None else LaneId(lane), str(line["step"]), body)


def seconds_from(moment: float | str) -> float:
    """Return a moment of a log in seconds since 1970; other tools write it as a text, in digits or in ISO 8601.

    Raises:
        ValueError: it is none.
    """
    try:
        return float(moment)
    except ValueError:
        read = datetime.fromisoformat(str(moment))
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def json_value(text: str) -> Any:
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


def items_from(key: str) -> Callable[[Any], list[Json]]:
    """Return what reads the objects that an answer lists under a key."""
    return lambda answer: list(answer[key])


def line_from(cls: type[T], shown: Json) -> T:
    """Return a line about a definition; of its problems, only the messages."""
    known = {name: shown[name] for name in get_type_hints(cls)}
    return cls(**{**known, "problems": tuple(each["message"] for each in shown["problems"])})


def started_run(answer: Json) -> RunId:
    """Return the id of the run that an answer is about."""
    return run_id_from(answer["run_id"])
