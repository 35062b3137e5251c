"""Finds sessions for callers: what a caller may not see does not exist for it."""

from dataclasses import replace
from typing import Final

from agent_fabric.application.ports.audit import ActLog
from agent_fabric.application.ports.chat import SessionRepository
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.chat.sessions import Session
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.identity.principals import Principal

HIDDEN_TITLE: Final = "(private)"


@dataclass(frozen=True, slots=True)
class FindSession:
    """Use case: find a session, and record that a private one of another owner was read."""

    sessions: SessionRepository
    acts: ActLog
    clock: Clock

    async def __call__(self, prefix: str, *, by: Principal) -> Session:
        """Return the one session whose id begins so and that the caller may see.

        Raises:
            SessionNotFound: none, or more than one, begins so.
            StoreFull, StoreUnavailable: the read cannot be recorded, so it does not happen.
        """
        viewer = Viewer.of(by)
        found = await self.sessions.find(prefix, viewer=viewer)
        if is_others(found, viewer):
            detail = f"of {found.owner}"
            act = Act.of(by, Deed.PRIVATE_SESSION_READ, at=self.clock.now(), about=found.session_id, detail=detail)
            await self.acts.record(act)
        return found


def is_others(session: Session, viewer: Viewer) -> bool:
    """Tell whether a session is a private one of someone else."""
    return session.visibility is Visibility.PRIVATE and not viewer.owns(session.owner)


def listed_for(session: Session, viewer: Viewer) -> Session:
    """Return a session as a list shows it: of a private one of someone else, only that there is one."""
    return replace(session, title=HIDDEN_TITLE) if is_others(session, viewer) else session
