"""A2A: a card that says what this server can do, and one address for all calls (JSON-RPC)."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from agent_fabric import __version__
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.a2a.calls import (
    VERSION,
    VERSION_HEADER,
    Call,
    Listing,
    Method,
    OneTask,
    Sending,
    body_in,
    call_in,
    id_in,
    wrong_params,
)
from agent_fabric.interfaces.http.a2a.error_shape import (
    PATH,
    Code,
    RpcError,
    RpcId,
    problem_answer,
    refused_call,
    status_for,
)
from agent_fabric.interfaces.http.a2a.messages import Contexts, Messages, no_push
from agent_fabric.interfaces.http.a2a.objects import (
    Shown,
    artifact_update,
    opening,
    standing,
    status_update,
    task_object,
    told_as,
)
from agent_fabric.interfaces.http.a2a.tasks import Tasks
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.errors import AboutRun, InternalError, problem
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openai.answers import Told
from agent_fabric.interfaces.http.openai.error_shape import sentences
from agent_fabric.interfaces.http.openai.job import Job
from agent_fabric.interfaces.http.openai.models import AGENT, CHOOSES, PACK, WORKFLOW, Models, Offered
from agent_fabric.interfaces.http.openai.stream import AnswerStream, data_frame
from agent_fabric.interfaces.http.routing import HIDDEN, Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.sse import PING
from agent_fabric.interfaces.http.views import look_at

Params = TypeVar("Params", bound=BaseModel)
_log = logging.getLogger(__name__)
_ANY_OBJECT = {"type": "object", "additionalProperties": True}
_CARD = {"description": "Successful Response", "content": {"application/json": {"schema": _ANY_OBJECT}}}


def add_a2a(routes: Routes, runs: ServedRuns, live: LiveRuns, models: Models) -> None:
    """Add the routes."""
    tasks = Tasks(runs)
    answers = _Answers(runs, live, tasks, Messages(runs, models, Contexts(runs), tasks))

    @routes.get(CARD_PATH, Scope.RUNS_READ, "Show the agent card of A2A", also={200: _CARD})
    async def show_card(request: Request) -> Response:
        """Who we are, where to call, and a skill for each pack, agent and workflow that can be used."""
        return json_answer(card(_base_url(request), await models.all()))

    # Not in the schema: all methods share one path, which OpenAPI cannot tell apart, and errors are JSON-RPC's.
    @routes.post(PATH, Scope.RUNS_READ, HIDDEN)
    async def call(request: Request) -> Response:
        """Answer one call. A pack needs the scope `runs`, an agent or a workflow `workflows`, an answer `approvals`."""
        rpc_id: RpcId = None
        try:
            body = body_in(await request.body())
            rpc_id = id_in(body)
            return await answers(request, call_in(body, request.headers.get(VERSION_HEADER, "")))
        except RpcError as refused:
            return json_answer(refused_call(rpc_id, refused))
        except (FabricError, AboutRun) as refused:
            return _problem(rpc_id, refused)
        except Exception:  # noqa: BLE001 - callers understand nothing but JSON-RPC
            _log.exception("A call of A2A failed")
            return _problem(rpc_id, InternalError())


class _Answers:
    """Answers calls, each by one deed with tasks."""

    def __init__(self, runs: ServedRuns, live: LiveRuns, tasks: Tasks, messages: Messages) -> None:
        self._runs, self._live, self._tasks, self._messages = runs, live, tasks, messages

    async def __call__(self, request: Request, call: Call) -> Response:
        match call.method:
            case Method.SEND:
                return await self._send(request, call)
            case Method.STREAM:
                sending = _check_params(Sending, call)
                job = await self._messages.begin(request, sending)
                return await self._stream(call, job, sending.options.history_length)
            case Method.SUBSCRIBE:
                wish = _check_params(OneTask, call)
                return await self._stream(call, await self._tasks.follow(request, wish.id), 0)
            case Method.GET:
                wish = _check_params(OneTask, call)
                view = await self._tasks.find(wish.id, by=who_asks(request))
                shown = await standing(self._runs, view.result.run_id)
                return _result(call, task_object(shown, history=wish.history_length))
            case Method.CANCEL:
                shown = await self._tasks.cancel(request, _check_params(OneTask, call).id)
                return _result(call, task_object(shown))
            case Method.LIST:
                page = await self._tasks.page(_check_params(Listing, call), by=who_asks(request))
                return _result(call, page)
            case Method.PUSH:
                raise no_push()
            case Method.CARD:
                raise RpcError(
                    Code.EXTENDED_AGENT_CARD_NOT_CONFIGURED, "There is one card for all", hint=f"GET {CARD_PATH}"
                )

    async def _send(self, request: Request, call: Call) -> Response:
        sending = _check_params(Sending, call)
        job = await self._messages.begin(request, sending)
        result = await job.result() if sending.options.waits else None
        shown = await standing(self._runs, job.run_id, result)
        task = task_object(shown, history=sending.options.history_length)
        return _result(call, {"task": task})

    async def _stream(self, call: Call, job: Job, history: int | None) -> Response:
        shown = opening(await look_at(self._runs, job.run_id))
        return AnswerStream(job, self._live, TaskVoice(call, shown, history=history))


def _check_params(model: type[Params], call: Call) -> Params:
    try:
        return model.model_validate(call.params)
    except ValidationError as wrong:
        raise wrong_params(wrong) from None


def _result(call: Call, value: Mapping[str, Any]) -> Response:
    return json_answer({"jsonrpc": "2.0", "id": call.id, "result": value})


def _problem(rpc_id: RpcId, refused: FabricError | AboutRun) -> Response:
    known = refused.problem if isinstance(refused, AboutRun) else refused
    answer = problem(known, run_id=refused.run_id if isinstance(refused, AboutRun) else None)
    status = status_for(answer.problem)
    retry = answer.headers.get("retry-after")
    return json_answer(problem_answer(answer.problem, rpc_id), status, {"retry-after": retry} if retry else None)


def _base_url(request: Request) -> str:
    """Return where the caller found us. Behind a proxy that speaks TLS for us, it is not we who know the scheme."""
    secure = request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
    return f"{'https' if secure else request.url.scheme}://{request.headers['host']}"


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
            yield data_frame(problem_answer(problem, self._call.id))
            return
        said = sentences(problem["detail"], problem["hint"])
        yield self._event(status_update(replace(self._now(), status=RunStatus(status), said=said)))

    def _now(self) -> Shown:
        return replace(self._shown, at=time.time())

    def _event(self, event: Mapping[str, Any]) -> bytes:
        return data_frame({"jsonrpc": "2.0", "id": self._call.id, "result": event})


CARD_PATH = "/.well-known/agent-card.json"
_TEXT, _JSON = "text/plain", "application/json"
_KINDS: Mapping[str, str] = {PACK: "pack", AGENT: "agent", WORKFLOW: "workflow"}
_SCHEMES: Mapping[str, Any] = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "A token, or an API key."}},
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key", "description": "An API key."}},
}


def card(base_url: str, offered: Iterable[Offered]) -> dict[str, Any]:
    """Return the card of a server that is called at a URL, with a skill for each who does tasks."""
    return {
        "name": "agent-fabric",
        "description": "Specialists, agents and workflows that do tasks: durably, with tools, and with proof.",
        "version": __version__,
        "supportedInterfaces": [{"url": f"{base_url}{PATH}", "protocolBinding": "JSONRPC", "protocolVersion": VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": [_TEXT, _JSON],
        "defaultOutputModes": [_TEXT, _JSON],
        "securitySchemes": {name: dict(scheme) for name, scheme in _SCHEMES.items()},
        "securityRequirements": [{"schemes": {name: {"list": []}}} for name in _SCHEMES],
        "skills": [skill(each) for each in offered],
    }


def skill(offered: Offered) -> dict[str, Any]:
    """Return a pack, an agent or a workflow as a skill."""
    if offered.id == CHOOSES:
        return {"id": CHOOSES, "name": CHOOSES, "description": offered.description, "tags": ["recruitment"]}
    prefix = next(each for each in _KINDS if offered.id.startswith(each))
    name = offered.id.removeprefix(prefix)
    return {
        "id": offered.id,
        "name": name,
        "description": offered.description or f"The {_KINDS[prefix]} {name}.",
        "tags": [_KINDS[prefix]],
    }
