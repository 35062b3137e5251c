"""Runs: start them, follow them, look at them, continue them, end them."""

import re
from dataclasses import replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Header, Path, Query, Request
from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.application.runs.new_task import on_terms, task_from
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.config.constants import POOL_PATTERN
from agent_fabric.domain.identity.ownership import Viewer, Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.runs.task import Priority, RunResult, RunStatus, TaskForceMode
from agent_fabric.interfaces.http.answers import json_answer, json_bytes
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import STREAM, gives
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.ag_ui import ag_ui_stream
from agent_fabric.interfaces.http.runs.live import LiveRuns, event_line, whole_line
from agent_fabric.interfaces.http.runs.search import (
    OwnerFilter,
    SinceFilter,
    StatusFilter,
    TrialFilter,
    TrialOfFilter,
    UntilFilter,
    seconds_of,
)
from agent_fabric.interfaces.http.runs.starting import about, resume_for, start_for, wait_for_result
from agent_fabric.interfaces.http.schemas import CancelRequest, CostLimit, ResumeRequest, RunRequest
from agent_fabric.interfaces.http.sse import Reader, event_stream
from agent_fabric.interfaces.http.views import answer, details_object, look_at, status_of
from agent_fabric.wire.json_codec import dump_json
from agent_fabric.wire.results import RESULT, RUN_DETAILS
from agent_fabric.wire.runs import EVENT_LIST, RUN_LIST, STATUS, RunList

_NOT_AT_ALL = re.compile(r"q\s*=\s*0(\.0*)?")
LAST = 2**63 - 1
"""The highest number that the store knows."""

RunIdPath = Annotated[str, Path(description="The run, or the beginning of its id if only one run begins so.")]
Seq = Annotated[int, Query(ge=-1, le=LAST, description="Only events behind this sequence number.")]
Flag = Annotated[
    bool,
    BeforeValidator(lambda value: value == "" or value),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "maxLength": 0}]}),
]
"""Also true when it is only named: `?follow`."""
LastEvent = Annotated[
    int,
    Field(ge=-1, le=LAST),
    BeforeValidator(lambda value: -1 if value == "" else value),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": -1, "maximum": LAST}, {"type": "string", "maxLength": 0}]}
    ),
]
"""Also empty, as browsers send it before the first event."""
SeenBy = Annotated[
    Visibility | SkipJsonSchema[None],
    Query(description="Who besides its owner sees the run; not set: `identity.visibility` decides."),
]

Pool = Annotated[
    Annotated[str, StringConstraints(pattern=POOL_PATTERN)] | SkipJsonSchema[None],
    Query(description="The workers that may drive it; not set: those of the pool `default`."),
]
ProofRequired = Annotated[
    Flag, Query(description="Whether the run fails, as `result_unproven`, where nothing bears its result out.")
]
MaxCost = Annotated[
    CostLimit | SkipJsonSchema[None],
    Query(description="What the answers of models may cost together; not set: `budget.max_cost`."),
]


def add_runs(routes: Routes, runs: ServedRuns, live: LiveRuns) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_starting(routes, runs, live)
    _add_looking(routes, runs, live)
    _add_changing(routes, runs)


def _add_starting(routes: Routes, runs: ServedRuns, live: LiveRuns) -> None:
    refusals = [403, 404, 409, 413, 415, 503, 507]

    async def start(wish: RunRequest, request: Request) -> Drive | RunResult:
        task = task_from(
            runs.config,
            wish.prompt,
            pack=wish.pack,
            model_key=wish.model_key,
            network_allowed=wish.network_allowed,
            priority=Priority(wish.priority),
            encrypted=wish.encrypt,
        ).asked_by(who_asks(request))
        task = replace(
            task,
            budget=task.budget if wish.max_steps is None else replace(task.budget, max_steps=wish.max_steps),
            task_force_mode=TaskForceMode(wish.task_force_mode or task.task_force_mode),
            visibility=None if wish.visibility is None else Visibility(wish.visibility),
            outside_allowed=wish.outside_allowed,
            plan=wish.plan,
            pool=wish.pool or "",
        )
        task = on_terms(runs.config, task, require_proof=wish.require_proof, max_cost=wish.max_cost)
        if wish.continues is not None:
            earlier = await runs.find(wish.continues, by=who_asks(request))
            task = await runs.continue_run(earlier, task, keep_model=wish.model_key is None)
        return await start_for(runs.start, request, task, asked_steps=wish.max_steps)

    @routes.post(
        "/run",
        Scope.RUNS,
        "Do a task and wait for its result",
        RESULT,
        fails=refusals,
        also=gives(RESULT, status=202, text="The run has not ended: it waits for an answer or a signal."),
    )
    async def run(wish: RunRequest, request: Request) -> Response:
        """Answer with the result that `fabric run --json` prints, whether the run completed or failed.

        The run continues when the client leaves. Status 202 means that it waits for an answer or a signal;
        `Location` is the address of the run.
        """
        return await outcome_of(runs, await start(wish, request))

    @routes.post("/runs", Scope.RUNS, "Start a run and do not wait for it", STATUS, status=202, fails=refusals)
    async def start_run(
        wish: RunRequest,
        request: Request,
        deltas: Annotated[Flag, Query(description="Whether answers are streamed as they are written.")] = False,
    ) -> Response:
        """Answer with its id; `GET /runs/{run_id}/events` follows it."""
        asked = await start(wish, request)
        if deltas:
            live.expect(asked.run_id)
        status = asked.status if isinstance(asked, RunResult) else RunStatus.RUNNING  # asked for again, and over
        return json_answer({"run_id": asked.run_id, "status": status}, 202, {"location": f"/runs/{asked.run_id}"})

    @routes.post("/run/stream", Scope.RUNS, "Do a task and watch it", also={200: STREAM}, fails=refusals)
    async def run_stream(
        wish: RunRequest,
        request: Request,
        deltas: Annotated[Flag, Query(description="Whether to send answers as they are written.")] = False,
    ) -> Response:
        """Send the run's events, then `_run_done_` or `_run_error_` with the result as `payload`.

        The run continues when the client leaves; `GET /runs/{run_id}/events` with `Last-Event-ID` resumes the stream.
        """
        started = await start(wish, request)
        drive = started if isinstance(started, Drive) else None
        return event_stream(Reader(runs, live, started.run_id, drive, deltas=deltas))


def _add_looking(routes: Routes, runs: ServedRuns, live: LiveRuns) -> None:
    @routes.get("/runs", Scope.RUNS_READ, "List runs, newest first", RUN_LIST, head=True)
    async def list_runs(  # noqa: PLR0913, PLR0917 - the filters
        request: Request,
        limit: Annotated[int, Query(ge=1, le=200, description="Most runs on one page.")] = 50,
        after: Annotated[
            str, Query(pattern="^[0-9a-f]{0,15}$", description="Where the page before ended; take it from `next`.")
        ] = "",
        status: StatusFilter = None,
        pack: Annotated[str, Query(description="Only runs of this specialist.")] = "",
        since: SinceFilter = None,
        until: UntilFilter = None,
        q: Annotated[str, Query(description="Only runs with all these words in their task or summary.")] = "",
        owner: OwnerFilter = "",
        trials: TrialFilter = True,
        trial_of: TrialOfFilter = "",
    ) -> RunList:
        """One's own runs and those shared with the team. Filters can be combined.

        Times are ISO 8601, UTC unless they say otherwise, or seconds since 1970.
        """
        page = await runs.catalogue.page(
            RunQuery(
                status=status,
                specialist_id=pack,
                since=seconds_of(since),
                until=seconds_of(until),
                words=q,
                owner=owner,
                trials=trials,
                trial_of=trial_of,
                viewer=Viewer.of(who_asks(request)),
                older_than=int(after, 16) if after else None,
                limit=limit,
            ),
            awaited=runs.dispatch,
        )
        await runs.find.note_listed(page.records, by=who_asks(request))
        following = None
        if page.older_than is not None:
            asked = {**request.query_params, "after": f"{page.older_than:x}"}
            following = f"/runs?{urlencode(asked)}"
        return RunList(page.records, following)

    @routes.get("/runs/newest", Scope.RUNS_READ, "Get the run that was created last", STATUS, fails=[404])
    async def newest(
        by: Principal, own: Annotated[Flag, Query(description="Only the caller's own runs.")] = False
    ) -> Response:
        """Runs that work for another one do not count."""
        owner = owner_of(by) if own else ""
        found = await runs.find(await runs.catalogue.newest(viewer=Viewer.of(by), owner=owner), by=by)
        return json_answer({"run_id": found, "status": await status_of(runs, found)})

    @routes.get("/runs/{run_id}", Scope.RUNS_READ, "Show the current state of a run", RUN_DETAILS, fails=[404])
    async def show(by: Principal, run_id: RunIdPath) -> Response:
        """Answer with its result as far as there is one, and what was asked for."""
        found = await runs.find(run_id, by=by)
        return json_answer(details_object(runs, await look_at(runs, found)))

    @routes.get("/runs/{run_id}/status", Scope.RUNS_READ, "Get the status of a run", STATUS, fails=[404])
    async def status(by: Principal, run_id: RunIdPath) -> Response:
        """`interrupted` means that no process drives it although it has not ended."""
        found = await runs.find(run_id, by=by)
        return json_answer({"run_id": found, "status": await status_of(runs, found)})

    @routes.get(
        "/runs/{run_id}/events",
        Scope.RUNS_READ,
        "Show or follow a run's events",
        EVENT_LIST,
        fails=[404],
        also={200: STREAM},
    )
    async def events(
        request: Request,
        run_id: RunIdPath,
        after: Seq = -1,
        limit: Annotated[int, Query(ge=1, le=1000, description="Most events on one page.")] = 100,
        follow: Annotated[Flag, Query(description="Whether a stream stays until the run has ended.")] = True,
        deltas: Annotated[Flag, Query(description="Whether a stream sends answers as they are written.")] = False,
        full: Annotated[Flag, Query(description="Whether long texts are left as they are.")] = False,
        last_event_id: Annotated[
            LastEvent, Header(description="Where a stream continues; browsers send it by themselves.")
        ] = -1,
    ) -> Response:
        """Answer with a page of JSON, or with a stream if `Accept` asks for `text/event-stream`.

        A stream sends every event once, in order, and ends with `_run_done_` or `_run_error_` when the run has ended.
        """
        found = await runs.find(run_id, by=who_asks(request))
        if _wants_stream(",".join(request.headers.getlist("accept"))):
            seen = after if last_event_id < 0 else last_event_id
            drive = runs.dispatch.find(found)
            reader = Reader(runs, live, found, drive, after=seen, follow=follow, deltas=deltas, full=full)
            return event_stream(reader)
        page = await runs.reader.page(found, after=after, limit=limit, whole=full)
        more = f"&limit={limit}&full=true" if full else f"&limit={limit}"
        following = f"/runs/{found}/events?after={page[-1].seq}{more}" if len(page) == limit else None
        shown = whole_line if full else event_line
        lines = b",".join(shown(found, event) for event in page)
        head, tail = dump_json({"run_id": found}), dump_json({"next": following})
        return json_bytes(b'%s,"events":[%s],%s' % (head[:-1], lines, tail[1:]))

    @routes.get(
        "/runs/{run_id}/ag-ui",
        Scope.RUNS_READ,
        "Follow a run as AG-UI events",
        fails=[404],
        also={200: STREAM},
    )
    async def ag_ui(by: Principal, run_id: RunIdPath) -> Response:
        """Send the whole run in the words of AG-UI 1.0, for user interfaces that know this protocol.

        The stream begins with `RUN_STARTED`, ends with `RUN_FINISHED` or `RUN_ERROR`, and stays while the run waits.
        What AG-UI has no word for, such as `approval_requested`, is a `CUSTOM` event with the name and payload of ours.
        """
        return ag_ui_stream(runs, live, await runs.find(run_id, by=by))


def _add_changing(routes: Routes, runs: ServedRuns) -> None:
    refusals = [404, 409, 503, 507]

    @routes.post(
        "/runs/{run_id}/resume",
        Scope.RUNS,
        "Resume a run",
        RESULT,
        fails=refusals,
        also=gives(STATUS, status=202, text="It is being driven, or waits for its turn."),
    )
    async def resume(
        _: OptionalBody[ResumeRequest],
        request: Request,
        run_id: RunIdPath,
        wait: Annotated[Flag, Query(description="Whether to wait for its result.")] = False,
    ) -> Response:
        """A run that has ended just answers with its result."""
        found = await runs.find(run_id, by=who_asks(request))
        with about(found):
            if (await runs.reader.status(found)).settled:  # needs no room
                return answer_of(runs, (await look_at(runs, found)).result)
            drive = await resume_for(runs.start, request, found)
        if isinstance(drive, RunResult):
            return answer_of(runs, drive)
        if wait:
            return await outcome_of(runs, drive)
        return json_answer({"run_id": found, "status": RunStatus.RUNNING}, 202, {"location": f"/runs/{found}"})

    @routes.post("/runs/{run_id}/cancel", Scope.RUNS, "End a run", RESULT, fails=refusals)
    async def cancel(wish: OptionalBody[CancelRequest], by: Principal, run_id: RunIdPath) -> Response:
        """End a run from anywhere, also while its model or a tool hangs. One that has ended stays as it is."""
        found = await runs.find(run_id, by=by)
        with about(found):
            result = await runs.cancel_run(found, by=by.name, reason=wish.reason)
        return answer_of(runs, result)


def _wants_stream(accept: str) -> bool:
    """Return whether a client takes events as a stream: it must say so, `*/*` does not."""
    for wish in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in wish.split(";"))
        if media_type == "text/event-stream":
            return not any(_NOT_AT_ALL.fullmatch(parameter) for parameter in parameters)
    return False


async def outcome_of(runs: ServedRuns, drive: Drive | RunResult) -> Response:
    """Wait for a run; it continues if we are told to stop waiting."""
    return answer_of(runs, drive if isinstance(drive, RunResult) else await wait_for_result(drive))


def answer_of(runs: ServedRuns, result: RunResult) -> Response:
    """Answer with how a run has ended, or stands."""
    if result.status.settled:
        return json_answer(answer(runs, result))
    return json_answer(answer(runs, result), 202, {"location": f"/runs/{result.run_id}"})
