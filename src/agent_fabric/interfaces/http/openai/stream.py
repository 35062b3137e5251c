"""A run as a stream of one answer: signs of life while it works, then what came of it."""

import json
import logging
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.errors import AboutRun, InternalError, ProblemAnswer, failed_run, problem
from agent_fabric.interfaces.http.openai.answers import Told
from agent_fabric.interfaces.http.openai.error_shape import RUN_ID_HEADER
from agent_fabric.interfaces.http.openai.job import Job
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.sse import PING, Reader, RunStream
from agent_fabric.wire.json_codec import dump_json

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
            return f"{payload['tool']} {_argument_text(payload['args'])}"
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


def _argument_text(args: Mapping[str, Any]) -> str:
    """Return arguments; of a single one, its value is enough."""
    if len(args) == 1:
        (only,) = args.values()
        if isinstance(only, str):
            return only
    return json.dumps(args, ensure_ascii=False)


PIECE_CHARS = 400
"""Of an answer are sent together."""

_log = logging.getLogger(__name__)


class Voice(Protocol):
    """Says in the words of one API what happens to a run."""

    def opening(self) -> Iterable[bytes]:
        """Say that it has begun."""
        ...

    def progress(self, line: str) -> bytes:
        """Say what it does; without a line, that it is still at work."""
        ...

    def ending(self, told: Told) -> Iterable[bytes]:
        """Say what came of it, or what it waits for."""
        ...

    def failure(self, problem: Mapping[str, Any]) -> Iterable[bytes]:
        """Say why there is no answer."""
        ...


class AnswerStream(RunStream):
    """Sends what becomes of a job. The run continues when the client leaves."""

    def __init__(self, job: Job, live: LiveRuns, voice: Voice) -> None:
        super().__init__(job.run_id, self._frames(), self._end)
        self._job, self._live, self._voice = job, live, voice
        self._reader: Reader | None = None
        self._left = False
        self.headers[RUN_ID_HEADER] = job.run_id

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        for frame in self._voice.opening():
            yield frame
        try:
            while True:
                async with aclosing(self._progress()) as lines:
                    async for line in lines:
                        yield line
                if self._left:
                    return
                if not await self._job.try_again():
                    break
            last = await self._last()
        except Exception as error:  # noqa: BLE001 - the stream has begun: this is the only way left to tell
            last = self._voice.failure(self._problem_of(error).problem)
        for frame in last:
            yield frame

    async def _progress(self) -> AsyncGenerator[bytes, None]:
        """Yield signs of life until there is an answer, or the client has gone."""
        drive = self._job.drive
        if drive is None:
            return
        reader = self._reader = Reader(self._job.runs, self._live, drive.run_id, drive)
        drive.outcome.add_done_callback(reader.leave)
        try:
            async with aclosing(reader.chunks()) as chunks:
                async for chunk in chunks:
                    for frame in chunk.split(b"\n\n"):
                        if frame == PING.strip():
                            yield self._voice.progress("")
                        elif line := progress_in(frame):
                            yield self._voice.progress(line)
        finally:
            drive.outcome.remove_done_callback(reader.leave)

    async def _last(self) -> Iterable[bytes]:
        result = await self._job.result()
        if result.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            return self._voice.failure(failed_run(result).problem)
        return self._voice.ending(await self._job.describe(result))

    def _problem_of(self, error: Exception) -> ProblemAnswer:
        known = error.problem if isinstance(error, AboutRun) else error
        if not isinstance(known, FabricError):
            _log.error("The answer of run %s could not be sent", self._job.run_id, exc_info=error)
            known = InternalError()
        return problem(known, run_id=self._job.run_id)

    def _end(self, _: object) -> None:
        self._left = True
        if self._reader is not None:
            self._reader.leave()


def pieces(text: str) -> Iterator[str]:
    """Cut an answer into pieces."""
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


def data_frame(value: Mapping[str, Any]) -> bytes:
    """Return an object as a frame of a stream."""
    return b"data: %s\n\n" % dump_json(value).strip()
