"""Bodies of requests, and problems."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from agent_fabric.config.constants import MAX_PROMPT_CHARS

SAYS_SOMETHING = r"[^\s\x00-\x1f\x7f-\x9f]"
"""Fits what has more than blanks and control characters."""

_IN = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)
_OUT = ConfigDict(use_attribute_docstrings=True)


def _whole(number: object) -> object:
    """Take 3.0 for 3, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class RunRequest(BaseModel):
    """A task, with the options of `fabric run`."""

    model_config = _IN | ConfigDict(
        json_schema_extra={"examples": [{"prompt": "Write hello.py that prints the first ten primes, and run it."}]}
    )

    prompt: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_PROMPT_CHARS, pattern=SAYS_SOMETHING),
    ]
    """What to do."""
    pack: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | None = None
    """The specialist; several, separated by commas, share the task. Not set: one is chosen."""
    model_key: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | None = None
    """The configured model to use; not set: `default_model_key`."""
    network_allowed: bool = True
    """Whether tools may use the network."""
    max_steps: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole)] | None = None
    """Most model answers of a specialist; not set: `budget.max_steps`."""
    task_force_mode: Literal["sequential", "parallel"] | None = None
    """Whether several specialists work one after another or all at once; not set: as configured."""
    priority: Literal["interactive", "scheduled", "batch"] = "interactive"
    """Who goes first when runs wait for the same model server."""
    encrypt: bool = False
    """Whether nothing of the run is kept in the clear; `encryption` may want it anyway."""


class ResumeRequest(BaseModel):
    """Nothing: a run continues as it was asked for."""

    model_config = _IN | ConfigDict(json_schema_extra={"examples": [{}]})


class CancelRequest(BaseModel):
    """Why a run is ended."""

    model_config = _IN | ConfigDict(json_schema_extra={"examples": [{"reason": "changed my mind"}]})

    reason: Annotated[str, StringConstraints(max_length=10_000)] = ""
    """For the log."""


class UndoRequest(BaseModel):
    """What to take back."""

    model_config = _IN | ConfigDict(strict=False, json_schema_extra={"examples": [{"dry_run": True}]})

    paths: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]], Field(max_length=1_000)
    ] = []
    """Only these files and folders; none: everything."""
    dry_run: bool = False
    """Only say what would happen."""
    force: bool = False
    """Overwrite what was changed since; it is kept."""
    redo: bool = False
    """Put back what the last undo of the run took away."""


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str
    type: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = _OUT | ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:agent-fabric:problem:run_not_found",
                    "title": "Not Found",
                    "status": 404,
                    "code": "run_not_found",
                    "detail": "There is no run 'd36e'",
                    "hint": "See all runs with `fabric logs list`.",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    code: str
    """For programs; stable."""
    detail: str
    hint: str
    """What to do about it; may be empty."""
    run_id: str | None = None
    """The run that it is about."""
    errors: list[FieldError] | None = None
    """Each wrong field of a request."""
