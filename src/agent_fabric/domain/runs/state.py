"""The state of a run, folded from its events. Only `evolve` changes it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_fabric.domain.approvals.answers import Grant
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import NO_PROOF, UNPROVEN, CommandRun, Proof, strongest
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import Message, ModelSettings, ToolCallRequest, Usage
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.effects import Effects, Outcome
from agent_fabric.domain.runs.ledger import Ledger
from agent_fabric.domain.runs.task import Profile, RunError, RunResult, RunStatus, Task, TaskForceMode
from agent_fabric.domain.tools.findings import Source
from agent_fabric.domain.tools.program_files import can_be_run
from agent_fabric.domain.tools.specs import ToolSpec

if TYPE_CHECKING:  # most runs have none
    from agent_fabric.domain.tools.skills import AllowedTools
    from agent_fabric.domain.workflows.state import WorkflowState


class LanePhase(StrEnum):
    """What a lane does next, or waits for."""

    MODEL_DUE = "model_due"
    MODEL_CALLED = "model_called"
    MODEL_IN_DOUBT = "model_in_doubt"
    ANSWERED = "answered"
    """The model said something without calling a tool."""
    TOOLS_DUE = "tools_due"
    TOOL_CALLED = "tool_called"
    TOOL_IN_DOUBT = "tool_in_doubt"
    APPROVAL_DUE = "approval_due"
    """A person has to answer before the next call, or the one in doubt, is settled."""
    DONE = "done"


_BEFORE_ANSWER = frozenset({LanePhase.MODEL_DUE, LanePhase.MODEL_CALLED, LanePhase.MODEL_IN_DOUBT})


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """The last tool call that really ran, to notice an exact repeat."""

    tool: str
    arguments: str
    shown: str
    """What the model was told."""

    def is_same(self, call: ToolCallRequest) -> bool:
        """Tell whether a call is made with the very same words."""
        return (self.tool, self.arguments) == (call.tool, call.arguments)


class Observation(NamedTuple):
    """What a tool gave back, as the model read it."""

    seq: int
    """The event."""
    text: str


@dataclass(slots=True)
class Lane:
    """The conversation of one specialist."""

    lane_id: LaneId
    specialist_id: SpecialistId
    index: int
    tools: Mapping[str, ToolSpec]
    offered: tuple[ToolSpec, ...]
    """The tools as the model sees them, `finish_task` included where the run ends by it."""
    finish: FinishSpec
    model: ModelSettings
    messages: list[Message]

    history: int = 0
    """Messages behind the system prompt that are older than the task: what was said in the session before."""
    phase: LanePhase = LanePhase.MODEL_DUE
    answers: int = 0
    """How often the model has answered."""
    attempt: int = 0
    """Attempts at the model or tool call that is under way."""
    failures: int = 0
    """Attempts at this step's model call that failed in a row."""
    last_failure: tuple[str, str, str, float | None] | None = None
    """Code, message, hint and requested delay of the newest failure, while it stands."""
    began_with: Mapping[str, Any] = field(default_factory=dict)
    began_outside: bool = False
    """The call under way runs outside the box."""
    """Arguments of the newest tool call that was begun, as they were executed."""
    pending: list[ToolCallRequest] = field(default_factory=list)
    """Calls of this turn still to be answered, `finish_task` last."""
    calls_answered: int = 0
    """Calls of this turn that have been answered."""
    answer: str = ""
    """Text of an answer without tool calls."""
    observed: list[Observation] = field(default_factory=list)
    """What tools gave back, with the event that says so; only in a turn of a session."""
    passages: list[Mapping[str, Any]] = field(default_factory=list)
    """Passages of documents that it was told, or has looked up; only in a turn of a session."""
    answer_problem: str = ""
    answer_cut: bool = False
    """That answer was longer than answers may be, and is not whole."""
    """What is wrong with a tool call that this answer tried to make."""
    repaired: bool = False
    """The model was told once what was wrong with its call, and has not made a sound one since."""

    narrowed: "tuple[AllowedTools, ...]" = ()
    """What the skills that it has read leave of its tools."""
    worked: bool = False
    """A tool other than `finish_task` was called."""
    unproved_change: bool = False
    proof: Proof = NO_PROOF
    sent_back_unproven: bool = False
    idle_since_sent_back: bool = False
    """Its result was sent back, and it has changed and proven nothing since."""
    idle_finishes: int = 0
    """Times it wanted to finish without having used any other tool."""
    asked_again: int = 0
    last_call: FinishedCall | None = None
    last_changing_call: FinishedCall | None = None
    """The call that changed files last, if it succeeded: the files are as it left them."""
    repeats: int = 0
    asked: ApprovalRequested | None = None
    """What a person was asked about the call that comes next."""
    decided: ApprovalDecided | None = None
    """What the person answered."""
    proposals: list[str] = field(default_factory=list)
    wrote: set[str] = field(default_factory=set)
    """Files that its tools wrote."""
    commands: list[CommandRun] = field(default_factory=list)
    """Command lines that ran in the workspace, in order."""
    last_change: int = -1
    """The event with its last change of files, as far as tools know."""
    acted_elsewhere: bool = False
    """A tool of its has acted outside of the workspace."""
    compared: WorkspaceCompared | None = None
    """What was different in the workspace when it was last looked at; None: it has worked since."""
    compacted: bool = False
    """A part of its conversation was replaced by a summary."""
    context_tokens: int = 0
    """Size of the conversation as the server last reported it."""
    must_compact: bool = False
    window: int | None = None
    """Tokens that the model can hold, as far as is known."""
    truncated: bool = False
    """The server dropped a part of the conversation; a person has been told."""
    payload: Mapping[str, Any] | None = None

    @property
    def current_step(self) -> int:
        """Number of the step under way: asking the model and all that follows from its answer."""
        return self.answers if self.phase in _BEFORE_ANSWER else self.answers - 1

    @property
    def idle(self) -> bool:
        """Nothing has been done yet, though there are tools to do it with."""
        return not self.worked and bool(self.tools)

    def pending_call(self, call_id: CallId) -> ToolCallRequest | None:
        """Return the call of this turn with that id, if it still lacks an answer."""
        for call in self.pending:
            if call.call_id == call_id:
                return call
        return None


@dataclass(slots=True)
class RunState:
    """The state of a run."""

    run_id: RunId
    next_seq: int = 0
    status: RunStatus = RunStatus.RUNNING
    task: Task | None = None
    """None before the first event."""
    workspace: str = ""
    project: bool = False
    """Whether the workspace is a project folder of the owner."""
    saved: str = ""
    """Manifest of the files as they were last saved; empty: they were not."""
    specialist_ids: tuple[SpecialistId, ...] = ()
    """Empty until recruitment."""
    routing_method: str = ""
    task_force_mode: TaskForceMode = TaskForceMode.SEQUENTIAL
    lanes: dict[LaneId, Lane] = field(default_factory=dict)
    failed: dict[SpecialistId, RunError] = field(default_factory=dict)
    """Specialists of a task force who gave up, and why."""
    sources: list[Source] = field(default_factory=list)
    """Pages that the run has fetched."""
    cited_in_files: dict[str, Sequence[str]] = field(default_factory=dict)
    """Addresses that files of the workspace mention."""
    grants: list[Grant] = field(default_factory=list)
    """What a person has agreed to until the run ends."""
    untrusted: list[str] = field(default_factory=list)
    """Where untrusted text that the run has read came from."""
    private: list[str] = field(default_factory=list)
    """What the run has read that the world must not have."""
    addresses: set[str] = field(default_factory=set)
    """Addresses that stood in what the run has read from outside."""
    composed: set[str] = field(default_factory=set)
    """Addresses in the arguments of calls that the model did not have from there."""
    fetches: int = 0
    """Calls that went unasked to one of them while the run was exposed and private."""
    searches: int = 0
    """Searches that went unasked while it was."""
    task_calls: int = 0
    """Calls with addresses or arguments of the task, or of earlier calls, that went unasked while it was."""
    sent: set[str] = field(default_factory=set)
    """Calls to machines, each without its machine, that were made before the run had read anything private."""
    ledger: Ledger = field(default_factory=Ledger)
    """What its calls came to."""
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    """What the answers cost so far; None while no price is known."""
    egress: list[str] = field(default_factory=list)
    """Hosts other than this one that a model of the run is at."""
    seconds: float = 0.0
    """Time spent in model and tool calls."""
    takeovers: int = 0
    """Times a server took the run over since anything was achieved."""
    error: RunError | None = None
    said: str = ""
    """What was said of an answer that a person has stopped."""
    payload: Mapping[str, Any] | None = None
    waiting_for: str = ""
    waiting_approvals: tuple[str, ...] = ()
    """What a person has to answer before it goes on; those of runs that work for it are among them."""
    workflow: "WorkflowState | None" = None
    """Where its steps stand, if it is a workflow."""
    unknown_kind: str = ""
    """A kind of event that only a newer program understands; such a run is not driven."""

    @property
    def talks(self) -> bool:
        """It is a turn of a session, which ends by a plain answer."""
        return self.task is not None and self.task.profile is Profile.CHAT

    @property
    def is_task_force(self) -> bool:
        """Several specialists share the task."""
        return len(self.specialist_ids) > 1

    @property
    def asked(self) -> list[ApprovalRequested]:
        """The questions that are not answered yet."""
        if self.workflow is not None:
            return self.workflow.asked
        asked = []
        for lane in self.lanes.values():
            if lane.phase is LanePhase.APPROVAL_DUE and lane.asked is not None:
                asked.append(lane.asked)  # noqa: PERF401 - a loop calls nothing, and this is asked in every round
        return asked

    def lane_that_asked(self, approval_id: str) -> LaneId | None:
        """Return the lane whose question this is, if it still waits for the answer."""
        if self.workflow is not None:
            return self.workflow.lane_that_asked(approval_id)
        for lane in self.lanes.values():
            if lane.phase is LanePhase.APPROVAL_DUE and lane.asked and lane.asked.approval_id == approval_id:
                return lane.lane_id
        return None

    @property
    def tokens(self) -> int:
        """Tokens used so far, in and out."""
        return self.prompt_tokens + self.completion_tokens


def result_of(state: RunState) -> RunResult:
    """Sum a run up for the user who asked for it."""
    lanes = list(state.lanes.values())
    effects = effects_of(state)
    return RunResult(
        run_id=state.run_id,
        status=state.status,
        payload=state.payload or {},
        error=state.error,
        specialist_ids=state.specialist_ids,
        model=lanes[-1].model.model if lanes else "",
        steps=state.steps,
        usage=Usage(state.prompt_tokens, state.completion_tokens, state.cached_tokens),
        cost=None if state.cost is None else round(state.cost, 6),
        egress=tuple(state.egress),
        duration_s=round(state.seconds, 3),
        proof=strongest(lane.proof for lane in lanes if _bears_out(state, lane)),
        outcome=outcome_of(state, effects) if state.status is RunStatus.COMPLETED else None,
        effects=effects,
        sent_back=any(lane.sent_back_unproven for lane in lanes),
        idle_since_sent_back=any(lane.idle_since_sent_back for lane in lanes),
        workspace=state.workspace,
        waiting_for=state.waiting_approvals or tuple(asked.approval_id for asked in state.asked),
        routing_method=state.routing_method,
        untrusted=tuple(state.untrusted),
        private=tuple(state.private),
        continues=None if state.task is None else state.task.continues,
        node="" if state.task is None else state.task.node,
    )


def effects_of(state: RunState) -> Effects:
    """Return what a run has done to the world, and was kept from, as far as its events tell."""
    files = (path for lane in state.lanes.values() for path in _changed_by(lane))
    return state.ledger.effects(files, stopped=state.status is not RunStatus.RUNNING)


def outcome_of(state: RunState, effects: Effects) -> Outcome:
    """Return what a run comes to that completes with these effects."""
    if not effects.open:
        return Outcome.DONE
    from agent_fabric.domain.runs.task_point import is_point_refused  # noqa: PLC0415 - in most runs nothing is

    prompt = "" if state.task is None else state.task.prompt
    return Outcome.REFUSED if is_point_refused(prompt, effects) else Outcome.INCOMPLETE


def _changed_by(lane: Lane) -> Sequence[str]:
    compared = lane.compared
    return compared.paths if compared is not None and compared.known else sorted(lane.wrote)


def why_unproven(state: RunState, lane: Lane) -> str:
    """Say what is missing of the proof that a specialist has to give; empty: nothing, or none is required."""
    required = state.task is not None and state.task.require_proof
    if state.task is not None and state.task.plan:
        return ""  # a plan does nothing that could be borne out
    if state.talks or lane.payload is None or not (required or lane.finish.require_proof):
        return ""
    if said := lane.payload.get(UNPROVEN):
        return str(said)
    if _bears_out(state, lane):
        return ""
    if lane.proof:
        return "what it has shown does not bear on the result as it is now"
    return _NOTHING_SHOWN if lane.finish.asks_for_proof else f"its definition asks for no proof, and {_NOTHING_SHOWN}"


_NOTHING_SHOWN = "no test, build, program or source bears the result out"


def _bears_out(state: RunState, lane: Lane) -> bool:
    """Tell whether what a specialist has shown is a proof; not if its own result is marked as unproven."""
    if not lane.proof or (lane.payload or {}).get(UNPROVEN) or _is_outdated(lane.proof, list(state.lanes.values())):
        return False
    if lane.payload is None or lane.compared is None or not lane.compared.unchanged or not lane.finish.needs_proof:
        return True
    from agent_fabric.domain.evidence.asked_for import nothing_to_show  # noqa: PLC0415 - few runs change nothing

    return state.task is None or not nothing_to_show(state.task.prompt, str(lane.payload.get("summary") or ""))


def _is_outdated(proof: Proof, lanes: Sequence[Lane]) -> bool:
    """Tell whether a specialist has changed a program after another one had shown that all works."""
    shown = -1 if proof.seq is None else proof.seq
    return any(lane.last_change > shown and any(map(can_be_run, lane.wrote)) for lane in lanes)
