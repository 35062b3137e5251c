"""Filters for runs, as parameters of requests."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import Field, FiniteFloat
from pydantic.json_schema import SkipJsonSchema

from agent_fabric.domain.runs.task import RunStatus

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
