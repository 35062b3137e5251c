"""A task as a stream of events, each the answer to the call that opened it."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.a2a.calls import Call
from agent_fabric.interfaces.http.a2a.error_shape import problem_answer, sentences
from agent_fabric.interfaces.http.a2a.objects import Shown, artifact_update, status_update, task_object
from agent_fabric.interfaces.http.a2a.standing import told_as
from agent_fabric.interfaces.http.openai.answers import Told
from agent_fabric.interfaces.http.sse import PING
from agent_fabric.wire.json_codec import dump_json


class TaskVoice:
    """Voice of A2A: the task, what it does, and what came of it."""

    def __init__(self, call: Call, shown: Shown, *, history: int | None) -> None:
        self._call, self._shown, self._history = call, shown, history

    def opening(self) -> Iterator[bytes]:
        yield self._event({"task": task_object(self._shown, history=self._history)})

    def progress(self, line: str) -> bytes:
        return self._event(status_update(self._now(), line)) if line else PING

    def ending(self, told: Told) -> Iterator[bytes]:
        ended = told_as(self._shown, told, at=time.time())
        if ended.status is RunStatus.COMPLETED:
            yield self._event(artifact_update(ended))
        yield self._event(status_update(ended))

    def failure(self, problem: Mapping[str, Any]) -> Iterator[bytes]:
        status = problem.get("run_status")
        if status is None:  # not the run failed, but we
            yield _data(problem_answer(problem, self._call.id))
            return
        said = sentences(problem["detail"], problem["hint"])
        yield self._event(status_update(replace(self._now(), status=RunStatus(status), said=said)))

    def _now(self) -> Shown:
        return replace(self._shown, at=time.time())

    def _event(self, event: Mapping[str, Any]) -> bytes:
        return _data({"jsonrpc": "2.0", "id": self._call.id, "result": event})


def _data(value: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % dump_json(value).strip()
