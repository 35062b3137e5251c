"""Bodies of requests about evaluations."""

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, StringConstraints

from agent_fabric.domain.evals.definition import (
    MAX_AT_ONCE,
    MAX_CASES,
    MAX_CHECK_TIMEOUT_S,
    MAX_REPEATS,
)
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody

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
