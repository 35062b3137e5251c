"""Talking at a server: it drives the turns, the terminal looks on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from agent_fabric.application.chat.verify_session import VerifiedSession
from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.client import Delta, FabricClient, Notice
from agent_fabric.domain.chat.sessions import ChatMessage, Session, question_id
from agent_fabric.domain.errors import MessageNotFound, MessageSent, RunNotFound, SessionNotFound
from agent_fabric.domain.events import Event, RunWaited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.chat.chat_places import LOOK_EVERY_S, Start, require_waiting
from agent_fabric.interfaces.cli.chat.chat_view import ChatView
from agent_fabric.interfaces.cli.place_remote import ServerRuns
from agent_fabric.wire.shape import Json


class ServerTalk:
    """Sessions of a server."""

    served = True

    def __init__(self, client: FabricClient, view: ChatView) -> None:
        self._client = client
        self._view = view
        self.runs = ServerRuns(client)
        self._shown: dict[RunId, int] = {}

    async def open(self, start: Start) -> Session:
        sessions = self._client.sessions
        if start.session:
            return await sessions.show(start.session)
        if start.last:
            found = await sessions.list(limit=1, own=True)
            if not found:
                raise SessionNotFound("You have no session at this server yet", hint="Start one: fabric chat")
            return found[0]
        return await sessions.create(model_key=start.model_key or "", pack=start.pack or "", node=start.node or "")

    async def session(self, session_id: str) -> Session:
        return await self._client.sessions.show(session_id)

    async def newest(self, limit: int) -> Sequence[Session]:
        return await self._client.sessions.list(limit=limit, own=True)

    async def after(self, session: Session, message_id: str) -> Sequence[ChatMessage]:
        said = (await self._client.sessions.messages(session.session_id)).messages
        ids = [each.message_id for each in said]
        return said[ids.index(message_id) + 1 :] if message_id in ids else said

    async def say(self, session: Session, text: str, *, plan: bool = False) -> RunId:
        return (await self._client.sessions.say(session.session_id, text, plan=plan)).run_id

    async def answer(self, session: Session, run_id: RunId) -> RunResult:
        while True:
            try:
                return await self._follow(run_id)
            except RunNotFound:  # it waits for the turns before it
                standing = await self.session(session.session_id)
                if standing.turn is not None and standing.turn != run_id:
                    self._view.notice(run_id, "waiting for the answer before it")
                require_waiting(await self.after(session, ""), run_id)
                await asyncio.sleep(LOOK_EVERY_S)

    async def go_on(self, session: Session, run_id: RunId) -> RunResult:  # noqa: ARG002 - as on this machine
        return await self._follow(run_id)

    async def _follow(self, run_id: RunId) -> RunResult:
        after = self._shown.get(run_id, -1)
        async with aclosing(self._client.runs.follow(run_id, after=after, deltas=self._view.wants_deltas)) as stream:
            async for each in stream:
                match each:
                    case Event():
                        self._shown[run_id] = each.seq
                        self._view.publish(run_id, (each,))
                        if isinstance(each.body, RunWaited):
                            result = (await self._client.runs.show(run_id)).result
                            if result.status is RunStatus.WAITING:
                                return result
                    case Delta():
                        self._view.delta(run_id, each.lane, each.text)
                    case Notice():
                        self._view.notice(run_id, ProgressText(each.text) if each.progress else each.text)
                    case RunResult():
                        return each
        return (await self._client.runs.show(run_id)).result

    async def stop(self, session: Session, run_id: RunId) -> None:
        sessions = self._client.sessions
        try:
            await sessions.withdraw(session.session_id, question_id(run_id))
        except (MessageSent, MessageNotFound):
            if (await self.session(session.session_id)).turn == run_id:  # not the answer to another person
                await sessions.stop(session.session_id)

    async def mark_seen(self, session: Session) -> None:
        await self._client.sessions.mark_read(session.session_id)

    async def change(self, session: Session, **values: str) -> Session:
        return await self._client.sessions.change(session.session_id, **values)

    async def fork(self, session: Session, message_id: str) -> tuple[Session, str]:
        return await self._client.sessions.fork(session.session_id, message_id)

    async def remember(self, text: str) -> str:
        return str((await self._client.memory.remember(text))["id"])

    async def take_back(self, session: Session, message_id: str) -> Json:
        return await self._client.sessions.take_back(session.session_id, message_id)

    async def verify(self, session: Session) -> VerifiedSession:
        return await self._client.sessions.verify(session.session_id)

    async def question(self, approval_id: str) -> ApprovalCard:
        return await self._client.approvals.show(approval_id)

    async def decide(self, approval_id: str, answer: Answer) -> object:
        return await self.runs.answer(approval_id, answer)


@asynccontextmanager
async def server_talk(url: str, view: ChatView) -> AsyncIterator[ServerTalk]:
    """Open the sessions of a server."""
    async with FabricClient(url, run=acting_run()) as client:
        yield ServerTalk(client, view)
