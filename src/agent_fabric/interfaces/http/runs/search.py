"""Runs by meaning."""

from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated

from fastapi import Query
from pydantic import Field, FiniteFloat
from pydantic.json_schema import SkipJsonSchema

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.application.runs.search_runs import SearchRuns
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.runs import FOUND_RUNS, MATCHING_RUNS, FoundRuns, RunList

Time = Annotated[FiniteFloat | datetime, Field(union_mode="left_to_right")]
StatusFilter = Annotated[RunStatus | SkipJsonSchema[None], Query(description="Only runs with this status.")]
SinceFilter = Annotated[Time | SkipJsonSchema[None], Query(description="Only runs created then or later.")]
UntilFilter = Annotated[Time | SkipJsonSchema[None], Query(description="Only runs created before.")]
OwnerFilter = Annotated[
    str, Query(max_length=300, description="Only runs of this owner: `user:ada`, `key:ci`, `local`, or a name.")
]
TrialFilter = Annotated[bool, Query(description="Whether trials of evaluations are listed, too.")]
TrialOfFilter = Annotated[str, Query(max_length=100, description="Only the trials of this evaluation.")]


def seconds_of(time: float | datetime | None) -> float | None:
    """Return a moment as seconds since 1970; one without a zone is UTC."""
    if not isinstance(time, datetime):
        return time
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


MAX_READ = 200
"""Runs read for one request; the rest is left to the next one, so that no request takes minutes."""


class _LazySearch:
    """The search, made with the first request: its model costs memory."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs

    @cached_property
    def search(self) -> SearchRuns:
        from agent_fabric.bootstrap.memory import search_runs  # noqa: PLC0415 - see above

        return search_runs(self._runs.records, self._runs.config)


def add_search(routes: Routes, runs: ServedRuns) -> None:
    """Add the route. Must come before `/runs/{run_id}`, which would take its name for an id."""
    lazy = _LazySearch(runs)

    @routes.get("/matching", Scope.RUNS_READ, "Find runs by words and phrases, the best match first", MATCHING_RUNS)
    async def matching(
        by: Principal,
        q: Annotated[str, Query(max_length=1_000, description='Words and "phrases", of which runs should have many.')],
        limit: Annotated[int, Query(ge=1, le=10_000, description="Most runs to show.")] = 20,
        owner: OwnerFilter = "",
        status: StatusFilter = None,
        since: SinceFilter = None,
        until: UntilFilter = None,
    ) -> RunList:
        """As `fabric logs search` finds them: in what was asked, done and said; `matched` is one line of that.

        Times are ISO 8601, UTC unless they say otherwise, or seconds since 1970.
        """
        only = RunQuery(owner=owner, status=status, since=seconds_of(since), until=seconds_of(until))
        found = await runs.catalogue.search(q, limit=limit, viewer=Viewer.of(by), only=only)
        await runs.find.note_listed(found, by=by)
        return RunList(found, None)

    @routes.get(
        "/search",
        Scope.RUNS_READ,
        "Find settled runs by meaning, the best match first",
        FOUND_RUNS,
        fails=[501, 502, 503, 504],
    )
    async def search(
        by: Principal,
        q: Annotated[str, Query(min_length=1, max_length=1_000, description="What the runs should be about.")],
        limit: Annotated[int, Query(ge=1, le=200, description="Most runs to show.")] = 20,
    ) -> FoundRuns:
        """Runs that were not searched before are read first, a few hundred a request; `unread` shows how many are left.

        Answers 501 when neither the extra `embeddings` is installed nor a server is configured under `run_index`.
        """
        answer = await lazy.search(q, limit=limit, most_read=MAX_READ, viewer=Viewer.of(by))
        await runs.find.note_listed((each.record for each in answer.runs), by=by)
        return FoundRuns([each._replace(score=round(each.score, 4)) for each in answer.runs], answer.unread)
