"""What schedules say in sessions, and in chats of channels."""

import uuid
from typing import Final

from agent_fabric.application.automation.make_tasks import NarrowToOwner
from agent_fabric.application.channels.conversations import Conversations
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.chat.manage_sessions import ManageSessions
from agent_fabric.application.chat.send_message import SendMessage
from agent_fabric.application.ports.channels import PendingTurn
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.automation.schedule import Schedule, TargetKind
from agent_fabric.domain.channels.pairing import Person, is_still
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ChannelNotFound, FabricError, StoreUnavailable
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, known_scopes
from agent_fabric.domain.ids import RunId, SessionId

_SESSIONS: Final = uuid.UUID("1b8b7c1e-5c55-4b6d-8e0c-1f6c2a9b7f33")
"""Namespace of the ids of sessions that schedules make."""


@dataclass(frozen=True, slots=True)
class SayInSessions:
    """Use case: say a schedule's instruction in a session of its owner, or in the chat of a person on a channel.

    Session and message have ids that follow from the firing, so that saying it again changes nothing. A message waits
    behind the turn in progress, and its answer marks the session as unread. No one watches the turn, so that the rules
    for runs of schedules hold for it.
    """

    storage: Storage
    manage: ManageSessions
    send: SendMessage

    async def __call__(self, schedule: Schedule, run_id: RunId) -> None:
        """Say it; its turn is the run of this id.

        Raises:
            FabricError: the session belongs to another user, or names a model or pack that does not exist.
        """
        schedule = await NarrowToOwner(self.storage.users, self.storage.api_keys, self.storage.clock)(schedule)
        if schedule.target_kind is TargetKind.CHANNEL:
            await self._in_channel(schedule, run_id)
        else:
            await self._in_session(schedule, run_id)

    async def _in_session(self, schedule: Schedule, run_id: RunId) -> None:
        """Say it in a session that stays, or in a new one each time."""
        owner = _owner(schedule)
        stays = schedule.use_persistent_chat or bool(schedule.chat_session_id)
        named = schedule.chat_session_id or str(uuid.uuid5(_SESSIONS, schedule.id if stays else run_id))
        session = await self.manage.create(
            by=owner,
            title=schedule.name,
            model_key=schedule.required_model,
            pack=schedule.agent_id or schedule.target,
            session_id=SessionId(named),
        )
        limited = schedule.owner != LOCAL_OWNER
        await self.send(session, schedule.task_instruction, by=owner, run_id=run_id, limited=limited, by_itself=True)

    async def _in_channel(self, schedule: Schedule, run_id: RunId) -> None:
        person = await self._person(schedule)
        store = self.storage.channels
        people = ManagePeople(store.people, self.storage.users, store.outbox, self.storage.clock)
        by = await people.principal(person.sender)
        assert by is not None, "the person was just found"
        if schedule.owner != LOCAL_OWNER:  # with the rights of the schedule, as in other sessions
            by = Principal(by.name, by.kind, known_scopes(schedule.user_scopes) - {Scope.ADMIN})
        held = Conversations(store, self.storage.sessions, self.manage)
        session = await held.open(person.place, person.sender, by, f"schedule {run_id}", schedule.name)
        await store.turns.add(PendingTurn(run_id, person.place, person.sender, ""))
        try:
            await self.send(session, schedule.task_instruction, by=by, run_id=run_id, limited=True, by_itself=True)
        except StoreUnavailable:
            raise
        except FabricError:
            await store.turns.close(run_id)
            raise

    async def _person(self, schedule: Schedule) -> Person:
        """Return the recipient of a schedule: its owner; for those of the folder's owner, the user it names."""
        user, _, channel = schedule.target.rpartition("@")
        owner = schedule.owner.partition(":")[2]
        if schedule.owner != LOCAL_OWNER:
            if user not in ("", owner):
                raise ChannelNotFound(
                    f"A schedule of {owner!r} writes only to {owner!r}", hint=f"Set the target to {channel!r}."
                )
            user = owner
        known = await self.storage.users.find(user) if user else None
        people = await self.storage.channels.people.list() if known is not None else ()
        there = [each for each in people if each.sender.channel == channel]
        found = [each for each in there if known is not None and is_still(each, known)]
        if not found:
            raise ChannelNotFound(
                f"{user or 'nobody'!r} is not paired on {channel!r}",
                hint="The target is a channel, such as telegram, or USER@CHANNEL. See `fabric channels people`.",
            )
        return found[0]


def _owner(schedule: Schedule) -> Principal:
    """Return the person whose schedule it is, with the rights that they had when they made it."""
    if schedule.owner == LOCAL_OWNER:
        return Principal(schedule.requested_by or "schedule", Kind.LOCAL, known_scopes(schedule.user_scopes))
    kind, _, name = schedule.owner.partition(":")
    return Principal(name, Kind(kind), known_scopes(schedule.user_scopes))
