"""The definition of a workflow: a graph of steps, as its file declares it and as a run freezes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent_fabric.domain.definitions.parameter import Parameter

DEFAULT_PARALLEL_LIMIT = 4
MAX_PARALLEL = 32
DEFAULT_MOST_ITEMS = 1_000
"""Items that a `for-each` takes unless it says otherwise."""


class Mode(StrEnum):
    """When a step may start. The results are the same."""

    SEQUENTIAL = "sequential"
    """One after another, in the order of the definition."""
    PARALLEL = "parallel"
    """In groups: everything whose dependencies lie in earlier groups, then the next group."""
    DEPENDENCY_AWARE = "dependency-aware"
    """As soon as its own dependencies are done."""


class BuiltIn(StrEnum):
    """The actions that every installation knows; packages can bring more."""

    INVOKE_AGENT = "invoke-agent"
    RUN_COMMAND = "run-command"
    VALIDATE = "validate"
    TRANSFORM = "transform"
    CONDITIONAL = "conditional"
    PARALLEL_GROUP = "parallel-group"
    WAIT = "wait"
    HTTP_REQUEST = "http-request"
    READ_FILE = "read-file"
    WRITE_FILE = "write-file"
    APPROVE = "approve"
    FOR_EACH = "for-each"
    WORKFLOW = "workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and after how long, a step that failed is tried again."""

    max_attempts: int = 1
    delay_seconds: float = 0.0
    backoff: float = 1.0
    """Each further delay is this many times the one before."""
    max_delay_seconds: float = 3600.0
    on: tuple[str, ...] = ()
    """The types of error that are worth another attempt; empty: all."""

    def delay_after(self, attempt: int) -> float:
        """Return how long to wait after a failed attempt, counted from 1."""
        return float(min(self.delay_seconds * self.backoff ** (attempt - 1), self.max_delay_seconds))


ONCE = Retry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a workflow."""

    id: str
    action: str
    agent: str = ""
    command: str | tuple[str, ...] = ""
    workflow: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """More outputs, as expressions over `result`, which is what the action gave."""
    condition: str = ""
    depends_on: tuple[str, ...] = ()
    retry: Retry = ONCE
    timeout_s: float | None = None
    idempotent: bool = False
    """Twice is the same as once, so a crash in the middle needs no person."""
    steps: tuple["Step", ...] = ()
    then: tuple["Step", ...] = ()
    otherwise: tuple["Step", ...] = ()
    """`else` in files."""
    description: str = ""

    def below(self) -> Iterator["Step"]:
        """Return the steps inside this one, however deep."""
        for step in (*self.steps, *self.then, *self.otherwise):
            yield step
            yield from step.below()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a workflow's steps are carried out."""

    mode: Mode = Mode.DEPENDENCY_AWARE
    parallel_limit: int = DEFAULT_PARALLEL_LIMIT
    continue_on_error: bool = False
    """What does not need a failed step goes on."""
    fail_fast: bool = False
    """What runs beside a failed step is stopped."""
    timeout_s: float | None = None
    """For the whole; time in which nobody drives the run, such as waiting for a person, does not count."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """What starts a workflow; only `manual` is armed so far."""

    manual: bool = True
    on_change: tuple[str, ...] = ()
    schedule: str = ""
    on_event: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """A graph of steps with declared inputs and outputs."""

    name: str
    version: str
    description: str = ""
    triggers: Triggers = Triggers()
    inputs: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Parameter] = field(default_factory=dict)
    steps: tuple[Step, ...]
    execution: Execution = Execution()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def all_steps(self) -> Iterator[Step]:
        """Return every step, however deep."""
        for step in self.steps:
            yield step
            yield from step.below()


def definition_from(plain: Mapping[str, Any]) -> WorkflowDefinition:
    """Return the workflow that a sound definition describes.

    What comes from people is checked first (see `check`); what a run has kept was sound when it was frozen.
    """
    return WorkflowDefinition(
        name=plain["name"],
        version=str(plain.get("version", "")),
        description=plain.get("description", ""),
        triggers=_triggers(plain.get("triggers") or {}),
        inputs={name: parameter_from(each) for name, each in (plain.get("inputs") or {}).items()},
        outputs={name: parameter_from(each) for name, each in (plain.get("outputs") or {}).items()},
        steps=_steps(plain["steps"]),
        execution=_execution(plain.get("execution") or {}),
        metadata=plain.get("metadata") or {},
    )


def _steps(plain: Sequence[Mapping[str, Any]] | None) -> tuple[Step, ...]:
    return tuple(_step(each) for each in plain or ())


def _step(plain: Mapping[str, Any]) -> Step:
    command = plain.get("command") or ""
    return Step(
        id=plain["id"],
        action=plain["action"],
        agent=plain.get("agent") or "",
        command=command if isinstance(command, str) else tuple(command),
        workflow=plain.get("workflow") or "",
        inputs=plain.get("inputs") or {},
        outputs=plain.get("outputs") or {},
        condition=_condition(plain.get("condition")),
        depends_on=tuple(plain.get("depends_on") or ()),
        retry=_retry(plain.get("retry")),
        timeout_s=_seconds(plain.get("timeout")),
        idempotent=bool(plain.get("idempotent", False)),
        steps=_steps(plain.get("steps")),
        then=_steps(plain.get("then")),
        otherwise=_steps(plain.get("else")),
        description=plain.get("description", ""),
    )


def _condition(plain: str | bool | None) -> str:
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else str(plain).lower()


def _seconds(plain: float | None) -> float | None:
    return None if plain is None else float(plain)


def _retry(plain: Mapping[str, Any] | None) -> Retry:
    if not plain:
        return ONCE
    return Retry(
        max_attempts=plain.get("max_attempts", 1),
        delay_seconds=float(plain.get("delay_seconds", 0.0)),
        backoff=float(plain.get("backoff", 1.0)),
        max_delay_seconds=float(plain.get("max_delay_seconds", 3600.0)),
        on=tuple(plain.get("on") or ()),
    )


def _execution(plain: Mapping[str, Any]) -> Execution:
    return Execution(
        mode=Mode(plain.get("mode", Mode.DEPENDENCY_AWARE)),
        parallel_limit=plain.get("parallel_limit", DEFAULT_PARALLEL_LIMIT),
        continue_on_error=bool(plain.get("continue_on_error", False)),
        fail_fast=bool(plain.get("fail_fast", False)),
        timeout_s=_seconds(plain.get("timeout")),
        dry_run=bool(plain.get("dry_run", False)),
    )


def _triggers(plain: Mapping[str, Any]) -> Triggers:
    return Triggers(
        manual=bool(plain.get("manual", True)),
        on_change=_texts(plain.get("on_change")),
        schedule=plain.get("schedule") or "",
        on_event=_texts(plain.get("on_event")),
    )


def _texts(plain: str | Sequence[str] | None) -> tuple[str, ...]:
    return (plain,) if isinstance(plain, str) else tuple(plain or ())


def parameter_from(plain: Mapping[str, Any] | str) -> Parameter:
    """Return the input or output that a sound definition declares."""
    if isinstance(plain, str):  # for short: `name: string`, and of an output `name: "{{ STEP.FIELD }}"`
        return Parameter(value=plain) if "{{" in plain else Parameter(type=plain)
    return Parameter(
        type=plain.get("type", "any"),
        description=plain.get("description", ""),
        required=bool(plain.get("required", False)),
        default=plain.get("default"),
        has_default="default" in plain,
        choices=tuple(plain.get("enum") or ()),
        value=plain.get("value"),
    )
