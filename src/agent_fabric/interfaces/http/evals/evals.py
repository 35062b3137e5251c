"""Evaluations: start them, read them, go on with them, end them."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field, FiniteFloat, StringConstraints
from starlette.responses import Response

from agent_fabric.application.evals.find_eval import FindEval
from agent_fabric.application.evals.start_eval import within_limits
from agent_fabric.application.ports.evals import EvalRecord
from agent_fabric.application.runs.start_run import StartRequest, StartRun
from agent_fabric.bootstrap.runs import ServedEvals
from agent_fabric.bootstrap.server import ServedRuns
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
from agent_fabric.interfaces.http.routing import Answerer, OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.interfaces.http.runs.search import OwnerFilter
from agent_fabric.interfaces.http.schemas import CancelRequest, CostLimit
from agent_fabric.interfaces.views.evals import markdown_report
from agent_fabric.wire.evals import EVAL, EVAL_LIST, eval_object

Name = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]

_EXAMPLE = {
    "name": "small",
    "cases": [
        {"id": "note", "prompt": "Create note.txt with the text: Buy milk", "check": "grep -qx 'Buy milk' note.txt"}
    ],
}


class EvalRequest(RequestBody, example=_EXAMPLE):
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
    max_cost: CostLimit | None = None
    """What the answers of models may cost in a trial; not set: `budget.max_cost`."""
    require_proof: bool | None = None
    """Whether a trial whose result nothing bears out counts as wrong."""
    check_timeout_s: Annotated[FiniteFloat, Field(gt=0, le=MAX_CHECK_TIMEOUT_S)] | None = None
    """How long a check may take."""
    network: bool | None = None
    """Whether the tools of trials may use the network."""
    visibility: Literal["private", "team"] | None = None
    """Who sees it and its runs beside its owner; not set: as `identity.visibility` says."""


class EvalResumeRequest(RequestBody, example={"retry_failed": True}):
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


def add_evals(routes: Routes, runs: ServedRuns, served: ServedEvals) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_starting(routes.below(BASE), runs.start, served)
    _add_reading(routes.below(BASE), served.evals.find)
    _add_changing(routes.below(ONE), served)


def _add_starting(routes: Routes, start_run: StartRun, served: ServedEvals) -> None:
    @routes.post("", Scope.RUNS, "Start an evaluation", EVAL, status=202, fails=[404, 503, 507])
    async def start(wish: EvalRequest, by: Answerer) -> Response:
        """It goes on when the client leaves, and when the server is started anew. No one is asked during a trial."""
        plain = wish.model_dump(exclude_none=True, exclude={"visibility"})
        if found := problems_in_eval(plain, with_folders=False):
            raise EvalInvalid(found)
        by = _person(by)
        start_run.require_store()
        definition = within_limits(definition_from(plain), start_run.limits, by)
        await start_run.admit(StartRequest(by))  # an evaluation counts as one start
        visibility = None if wish.visibility is None else Visibility(wish.visibility)
        started = await served.evals.start(definition, by=by, visibility=visibility)
        await served.jobs.start(started)
        return await _answer(served.evals.find, started, status=202)


def _person(principal: Principal) -> Principal:
    """Refuse a run: its trials would have more rights than itself."""
    if principal.run:
        raise Forbidden("A run cannot start an evaluation", hint="A person does that themselves.")
    return principal


def _add_reading(routes: Routes, find: FindEval) -> None:
    @routes.get("", Scope.RUNS_READ, "List evaluations, newest first", EVAL_LIST)
    async def list_evals(
        by: Principal,
        limit: Annotated[int, Query(ge=1, le=200, description="Most evaluations to list.")] = 50,
        owner: OwnerFilter = "",
    ) -> Iterable[EvalRecord]:
        """One's own and those shared with the team."""
        return await find.list(limit=limit, viewer=Viewer.of(by), owner=owner)

    @routes.get("/newest", Scope.RUNS_READ, "Show the evaluation that was started last", EVAL, fails=[404])
    async def newest(
        by: Principal, own: Annotated[Flag, Query(description="Only the caller's own.")] = False
    ) -> Response:
        """As it stands."""
        return await _answer(find, await find.newest(viewer=Viewer.of(by), owner=owner_of(by) if own else ""))

    @routes.get("/{name}", Scope.RUNS_READ, "Show an evaluation", EVAL, fails=[404])
    async def show(name: EvalPath, by: Principal, compare: Compare = "") -> Response:
        """What it has shown so far; with `compare`, also how it differs from an older one."""
        viewer = Viewer.of(by)
        found = await find(name, viewer=viewer)
        return await _answer(find, found, await _compare(find, found, compare, viewer))

    @routes.get(
        "/{name}/report", Scope.RUNS_READ, "Get the report of an evaluation", also={200: _MARKDOWN}, fails=[404]
    )
    async def report(name: EvalPath, by: Principal, compare: Compare = "") -> Response:
        """As Markdown."""
        viewer = Viewer.of(by)
        found = await find(name, viewer=viewer)
        text = markdown_report(await find.summary(found), await _compare(find, found, compare, viewer))
        return Response(text, media_type="text/markdown")


def _add_changing(routes: Routes, served: ServedEvals) -> None:
    find, jobs = served.evals.find, served.jobs

    @routes.post("/resume", Scope.RUNS, "Go on with an evaluation", EVAL, status=202, fails=[404, 409, 503, 507])
    async def resume(wish: OptionalBody[EvalResumeRequest], name: EvalPath, by: Answerer) -> Response:
        """What has an outcome is not tried again. One that was cancelled stays as it is."""
        by = _person(by)
        found = await find(name, viewer=Viewer.of(by))
        if wish.retry_failed:
            await jobs.run.trials.retry_failed(found.eval_id)
        await jobs.start(found)
        return await _answer(find, found, status=202)

    @routes.post("/cancel", Scope.RUNS, "End an evaluation", EVAL, fails=[404, 409, 503, 507])
    async def cancel(wish: OptionalBody[CancelRequest], name: EvalPath, by: Principal) -> Response:
        """End the runs that are under way for it, too. What has an outcome keeps it."""
        found = await find(name, viewer=Viewer.of(by))
        await served.cancel(found, by=by.name, reason=wish.reason)
        return await _answer(find, found)


async def _compare(find: FindEval, evaluation: Eval, name: str, viewer: Viewer) -> Sequence[Comparison] | None:
    if not name:
        return None
    old = await find(name, viewer=viewer)
    return compare_evals(await find.summary(old), await find.summary(evaluation))


async def _answer(
    find: FindEval, evaluation: Eval, compared: Sequence[Comparison] | None = None, *, status: int = 200
) -> Response:
    """Answer with how an evaluation stands now."""
    now = await find(evaluation.eval_id)
    headers = {} if status == 200 else {"location": f"{BASE}/{evaluation.eval_id}"}
    return json_answer(eval_object(await find.summary(now), compared), status, headers)
