"""Everything that can happen to a run. The log of these events is the run.

Kinds and fields are a contract with every log ever written: fields may be added with a default, never renamed or
removed. A change that a default cannot express raises the kind's version; see `event_versions`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any, ClassVar, Final, Literal, NamedTuple

from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.events import CloudFallbackUsed, ModelReasoned, PlainAnswerAccepted, ToolCallRecovered
from agent_fabric.domain.models.messages import ModelSettings, ToolCallRequest, Usage
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.domain.runs.effects import Effects, Outcome
from agent_fabric.domain.runs.knowledge import Knowledge
from agent_fabric.domain.runs.task import AskedTask, Profile, Task, TaskForceMode
from agent_fabric.domain.tools.findings import ProofKind, Source, TestCount
from agent_fabric.domain.tools.specs import ToolSpec, Trust
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepWaited,
    TimerFired,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCreated(AskedTask):
    """A task became a run."""

    kind: ClassVar = "run_created"

    specialist_id: SpecialistId | None
    """The first of the packs that were named."""
    network_allowed: bool
    profile: Profile
    workspace: str
    """Where the files live. A driver that cannot open it does not take the run."""
    sandbox: str
    """Level of the box at the start."""
    policy_version: str
    policy_profile: str = ""
    fabric_version: str
    signals: tuple[str, ...] = ()
    """Signs that the task itself holds someone else's instructions. Recorded, never a defence."""
    owner: str = ""
    """Whose run it is: `local`, or such as `user:ada`; logs before 0.6 have only `requested_by`."""
    visibility: Visibility = Visibility.TEAM
    """Who else sees it."""
    project: bool = True
    """Whether its workspace was there before, with its owner's files. Logs before 0.6 do not say."""
    untrusted: tuple[str, ...] = ()
    """Where untrusted text that it begins with came from."""

    @property
    def task(self) -> Task:
        """What was asked for."""
        asked = {name: getattr(self, name) for name in TASK_FIELDS}
        asked["specialist_ids"] = self.specialist_ids or (() if self.specialist_id is None else (self.specialist_id,))
        return Task(**asked, owner=self.owner or self.requested_by or LOCAL_OWNER)


TASK_FIELDS: Final = (*(each.name for each in fields(AskedTask)), "network_allowed", "profile", "visibility")
"""The fields of a task that stand in the first event."""


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
    model_reason: str = ""
    """Why this model was taken."""
    notices: tuple[str, ...] = ()
    """What a person should know about the tools, such as why those of a tool server are missing."""
    knowledge: Knowledge | None = None
    """What memory knows about the task, which the model is told as a result of a search; None: it was not asked."""


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
    tool_dialect: str = "native"
    """How the model calls tools: `native`, `schema` or `text`."""
    problem: str = ""
    """What is wrong with a tool call that it tried to make, or that the answer was cut; the model is told."""
    cost: float | None = None
    """Price of this answer; None when no price is configured."""
    egress: str = ""
    """Host of another machine that was asked; empty when nothing left this one."""
    reuse_key: str = ""
    """By which the answer is found when the same is asked again; empty: it is not used again."""
    reused: str = ""
    """The run, and the number of the event in its log, that the answer is from; empty: the model was asked."""
    cut: int = 0
    """Characters after which the answer was cut, because no more are taken; 0: it is whole."""


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
    egress: str = ""
    """Host of another machine that was asked, or would have been; empty when nothing left this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A tool is about to run. Without a result after it, the call is in doubt."""

    kind: ClassVar = "tool_call"

    tool: str
    args: Mapping[str, Any]
    call_id: CallId
    attempt: int = 1
    rule: str = ""
    """The rule of the policy that decided; empty where none had to."""
    args_hash: str = ""
    """What identifies exactly these arguments."""
    approval_id: str = ""
    """The approval that let it run, if it needed one."""
    approved_by: str = ""
    outside: Outside | None = None
    """What runs outside the box; None: it runs in the box."""
    leaves: str = ""
    """Where it acts outside this machine: a host, a machine, a tool server; empty: nowhere, or an older log."""


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
    proof_kind: ProofKind = ProofKind.NONE
    """What that proves; logs before 0.6 do not say."""
    tests: TestCount | None = None
    """The tests that were executed, if a runner has said so."""
    repeated: bool = False
    """Answered from memory: the model made exactly the call that it had just made."""
    sources: tuple[Source, ...] = ()
    """Pages that the call fetched, whole."""
    wrote: tuple[str, ...] = ()
    """Files that the call wrote."""
    cites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Addresses that a file mentions from now on, by the file's path."""
    trust: Trust = Trust.WORKSPACE
    """Who wrote what came back."""
    origin: str = ""
    """Where it came from, if it is untrusted."""
    from_outside: bool = False
    """It came from another machine, so the addresses in it are not the model's own."""
    signals: tuple[str, ...] = ()
    """Signs that it tries to give instructions. Recorded, never a defence."""
    private: str = ""
    """Where it read what the world must not have, apart from the workspace."""
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
    origin: str = ""
    """Who wrote the message, if it is untrusted."""
    private: str = ""
    rule: str = ""
    """The rule of the policy that refused it."""
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

    reason: Literal["empty_answer", "no_tool_use", "unproven", "tool_call_unusable", "answer_cut"]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWaited:
    """No lane can move until something from outside arrives."""

    kind: ClassVar = "run_waiting"

    reason: str
    approvals: tuple[str, ...] = ()
    """The approvals that it waits for."""
    until: float | None = None
    """When it goes on by itself, if nothing happens before; seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """A driver took the run over. Whatever was in flight before is in doubt."""

    kind: ClassVar = "run_resumed"

    by: Literal["person", "server"]
    driver: str
    root: RunId | None = None
    """The run above all others that this one works for; None: it works for no other."""
    handed_over: bool = False  # the driver before has released the run in order, as one that is told to stop does


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted:
    """The task is done."""

    kind: ClassVar = "run_complete"

    run_id: RunId
    specialist_ids: tuple[SpecialistId, ...]
    task_force_mode: str
    payload: Mapping[str, Any]
    effects: Effects | None = None
    """What was denied, failed, left and changed, and is in doubt; None: nothing, or an older log."""
    outcome: Outcome | None = None
    """What it came to; None: an older log, which the events before tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The run ended without a result."""

    kind: ClassVar = "run_failed"

    code: str
    message: str
    hint: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    """What those specialists did who finished."""
    effects: Effects | None = None
    """What was denied, failed, left and changed, and is in doubt; None: nothing, or an older log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled:
    """A user ended the run."""

    kind: ClassVar = "run_cancelled"

    by: str
    reason: str
    said: str = ""
    """What the model had said of an answer that it could not complete; only of a turn of a session."""


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
    problem: str = ""
    """Why the row of this event cannot be read, if that is so: it is damaged, and not a newer program's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSaved:
    """The files of the run were saved as they are after the calls before, so that any machine can go on with it."""

    kind: ClassVar = "workspace_saved"

    manifest: str
    """Hash of the list of all files and their hashes."""
    files: int
    size: int
    """Bytes of all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForceStarted:
    """Several specialists begin at once."""

    kind: ClassVar = "task_force_parallel"

    specialist_ids: tuple[SpecialistId, ...]
    mode: TaskForceMode


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFailed:
    """One specialist of several ended without a result; the others go on."""

    kind: ClassVar = "pack_failed"

    specialist_id: SpecialistId
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTruncated:
    """The server read less than it was sent: it silently dropped the beginning of the conversation."""

    kind: ClassVar = "context_truncated"

    sent_tokens: int
    """Our estimate of what was sent."""
    read_tokens: int
    """What the server says that it read."""
    hint: str


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
    cost: float | None = None
    """Price of the summary; None when no price is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted:
    """The run has used what it may use."""

    kind: ClassVar = "budget_exhausted"

    resource: Literal["steps", "tokens", "seconds", "cost"]
    limit: float
    used: float


Body = (
    RunCreated
    | SpecialistsRecruited
    | TaskForceStarted
    | PackStarted
    | PackFailed
    | ModelCalled
    | ModelAnswered
    | ModelReasoned
    | ModelFailed
    | ToolCallRecovered
    | CloudFallbackUsed
    | ContextTruncated
    | ToolCalled
    | ToolReturned
    | ToolErred
    | ApprovalRequested
    | ApprovalDecided
    | SecurityViolated
    | GuidanceGiven
    | ContextCompacted
    | WorkspaceCompared
    | WorkspaceSaved
    | PlainAnswerAccepted
    | BudgetExhausted
    | StepStarted
    | StepWaited
    | StepRetried
    | StepFinished
    | TimerFired
    | SignalReceived
    | ChildFinished
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


def problem_of(event: Event) -> str:
    """Return why an event cannot be read; empty if it can."""
    return event.body.problem if isinstance(event.body, UnknownEvent) else ""
