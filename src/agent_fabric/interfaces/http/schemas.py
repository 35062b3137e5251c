"""Bodies of requests, and problems."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

from agent_fabric.application.ports.secrets import MAX_SECRET_BYTES
from agent_fabric.config.constants import MAX_PROMPT_CHARS, POOL_PATTERN
from agent_fabric.domain.models.messages import MAX_COST
from agent_fabric.domain.secrets.references import SHORTEST_NAMED
from agent_fabric.interfaces.http.bodies import WHOLE, LenientBody, RequestBody

SAYS_SOMETHING = r"[^\s\x00-\x1f\x7f-\x9f]"
"""Fits what has more than blanks and control characters."""


CostLimit = Annotated[FiniteFloat, Field(gt=0, le=MAX_COST)]
"""A limit of what a run may cost."""


class RunRequest(RequestBody, example={"prompt": "Write hello.py that prints the first ten primes, and run it."}):
    """A task, with the options of `fabric run`."""

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
    outside_allowed: bool = True
    """Whether a command that a person agrees to, such as `git push`, may run outside the box."""
    plan: bool = False
    """Whether it only makes a plan: it may read and ask, and changes nothing."""
    max_steps: Annotated[int, Field(ge=1, le=1000), WHOLE] | None = None
    """Most model answers of a specialist; not set: `budget.max_steps`."""
    max_cost: CostLimit | None = None
    """What the answers of models may cost together, in the currency of their prices; not set: `budget.max_cost`."""
    require_proof: bool = False
    """Whether the run fails, with the code `result_unproven`, where nothing bears its result out; the configuration may
    want it anyway."""
    task_force_mode: Literal["sequential", "parallel"] | None = None
    """Whether several specialists work one after another or all at once; not set: as configured."""
    priority: Literal["interactive", "scheduled", "batch"] = "interactive"
    """Who goes first when runs wait for the same model server."""
    encrypt: bool = False
    """Whether nothing of the run is kept in the clear; `encryption` may want it anyway."""
    visibility: Literal["private", "team"] | None = None
    """Who sees the run beside its owner: `team`, all users with `runs:read`; not set: as `identity.visibility` says."""
    pool: Annotated[str, StringConstraints(pattern=POOL_PATTERN)] | None = None
    """The workers that may drive it, where several share a store; not set: those of the pool `default`."""
    continues: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The run to follow up, or the beginning of its id: the new run continues its conversation, in its workspace."""


class ResumeRequest(RequestBody, example={}):
    """Nothing: a run continues as it was asked for."""


class CancelRequest(RequestBody, example={"reason": "changed my mind"}):
    """Why a run is ended."""

    reason: Annotated[str, StringConstraints(max_length=10_000)] = ""
    """For the log."""


class UndoRequest(LenientBody, example={"dry_run": True}):
    """What to take back."""

    paths: list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]] = Field(default=[], max_length=1_000)
    """Only these files and folders; none: everything."""
    dry_run: bool = False
    """Only show what would happen."""
    force: bool = False
    """Overwrite what was changed since; it is kept."""
    redo: bool = False
    """Put back what the last undo of the run took away."""


class BackupRequest(RequestBody):
    """What to put into a backup."""

    workspaces: bool = True


class SecretValue(RequestBody):
    """A secret to be kept."""

    value: str = Field(
        min_length=SHORTEST_NAMED, max_length=MAX_SECRET_BYTES, pattern=r"^[^\x00]*\S[^\x00]{2,}\S[^\x00]*$"
    )
    """At least four characters between blanks. No route ever gives it back."""


class ToolServerToInspect(RequestBody, example={"name": "time"}):
    """Which tool server is looked at."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=400)]
    """Its name; or SPECIALIST/NAME if several have it."""


class ProbeRequest(RequestBody, example={"key": "quality"}):
    """Which model is asked."""

    key: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A key of `models`; by default the one that works."""


class PullRequest(RequestBody, example={"name": "quality"}):
    """Which model is downloaded."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """`quality`, `fast`, the name of one in the catalogue, or a model of Ollama."""


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str
    type: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
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
        },
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
