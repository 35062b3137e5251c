"""The questions that runs have asked people, and what became of them."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside_plan import Outside

if TYPE_CHECKING:  # lists need no events
    from agent_fabric.domain.runs.consequences import Consequences

MAX_LOOKED_AT: Final = 200
"""Earlier agreements that are looked through."""


class ApprovalStatus(StrEnum):
    """Where a question stands."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    DONE = "done"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    """Its run ended before it was answered."""

    @classmethod
    def after(cls, decision: Decision) -> Self:
        """Return where a question stands after a decision."""
        return cls(_AFTER[decision])


_AFTER: Final = {
    Decision.APPROVE: "approved",
    Decision.DENY: "denied",
    Decision.DONE: "done",
    Decision.EXPIRED: "expired",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalCard:
    """Everything that a person has to know before they answer, and the answer if there is one."""

    approval_id: str
    run_id: RunId
    tool: str
    args: Mapping[str, Any]
    rule: str
    """The rule of the policy that wants a person to agree."""
    expires_at: float
    status: ApprovalStatus
    question: Question
    reason: str
    subject: str
    """The part of the call that the rule is about."""
    alike: str
    """What agreeing for the whole run would cover; nothing: it can only be agreed to once."""
    agent: str
    target: str
    """Where it would happen."""
    sandbox: str
    """Level of the box that it would run in."""
    untrusted: Sequence[str]
    """Where text came from that the run has read and no one vouches for."""
    policy_version: str
    args_hash: str
    call_id: str
    created_at: float
    private: Sequence[str] = ()
    """What the run has read that the world must not have."""
    destination: str = ""
    """Where the call would go outside this machine; empty: nowhere that is known."""
    outside: Outside | None = None
    """What would run outside the box; None: it would run in the box."""
    decided_by: str = ""
    decided_at: float | None = None
    decided_because: str = ""
    owner: str = ""
    """Whose run asks: `local`, or such as `user:ada`; empty: the run is older than 0.6."""
    binding: str = ""
    """Hash of the exact call: what an answer is good for. Empty: its run cannot be read here."""
    changed: Mapping[str, Any] | None = None
    """What the person who approved made of the arguments, or filled in; None: it ran as it was asked for."""
    damage: str = ""
    """Why it cannot be answered: its row in the store was changed or cannot be read. Empty: it is as the log says."""

    @classmethod
    def from_request(cls, run_id: RunId, body: ApprovalRequested, at: float) -> Self:
        """Return the card of a question that has just been asked."""
        shared = {field.name for field in fields(cls)} & {field.name for field in fields(body)}
        told: dict[str, Any] = {name: getattr(body, name) for name in shared}
        return cls(run_id=run_id, created_at=at, status=ApprovalStatus.PENDING, **told)

    def with_decision(
        self,
        status: ApprovalStatus,
        *,
        by: str,
        reason: str,
        at: float | None,
        changed: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the card after a decision."""
        return replace(self, status=status, decided_by=by, decided_because=reason, decided_at=at, changed=changed)

    def without_decision(self, status: ApprovalStatus = ApprovalStatus.PENDING) -> Self:
        """Return the card without an answer."""
        return self.with_decision(status, by="", reason="", at=None)


def follow_approvals(cards: MutableMapping[str, ApprovalCard], run_id: RunId, following: "Consequences") -> None:
    """Bring the cards of a run to what follows from its events."""
    for event in following.approvals:
        match event.body:
            case ApprovalRequested() as body:
                cards[body.approval_id] = ApprovalCard.from_request(run_id, body, event.ts)
            case ApprovalDecided() as body if body.approval_id in cards:
                status = ApprovalStatus.after(body.decision)
                card = cards[body.approval_id]
                cards[body.approval_id] = card.with_decision(
                    status, by=body.by, reason=body.reason, at=event.ts, changed=body.args
                )
            case _:
                pass
    if following.cancel_approvals:
        for approval_id, card in list(cards.items()):
            if card.run_id == run_id and card.status is ApprovalStatus.PENDING:
                cards[approval_id] = card.without_decision(ApprovalStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says to a question."""

    decision: Decision
    by: str
    via: str
    reason: str = ""
    reach: Reach = Reach.ONCE
    args: Mapping[str, Any] | None = None
    binding: str = ""
    """Hash of the call that the person was shown, or how it begins; empty: no one says what was shown."""

    def row(self, approval_id: str) -> dict[str, Any]:
        """Return what the run's inbox gets."""
        return {
            "approval_id": approval_id,
            "decision": self.decision,
            "by": self.by,
            "via": self.via,
            "reason": self.reason,
            "reach": self.reach,
            "args": None if self.args is None else dict(self.args),
        }


class ApprovalRepository(Protocol):
    """All questions of one fabric folder, shared by many processes."""

    async def list(
        self, *, run_id: RunId | None = None, pending_only: bool = True, viewer: Viewer = EVERYTHING
    ) -> Sequence[ApprovalCard]:
        """Return questions of runs that the viewer may see, the oldest first, in the words of their logs.

        What is damaged is among them, and says so.
        """
        ...

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> ApprovalCard:
        """Return the one question whose id begins so, of runs that the viewer may see.

        Raises:
            ApprovalNotFound: none, or more than one, begins so.
        """
        ...

    async def agreed_before(self, card: ApprovalCard, *, viewer: Viewer = EVERYTHING) -> int:
        """Return how many earlier questions about the same tool under the same rule were agreed to.

        Only the newest `MAX_LOOKED_AT` that the viewer may see are counted.
        """
        ...

    async def answer(self, approval_id: str, answer: Answer) -> None:
        """Settle a question and put the answer into its run's inbox, in one transaction: the first answer wins.

        Raises:
            ApprovalNotFound: there is no such question.
            ApprovalSettled: it has been answered, time has run out, or the run has ended; the message says which.
        """
        ...
