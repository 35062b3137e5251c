"""The result of a run, as words for a conversation."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.runs.plan import plan_text

MAX_FILES = 50
NOTHING_SAID = "The task is done; nothing was said about it."


def answer_in(payload: Mapping[str, Any]) -> str:
    """Return the summary with the files below it; without a summary, what was given, as text or as JSON."""
    if "step_results" in payload:
        return _as_text(payload.get("result", payload.get("outputs")))
    summary = payload.get("summary")
    if not isinstance(summary, str):
        return _as_text({name: value for name, value in payload.items() if name != "action"})
    files = payload.get("artifacts")
    listed = [_name(file) for file in files] if isinstance(files, Sequence) and not isinstance(files, str) else []
    shown = [f"- {name}" for name in listed[:MAX_FILES]]
    if len(listed) > MAX_FILES:
        shown.append(f"- and {len(listed) - MAX_FILES} more")
    files_text = "\n".join(["Files:", *shown]) if shown else ""
    return "\n\n".join(filter(None, [summary.strip(), plan_text(payload), files_text])) or NOTHING_SAID


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping) and len(value) == 1:
        (only,) = value.values()
        if isinstance(only, str) and only.strip():
            return only.strip()
    if not value:
        return NOTHING_SAID
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False, default=str)}\n```"


def _name(file: Any) -> str:
    if isinstance(file, str):
        return file
    path = file.get("path") if isinstance(file, Mapping) else None
    return path if isinstance(path, str) else _compact(file)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
