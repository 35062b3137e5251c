"""What happens between a run and the people who have to agree; see `events` for the contract."""

from collections.abc import Mapping
from typing import Any, ClassVar

from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.policy.outside_plan import Outside


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A call needs a person's agreement; its lane waits."""

    kind: ClassVar = "approval_requested"

    approval_id: str
    call_id: CallId
    tool: str
    args: Mapping[str, Any]
    question: Question
    reason: str
    rule: str
    subject: str
    """The part of the call that the rule is about."""
    alike: str
    """What agreeing for the whole run would cover, in words; empty: nothing beyond this call."""
    agent: str
    target: str
    """Where it would happen."""
    sandbox: str
    """Level of the box that it would run in."""
    untrusted: tuple[str, ...]
    """Where untrusted text that the run has read came from."""
    policy_version: str
    binding: str
    """Hash of the exact call; an answer is good for nothing else."""
    args_hash: str
    expires_at: float
    private: tuple[str, ...] = ()
    """What the run has read that the world must not have."""
    destination: str = ""
    """Where the call would go outside this machine."""
    outside: Outside | None = None
    """What would run outside the box; None: it would run in the box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """A person has answered, or time has run out."""

    kind: ClassVar = "approval_decided"

    approval_id: str
    decision: Decision
    by: str
    reason: str = ""
    reach: Reach = Reach.ONCE
    args: Mapping[str, Any] | None = None
    """The arguments as the person changed them; None: as they were."""
    via: str = ""
    """How the answer came: `terminal`, `cli`, `http`, `clock`."""
