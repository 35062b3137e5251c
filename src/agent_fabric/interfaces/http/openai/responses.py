"""`/v1/responses`: a run as a response, which can be left and come back to."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.chat.conversation import Turn, turns_of
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.errors import failed_run
from agent_fabric.interfaces.http.locks import must_be_allowed, who_asks
from agent_fabric.interfaces.http.openai.answers import Told, told
from agent_fabric.interfaces.http.openai.described import STREAM_OR_ANSWER, Progress, openai_errors
from agent_fabric.interfaces.http.openai.error_shape import RUN_ID_HEADER, error_object
from agent_fabric.interfaces.http.openai.job import Job, Jobs, with_visibility
from agent_fabric.interfaces.http.openai.models import Models, model_of, right_for
from agent_fabric.interfaces.http.openai.quotes import with_quotes
from agent_fabric.interfaces.http.openai.response_objects import (
    PREFIX,
    ResponseObject,
    ResponseRequest,
    ResponseState,
    message_object,
    response_object,
)
from agent_fabric.interfaces.http.openai.schemas import StreamOptions
from agent_fabric.interfaces.http.openai.stream import AnswerStream, pieces
from agent_fabric.interfaces.http.outcomes import about
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.views import RunView, look_at
from agent_fabric.wire.json_codec import dump_json

ResponseId = Annotated[str, Path(description="`resp_` and the id of the run.", max_length=200)]


def add_responses(routes: Routes, fabric: ServerFabric, live: LiveRuns, models: Models, jobs: Jobs) -> None:
    """Add the routes."""
    _add_creating(routes, fabric, live, models, jobs)

    @routes.get(
        "/v1/responses/{response_id}",
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
        run_id = await _find(fabric, response_id, who_asks(request))
        if not stream:
            return _answer(await _standing(fabric, run_id))
        view = await look_at(fabric, run_id)
        model = model_of(view.task)
        job = Job(fabric, request, model, view.task, fabric.dispatch.find(run_id) or view.result, is_followed=True)
        begun = ResponseState(run_id, model, RunStatus.RUNNING, created_at=view.created_at)
        return AnswerStream(job, live, ResponseVoice(begun, StreamOptions()))

    @routes.post(
        "/v1/responses/{response_id}/cancel",
        Scope.RUNS_READ,
        "End a run",
        ResponseObject,
        also=openai_errors(404, 409, 413, 415, 503, 507),
    )
    async def cancel(request: Request, response_id: ResponseId) -> Response:
        """End a run from anywhere. One that has ended stays as it is. Needs the same scope as beginning it."""
        principal = who_asks(request)
        run_id = await _find(fabric, response_id, principal)
        view = await look_at(fabric, run_id)
        must_be_allowed(principal, right_for(model_of(view.task)))
        with about(run_id):
            await fabric.cancel_run(run_id, by=principal.name, reason="")
        return _answer(await _standing(fabric, run_id))


def _add_creating(routes: Routes, fabric: ServerFabric, live: LiveRuns, models: Models, jobs: Jobs) -> None:
    @routes.post(
        "/v1/responses",
        Scope.RUNS_READ,
        "Do a task, as a response",
        ResponseObject,
        also={200: STREAM_OR_ANSWER, **openai_errors(404, 409, 413, 415, 502, 503, 504, 507)},
    )
    async def create(wish: ResponseRequest, request: Request, x_fabric_progress: Progress = False) -> Response:
        """Answer with the summary of the run. It continues when the client leaves; with `background`, at once.

        A pack needs the scope `runs`, an agent or a workflow the scope `workflows`.
        """
        before = await _before(fabric, wish.previous_response_id, who_asks(request))
        said = [] if before is None else await _said(fabric, before)
        by, asked = who_asks(request), wish.asked(said)
        task = await models.task(wish.model, asked, by)
        run_before = None if before is None else before.result.run_id
        task = await with_quotes(task, asked, fabric, before=run_before, said=said, answers=jobs.answers, whose=by.id)
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
        return _answer(begun.become(await job.told(result)))


async def _find(fabric: ServerFabric, response_id: str, by: Principal) -> RunId:
    """Return the run of a response.

    Raises:
        RunNotFound: there is none.
    """
    prefix, found, run_id = response_id.partition(PREFIX)
    if prefix or not found or not run_id:
        raise RunNotFound(f"There is no response {response_id!r}", hint=f"Its id is {PREFIX} and the id of a run.")
    return await fabric.find(run_id, by=by)


async def _standing(fabric: ServerFabric, run_id: RunId) -> ResponseState:
    view = await look_at(fabric, run_id)
    model = model_of(view.task)
    return ResponseState(run_id, model, view.result.status, created_at=view.created_at).become(
        await told(fabric, view.result)
    )


async def _before(fabric: ServerFabric, response_id: str | None, by: Principal) -> RunView | None:
    return None if response_id is None else await look_at(fabric, await _find(fabric, response_id, by))


async def _said(fabric: ServerFabric, view: RunView) -> list[Turn]:
    """Return the conversation that led to a response, and the response."""
    said = (await told(fabric, view.result)).text or (view.result.error.message if view.result.error else "")
    return [*turns_of(view.prompt), Turn("assistant", said)]


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
