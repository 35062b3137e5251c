"""Tells whether a conversation is as it was recorded."""

from collections.abc import Sequence

from agent_fabric.application.ports.audit import LogCondition, LogInspector
from agent_fabric.application.ports.chat import SessionMessages
from agent_fabric.domain.chat.sessions import Session
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTurn:
    """The log of one turn, with its hashes recomputed."""

    run_id: RunId
    events: int
    holds: bool
    damage: tuple[str, ...]
    head: str
    """Hash of its last event, which covers all before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSession:
    """Whether the hash chain of a conversation holds."""

    session_id: SessionId
    holds: bool
    events: int
    turns: Sequence[CheckedTurn]


@dataclass(frozen=True, slots=True)
class VerifySession:
    """Use case: recompute the hashes of all turns of a session."""

    messages: SessionMessages
    logs: LogInspector

    async def __call__(self, session: Session) -> VerifiedSession:
        """Return whether all of them are as they were recorded."""
        turns = [
            _check(run_id, await self.logs.inspect(run_id)) for run_id in await self.messages.turns(session.session_id)
        ]
        return VerifiedSession(
            session_id=session.session_id,
            holds=all(each.holds for each in turns),
            events=sum(each.events for each in turns),
            turns=turns,
        )


def _check(run_id: RunId, found: LogCondition) -> CheckedTurn:
    return CheckedTurn(
        run_id=run_id, events=found.events, holds=not found.damage, damage=tuple(found.damage), head=found.head
    )
