"""The socket of a page: it says who it is, follows runs and sessions, and is told what happens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import field
from time import monotonic
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from agent_fabric import __version__
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.bootstrap.chat import Chat
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, Unauthenticated
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.page.messages import (
    MISUSED,
    TOO_MANY,
    UNAUTHENTICATED,
    Follow,
    Hello,
    InvalidMessage,
    Ping,
    Unfollow,
    read_message,
    say,
    say_event,
    say_notice,
    say_piece,
)
from agent_fabric.interfaces.http.page.sockets import OpenSocket, Sockets, TooManySockets
from agent_fabric.interfaces.http.runs.live import Feed, LiveRuns, Waiter
from agent_fabric.interfaces.http.runs.partial_answers import Heard
from agent_fabric.wire.chat import SESSION

HELLO_TIMEOUT_S = 5.0
RECHECK_S = 2.0
"""How often a login is checked again: one that is over must close its sockets within five seconds. So is whether its
page may still see the runs that it follows."""
LOOK_EVERY_S = 0.5
"""How often a session is looked at: another process may drive its turns."""
MAX_FOLLOWED = 64
"""Runs and sessions that one page follows."""
MAX_MESSAGES = 1_000
"""Of one page in `FLOOD_S` seconds; a page that is used says a few in a minute."""
FLOOD_S = 10.0
MAX_INVALID = 32
"""Messages that make no sense, before the socket is closed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageDoor:
    """Serves the sockets of pages."""

    runs: ServedRuns
    chat: Chat
    live: LiveRuns
    sockets: Sockets
    build: str

    async def __call__(self, websocket: WebSocket) -> None:
        await websocket.accept()
        page_user: Callable[[str], Awaitable[Principal]] = websocket.state.page_user
        try:
            with self.sockets.introducing() as crowded_out:
                token, principal = await _read_hello(websocket, page_user, crowded_out)
            with self.sockets.register(principal) as opened:
                await self._serve(websocket, opened, lambda: page_user(token))
        except WebSocketDisconnect:
            return
        except (TimeoutError, Unauthenticated, InvalidMessage):
            await _end(websocket, UNAUTHENTICATED, "Log in again")
        except TooManySockets:
            await _end(websocket, TOO_MANY, "Too many pages are open")

    async def _serve(self, websocket: WebSocket, opened: OpenSocket, who: Callable[[], Awaitable[Principal]]) -> None:
        principal = opened.principal
        await websocket.send_text(say("hello", name=principal.name, version=__version__, build=self.build))
        requests = _PageRequests(self, websocket, principal)
        tasks = {
            asyncio.create_task(requests.listen()),
            asyncio.create_task(_tell(websocket, opened)),
            asyncio.create_task(_recheck(principal, who)),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *requests.followed.values()):
                task.cancel()
            await asyncio.gather(*tasks, *requests.followed.values(), return_exceptions=True)
        for task in done:
            task.result()


@dataclass(slots=True)
class _PageRequests:
    """What one page asks for."""

    door: PageDoor
    websocket: WebSocket
    principal: Principal
    followed: "dict[str, asyncio.Task[None]]" = field(default_factory=dict)

    async def listen(self) -> None:
        """Do what the page says, until it leaves."""
        invalid, heard, since = 0, 0, monotonic()
        while True:
            try:
                message = await _receive(self.websocket)
                heard += 1
                if monotonic() - since > FLOOD_S:
                    heard, since = 0, monotonic()
                if heard > MAX_MESSAGES:
                    await _end(self.websocket, TOO_MANY, "Too many messages")
                    return
                await self._obey(message)
            except InvalidMessage as problem:
                invalid += 1
                if invalid > MAX_INVALID:
                    await _end(self.websocket, MISUSED, str(problem))
                    return
                await self._send(say("notice", code="invalid_message", text=str(problem)))

    async def _obey(self, message: object) -> None:
        match message:
            case Follow(run=run, session=session, after=after):
                key = f"run {run}" if run else f"session {session}"
                self._forget(key)
                if len(self.followed) >= MAX_FOLLOWED:
                    raise InvalidMessage(f"No more than {MAX_FOLLOWED} runs and sessions are followed at once")
                self.followed[key] = asyncio.create_task(self._follow(key, run, session, after))
            case Unfollow(run=run, session=session):
                self._forget(f"run {run}" if run else f"session {session}")
            case Ping():
                await self._send(say("pong"))
            case _:
                raise InvalidMessage("You have said hello already")

    def _forget(self, key: str) -> None:
        task = self.followed.pop(key, None)
        if task is not None:
            task.cancel()

    async def _follow(self, key: str, run: str, session: str, after: int) -> None:
        subject = {"run": run} if run else {"session": session}
        try:
            if session:
                await self._follow_session(session)
            else:
                await self._follow_run(run, after)
        except (FabricError, InvalidMessage) as problem:
            code = problem.code if isinstance(problem, FabricError) else "invalid_message"
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._send(say("notice", code=code, text=str(problem), **subject))
        except (WebSocketDisconnect, RuntimeError):
            return  # the page has left
        except Exception:
            _log.exception("A page cannot follow %s", key)
            raise
        finally:
            if self.followed.get(key) is asyncio.current_task():
                del self.followed[key]

    async def _follow_run(self, prefix: str, after: int) -> None:
        find, again_at = self.door.runs.find, monotonic() + RECHECK_S
        run_id = await find(prefix, by=self.principal)

        async def send(text: str) -> None:
            nonlocal again_at
            if monotonic() >= again_at:  # it may have been made private
                again_at = monotonic() + RECHECK_S
                await find(run_id, by=self.principal)
            await self._send(text)

        await RunFeed(self.door.live, self.door.runs.reader, send).follow(run_id, after)

    async def _follow_session(self, prefix: str) -> None:
        """Tell how a session stands whenever that changes, and follow each of its turns from its beginning."""
        chat = self.door.chat
        session = await chat.find(prefix, by=self.principal)
        told = ""
        while True:
            text = say("session", session=SESSION.dump(session))
            if text != told:
                told = text
                await self._send(text)
            key = f"run {session.turn}"
            if session.turn is not None and key not in self.followed:
                self.followed[key] = asyncio.create_task(self._follow(key, session.turn, "", -1))
            await self.door.sockets.news(LOOK_EVERY_S)
            session = await chat.sessions.find(session.session_id, viewer=Viewer.of(self.principal))

    async def _send(self, text: str) -> None:
        await self.websocket.send_text(text)


async def _read_hello(
    websocket: WebSocket, page_user: Callable[[str], Awaitable[Principal]], crowded_out: "asyncio.Future[None]"
) -> tuple[str, Principal]:
    """Return the page token and whose it is.

    Raises:
        TimeoutError, InvalidMessage, Unauthenticated: the page has not said so in time.
        TooManySockets: it had to make room for others.
    """
    async with asyncio.timeout(HELLO_TIMEOUT_S):
        hello = await _first(websocket, crowded_out)
        if not isinstance(hello, Hello):
            raise InvalidMessage("Say hello first")
        principal = await page_user(hello.page_token)
    if not principal.may(Scope.RUNS_READ):
        raise Unauthenticated("This needs the scope 'runs:read'")
    return hello.page_token, principal


async def _first(websocket: WebSocket, crowded_out: "asyncio.Future[None]") -> object:
    """Return the first message of a socket."""
    receiving = asyncio.ensure_future(_receive(websocket))
    either: set[asyncio.Future[Any]] = {receiving, crowded_out}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            raise TooManySockets
        return receiving.result()
    finally:
        if not receiving.done():
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)


async def _receive(websocket: WebSocket) -> object:
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    return read_message(message.get("text"))


async def _tell(websocket: WebSocket, opened: OpenSocket) -> None:
    """Send news as they come."""
    while True:
        await websocket.send_text(await opened.news.get())


async def _recheck(principal: Principal, who: Callable[[], Awaitable[Principal]]) -> None:
    """Stay as long as the login counts, and allows what it allowed.

    Raises:
        Unauthenticated: it does not any more.
    """
    unknown_since: float | None = None
    while True:
        await asyncio.sleep(RECHECK_S)
        try:
            if await who() != principal:
                raise Unauthenticated("What you may do has changed")
            unknown_since = None
        except Unauthenticated:
            raise
        except FabricError as problem:  # we cannot tell now; for a moment what was true counts
            unknown_since = unknown_since or monotonic()
            if monotonic() - unknown_since > HELLO_TIMEOUT_S:
                raise Unauthenticated("The store cannot be read") from problem


async def _end(websocket: WebSocket, code: int, reason: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        if websocket.application_state is WebSocketState.CONNECTED:
            await websocket.send_text(say("bye", code=code, reason=reason))
        await websocket.close(code, reason)


CHUNK_BYTES = 16 * 1024
Send = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunFeed:
    """Sends a run to a page. It holds no queue: a page that does not read holds up no one."""

    live: LiveRuns
    reader: RunReader
    send: Send

    async def follow(self, run_id: RunId, after: int) -> None:
        """Send everything behind a sequence number, in order, nothing twice, until the run has ended.

        Raises:
            RunNotFound, StoreUnavailable: it cannot be read.
        """
        with self.live.reading(run_id, deltas=True) as feed:
            if feed.tip < 0:
                feed.begin(await self.reader.newest(run_id))
            place = min(after, feed.tip)
            waiter, heard, notice = Waiter(), Heard(), b""
            while not self.live.closing:
                if place < feed.tip:
                    async with self.live.turns:
                        frames = await self._frames(feed, place)
                    for frame in frames:
                        await self.send(say_event(frame))
                    place += len(frames)
                elif feed.answers.has_news(heard):
                    for piece in feed.answers.news(heard):
                        await self.send(say_piece(run_id, piece))
                elif notice != feed.notice:
                    notice = feed.notice
                    await self.send(say_notice(notice))
                elif feed.settled:
                    return
                else:
                    await feed.news(waiter)

    async def _frames(self, feed: Feed, place: int) -> list[bytes]:
        frames = feed.after(place, most_bytes=CHUNK_BYTES)
        return await self.live.read_stored(self.reader, feed.run_id, place) if frames is None else frames
