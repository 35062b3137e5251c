"""A run in the words of AG-UI, the protocol between agents and user interfaces: its events, one by one."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import field
from typing import Any, Final

from starlette.responses import Response

from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.sse import PING, Reader, RunStream
from agent_fabric.wire.json_codec import dump_json

Json = Mapping[str, Any]
_DELTA: Final = b"event: delta\n"
_STEPS: Final = {
    "pack_start": "specialist_id",
    "pack_failed": "specialist_id",
    "step_started": "step_id",
    "step_finished": "step_id",
}
"""Events about steps, and what names the step."""


@dataclass(slots=True)
class _Text:
    """A message that is being written."""

    message_id: str
    live: bool
    """Whether all of it is heard as it is written: its request came while the stream was open."""
    said: str = ""


@dataclass(slots=True)
class AgUiEvents:
    """Makes AG-UI events of the lines of one run's log, which come in their order, and of pieces of answers."""

    run_id: RunId
    known: int = -1
    """Sequence number of the newest event before the stream was opened."""
    ended: bool = False
    _thread: str = ""
    _steps: list[str] = field(default_factory=list)
    _texts: dict[str | None, _Text] = field(default_factory=dict)
    """Messages that are being written, by lane."""
    _parents: dict[str | None, str] = field(default_factory=dict)
    """The last message of each lane."""
    _calls: set[str] = field(default_factory=set)
    """Tool calls without a result."""

    def of_line(self, line: Json) -> Iterator[Json]:
        """Yield what a line of the log is in AG-UI; every line is something."""
        at = {"timestamp": int(line["ts"] * 1000)}
        for event in self._of(line["kind"], line["payload"], line):
            yield {**event, **at}

    def of_piece(self, piece: Json) -> Iterator[Json]:
        """Yield what a piece of an answer is; nothing where the beginning of the answer was not heard."""
        text = self._texts.get(piece["lane"])
        if text is not None and text.live and piece["text"]:
            yield from self._say(text, piece["text"])

    def of_end(self, last: Json) -> Iterator[Json]:
        """Yield the end of a stream whose run has not ended in its log."""
        if not self.ended:
            problem = last["payload"].get("error") or {}
            status = last["payload"].get("_meta", {}).get("status") or "unknown"
            message = problem.get("message") or f"The run has not ended: it is {status}."
            yield self._fail(message, problem.get("code") or str(status))

    def _of(self, kind: str, payload: Json, line: Json) -> Iterator[Json]:
        lane = line.get("lane")
        match kind:
            case "run_created":
                self._thread = payload.get("session") or self.run_id
                yield self._run("RUN_STARTED")
            case "pack_start" | "step_started":
                yield from self._begin_step(payload[_STEPS[kind]])
            case "pack_failed" | "step_finished":
                yield from self._end_step(payload[_STEPS[kind]])
                yield _custom(kind, payload)
            case "llm_request":
                if payload.get("purpose", "turn") == "turn":
                    self._texts[lane] = _Text(f"{self.run_id}-{line['seq']}", live=line["seq"] > self.known)
                yield _custom(kind, payload)
            case "llm_response":
                yield from self._answer(lane, payload)
            case "reasoning":
                yield from self._reason(payload["text"], f"{self.run_id}-{line['seq']}")
            case "llm_error":
                yield from self._close_text(lane)
                yield _custom(kind, payload)
            case "tool_call":
                yield from self._call(lane, payload["call_id"], payload["tool"], json.dumps(payload["args"]))
            case "tool_result" | "tool_error":
                yield from self._result(kind, payload, line)
            case "run_complete" | "run_cancelled" | "run_failed":
                yield from self._close(kind, payload)
            case "run_resumed" | "run_interrupted":
                for lane in [*self._texts]:
                    yield from self._close_text(lane)
                yield _custom(kind, payload)
            case _:
                yield _custom(kind, payload)

    def _run(self, kind: str) -> dict[str, Any]:
        self.ended = kind != "RUN_STARTED"
        return {"type": kind, "threadId": self._thread, "runId": self.run_id}

    def _fail(self, message: str, code: str) -> Json:
        self.ended = True
        return {"type": "RUN_ERROR", "message": message, "code": code}

    def _begin_step(self, name: str) -> Iterator[Json]:
        if name not in self._steps:
            self._steps.append(name)
            yield {"type": "STEP_STARTED", "stepName": name}

    def _end_step(self, name: str) -> Iterator[Json]:
        if name in self._steps:
            self._steps.remove(name)
            yield {"type": "STEP_FINISHED", "stepName": name}

    def _say(self, text: _Text, piece: str) -> Iterator[Json]:
        if not text.said:
            yield {"type": "TEXT_MESSAGE_START", "messageId": text.message_id, "role": "assistant"}
        text.said += piece
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": text.message_id, "delta": piece}

    def _close_text(self, lane: str | None) -> Iterator[Json]:
        text = self._texts.pop(lane, None)
        if text is not None and text.said:
            self._parents[lane] = text.message_id
            yield {"type": "TEXT_MESSAGE_END", "messageId": text.message_id}

    def _answer(self, lane: str | None, payload: Json) -> Iterator[Json]:
        """Say the rest of an answer, and what it calls; of one to a question of the engine's own, nothing."""
        text, whole = self._texts.get(lane), payload["content"]
        self._parents.pop(lane, None)
        if text is not None:
            if not whole.startswith(text.said) and not text.said.startswith(whole):  # a piece was lost: all of it again
                yield from self._close_text(lane)
                text = self._texts[lane] = _Text(f"{text.message_id}-whole", live=False)
            if rest := whole[len(text.said) :]:
                yield from self._say(text, rest)
            yield from self._close_text(lane)
            for call in payload["tool_calls"]:
                yield from self._call(lane, call["call_id"], call["tool"], call["arguments"])
        yield _custom("llm_response", {key: payload.get(key) for key in ("model", "usage", "duration_s", "cost")})

    def _reason(self, text: str, message_id: str) -> Iterator[Json]:
        at = {"messageId": message_id}
        yield {"type": "REASONING_START", **at}
        yield {"type": "REASONING_MESSAGE_START", "role": "reasoning", **at}
        yield {"type": "REASONING_MESSAGE_CONTENT", "delta": text, **at}
        yield {"type": "REASONING_MESSAGE_END", **at}
        yield {"type": "REASONING_END", **at}

    def _call(self, lane: str | None, call_id: str, tool: str, arguments: str) -> Iterator[Json]:
        if call_id in self._calls:
            return
        self._calls.add(call_id)
        parent = self._parents.get(lane)
        start = {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": tool}
        yield start if parent is None else {**start, "parentMessageId": parent}
        if arguments:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": call_id}

    def _result(self, kind: str, payload: Json, line: Json) -> Iterator[Json]:
        call_id = payload["call_id"]
        yield from self._call(line.get("lane"), call_id, payload["tool"], "")
        self._calls.discard(call_id)
        if kind == "tool_error":
            told = {"error": payload["error_message"], "error_type": payload["error_type"]}
        else:
            told = payload["result"]
        message_id = f"{self.run_id}-{line['seq']}"
        content = json.dumps(told, ensure_ascii=False)
        result = {"type": "TOOL_CALL_RESULT", "messageId": message_id, "toolCallId": call_id, "content": content}
        yield {**result, "role": "tool"}

    def _close(self, kind: str, payload: Json) -> Iterator[Json]:
        """End the run, and before it all that is open."""
        for lane in [*self._texts]:
            yield from self._close_text(lane)
        for name in [*self._steps]:
            yield from self._end_step(name)
        if kind == "run_failed":
            yield self._fail(payload["message"], payload["code"])
        elif kind == "run_cancelled":
            yield {**self._run("RUN_FINISHED"), "outcome": {"type": "cancelled"}}
        else:
            yield {**self._run("RUN_FINISHED"), "result": payload["payload"], "outcome": {"type": "success"}}


def _custom(name: str, value: Any) -> Json:
    return {"type": "CUSTOM", "name": name, "value": value}


def ag_ui_stream(runs: ServedRuns, live: LiveRuns, run_id: RunId) -> Response:
    """Return what sends a run as AG-UI events, from its beginning until it has ended."""
    reader = Reader(runs, live, run_id, runs.dispatch.find(run_id), deltas=True, full=True)
    return RunStream(run_id, _frames(reader), reader.leave)


async def _frames(reader: Reader) -> AsyncGenerator[bytes, None]:
    events = AgUiEvents(reader.run_id, known=(await reader.runs.reader.newest(reader.run_id)).seq)
    async with aclosing(reader.chunks()) as chunks:
        async for chunk in chunks:
            yield b"".join(_translate(events, chunk))


def _translate(events: AgUiEvents, chunk: bytes) -> Iterator[bytes]:
    for frame in chunk.split(b"\n\n"):
        head, _, data = frame.partition(b"data: ")
        if not data:
            if frame == PING.strip():
                yield PING
            continue
        if head.startswith(b"id: "):
            found = events.of_line(json.loads(data))
        elif head == _DELTA:
            found = events.of_piece(json.loads(data))
        elif head:
            continue  # a sign of life of a model
        else:
            found = events.of_end(json.loads(data))
        for event in found:
            yield b"data: %s\n\n" % dump_json(event).strip()
