"""What a run does, a line at a time, for clients that have no place for events."""

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_CHARS = 200
_KIND = re.compile(rb'"kind":"(\w+)"')
_HEAD_BYTES = 300
"""Where the kind of an event stands; what follows may be long."""
_TOLD = frozenset(
    {
        *(b"recruitment", b"tool_call", b"tool_error", b"llm_error"),
        *(b"step_started", b"step_finished", b"approval_requested"),
    }
)
_LAST = "finish_task"
"""A tool whose call is the answer itself."""


def progress_in(frame: bytes) -> str:
    """Return what a frame of a run's event stream tells a person, in one line; empty: nothing."""
    kind = _KIND.search(frame, 0, _HEAD_BYTES)
    if kind is None or kind[1] not in _TOLD or not frame.startswith(b"id: "):
        return ""
    event = json.loads(frame.partition(b"data: ")[2])
    return " ".join(_line(event["kind"], event["payload"]).split())[:MAX_CHARS]


def _line(kind: str, payload: Mapping[str, Any]) -> str:
    match kind:
        case "recruitment":
            return f"the task goes to {', '.join(payload['specialist_ids'])}"
        case "tool_call" if payload["tool"] == _LAST:
            return ""
        case "tool_call":
            return f"{payload['tool']} {_shown(payload['args'])}"
        case "tool_error":
            return f"{payload['tool']} failed: {payload['error_message']}"
        case "llm_error":
            return f"the model failed: {payload['error_message']}"
        case "step_started":
            return f"step {payload['step_id']} ({payload['action']})"
        case "step_finished":
            return f"step {payload['step_id']}: {payload['status']}"
        case "approval_requested":
            return f"asks a person about {payload['tool']}"
        case _:
            return ""


def _shown(args: Mapping[str, Any]) -> str:
    """Return arguments; of a single one, its value is enough."""
    if len(args) == 1:
        (only,) = args.values()
        if isinstance(only, str):
            return only
    return json.dumps(args, ensure_ascii=False)
