"""The task of a run, the agent that does it, its budget and its limits, and its result."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.evidence.proofs import Proof
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import Message, Usage
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.effects import NO_EFFECTS, Effects, Outcome
from agent_fabric.domain.runs.status import RunStatus as RunStatus  # noqa: PLC0414 - what needs tasks finds it here
from agent_fabric.domain.tools.allowlists import Allowlists


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBrief:
    """An agent made ready for one run: templates filled in, inputs checked."""

    name: str
    version: str
    system_prompt: str
    """How it works. With a pack, what is said after the pack's own prompt."""
    prompt: str
    """What it is asked: the first user message."""
    finish: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the result; empty: that of the pack."""
    capabilities: tuple[str, ...] = ()
    """What its tools come from; see `capabilities`."""
    skills: tuple[str, ...] = ()
    """Skills that it is offered, by name."""
    pack: str = ""
    """The pack that it builds on; empty: none."""
    max_tokens: int | None = None
    max_cost: float | None = None
    timeout_s: float | None = None
    retries: int = 0
    """How often its caller may try again after a failure."""
    parallel_allowed: bool = True
    """Whether several runs of it may be under way at once."""
    model_key: str = ""
    """The model that it asks for; empty: the usual one."""
    command_allowlist: tuple[str, ...] = ()
    """The only programs that its commands may start; empty: not limited."""
    path_allowlist: tuple[str, ...] = ()
    """The only files and folders that it may use; empty: not limited."""
    domain_allowlist: tuple[str, ...] = ()
    """The only hosts that it may reach; empty: not limited."""

    @property
    def limits(self) -> tuple[Allowlists, ...]:
        """The allowlists of the agent's file, if it has any."""
        lists = Allowlists(
            commands=self.command_allowlist,
            paths=self.path_allowlist,
            domains=self.domain_allowlist,
            owner=f"the agent {self.name}",
        )
        return (lists,) if lists else ()


class Profile(StrEnum):
    """How a run ends: the one difference between doing a task and answering a person."""

    TASK = "task"
    """By `finish_task`; plain text counts only as a fallback."""
    CHAT = "chat"
    """By a plain answer."""


DEFAULT_CALLS_PER_TURN = 64
DEFAULT_STEPS: Mapping[Profile, int] = {Profile.TASK: 40, Profile.CHAT: 15}
MAX_CHAT_STEPS = 50


class Priority(StrEnum):
    """The order in which runs are served by a model server."""

    INTERACTIVE = "interactive"
    """A person waits for it."""
    SCHEDULED = "scheduled"
    """Due at a time, but no person waits for it."""
    BATCH = "batch"
    """Whenever there is room."""


class TaskForceMode(StrEnum):
    """How several specialists share a task."""

    SEQUENTIAL = "sequential"
    """One after another, each knowing what came of those before."""
    PARALLEL = "parallel"
    """All at once, in one workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a run may use; None means without limit."""

    max_steps: int
    """Model answers."""
    max_tokens: int | None = None
    """Tokens in and out, as the server reports them."""
    max_seconds: float | None = None
    """Time spent in model and tool calls; waiting is free."""
    max_cost: float | None = None
    """What the answers of models with a price cost together."""
    max_calls_per_turn: int = DEFAULT_CALLS_PER_TURN
    """Tool calls of one model answer that are run; the others are refused. Logs before 0.6 say nothing about it."""

    @classmethod
    def of(
        cls,
        profile: Profile,
        *,
        max_steps: int | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        max_calls_per_turn: int = DEFAULT_CALLS_PER_TURN,
    ) -> Self:
        """Fill in the defaults of the profile."""
        steps = DEFAULT_STEPS[profile] if max_steps is None else max_steps
        if profile is Profile.CHAT:
            steps = min(steps, MAX_CHAT_STEPS)
        return cls(
            max_steps=steps,
            max_tokens=max_tokens,
            max_seconds=max_seconds,
            max_cost=max_cost,
            max_calls_per_turn=max_calls_per_turn,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The step of a workflow that a run works for."""

    run_id: RunId
    lane: LaneId
    """The step."""
    level: int = 1
    """How many runs are above."""
    untrusted: tuple[str, ...] = ()
    """Where untrusted text that the workflow had read by then came from: its inputs may hold some."""
    private: tuple[str, ...] = ()
    """What the workflow had read by then that the world must not have."""
    addresses: tuple[str, ...] = ()
    """Addresses in the task of this run that the workflow has read, or its owner wrote."""
    root: RunId | None = None
    """The run above all others; None: the parent, as in logs before 0.5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """What a task quotes of the conversation that it continues."""

    own_words: str
    """What the owner wrote, the task included."""
    untrusted: tuple[str, ...] = ()
    """Where untrusted text that the earlier answers may hold came from."""
    private: tuple[str, ...] = ()
    """What the runs that gave them had read that the world must not have."""
    addresses: tuple[str, ...] = ()
    """Addresses in them that no model composed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenWorkflow:
    """The definition of a workflow as its run froze it; later changes of the file have no effect."""

    definition: Mapping[str, Any]
    """As in a file, checked."""
    inputs: Mapping[str, Any]
    source: str = ""
    """The file that it came from."""
    exclusive: tuple[str, ...] = ()
    """Agents of which only one may be at work at a time."""
    forked_from: RunId | None = None
    """The run whose results this one began with."""
    untrusted: tuple[str, ...] = ()
    """Where untrusted text that these results may hold came from."""
    private: tuple[str, ...] = ()
    """Where private data came from that these results may hold."""
    addresses: tuple[str, ...] = ()
    """Addresses in inputs and results of the run before that it has read, or its owner wrote."""
    workflows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Definitions of the workflows that its steps call, and those of the ones that these call, by name."""
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Definitions of the agents that all of them invoke, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTask:
    """What stands in a task and, as it is, in the first event of its run. Fields may be added with a default only."""

    prompt: str
    specialist_ids: tuple[SpecialistId, ...] = ()
    """The packs to use, in this order; none lets recruitment choose."""
    task_force_mode: TaskForceMode = TaskForceMode.SEQUENTIAL
    model_key: str
    budget: Budget
    priority: Priority = Priority.INTERACTIVE
    workflow: FrozenWorkflow | None = None
    """The steps to take, if it is a workflow and not left to specialists."""
    parent: Parent | None = None
    """The step of another run that it works for."""
    agent: AgentBrief | None = None
    """The agent that does it, instead of a pack; `specialist_ids` has its name. It is frozen: its file may change."""
    requested_by: str = ""
    """Who asked for it over the network; empty: the owner of the folder."""
    user_scopes: tuple[str, ...] = ()
    """What they may do; empty: it is not limited."""
    started_by: str = ""
    """The run that asked for it, through a tool or a command; empty: no run did."""
    conversation: str = ""
    """The conversation that it goes on with, as its client calls it."""
    quotes: Quoted | None = None
    """What the prompt quotes of it; None: nothing."""
    continues: RunId | None = None
    """The run that it follows up, in the same workspace; None: it begins by itself."""
    trial_of: str = ""
    """The evaluation that it is a trial of; empty: none. No person is asked during one: what needs one is refused."""
    session: str = ""
    """The session that it is a turn of; empty: none."""
    history: tuple[Message, ...] = ()
    """What was said in the session before, and done."""
    node: str = ""
    """The machine of the fleet that it is about, and that its calls to machines mean unless they name one; empty: none
    was chosen."""
    pool: str = ""
    """The workers that may drive it, where several share a store; empty: those of the default pool."""
    encrypted: bool = False
    """Whether nothing of it is to be kept in the clear. Once it is, so is whatever comes of it."""
    outside_allowed: bool = True
    """Whether a command that a person agrees to may run outside the box."""
    on_doubt: OnDoubt = OnDoubt.ASK
    """What becomes of a call that a crash has cut off and that only a person can judge."""
    require_proof: bool = False
    """Whether the run fails where nothing bears its result out. Turns of sessions are not asked for proof."""
    plan: bool = False
    """Whether it only makes a plan: it may read and ask, and the policy lets it change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(AskedTask):
    """The task of a run."""

    network_allowed: bool = True
    profile: Profile = Profile.TASK
    workspace: str = ""
    """The project folder to work in; empty: a new one of the run's own."""
    owner: str = LOCAL_OWNER
    """Whose run it is, such as `user:ada`."""
    visibility: Visibility | None = None
    """Who else sees it; None: as configured."""
    project: bool | None = None
    """Whether `workspace` has files of its owner; None: if it is set."""

    def asked_by(self, principal: Principal) -> Self:
        """Return the same task with another owner."""
        return replace(
            self,
            requested_by=principal.name,
            owner=owner_of(principal),
            user_scopes=tuple(sorted(principal.scopes)),
            started_by=principal.run,
        )

    def below(self, parent: Parent, above: "Task", *, workspace: str) -> "Task":
        """Return the same task as the work of a step of the one above, for the same person, in the same workspace."""
        return replace(
            self,
            parent=parent,
            workspace=workspace,
            requested_by=above.requested_by,
            user_scopes=above.user_scopes,
            owner=above.owner,
            visibility=above.visibility,
            started_by=above.started_by,
            pool=above.pool,
            encrypted=self.encrypted or above.encrypted,
            outside_allowed=self.outside_allowed and above.outside_allowed,
            plan=self.plan or above.plan,
            on_doubt=above.on_doubt,
            require_proof=self.require_proof or above.require_proof,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why a run failed, for a program and for a person."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run, or its progress."""

    run_id: RunId
    status: RunStatus
    payload: Mapping[str, Any]
    """The finish payload. A run that failed has what those of its specialists did who finished."""
    error: RunError | None
    specialist_ids: tuple[SpecialistId, ...]
    model: str
    steps: int
    usage: Usage
    cost: float | None = None
    """What the model's answers cost together; None when no price is configured."""
    egress: tuple[str, ...] = ()
    """Hosts other than this one that a model of the run is at."""
    duration_s: float
    """Time spent in model and tool calls."""
    proof: Proof
    """What bears the result out."""
    outcome: Outcome | None = None
    """What a completed run came to; null: it has not completed."""
    effects: Effects = NO_EFFECTS
    """What was denied, failed, left and changed, and is in doubt, as the events tell."""
    sent_back: bool = False
    """A result of it was sent back once, because something in it did not hold."""
    idle_since_sent_back: bool = False
    """After that it has changed and proven nothing: if its result is right, it was sent back for nothing."""
    routing_method: str
    """How the specialists were chosen; empty before that."""
    workspace: str
    waiting_for: tuple[str, ...] = ()
    """The approvals that it waits for."""
    untrusted: tuple[str, ...] = ()
    """Where untrusted text that it has read came from."""
    private: tuple[str, ...] = ()
    """What it has read that the world must not have."""
    continues: RunId | None = None
    """The run that it follows up; None: it began by itself."""
    node: str = ""
    """The machine of the fleet that it is about; empty: none was chosen."""


def root_of(parent: Parent | None) -> RunId | None:
    """Return the run above all others, for a run with this parent; None: it has none."""
    return None if parent is None else parent.root or parent.run_id


Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCaps:
    """Ends of what a run may use; None: none."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None

    def require(self, *, max_steps: int | None) -> None:
        """Check what a caller asks for explicitly.

        Raises:
            InvalidInputs: it is more than allowed.
        """
        if max_steps is not None and self.max_steps is not None and max_steps > self.max_steps:
            raise InvalidInputs(
                f"A run may take at most {count_of(self.max_steps, 'step')} here, not {max_steps}",
                hint=f"Ask for {self.max_steps} or less, or for none. The limit is `limits.run.max_steps`.",
            )

    def lower(self, budget: Budget) -> Budget:
        """Return a budget that goes no further than this."""
        return replace(
            budget,
            max_steps=budget.max_steps if self.max_steps is None else min(budget.max_steps, self.max_steps),
            max_tokens=lower_of(budget.max_tokens, self.max_tokens),
            max_seconds=lower_of(budget.max_seconds, self.max_seconds),
            max_cost=lower_of(budget.max_cost, self.max_cost),
        )


def lower_of(one: Number | None, other: Number | None) -> Number | None:
    """Return the lower one of two limits; None is no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
