"""What schedules say in sessions."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent_fabric.bootstrap.chat import Chat
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.identity.principals import Kind, Principal, known_scopes
from agent_fabric.domain.ids import RunId, SessionId

_SESSIONS: Final = uuid.UUID("1b8b7c1e-5c55-4b6d-8e0c-1f6c2a9b7f33")
"""Namespace of the ids of sessions that schedules make."""


@dataclass(frozen=True, slots=True)
class ScheduledChat:
    """Says a schedule's instruction in a session of its owner: one that stays, or a new one each time.

    Session and message have ids that follow from the firing, so that saying it again changes nothing. A message waits
    behind the turn that is under way, and its answer marks the session as unread. Nobody watches the turn, so that what
    holds for runs of schedules holds for it.
    """

    chat: Callable[[], Chat]

    async def __call__(self, schedule: Schedule, run_id: RunId) -> None:
        """Say it; its turn is the run of this id.

        Raises:
            FabricError: the session belongs to somebody else, or names a model or pack that does not exist.
        """
        chat, owner = self.chat(), _owner(schedule)
        stays = schedule.use_persistent_chat or bool(schedule.chat_session_id)
        named = schedule.chat_session_id or str(uuid.uuid5(_SESSIONS, schedule.id if stays else run_id))
        session = await chat.manage.create(
            by=owner,
            title=schedule.name,
            model_key=schedule.required_model,
            pack=schedule.agent_id or schedule.target,
            session_id=SessionId(named),
        )
        limited = schedule.owner != LOCAL_OWNER
        await chat.send(session, schedule.task_instruction, by=owner, run_id=run_id, limited=limited, by_itself=True)


def _owner(schedule: Schedule) -> Principal:
    """Return the person whose schedule it is, with the rights that they had when they made it."""
    if schedule.owner == LOCAL_OWNER:
        return Principal(schedule.requested_by or "schedule", Kind.LOCAL, known_scopes(schedule.user_scopes))
    kind, _, name = schedule.owner.partition(":")
    return Principal(name, Kind(kind), known_scopes(schedule.user_scopes))
