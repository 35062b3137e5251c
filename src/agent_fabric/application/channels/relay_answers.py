"""Brings the answers of turns to the chats that they are owed to."""

from agent_fabric.application.channels.preview_turns import PreviewTurns
from agent_fabric.application.channels.replies import interrupted_source, plain_part, rendered_parts
from agent_fabric.application.channels.send_files import SendFiles
from agent_fabric.application.ports.channels import Channel, ChannelStore, PendingTurn
from agent_fabric.application.ports.chat import MessageQueue
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.chat.sessions import COMPLETED, FAILED, STOPPED, ChatMessage, message_from
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.events import Event, RunCreated, RunInterrupted
from agent_fabric.domain.runs.task import RunStatus

_BEFORE_ALL = -1
"""The sequence before the first event of a run."""
INTERRUPTED = "This answer was interrupted, and someone has to say how it goes on. Write /stop to leave it."
"""What someone reads about a turn that is not taken up again by itself."""


@dataclass(frozen=True, slots=True)
class RelayAnswers:
    """Use case: put every answer that is there into the outbox, once, whatever dies in between."""

    store: ChannelStore
    reader: RunReader
    queue: MessageQueue
    clock: Clock
    preview: PreviewTurns | None = None
    """Shows turns that are under way; None: nothing is shown before the answer."""
    files: SendFiles | None = None
    """Sends files that answers name; None: none are sent."""

    async def __call__(self, channel: Channel, *, limit: int = 200) -> int:
        """Relay what has ended; return how many answers that were.

        Raises:
            StoreUnavailable: the rest is relayed later.
        """
        status, relayed = channel.status, 0
        for turn in await self.store.turns.open(status.channel, status.account, limit=limit):
            try:
                stands = await self.reader.status(turn.run_id)
            except RunNotFound:
                await self._tell_problem(turn)
                continue
            if stands is RunStatus.INTERRUPTED and await self._is_left(turn):
                note = plain_part(interrupted_source(turn.run_id), turn.place, INTERRUPTED, at=self.clock.now())
                await self.store.outbox.put([note])
            elif stands.settled:
                await self._relay(channel, turn)
                relayed += 1
            elif self.preview is not None:
                await self.preview(channel, turn)
        return relayed

    async def _is_left(self, turn: PendingTurn) -> bool:
        """Tell whether a turn waits for a person; one that only no one drives yet is taken up by itself."""
        return isinstance((await self.reader.newest(turn.run_id)).body, RunInterrupted)

    async def _relay(self, channel: Channel, turn: PendingTurn) -> None:
        created = (await self.reader.page(turn.run_id, after=_BEFORE_ALL, limit=1))[0]
        newest = await self.reader.newest(turn.run_id)
        said = _ending_text(turn, created, newest)
        now = self.clock.now()
        reply_to = "" if turn.place.is_direct else turn.message_id
        parts = rendered_parts(
            channel.rendering, turn.run_id, turn.place, said, at=now, seq=newest.seq, reply_to=reply_to
        )
        if self.preview is not None:
            parts = await self.preview.close(channel, turn, parts)
        if self.files is not None:
            parts += await self.files.named_in(said, turn, since=created.ts, seq=newest.seq)
        # Known parts stay as they are, so dying between these two changes nothing.
        await self.store.outbox.put(parts)
        await self.store.turns.close(turn.run_id)

    async def _tell_problem(self, turn: PendingTurn) -> None:
        """Say why a turn cannot begin. It stays owed: it begins as soon as it can."""
        held = await self.store.conversations.find(turn.place)
        if held is None:
            return
        for waiting in await self.queue.list(held.session_id):
            if waiting.run_id == turn.run_id and waiting.problem:
                text = f"I cannot begin: {waiting.problem}"
                note = plain_part(f"problem:{turn.run_id}", turn.place, text, at=self.clock.now())
                await self.store.outbox.put([note])


def _ending_text(turn: PendingTurn, created: Event, newest: Event) -> str:
    """Return what a person reads about a turn that has ended."""
    body = created.body
    message = message_from(turn.run_id, body, newest) if isinstance(body, RunCreated) else None
    if message is None:
        return "It has ended without an answer."
    return _answer_text(message) or "It has ended without an answer."


def _answer_text(message: ChatMessage) -> str:
    match message.metadata.get("status"):
        case status if status == COMPLETED:
            return message.content
        case status if status == FAILED:
            return f"It failed: {message.content}"
        case status if status == STOPPED:
            return f"{message.content}\n\n(stopped)" if message.content else "Stopped."
        case _:
            return message.content
