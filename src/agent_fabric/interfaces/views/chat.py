"""A whole session as one document: Markdown to read, JSON to keep."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_fabric.domain.chat.sessions import COMPLETED, ChatMessage
from agent_fabric.wire.chat import MESSAGE, SESSION

if TYPE_CHECKING:  # lists of sessions need no events
    from agent_fabric.application.chat.export_session import SessionExport
    from agent_fabric.domain.events import Event

_FENCES = re.compile(r"`{3,}")
_WHO = {"user": "You", "assistant": "Agent"}


def json_export(export: "SessionExport") -> dict[str, Any]:
    """Return a session with its messages and the logs of its turns, nothing cut."""
    from agent_fabric.wire.event_lines import line_of  # noqa: PLC0415 - see above

    return {
        "session": SESSION.dump(export.session),
        "messages": [MESSAGE.dump(each) for each in export.messages],
        "runs": [
            {"run_id": run_id, "events": [line_of(run_id, event, whole=True) for event in events]}
            for run_id, events in export.turns.items()
        ],
    }


def markdown_export(export: "SessionExport") -> str:
    """Return a session as people read it: what was said, and between it what was done."""
    session = export.session
    lines = [f"# {_one_line(session.title) or 'Session'}", ""]
    lines += [f"Session {session.session_id} of {session.owner}, begun {_moment(session.created_at)}.", ""]
    for message in export.messages:
        if message.role == "assistant":
            lines += _work(export.turns.get(message.metadata.get("run_id", ""), ()))
        lines += _message_lines(message)
    return "\n".join(lines).rstrip() + "\n"


def _message_lines(message: ChatMessage) -> Iterator[str]:
    status = str(message.metadata.get("status") or COMPLETED)
    mark = "" if status == COMPLETED else f" ({status})"
    yield f"## {_WHO.get(message.role, message.role)} · {_moment(message.created_at)}{mark}"
    yield ""
    if message.content:
        yield message.content
        yield ""


def _work(events: "Sequence[Event]") -> Iterator[str]:
    """Return the tool calls of a turn and what they gave, whole."""
    from agent_fabric.domain.events import ModelAnswered, ToolCalled, ToolErred, ToolReturned  # noqa: PLC0415 - as above

    for event in events:
        match event.body:
            case ModelAnswered(content=text, tool_calls=calls) if calls and text.strip():
                yield from (text.strip(), "")
            case ToolCalled() as body:
                yield from (f"- **{body.tool}** (event {event.seq})", "", *_block(body.args), "")
            case ToolReturned() as body:
                whole: Any = body.whole or body.result
                yield from (*_block(whole), "")
            case ToolErred() as body:
                yield from (f"  {body.error_type}: {_one_line(body.error_message)}", "")
            case _:
                pass


def _block(value: Mapping[str, Any] | str) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)
    longest = max((len(each) for each in _FENCES.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return [f"  {line}" for line in (f"{fence}json", *text.splitlines(), fence)]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
