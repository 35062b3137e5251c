"""Shows in a chat that an answer is under way, and how far it is, by changing one message.

A preview is worth nothing once the answer is there. So one that cannot be shown now is left out, none is waited for,
and only the first one, which makes a message, is in the ledger.
"""

import asyncio
from collections.abc import Callable
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import Channel, ChannelStore, PendingTurn
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.channels.deliveries import AnswerLost, DeliveryStatus, Part, PartKind, Settlement, Throttled
from agent_fabric.domain.channels.markdown import read_markdown
from agent_fabric.domain.channels.pacing import Pacer
from agent_fabric.domain.channels.splitting import split_blocks
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event, RunWaited, ToolCalled
from agent_fabric.domain.ids import RunId

AFTER_S: Final = 3.0
"""An answer that is there earlier needs no preview."""
EVERY_S: Final = 2.0
EVERY_IN_GROUP_S: Final = 10.0
"""Telegram takes twenty messages a minute in a group; most of them are left to answers."""
EDIT_TIMEOUT_S: Final = 5.0
BELOW: Final = "The answer stands below."
_MARK: Final = "\n…"


class Streaming(StrEnum):
    """How much is shown of an answer before it is there."""

    OFF = "off"
    PROGRESS = "progress"
    """What is being done."""
    EDIT = "edit"
    """And the answer, as it grows."""


@dataclass(slots=True)
class _Shown:
    since: float
    next_at: float = 0.0
    text: str = ""
    message_id: str = ""
    is_unsure: bool = False
    """Whether a change may still arrive, even after the answer: then the answer needs a message of its own."""


@dataclass(slots=True)
class PreviewTurns:
    """Use case: one look at a turn that is under way."""

    store: ChannelStore
    reader: RunReader
    clock: Clock
    pacer: Callable[[], Pacer]
    streaming: Streaming = Streaming.OFF
    answer_so_far: Callable[[RunId], str] = lambda _: ""
    """What the model has written of its answer; empty: nothing, or no one here knows."""
    _shown: dict[RunId, _Shown] = field(default_factory=dict)

    async def __call__(self, channel: Channel, turn: PendingTurn) -> None:
        """Show how a turn stands, if it is time to.

        Raises:
            FabricError: the store cannot be read.
        """
        if self.streaming is Streaming.OFF or not channel.rendering.can_edit:
            return
        now = self.clock.now()
        shown = self._shown.setdefault(turn.run_id, _Shown(now))
        if now - shown.since < AFTER_S or now < shown.next_at:
            return
        shown.next_at = now + (EVERY_S if turn.place.is_direct else EVERY_IN_GROUP_S)
        if not shown.message_id:
            known = await self._part(turn.run_id)
            if known is None:
                await self._begin(turn, now)
            elif known.status is DeliveryStatus.SENT:
                shown.message_id = known.message_id
        if shown.message_id and not shown.is_unsure:
            await self._edit(channel, turn, shown, now)

    async def close(self, channel: Channel, turn: PendingTurn, parts: list[Part]) -> list[Part]:
        """Return the parts of an answer, the first of which takes the place of the preview, if there is one to take.

        Raises:
            FabricError: the store cannot be read or written.
        """
        shown = self._shown.pop(turn.run_id, None)
        preview = await self._part(turn.run_id)
        if preview is None or not parts:
            return parts
        now = self.clock.now()
        if preview.status is DeliveryStatus.QUEUED:
            gone = Settlement(status=DeliveryStatus.EXPIRED, problem="the answer was faster", counts=False)
            await self.store.outbox.settle(preview, gone, now=now)
        if preview.status is not DeliveryStatus.SENT:
            return parts
        first = parts[0]
        is_unsure = shown is not None and shown.is_unsure
        fits = first.kind is PartKind.TEXT and channel.rendering.takes_edit(first.text)
        if fits and not is_unsure:
            edit = replace(first, kind=PartKind.EDIT, edits=preview.message_id, reply_to="", facts={"final": True})
            return [edit, *parts[1:]]
        below = plain_part(turn.run_id, turn.place, BELOW, at=now, seq=preview.seq)
        return [replace(below, number=1, kind=PartKind.EDIT, edits=preview.message_id), *parts]

    async def _part(self, run_id: RunId) -> Part | None:
        return next((each for each in await self.store.deliveries.of_source(run_id) if each.is_preview), None)

    async def _begin(self, turn: PendingTurn, now: float) -> None:
        part = plain_part(turn.run_id, turn.place, await self._progress(turn.run_id, 0), at=now)
        reply_to = "" if turn.place.is_direct else turn.message_id
        await self.store.outbox.put([replace(part, reply_to=reply_to, facts={"preview": True})])

    async def _edit(self, channel: Channel, turn: PendingTurn, shown: _Shown, now: float) -> None:
        edit = await self._look(channel, turn, shown, now)
        if edit.text == shown.text or self.pacer().free_at(turn.place, now) > now:
            return
        self.pacer().note(turn.place, now)
        try:
            async with asyncio.timeout(EDIT_TIMEOUT_S):
                outcome = await channel.send(edit)
        except TimeoutError:
            outcome = AnswerLost("it took too long")
        if isinstance(outcome, AnswerLost):
            shown.is_unsure = True
        elif isinstance(outcome, Throttled):
            self.pacer().close(turn.place, now + outcome.retry_after_s, whole_account=outcome.whole_account)
        else:
            shown.text = edit.text

    async def _look(self, channel: Channel, turn: PendingTurn, shown: _Shown, now: float) -> Part:
        """Return the change that shows how the turn stands."""
        written = self.answer_so_far(turn.run_id) if self.streaming is Streaming.EDIT else ""
        rendering = channel.rendering
        groups = split_blocks(read_markdown(written), rendering, limit=rendering.limit - len(_MARK)) if written else []
        if groups and rendering.takes_edit(rendering.render(groups[0]) + _MARK):
            text, plain = rendering.render(groups[0]) + _MARK, rendering.plain(groups[0]) + _MARK
        else:
            text = plain = await self._progress(turn.run_id, now - shown.since)
        part = plain_part(turn.run_id, turn.place, text, at=now)
        return replace(part, plain=plain, kind=PartKind.EDIT, edits=shown.message_id)

    async def _progress(self, run_id: RunId, seconds: float) -> str:
        return _progress_words(await self.reader.newest(run_id), seconds)


def _progress_words(newest: Event, seconds: float) -> str:
    """Return what a turn is doing; a name of a tool at most, since more of a call may be private.

    One that waits for someone may do so for days: its message is not changed all the time.
    """
    match newest.body:
        case ApprovalRequested(tool=tool):
            return f"Waiting for an approval: {tool} …"
        case RunWaited(approvals=approvals):
            return "Waiting for an approval …" if approvals else "Waiting …"
        case ToolCalled(tool=tool):
            doing = f"Working: {tool}"
        case _:
            doing = "Thinking"
    if seconds < 10:
        return f"{doing} …"
    since = f"{int(seconds // 10) * 10} s" if seconds < 60 else f"{int(seconds // 60)} min"
    return f"{doing} ({since}) …"
