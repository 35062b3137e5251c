"""The definition of a workflow: a graph of steps, as its file declares it and as a run freezes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.deserialize import reader_of

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
    SEND_MESSAGE = "send-message"
    APPROVE = "approve"
    FOR_EACH = "for-each"
    WORKFLOW = "workflow"
    SEARCH_MEMORY = "search-memory"
    PROPOSE_FACT = "propose-fact"


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


def _read_condition(plain: str | bool) -> str:
    return plain if isinstance(plain, str) else str(plain).lower()


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
    condition: str = field(default="", metadata={"read": _read_condition})
    depends_on: tuple[str, ...] = ()
    retry: Retry = ONCE
    timeout_s: float | None = field(default=None, metadata={"key": "timeout"})
    idempotent: bool = False
    """Twice is the same as once, so a crash in the middle needs no person."""
    steps: tuple["Step", ...] = ()
    then: tuple["Step", ...] = ()
    otherwise: tuple["Step", ...] = field(default=(), metadata={"key": "else"})
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
    timeout_s: float | None = field(default=None, metadata={"key": "timeout"})
    """For the whole; time in which no process drives the run, such as waiting for a person, does not count."""
    dry_run: bool = False


class Trigger(NamedTuple):
    """What starts a workflow."""

    kind: Literal["manual", "schedule", "on_change", "on_event", "webhook"]
    when: str = ""

    @property
    def armed(self) -> bool:
        """Whether it is watched for: by `fabric serve`, unless it is `manual`."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """What starts a workflow; `fabric serve` arms all but `manual`."""

    manual: bool = True
    on_change: tuple[str, ...] = ()
    schedule: str = ""
    on_event: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    """Configured webhooks whose deliveries start it."""
    on_doubt: str = "ask"
    """What runs of `schedule` do about a step that a crash has cut off: see `OnDoubt`."""
    here: bool = False
    """Whether runs that these start work on the project, and not in a workspace of their own."""

    def entries(self) -> Sequence[Trigger]:
        """Return them one by one."""
        return [
            *([Trigger("manual")] if self.manual else ()),
            *([Trigger("schedule", self.schedule)] if self.schedule else ()),
            *(Trigger("on_change", pattern) for pattern in self.on_change),
            *(Trigger("on_event", name) for name in self.on_event),
            *(Trigger("webhook", name) for name in self.webhook),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """A graph of steps with declared inputs and outputs."""

    name: str
    version: str = ""
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
    definition: WorkflowDefinition = reader_of(WorkflowDefinition, of_file=True)(plain)
    return definition
