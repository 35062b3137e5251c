"""Evaluations: start them, read them, go on with them, end them."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from pydantic import Field, FiniteFloat, StringConstraints
from starlette.responses import Response

from agent_fabric.application.evals.start_eval import within_limits
from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.application.runs.start_run import StartRequest
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.evals.check import EvalInvalid, problems_in_eval
from agent_fabric.domain.evals.comparison import Comparison
from agent_fabric.domain.evals.definition import (
    MAX_AT_ONCE,
    MAX_CASES,
    MAX_CHECK_TIMEOUT_S,
    MAX_REPEATS,
    definition_from,
)
from agent_fabric.domain.evals.summary import Eval, compare_evals
from agent_fabric.domain.identity.ownership import Viewer, Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody
from agent_fabric.interfaces.http.locks import who_answers, who_asks
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.interfaces.http.runs.search import OwnerFilter
from agent_fabric.interfaces.http.schemas import CancelRequest
from agent_fabric.interfaces.views.evals import markdown_report
from agent_fabric.wire.evals import EVAL, EVAL_LIST, eval_object

Name = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]

_EXAMPLE = {
    "name": "small",
    "cases": [
        {"id": "note", "prompt": "Create note.txt with the text: Buy milk", "check": "grep -qx 'Buy milk' note.txt"}
    ],
}


class EvalRequest(RequestBody, json_schema_extra={"examples": [_EXAMPLE]}):
    """An evaluation, as an eval file has it."""

    cases: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_CASES)]
    """Each has `id`, `prompt` and `check`, and may have `files` and `check_files`; see `fabric schema eval`."""
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """What it is called."""
    description: Annotated[str, StringConstraints(max_length=100_000)] | None = None
    """What it is for, for people."""
    models: list[Name] | None = None
    """Keys of configured models; not set: `default_model_key`."""
    packs: list[Name] | None = None
    """Packs to try, each by itself; not set: they are chosen."""
    k: Annotated[int, Field(ge=1, le=MAX_REPEATS), WHOLE] | None = None
    """How often each case is tried; not set: once."""
    at_once: Annotated[int, Field(ge=1, le=MAX_AT_ONCE), WHOLE] | None = None
    """Trials under way at the same time; not set: one."""
    max_steps: Annotated[int, Field(ge=1, le=1_000), WHOLE] | None = None
    """Most model answers of a trial; not set: `budget.max_steps`."""
    check_timeout_s: Annotated[FiniteFloat, Field(gt=0, le=MAX_CHECK_TIMEOUT_S)] | None = None
    """How long a check may take."""
    network: bool | None = None
    """Whether the tools of trials may use the network."""
    visibility: Literal["private", "team"] | None = None
    """Who sees it and its runs beside its owner; not set: as `identity.visibility` says."""


class EvalResumeRequest(RequestBody, json_schema_extra={"examples": [{"retry_failed": True}]}):
    """How to go on."""

    retry_failed: bool = False
    """Whether what could not be tried is tried again, with new runs."""


BASE = "/api/v1/evals"
ONE = f"{BASE}/{{name}}"
EvalPath = Annotated[
    str, Path(max_length=200, description="Its id, the beginning of it, or else its name: the newest of that name.")
]
Compare = Annotated[str, Query(max_length=200, description="An older evaluation to compare with.")]
_MARKDOWN = {"description": "The report", "content": {"text/markdown": {"schema": {"type": "string"}}}}


def add_evals(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_starting(routes, fabric)
    _add_reading(routes, fabric)
    _add_changing(routes, fabric)


def _add_starting(routes: Routes, fabric: ServerFabric) -> None:
    @routes.post(BASE, Scope.RUNS, "Start an evaluation", EVAL, status=202, fails=[404, 503, 507])
    async def start(wish: EvalRequest, request: Request) -> Response:
        """It goes on when the client leaves, and when the server is started anew. No one is asked during a trial."""
        plain = wish.model_dump(exclude_none=True, exclude={"visibility"})
        if found := problems_in_eval(plain, with_folders=False):
            raise EvalInvalid(found)
        by = _person(await who_answers(request))
        fabric.require_store()
        definition = within_limits(definition_from(plain), fabric.limits, by)
        await fabric.start_run.admit(StartRequest(by))  # an evaluation counts as one start
        visibility = None if wish.visibility is None else Visibility(wish.visibility)
        started = await fabric.evals.evals.start(definition, by=by, visibility=visibility)
        await fabric.evals.jobs.start(started)
        return await _answer(fabric, started, status=202)


def _person(principal: Principal) -> Principal:
    """Refuse a run: its trials would have more rights than itself."""
    if principal.run:
        raise Forbidden("A run cannot start an evaluation", hint="A person does that themselves.")
    return principal


def _add_reading(routes: Routes, fabric: ServerFabric) -> None:
    find = fabric.evals.evals.find

    @routes.get(BASE, Scope.RUNS_READ, "List evaluations, newest first", EVAL_LIST)
    async def list_evals(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=200, description="Most evaluations to list.")] = 50,
        owner: OwnerFilter = "",
    ) -> Iterable[EvalRecord]:
        """One's own and those shared with the team."""
        return await find.list(limit=limit, viewer=Viewer.of(who_asks(request)), owner=owner)

    @routes.get(f"{BASE}/newest", Scope.RUNS_READ, "Show the evaluation that was started last", EVAL, fails=[404])
    async def newest(
        request: Request, own: Annotated[Flag, Query(description="Only the caller's own.")] = False
    ) -> Response:
        """As it stands."""
        by = who_asks(request)
        return await _answer(fabric, await find.newest(viewer=Viewer.of(by), owner=owner_of(by) if own else ""))

    @routes.get(ONE, Scope.RUNS_READ, "Show an evaluation", EVAL, fails=[404])
    async def show(name: EvalPath, request: Request, compare: Compare = "") -> Response:
        """What it has shown so far; with `compare`, also how it differs from an older one."""
        viewer = Viewer.of(who_asks(request))
        found = await find(name, viewer=viewer)
        return await _answer(fabric, found, await _compare(fabric, found, compare, viewer))

    @routes.get(f"{ONE}/report", Scope.RUNS_READ, "Get the report of an evaluation", also={200: _MARKDOWN}, fails=[404])
    async def report(name: EvalPath, request: Request, compare: Compare = "") -> Response:
        """As Markdown."""
        viewer = Viewer.of(who_asks(request))
        found = await find(name, viewer=viewer)
        text = markdown_report(await find.summary(found), await _compare(fabric, found, compare, viewer))
        return Response(text, media_type="text/markdown")


def _add_changing(routes: Routes, fabric: ServerFabric) -> None:
    find, jobs = fabric.evals.evals.find, fabric.evals.jobs

    @routes.post(f"{ONE}/resume", Scope.RUNS, "Go on with an evaluation", EVAL, status=202, fails=[404, 409, 503, 507])
    async def resume(wish: OptionalBody[EvalResumeRequest], name: EvalPath, request: Request) -> Response:
        """What has an outcome is not tried again. One that was cancelled stays as it is."""
        by = _person(await who_answers(request))
        found = await find(name, viewer=Viewer.of(by))
        if wish.retry_failed:
            await jobs.run.trials.retry_failed(found.eval_id)
        await jobs.start(found)
        return await _answer(fabric, found, status=202)

    @routes.post(f"{ONE}/cancel", Scope.RUNS, "End an evaluation", EVAL, fails=[404, 409, 503, 507])
    async def cancel(wish: OptionalBody[CancelRequest], name: EvalPath, request: Request) -> Response:
        """End the runs that are under way for it, too. What has an outcome keeps it."""
        by = who_asks(request)
        found = await find(name, viewer=Viewer.of(by))
        await fabric.evals.cancel(found, by=by.name, reason=wish.reason)
        return await _answer(fabric, found)


async def _compare(fabric: ServerFabric, evaluation: Eval, name: str, viewer: Viewer) -> Sequence[Comparison] | None:
    if not name:
        return None
    find = fabric.evals.evals.find
    old = await find(name, viewer=viewer)
    return compare_evals(await find.summary(old), await find.summary(evaluation))


async def _answer(
    fabric: ServerFabric, evaluation: Eval, compared: Sequence[Comparison] | None = None, *, status: int = 200
) -> Response:
    """Answer with how an evaluation stands now."""
    find = fabric.evals.evals.find
    now = await find(evaluation.eval_id)
    headers = {} if status == 200 else {"location": f"{BASE}/{evaluation.eval_id}"}
    return json_answer(eval_object(await find.summary(now), compared), status, headers)
