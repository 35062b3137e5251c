"""The shapes of bodies: what comes in is checked against them; what goes out is described by them."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from agent_fabric.config.constants import MAX_PROMPT_CHARS
from agent_fabric.domain.runs.task import RunStatus

SAYS_SOMETHING = r"[^\s\x00-\x1f\x7f-\x9f]"
"""Fits what has more than blanks and control characters."""

_IN = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)
_OUT = ConfigDict(use_attribute_docstrings=True)
_OPEN = ConfigDict(extra="allow", use_attribute_docstrings=True)


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


class Usage(BaseModel):
    """Tokens, as the model's server counted them."""

    model_config = _OUT

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    """Of the prompt, what the server still knew from before."""


class Meta(BaseModel):
    """What is known about a run, beside its result."""

    model_config = _OPEN

    run_id: str
    status: RunStatus
    run_dir: str
    """The run's folder, with its log."""
    workspace: str
    """Where its files are."""
    specialist_ids: list[str]
    model: str
    """The model that answered, as its server calls it."""
    steps: int
    """Model answers."""
    usage: Usage
    cost: float | None
    """What the model's answers cost together, in the currency of the configured prices; null without prices."""
    egress: list[str]
    """Other machines whose models were asked."""
    duration_s: float
    """Time spent in model and tool calls."""
    proof: str | None
    """The command whose success proves the result."""
    approvals: list[str]
    """The approvals that it waits for; see `GET /approvals`."""


class ErrorInfo(BaseModel):
    """Why a run failed."""

    code: str
    """For programs; stable."""
    message: str
    hint: str
    """What to do about it."""


class Result(BaseModel):
    """What came of a run: the fields of its specialist's `finish_task`, such as `summary`, and these."""

    model_config = _OPEN | ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "action": "final",
                    "summary": "hello.py prints the first ten primes.",
                    "artifacts": ["hello.py"],
                    "_meta": {
                        "run_id": "d36e91a5-7d1d-4cc0-9f1c-0a4a5f1f9a3b",
                        "status": "completed",
                        "run_dir": "/home/me/.fabric/runs/d36e91a5-7d1d-4cc0-9f1c-0a4a5f1f9a3b",
                        "workspace": "/home/me/.fabric/runs/d36e91a5-7d1d-4cc0-9f1c-0a4a5f1f9a3b/workspace",
                        "specialist_ids": ["engineering"],
                        "model": "qwen2.5:14b",
                        "steps": 3,
                        "usage": {"prompt_tokens": 4012, "completion_tokens": 310, "cached_tokens": 3120},
                        "cost": None,
                        "egress": [],
                        "duration_s": 7.9,
                        "proof": "python3 hello.py",
                        "approvals": [],
                    },
                }
            ]
        }
    )

    meta: Annotated[Meta, Field(alias="_meta")]
    error: ErrorInfo | None = None
    """Set when the run failed."""


class RunDetailsMeta(Meta):
    """The same, with what was asked for."""

    prompt: str
    created_at: float
    """Seconds since 1970."""
    updated_at: float
    queued: bool
    """Whether it waits here for its turn."""
    events: int
    """How many events it has."""


class RunDetails(BaseModel):
    """A run as it stands: its result as far as there is one."""

    model_config = _OPEN

    meta: Annotated[RunDetailsMeta, Field(alias="_meta")]
    error: ErrorInfo | None = None


class RunCounts(BaseModel):
    """How busy the server is."""

    running: int
    queued: int


class Health(BaseModel):
    """That the server works."""

    model_config = _OUT

    ok: Literal[True]
    version: str
    sandbox: str
    """How strong the box around tools is: C is none."""
    policy_profile: str
    """`open` lets everything run without a question, except catastrophes."""
    runs: RunCounts


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
