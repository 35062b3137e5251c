"""`/v1/responses`: a run as a response, which can be left and come back to."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from fastapi import Path, Query, Request
from pydantic import BeforeValidator, Field, StringConstraints
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.chat.conversation import ROLES, USER, Asked, Turn, turns_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.errors import failed_run
from agent_fabric.interfaces.http.locks import must_be_allowed, who_asks
from agent_fabric.interfaces.http.openai.answers import Told, describe_result
from agent_fabric.interfaces.http.openai.error_shape import RUN_ID_HEADER, error_object
from agent_fabric.interfaces.http.openai.job import Job, Jobs, with_quotes, with_visibility
from agent_fabric.interfaces.http.openai.models import Models, model_of, right_for
from agent_fabric.interfaces.http.openai.schemas import (
    OWN_TOOLS,
    STREAM_OR_ANSWER,
    Content,
    Metadata,
    Only,
    Progress,
    RunNote,
    Shown,
    StreamOptions,
    Taken,
    asks_for_something,
    openai_errors,
    text_of,
)
from agent_fabric.interfaces.http.openai.stream import AnswerStream, pieces
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.runs.starting import about
from agent_fabric.interfaces.http.views import RunView, look_at
from agent_fabric.wire.json_codec import dump_json


def _message(item: Any) -> Any:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if isinstance(kind, str) and kind != "message":
        raise PydanticCustomError(
            "unsupported_content", "only messages are supported, not {kind}", {"kind": repr(kind[:100])}
        )
    return item


class InputMessage(Taken):
    """One message of a conversation."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content

    @property
    def turn(self) -> Turn:
        """The same, as the conversation knows it."""
        return Turn(ROLES[self.role], text_of(self.content))


Item = Annotated[InputMessage, BeforeValidator(_message)]
Input = str | Annotated[list[Item], Field(min_length=1, max_length=10_000)]


def _turns(given: Input) -> list[Turn]:
    return [Turn(USER, given)] if isinstance(given, str) else [item.turn for item in given]


def _asking(given: Input) -> Input:
    asks_for_something(_turns(given))
    return given


class TextOptions(Taken):
    """How the answer is written."""

    format: Annotated[
        Any, Only((None, {"type": "text"}), "an answer is text; an agent with declared outputs answers with JSON")
    ] = None


class ResponseRequest(
    Taken, json_schema_extra={"examples": [{"model": "pack/engineering", "input": "Write hello.py, and run it."}]}
):
    """A conversation whose last word is the task. Parameters that are not listed are taken and left aside."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    """Who does it: see `GET /v1/models`."""
    input: Annotated[Input, AfterValidator(_asking)]
    """The task, or a conversation in which the newest message of the role `user` is the task."""
    instructions: str | None = None
    """Given along as background."""
    previous_response_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The response that this conversation continues from."""
    stream: bool | None = None
    """Whether to send the answer as Server-Sent Events."""
    stream_options: StreamOptions | None = None
    metadata: Metadata = None
    background: bool | None = None
    """Whether to answer at once; `GET /v1/responses/{response_id}` shows how it stands."""
    text: TextOptions | None = None
    tools: Annotated[Any, Only((None, []), OWN_TOOLS)] = None
    tool_choice: Annotated[Any, Only((None, "none", "auto"), OWN_TOOLS)] = None
    conversation: Annotated[Any, Only((None,), "use previous_response_id, or send the conversation as input")] = None
    prompt: Annotated[Any, Only((None,), "there are no stored prompts: send the task as input")] = None

    @property
    def visibility(self) -> str | None:
        """Who is to see the run beside its owner; None: not said."""
        return None if self.metadata is None else self.metadata.visibility

    def request_after(self, before: list[Turn]) -> Asked:
        """Return what is to be done, after what was said before."""
        notes = [Turn(ROLES["system"], self.instructions)] if self.instructions else []
        return asks_for_something([*before, *notes, *_turns(self.input)])


class OutputText(Shown):
    """What was said."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]


class OutputMessage(Shown):
    """The one message of a response."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: str
    content: list[OutputText]


class ResponseProblem(Shown):
    """Why a run failed."""

    code: str
    message: str


class ResponseUsage(Shown):
    """Tokens of all model answers of the run together."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class ResponseObject(Shown):
    """A run, as a response."""

    id: str
    """`resp_` and the id of the run."""
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "failed", "in_progress", "cancelled", "incomplete"]
    """`incomplete` means that an answer or a signal is needed first: see `incomplete_details` and the answer."""
    model: str
    output: list[OutputMessage]
    error: ResponseProblem | None
    usage: ResponseUsage | None
    fabric: RunNote


PREFIX = "resp_"
_STATUSES = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.WAITING: "incomplete",
    RunStatus.INTERRUPTED: "incomplete",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
"""Clients that poll stop at `incomplete`: without a person, nothing would change."""
_INCOMPLETE = {RunStatus.WAITING: "waiting_for_person", RunStatus.INTERRUPTED: "interrupted"}


@dataclass(frozen=True, slots=True)
class ResponseState:
    """A run as it stands."""

    run_id: RunId
    model: str
    status: RunStatus
    created_at: float = 0.0
    """0: now."""
    previous: str | None = None
    told: Told | None = None
    """What came of it, if anything did."""

    def become(self, told: Told) -> Self:
        """Return the same with what has come of it; the run may be another attempt."""
        return replace(self, told=told, status=told.result.status, run_id=told.result.run_id)


def response_object(standing: ResponseState) -> dict[str, Any]:
    """Return everything that clients look for."""
    told = standing.told
    said = told is not None and told.text and standing.status is not RunStatus.RUNNING
    error = told.result.error if told is not None else None
    reason = _INCOMPLETE.get(standing.status)
    return {
        "id": f"{PREFIX}{standing.run_id}",
        "object": "response",
        "created_at": int(standing.created_at or time.time()),
        "status": _STATUSES[standing.status],
        "background": False,
        "error": None if error is None else {"code": error.code, "message": error.message, "hint": error.hint},
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": standing.model,
        "output": [message_object(standing)] if said else [],
        "parallel_tool_calls": False,
        "previous_response_id": standing.previous,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if told is None else _usage(told.result.usage),
        "fabric": {"run_id": standing.run_id, "status": standing.status.value} if told is None else told.note,
    }


def message_object(standing: ResponseState) -> dict[str, Any]:
    """Return the one message of a response."""
    text = standing.told.text if standing.told is not None else ""
    return {
        "id": f"msg_{standing.run_id}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


ResponseId = Annotated[str, Path(description="`resp_` and the id of the run.", max_length=200)]


def add_responses(routes: Routes, runs: ServedRuns, live: LiveRuns, models: Models, jobs: Jobs) -> None:
    """Add the routes."""
    _add_creating(routes, runs, live, models, jobs)

    @routes.get(
        "/{response_id}",
        Scope.RUNS_READ,
        "Show a run as a response",
        ResponseObject,
        also={200: STREAM_OR_ANSWER, **openai_errors(404)},
    )
    async def show(
        request: Request,
        response_id: ResponseId,
        stream: Annotated[bool, Query(description="Whether to follow it as Server-Sent Events.")] = False,
    ) -> Response:
        """Every run can be shown so, however it was started."""
        run_id = await _find(runs, response_id, who_asks(request))
        if not stream:
            return _answer(await _standing(runs, run_id))
        view = await look_at(runs, run_id)
        model = model_of(view.task)
        job = Job(runs, request, model, view.task, runs.dispatch.find(run_id) or view.result, is_followed=True)
        begun = ResponseState(run_id, model, RunStatus.RUNNING, created_at=view.created_at)
        return AnswerStream(job, live, ResponseVoice(begun, StreamOptions()))

    @routes.post(
        "/{response_id}/cancel",
        Scope.RUNS_READ,
        "End a run",
        ResponseObject,
        also=openai_errors(404, 409, 413, 415, 503, 507),
    )
    async def cancel(principal: Principal, response_id: ResponseId) -> Response:
        """End a run from anywhere. One that has ended stays as it is. Needs the same scope as beginning it."""
        run_id = await _find(runs, response_id, principal)
        view = await look_at(runs, run_id)
        must_be_allowed(principal, right_for(model_of(view.task)))
        with about(run_id):
            await runs.cancel_run(run_id, by=principal.name, reason="")
        return _answer(await _standing(runs, run_id))


def _add_creating(routes: Routes, runs: ServedRuns, live: LiveRuns, models: Models, jobs: Jobs) -> None:
    @routes.post(
        "",
        Scope.RUNS_READ,
        "Do a task, as a response",
        ResponseObject,
        also={200: STREAM_OR_ANSWER, **openai_errors(404, 409, 413, 415, 502, 503, 504, 507)},
    )
    async def create(wish: ResponseRequest, request: Request, x_fabric_progress: Progress = False) -> Response:
        """Answer with the summary of the run. It continues when the client leaves; with `background`, at once.

        A pack needs the scope `runs`, an agent or a workflow the scope `workflows`.
        """
        before = await _before(runs, wish.previous_response_id, who_asks(request))
        said = [] if before is None else await _conversation(runs, before)
        by, asked = who_asks(request), wish.request_after(said)
        task = await models.task(wish.model, asked, by)
        run_before = None if before is None else before.result.run_id
        task = await with_quotes(task, asked, runs, before=run_before, said=said, answers=jobs.answers, whose=by.id)
        if before is not None and before.task.encrypted:  # it quotes what was said there
            task = replace(task, encrypted=True)
        job = await jobs.begin(request, wish.model, with_visibility(task, wish.visibility, before))
        begun = ResponseState(job.run_id, wish.model, RunStatus.RUNNING, previous=wish.previous_response_id)
        if wish.stream:
            options = (wish.stream_options or StreamOptions()).with_progress(x_fabric_progress)
            return AnswerStream(job, live, ResponseVoice(begun, options))
        if wish.background:
            return _answer(begun)
        result = await job.result()
        if result.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            return failed_run(result)
        return _answer(begun.become(await job.describe(result)))


async def _find(runs: ServedRuns, response_id: str, by: Principal) -> RunId:
    """Return the run of a response.

    Raises:
        RunNotFound: there is none.
    """
    prefix, found, run_id = response_id.partition(PREFIX)
    if prefix or not found or not run_id:
        raise RunNotFound(f"There is no response {response_id!r}", hint=f"Its id is {PREFIX} and the id of a run.")
    return await runs.find(run_id, by=by)


async def _standing(runs: ServedRuns, run_id: RunId) -> ResponseState:
    view = await look_at(runs, run_id)
    model = model_of(view.task)
    return ResponseState(run_id, model, view.result.status, created_at=view.created_at).become(
        await describe_result(runs, view.result)
    )


async def _before(runs: ServedRuns, response_id: str | None, by: Principal) -> RunView | None:
    return None if response_id is None else await look_at(runs, await _find(runs, response_id, by))


async def _conversation(runs: ServedRuns, view: RunView) -> list[Turn]:
    """Return the conversation that led to a response, and the response."""
    said = (await describe_result(runs, view.result)).text or (view.result.error.message if view.result.error else "")
    return [*turns_of(view.task.prompt), Turn("assistant", said)]


def _answer(standing: ResponseState) -> Response:
    return json_answer(response_object(standing), 200, {RUN_ID_HEADER: standing.run_id})


class ResponseVoice:
    """Voice of the Responses API: numbered events with a name each."""

    def __init__(self, begun: ResponseState, options: StreamOptions) -> None:
        self._begun, self._options = begun, options
        self._number = 0

    def opening(self) -> Iterator[bytes]:
        shown = response_object(self._begun)
        yield self._event("response.created", response=shown)
        yield self._event("response.in_progress", response=shown)

    def progress(self, line: str) -> bytes:
        if line and self._options.include_progress:
            item = {"item_id": f"rs_{self._begun.run_id}", "output_index": 0, "summary_index": 0}
            return self._event("response.reasoning_summary_text.delta", delta=f"{line}\n", **item)
        shown = response_object(self._begun)
        if line:
            shown["fabric"]["progress"] = line
        return self._event("response.in_progress", response=shown)

    def ending(self, told: Told) -> Iterator[bytes]:
        ended = self._begun.become(told)
        whole = message_object(ended)
        place = {"item_id": whole["id"], "output_index": 0, "content_index": 0}
        yield self._event(
            "response.output_item.added", output_index=0, item={**whole, "status": "in_progress", "content": []}
        )
        part = whole["content"][0]
        yield self._event("response.content_part.added", **place, part={**part, "text": ""})
        for piece in pieces(told.text):
            yield self._event("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield self._event("response.output_text.done", **place, text=told.text, logprobs=[])
        yield self._event("response.content_part.done", **place, part=part)
        yield self._event("response.output_item.done", output_index=0, item=whole)
        shown = response_object(ended)
        kind = "response.completed" if shown["status"] == "completed" else "response.incomplete"
        yield self._event(kind, response=shown)

    def failure(self, problem: Mapping[str, Any]) -> Iterator[bytes]:
        error = error_object(problem)
        shown = response_object(self._begun)
        shown |= {"status": "failed", "error": {"code": error["code"], "message": error["message"]}}
        shown["fabric"] = {"run_id": problem["run_id"], "status": problem.get("run_status")}
        yield self._event("response.failed", response=shown)

    def _event(self, kind: str, **more: Any) -> bytes:
        data = dump_json({"type": kind, "sequence_number": self._number, **more}).strip()
        self._number += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)
