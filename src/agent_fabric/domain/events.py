"""Everything that can happen to a run. The log of these events is the run.

Kinds and fields are a contract with every log ever written: fields may be added with a default, never renamed or
removed. A change that a default cannot express raises the kind's version and adds a pure function to `UPCASTERS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.messages import ModelSettings, ToolCallRequest, Usage
from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.runs.task import Budget, Profile, Task, TaskForceMode
from agent_fabric.domain.sources import Source
from agent_fabric.domain.tools import Effect, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCreated:
    """A task became a run."""

    kind: ClassVar = "run_created"

    prompt: str
    specialist_id: SpecialistId | None
    model_key: str
    network_allowed: bool
    profile: Profile
    budget: Budget
    workspace: str
    """Where the files live. A driver that cannot open it does not take the run."""
    sandbox: str
    """Level of the box at the start."""
    policy_version: str
    fabric_version: str
    specialist_ids: tuple[SpecialistId, ...] = ()
    """The packs that were named; the first is `specialist_id` too."""
    task_force_mode: TaskForceMode = TaskForceMode.SEQUENTIAL

    @property
    def task(self) -> Task:
        """What was asked for."""
        return Task(
            prompt=self.prompt,
            specialist_ids=self.specialist_ids or (() if self.specialist_id is None else (self.specialist_id,)),
            task_force_mode=self.task_force_mode,
            model_key=self.model_key,
            network_allowed=self.network_allowed,
            profile=self.profile,
            budget=self.budget,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialistsRecruited:
    """It is settled who does the task."""

    kind: ClassVar = "recruitment"

    specialist_id: SpecialistId
    specialist_ids: tuple[SpecialistId, ...]
    required_capabilities: tuple[str, ...]
    routing_method: str
    is_task_force: bool
    reasons: tuple[str, ...] = ()
    """Why these, one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForceStarted:
    """Several specialists begin at once."""

    kind: ClassVar = "task_force_parallel"

    specialist_ids: tuple[SpecialistId, ...]
    mode: TaskForceMode


@dataclass(frozen=True, slots=True, kw_only=True)
class PackStarted:
    """A specialist begins. Its lane takes prompt, tools and model from here, never from today's code or config."""

    kind: ClassVar = "pack_start"

    specialist_id: SpecialistId
    pack_index: int
    system_prompt: str
    opening: str
    """The first user message."""
    tools: tuple[ToolSpec, ...]
    finish: FinishSpec
    model: ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled:
    """A model is about to be asked. Each attempt is an event of its own."""

    kind: ClassVar = "llm_request"

    step: int
    message_count: int
    attempt: int
    model: str
    delay_s: float = 0.0
    """How long this attempt waits before it is sent, because an earlier one failed."""
    must_finish: bool = False
    """The model was told to choose `finish_task`."""
    purpose: Literal["turn", "compaction", "routing"] = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswered:
    """The model answered. Nothing is done about it before this is durable."""

    kind: ClassVar = "llm_response"

    content: str
    tool_calls: tuple[ToolCallRequest, ...]
    usage: Usage
    usage_estimated: bool = False
    model: str
    finish_reason: str
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """An attempt to ask the model failed."""

    kind: ClassVar = "llm_error"

    error_type: str
    """Code of the error, for example `model_unreachable`."""
    error_message: str
    hint: str
    attempt: int
    retryable: bool
    retry_after_s: float | None
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A tool is about to run. Without a result after it, the call is in doubt."""

    kind: ClassVar = "tool_call"

    tool: str
    args: Mapping[str, Any]
    call_id: CallId
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool worked, or `finish_task` was accepted."""

    kind: ClassVar = "tool_result"

    tool: str
    result: Mapping[str, Any]
    """What the model is shown."""
    call_id: CallId
    whole: str = ""
    """The whole output as JSON text when `result` had to be cut; kept for people, not shown to the model."""
    changed: bool = False
    proved: str = ""
    repeated: bool = False
    """Answered from memory: the model made exactly the call that it had just made."""
    sources: tuple[Source, ...] = ()
    """Pages that the call fetched, whole."""
    wrote: tuple[str, ...] = ()
    """Files that the call wrote."""
    cites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Addresses that a file mentions from now on, by the file's path."""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErred:
    """A tool did not work, was refused, or is in doubt after a crash. The model is told."""

    kind: ClassVar = "tool_error"

    tool: str
    error_type: str
    error_message: str
    call_id: CallId
    proposal: str = ""
    """What a person would have to do or allow; ends up in the result."""
    changed: bool = False
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityViolated:
    """A tool reached for something outside its box. Always beside the `tool_error` that says the same."""

    kind: ClassVar = "security_event"

    event_type: str
    tool: str
    error_message: str
    call_id: CallId


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceGiven:
    """The engine told the model, as a user message, what is wrong with its answer."""

    kind: ClassVar = "guidance"

    reason: Literal["empty_answer", "no_tool_use", "unproven"]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """Old messages were replaced by a summary, so that the rest fits into the model's window."""

    kind: ClassVar = "context_compacted"

    first: int
    """Index of the first message replaced."""
    last: int
    """Index after the last message replaced."""
    summary: str
    by_model: bool
    """False: the model could not summarise, so a plain list of what was done stands in."""
    usage: Usage
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAnswerAccepted:
    """A specialist ended with plain text instead of `finish_task`."""

    kind: ClassVar = "plain_answer_accepted"

    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFailed:
    """One specialist of several ended without a result; the others go on."""

    kind: ClassVar = "pack_failed"

    specialist_id: SpecialistId
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted:
    """The run has used what it may use."""

    kind: ClassVar = "budget_exhausted"

    resource: Literal["steps", "tokens", "seconds"]
    limit: float
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWaited:
    """No lane can move until something from outside arrives."""

    kind: ClassVar = "run_waiting"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """A driver took the run over. Whatever was in flight before is in doubt."""

    kind: ClassVar = "run_resumed"

    by: Literal["person", "server"]
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted:
    """The task is done."""

    kind: ClassVar = "run_complete"

    run_id: RunId
    specialist_ids: tuple[SpecialistId, ...]
    task_force_mode: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The run ended without a result."""

    kind: ClassVar = "run_failed"

    code: str
    message: str
    hint: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    """What those specialists did who finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled:
    """Somebody ended the run."""

    kind: ClassVar = "run_cancelled"

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted:
    """The run was stopped in the middle and goes on when a person resumes it."""

    kind: ClassVar = "run_interrupted"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent:
    """Written by a newer program: can be shown, but a run that holds one is not driven."""

    kind: str
    payload: Mapping[str, Any]


Body = (
    RunCreated
    | SpecialistsRecruited
    | TaskForceStarted
    | PackStarted
    | PackFailed
    | ModelCalled
    | ModelAnswered
    | ModelFailed
    | ToolCalled
    | ToolReturned
    | ToolErred
    | SecurityViolated
    | GuidanceGiven
    | ContextCompacted
    | PlainAnswerAccepted
    | BudgetExhausted
    | RunWaited
    | RunResumed
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunInterrupted
    | UnknownEvent
)


class Event(NamedTuple):
    """One fact about a run, in its place."""

    seq: int
    """Counts from 0 without a gap."""
    ts: float
    """Seconds since 1970. Order comes from `seq`, never from the clock."""
    lane: LaneId | None
    step: str
    """`step_3` while a lane works, empty for what concerns the whole run."""
    body: Body


Upcaster = Callable[[Mapping[str, Any]], Mapping[str, Any]]

UPCASTERS: Mapping[str, tuple[Upcaster, ...]] = {}
"""For each kind the functions that lift a payload from version 1 to 2, from 2 to 3, …"""


def version_of(kind: str) -> int:
    """Return the version in which this program writes a kind."""
    return len(UPCASTERS.get(kind, ())) + 1


def body_from(
    kind: str,
    version: int,
    payload: Mapping[str, Any],
    *,
    upcasters: Mapping[str, tuple[Upcaster, ...]] = UPCASTERS,
) -> Body:
    """Read an event's body back from a log, whatever version wrote it."""
    read = _READERS.get(kind)
    steps = upcasters.get(kind, ())
    if read is None or version > len(steps) + 1:
        return UnknownEvent(kind=kind, payload=payload)
    for lift in steps[version - 1 :]:
        payload = lift(payload)
    try:
        body: Body = read(payload)
    except (KeyError, TypeError, ValueError, AttributeError):
        return UnknownEvent(kind=kind, payload=payload)  # a value that only a newer program knows
    return body


def _reader(cls: type[Any], **nested: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], Any]:
    known = frozenset(each.name for each in fields(cls))

    def read(payload: Mapping[str, Any]) -> Any:
        # A field that a newer program added beside ours says nothing that we need.
        values = {name: value for name, value in payload.items() if name in known}
        for name, convert in nested.items():
            if name in values:
                values[name] = convert(values[name])
        return cls(**values)

    return read


def _calls(values: list[Mapping[str, str]]) -> tuple[ToolCallRequest, ...]:
    return tuple(ToolCallRequest(CallId(v["call_id"]), v["tool"], v["arguments"]) for v in values)


def _tools(values: list[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    return tuple(_read_tool(value) for value in values)


def _sources(values: list[Mapping[str, Any]]) -> tuple[Source, ...]:
    return tuple(_read_source(value) for value in values)


_read_tool = _reader(ToolSpec, effect=Effect)
_read_source = _reader(Source)
_usage = _reader(Usage)

_READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    cls.kind: reader
    for cls, reader in (
        (
            RunCreated,
            _reader(
                RunCreated,
                profile=Profile,
                budget=_reader(Budget),
                specialist_ids=tuple,
                task_force_mode=TaskForceMode,
            ),
        ),
        (
            SpecialistsRecruited,
            _reader(SpecialistsRecruited, specialist_ids=tuple, required_capabilities=tuple, reasons=tuple),
        ),
        (TaskForceStarted, _reader(TaskForceStarted, specialist_ids=tuple, mode=TaskForceMode)),
        (PackFailed, _reader(PackFailed)),
        (
            PackStarted,
            _reader(PackStarted, tools=_tools, finish=_reader(FinishSpec), model=_reader(ModelSettings)),
        ),
        (ModelCalled, _reader(ModelCalled)),
        (ModelAnswered, _reader(ModelAnswered, tool_calls=_calls, usage=_usage)),
        (ModelFailed, _reader(ModelFailed)),
        (ToolCalled, _reader(ToolCalled)),
        (ToolReturned, _reader(ToolReturned, sources=_sources, wrote=tuple)),
        (ToolErred, _reader(ToolErred)),
        (SecurityViolated, _reader(SecurityViolated)),
        (GuidanceGiven, _reader(GuidanceGiven)),
        (ContextCompacted, _reader(ContextCompacted, usage=_usage)),
        (PlainAnswerAccepted, _reader(PlainAnswerAccepted)),
        (BudgetExhausted, _reader(BudgetExhausted)),
        (RunWaited, _reader(RunWaited)),
        (RunResumed, _reader(RunResumed)),
        (RunCompleted, _reader(RunCompleted, specialist_ids=tuple)),
        (RunFailed, _reader(RunFailed)),
        (RunCancelled, _reader(RunCancelled)),
        (RunInterrupted, _reader(RunInterrupted)),
    )
}
