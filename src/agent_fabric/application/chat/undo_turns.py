"""Takes the files of a session back to a message."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_fabric.application.chat.send_message import require_owner
from agent_fabric.application.ports.chat import SessionMessages
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.undo_run import Undone, UndoRun
from agent_fabric.domain.chat.sessions import Session, answer_id, question_id
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import MessageNotFound, RunUnsettled
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.irreversible import SentAway, sent_away


class LaterChanges(NamedTuple):
    """What was done to files behind a message, the newest turn first, and what no undo brings back."""

    diffs: Sequence[RunDiff]
    sent: Sequence[SentAway]


class TakenBack(NamedTuple):
    """What was taken back behind a message, the newest turn first, and what cannot be."""

    undone: Sequence[Undone]
    sent: Sequence[SentAway]


@dataclass(frozen=True, slots=True)
class UndoTurns:
    """Use case: undo the turns behind a message, the newest first. A message of the person counts as not yet answered.

    If someone has edited a file since, that turn and those before it are left alone, unless forced.
    """

    messages: SessionMessages
    runs: RunRepository
    undo: UndoRun

    async def look(self, session: Session, message_id: str) -> LaterChanges:
        """Return what would be taken back.

        Raises:
            MessageNotFound: there is no such message.
        """
        turns = await self._behind(session, message_id)
        return LaterChanges([await self.undo.diff(run_id) for run_id in turns], await self._sent_away(turns))

    async def __call__(
        self, session: Session, message_id: str, *, by: Principal, dry: bool = False, force: bool = False
    ) -> TakenBack:
        """Take the files back.

        Raises:
            Forbidden: it is someone else's session.
            MessageNotFound: there is no such message.
            RunUnsettled: a turn is under way.
        """
        require_owner(session, by)
        if session.turn is not None:
            raise RunUnsettled("A turn of this session is under way", hint="Stop it first.")
        turns = await self._behind(session, message_id)
        undone: list[Undone] = []
        for run_id in turns:
            if (await self.undo.diff(run_id)).changes:
                undone.append(await self.undo(run_id, by=by.name, dry=dry, force=force))
                if any(not each.final for each in undone[-1].refused) and not force and not dry:
                    break  # what is older lies below what was left alone
        return TakenBack(undone, await self._sent_away(turns))

    async def _behind(self, session: Session, message_id: str) -> list[RunId]:
        """Return the turns behind a message, the newest first."""
        turns = [*await self.messages.turns(session.session_id)]
        for index, run_id in enumerate(turns):
            if message_id == answer_id(run_id):
                return turns[index + 1 :][::-1]
            if message_id == question_id(run_id):
                return turns[index:][::-1]
        if message_id.startswith(f"{session.session_id}."):  # of the session that this one was forked from
            return turns[::-1]
        raise MessageNotFound(f"This session has no message {message_id!r}", hint="Reload the session.")

    async def _sent_away(self, turns: Sequence[RunId]) -> list[SentAway]:
        return [each for run_id in reversed(turns) for each in sent_away(run_id, await self.runs.read(run_id))]
