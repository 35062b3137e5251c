"""What an editor is shown of a turn: events as `session/update` notifications of the Agent Client Protocol."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.events import (
    BudgetExhausted,
    Event,
    ModelAnswered,
    PackStarted,
    RunFailed,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.models.events import ModelReasoned
from agent_fabric.domain.tools.specs import FINISH_TASK

Update = dict[str, Any]

MAX_SHOWN_CHARS: Final = 20_000
"""Of a result of a tool. The log has all of it."""
MAX_DIFF_BYTES: Final = 1_000_000
"""Files up to this size are shown as they were before a call."""
_KINDS: Final = {
    **dict.fromkeys(("read_file", "list_files", "look", "memory_search", "cross_run_search"), "read"),
    "search_files": "search",
    **dict.fromkeys(("write_file", "edit_file", "fix_line", "write"), "edit"),
    "shell": "execute",
    **dict.fromkeys(("web_search", "fetch_url", "http_request", "browser_open", "browser_read"), "fetch"),
}


def message_chunk(role: str, text: str) -> Update:
    """Return a piece of what the person or the agent has said."""
    kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
    return {"sessionUpdate": kind, "content": {"type": "text", "text": _text(text)}}


class TurnUpdates:
    """Turns the events of one turn into updates, each event once."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._seen = -1
        self._shown_calls: set[str] = set()
        self._streamed: set[str] = set()
        """Lanes whose answer was shown as it was written."""
        self._window: dict[str, int] = {}
        self._cost = 0.0
        self.said = ""
        """The last text that the model has said."""
        self.exhausted = ""
        """What the turn has used up: `steps`, `tokens` or `seconds`; empty: nothing."""
        self.failed: RunFailed | None = None
        self.usage = {"totalTokens": 0, "inputTokens": 0, "outputTokens": 0}

    def delta(self, lane: str, text: str) -> Update:
        """Return a piece of an answer that is being written."""
        self._streamed.add(lane)
        return message_chunk("assistant", text)

    def of(self, events: Sequence[Event], *, live: bool = True) -> Iterator[Update]:
        """Yield what new events show; `live` tells whether files are as they were when the event happened."""
        for event in events:
            if event.seq > self._seen:
                self._seen = event.seq
                yield from self._of(event, live=live)

    def _of(self, event: Event, *, live: bool) -> Iterator[Update]:
        lane = event.lane or ""
        match event.body:
            case PackStarted() as body:
                self._window[lane] = body.model.context_window or 0
            case ModelReasoned() as body:
                yield {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": _text(body.text)}}
            case ModelAnswered() as body:
                yield from self._answer(lane, body)
            case ApprovalRequested() as body:
                yield from self._call(body.call_id, body.tool, body.args, "pending", live=live)
            case ToolCalled() as body:
                yield from self._call(body.call_id, body.tool, body.args, "in_progress", live=live)
            case ToolReturned() as body if body.tool != FINISH_TASK:
                raw, shown = dict(body.result), _result_text(body.result)
                yield self._end(
                    body.call_id, "completed", shown, {"rawOutput": raw} if len(shown) < MAX_SHOWN_CHARS else {}
                )
            case ToolErred() as body if body.tool != FINISH_TASK:
                yield from self._call(body.call_id, body.tool, {}, "failed", live=False)
                yield self._end(body.call_id, "failed", f"{body.error_type}: {body.error_message}", {})
            case BudgetExhausted() as body:
                self.exhausted = body.resource
            case RunFailed() as body:
                self.failed = body
            case _:
                pass

    def _answer(self, lane: str, body: ModelAnswered) -> Iterator[Update]:
        if body.content.strip():
            self.said = body.content.strip()
            if lane not in self._streamed:
                yield message_chunk("assistant", body.content)
        self._streamed.discard(lane)
        used = body.usage.prompt_tokens + body.usage.completion_tokens
        self.usage["totalTokens"] += used
        self.usage["inputTokens"] += body.usage.prompt_tokens
        self.usage["outputTokens"] += body.usage.completion_tokens
        if window := self._window.get(lane):
            yield {"sessionUpdate": "usage_update", "used": used, "size": window}

    def _call(self, call_id: str, tool: str, args: Mapping[str, Any], status: str, *, live: bool) -> Iterator[Update]:
        if tool == FINISH_TASK:
            return
        if call_id in self._shown_calls:
            if status != "failed":
                yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status}
            return
        self._shown_calls.add(call_id)
        yield {"sessionUpdate": "tool_call", **self.describe_call(call_id, tool, args, live=live), "status": status}

    def describe_call(self, call_id: str, tool: str, args: Mapping[str, Any], *, live: bool) -> Update:
        """Return a tool call as an editor shows it: what it is about, and the change that it makes."""
        path, content = args.get("path"), []
        where = self._path(path) if isinstance(path, str) and path else None
        if where is not None and (change := self._change(where, tool, args, live=live)):
            content.append({"type": "diff", "path": str(where), **change})
        return {
            "toolCallId": call_id,
            "title": _text(_title(tool, args)),
            "kind": _KINDS.get(tool, "other"),
            "rawInput": dict(args),
            **({"locations": [{"path": str(where)}]} if where is not None else {}),
            **({"content": content} if content else {}),
        }

    def _path(self, path: str) -> Path | None:
        """Return where a path of the workspace lies; None: outside of it, where an editor is sent nowhere."""
        found = Path(path) if Path(path).is_absolute() else self._folder / path
        return None if "\0" in path or ".." in found.parts or not found.is_relative_to(self._folder) else found

    def _change(self, where: Path, tool: str, args: Mapping[str, Any], *, live: bool) -> Update:
        """Return what a call makes of a file; nothing, if its arguments do not say so."""
        if tool in {"write_file", "write"} and isinstance(text := args.get("content"), str):
            return {"oldText": self._content(where) if live else None, "newText": _text(text)}
        old, new = args.get("old_text"), args.get("new_text")
        if tool == "edit_file" and isinstance(old, str) and isinstance(new, str):
            return {"oldText": _text(old), "newText": _text(new)}
        return {}

    def _content(self, where: Path) -> str | None:
        """Return what a file holds now; None: there is none, it is a link, or no text of a size that can be shown."""
        try:
            if where.resolve() != where or not where.is_file() or where.stat().st_size > MAX_DIFF_BYTES:
                return None
            return where.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    @staticmethod
    def _end(call_id: str, status: str, text: str, more: Update) -> Update:
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        shown = {"content": content} if text else {}
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status, **shown, **more}


def said_at_end(message: ChatMessage, said: str) -> str:
    """Return what is still to be shown of the message that a turn ended with."""
    whole = message.content.strip()
    if whole == said:
        return ""
    return whole.removesuffix(said).strip() if said and whole.endswith(said) else whole


def session_line(session: Session) -> Update:
    """Return a session as a list shows it."""
    from datetime import UTC, datetime  # noqa: PLC0415 - only lists need it

    return {
        "sessionId": session.session_id,
        "cwd": session.project or "/",
        "title": _text(session.title),
        "updatedAt": datetime.fromtimestamp(session.updated_at, UTC).isoformat(),
    }


def _title(tool: str, args: Mapping[str, Any]) -> str:
    for name in ("command", "path", "url", "query", "pattern"):
        if isinstance(value := args.get(name), str) and value:
            line = " ".join(value.split())
            return f"{tool}: {line if len(line) <= 200 else line[:199] + '…'}"
    return tool


def _result_text(result: Mapping[str, Any]) -> str:
    texts = [f"{name}: {value}" if len(result) > 1 else str(value) for name, value in result.items()]
    text = _text("\n".join(texts))
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}\n… (cut; `fabric logs` shows all of it)"


def _text(text: str) -> str:
    """Return text that every JSON reader takes: half a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
