"""Lets the messages of sessions become turns, one after another, for as long as a server lives."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import field

from agent_fabric.application.attempts import attempt
from agent_fabric.application.chat.begin_turn import PASSING, BeginTurn, NextTurn
from agent_fabric.application.chat.title_session import TitleSession
from agent_fabric.application.ports.chat import MessageQueue
from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Drive
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ServerBusy, ServerStopping, SessionNotFound, TooManyRequests
from agent_fabric.domain.ids import SessionId
from agent_fabric.domain.runs.task import RunResult

LOOK_EVERY_S = 0.5
"""A message that another process left begins within this time."""
MAX_UNTITLED = 100
"""Sessions that wait for a title; of more, the oldest keep their first words."""
_MAY_CHANGE = (*PASSING, ServerBusy, TooManyRequests, SessionNotFound)

_log = logging.getLogger(__name__)

Quota = Callable[[str, Callable[[], Awaitable[Drive | RunResult]]], Awaitable[Drive | RunResult]]


@dataclass(slots=True)
class ServeTurns:
    """Use case: begin the turns that are due, of any process, and drive them among the other runs."""

    queue: MessageQueue
    begin: BeginTurn
    dispatch: DispatchRuns
    quota: Quota | None = None
    """Counts the runs of callers with limits; None: they are not limited."""
    look_every_s: float = LOOK_EVERY_S
    """How often is looked for messages. Where someone else looks and calls `wake`, that can be seldom."""
    title: TitleSession | None = None
    """Names sessions after their first answer; None: no one does."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _answered: "deque[SessionId]" = field(default_factory=lambda: deque(maxlen=MAX_UNTITLED))
    _locks: dict[SessionId, asyncio.Lock] = field(default_factory=dict)

    async def __call__(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            naming: set[asyncio.Task[None]] = set()
            await self._serve(group, naming)
            for task in naming:  # no server waits for a title before it stops
                task.cancel()

    async def _serve(self, group: asyncio.TaskGroup, naming: "set[asyncio.Task[None]]") -> None:
        while True:
            while self._answered and self.title is not None:
                session_id = self._answered.popleft()
                work = attempt(self.title(session_id), f"Session {session_id} could not be named")
                task = group.create_task(work)
                naming.add(task)
                task.add_done_callback(naming.discard)
            try:
                for session_id in await self.queue.due():
                    await self.begin_next(session_id)
            except ServerStopping:
                return
            except FabricError as problem:
                _log.warning("The messages that wait could not be read: %s", problem.message)
            except Exception:  # noqa: BLE001 - one that fails must not keep the others waiting
                _log.exception("A turn could not begin")
            try:
                async with asyncio.timeout(self.look_every_s):
                    await self._ended.wait()
            except TimeoutError:
                pass
            self._ended.clear()

    def _note_end(self, session_id: SessionId) -> None:
        if self.title is not None:
            self._answered.append(session_id)
        self._ended.set()

    def wake(self) -> None:
        """Look at once."""
        self._ended.set()

    async def begin_next(self, session_id: SessionId) -> None:
        """Begin the next turn of a session, if it can begin. Why it cannot is noted with its message.

        Raises:
            ServerStopping: the next server begins it.
        """
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        try:
            async with lock:
                await self._begin(session_id)
        finally:
            if not lock.locked():
                self._locks.pop(session_id, None)

    async def _begin(self, session_id: SessionId) -> None:
        try:
            turn = await self.begin.next(session_id)
            begun = None if turn is None else await self._start(turn)
        except _MAY_CHANGE:
            return
        except ServerStopping:
            raise
        except FabricError as problem:
            await self.begin.note_problem(session_id, problem)
            return
        if isinstance(begun, Drive):
            begun.outcome.add_done_callback(lambda _: self._note_end(session_id))

    async def _start(self, turn: NextTurn) -> Drive | RunResult:
        def start() -> Awaitable[Drive | RunResult]:
            return self.dispatch(lambda: self.begin.create(turn))

        limited = self.quota is not None and turn.message.asked["limited"]
        return await (self.quota(str(turn.message.asked["who"]), start) if limited and self.quota else start())
