"""What schedules ask in chats of channels."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_fabric.application.automation.owner_rights import NarrowToOwner
from agent_fabric.application.channels.conversations import Conversations
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.ports.channels import PendingTurn
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.chat import Chat
from agent_fabric.bootstrap.scheduled_chat import ScheduledChat
from agent_fabric.domain.automation.schedule import Schedule, TargetKind
from agent_fabric.domain.channels.pairing import Person, is_still
from agent_fabric.domain.errors import ChannelNotFound, FabricError, StoreUnavailable
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.identity.principals import Principal, Scope, known_scopes
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True)
class ScheduledSaying:
    """Says what schedules for sessions are to say: in a session of the page, or in the chat of a person."""

    chat: Callable[[], Chat]
    storage: Storage

    async def __call__(self, schedule: Schedule, run_id: RunId) -> None:
        """Say it; its turn is the run of this id, and saying it again changes nothing.

        Raises:
            FabricError: it cannot be said.
        """
        schedule = await NarrowToOwner(self.storage.users, self.storage.api_keys, self.storage.clock)(schedule)
        if schedule.target_kind is not TargetKind.CHANNEL:
            await ScheduledChat(self.chat)(schedule, run_id)
            return
        person = await self._person(schedule)
        chat, store = self.chat(), self.storage.channels
        people = ManagePeople(store.people, self.storage.users, store.outbox, self.storage.clock)
        by = await people.principal(person.sender)
        assert by is not None, "the person was just found"
        if schedule.owner != LOCAL_OWNER:  # with the rights of the schedule, as in other sessions
            by = Principal(by.name, by.kind, known_scopes(schedule.user_scopes) - {Scope.ADMIN})
        held = Conversations(store, chat.sessions, chat.manage)
        session = await held.open(person.place, person.sender, by, f"schedule {run_id}", schedule.name)
        await store.turns.add(PendingTurn(run_id, person.place, person.sender, ""))
        try:
            await chat.send(session, schedule.task_instruction, by=by, run_id=run_id, limited=True, by_itself=True)
        except StoreUnavailable:
            raise
        except FabricError:
            await store.turns.close(run_id)
            raise

    async def _person(self, schedule: Schedule) -> Person:
        """Return the one whom a schedule writes to: its owner; for those of the folder's owner, whom it names."""
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
