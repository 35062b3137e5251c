"""The agent that an editor talks with: its sessions are those of `fabric chat` and of the page."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_fabric import __version__
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.interfaces.acp.peer import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Peer, RpcError
from agent_fabric.interfaces.acp.prompts import folder_param, prompt_param, text_param

if TYPE_CHECKING:  # `initialize` is answered before the engine is loaded
    from agent_fabric.application.ports.approvals import ApprovalCard
    from agent_fabric.domain.chat.sessions import ChatMessage, Session
    from agent_fabric.domain.events import Event
    from agent_fabric.domain.runs.task import RunResult
    from agent_fabric.interfaces.acp.updates import TurnUpdates, Update
    from agent_fabric.interfaces.cli.chat.chat_places import LocalTalk

PROTOCOL_VERSION: Final = 1
LISTED: Final = 100
"""Sessions of one page of a list."""
LOOK_EVERY_S: Final = 0.5
"""How often is looked whether a question was answered elsewhere."""
WORK: Final = "work"
PLAN: Final = "plan"
MODES: Final = (
    {"id": WORK, "name": "Work", "description": "Does what you ask for; the policy decides what asks you first."},
    {"id": PLAN, "name": "Plan", "description": "Reads and makes a plan; changes nothing."},
)
FILE_TIMEOUT_S: Final = 5.0
"""How long an editor may take to read or write one file; then the disk counts."""
_log = logging.getLogger(__name__)

Result = Mapping[str, Any]


@dataclass(slots=True)
class _Turn:
    """A prompt that is being answered."""

    session: "Session"
    updates: "TurnUpdates"
    run_id: RunId | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: "asyncio.Task[None] | None" = None


class Opened:
    """What this process has opened once an editor wants a session."""

    def __init__(
        self,
        opens: "Callable[[EditorAgent], AbstractAsyncContextManager[LocalTalk]]",
        project: "Callable[[Path], Path]",
    ) -> None:
        self.opens, self.project = opens, project


class EditorAgent:
    """Methods of the Agent Client Protocol; EventSink of the turns that they begin."""

    wants_deltas = True

    def __init__(self, peer: Peer, load: Callable[[], Opened], group: asyncio.TaskGroup) -> None:
        self._peer = peer
        self._load = load
        self._group = group
        self._opened: tuple[LocalTalk, Opened] | None = None
        self._opening = asyncio.Lock()
        self._files: Mapping[str, Any] = {}
        """What the editor offers to do with files."""
        self._background: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._sessions: dict[str, Session] = {}
        self._modes: dict[str, str] = {}
        self._turns: dict[str, _Turn] = {}
        """What is under way, by session."""
        self._by_run: dict[RunId, _Turn] = {}
        self._outgoing: asyncio.Queue[tuple[str, Update]] = asyncio.Queue()
        self._newest_delta: tuple[str, Update] | None = None
        """A piece of an answer that waits to be sent, and takes up those that follow it."""
        self._methods: dict[str, Callable[[Mapping[str, Any]], Awaitable[Result]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load_session,
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
        }

    async def call(self, method: str, params: Mapping[str, Any]) -> Result:
        """Carry out a request of the editor."""
        known = self._methods.get(method)
        if known is None:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method[:80]!r}")
        return await known(params)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Stop the turn that the editor cancels."""
        session_id = params.get("sessionId")
        turn = self._turns.get(session_id) if method == "session/cancel" and isinstance(session_id, str) else None
        if turn is not None and not turn.cancelled.is_set():
            turn.cancelled.set()
            if turn.run_id is not None:
                turn.stopping = self._begin(self._stop(turn, turn.run_id))

    async def send_updates(self) -> None:
        """Send what is shown, in order, for as long as the process lives."""
        while True:
            session_id, update = await self._outgoing.get()
            if self._newest_delta is not None and self._newest_delta[1] is update:
                self._newest_delta = None
            try:
                await self._peer.notify("session/update", {"sessionId": session_id, "update": update})
            finally:
                self._outgoing.task_done()

    async def aclose(self) -> None:
        """Stop what goes on by itself, then close what was opened."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._closing.set()

    # ── what is shown ──────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, run_id: RunId, events: "Sequence[Event]") -> None:
        if (turn := self._by_run.get(run_id)) is not None:
            self._show(turn.session.session_id, turn.updates.of(events))

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        turn = self._by_run.get(run_id)
        if turn is None:
            return
        update, session_id = turn.updates.delta(lane, text), turn.session.session_id
        newest = self._newest_delta
        if newest is not None and newest[0] == session_id:
            newest[1]["content"]["text"] += update["content"]["text"]
            return
        self._show(session_id, [update])
        self._newest_delta = session_id, update

    def notice(self, run_id: RunId, text: str) -> None:
        if (turn := self._by_run.get(run_id)) is not None:
            content = {"type": "text", "text": f"{text}\n"}
            self._show(turn.session.session_id, [{"sessionUpdate": "agent_thought_chunk", "content": content}])

    # ── files that the editor has open ─────────────────────────────────────────────────────────────────────────────

    async def read(self, run_id: RunId, path: str) -> str | None:
        """Return the text of a file as the editor has it."""
        result = await self._ask_about_file("readTextFile", "fs/read_text_file", run_id, {"path": path})
        text = result.get("content") if isinstance(result, dict) else None
        return text if isinstance(text, str) else None

    async def write(self, run_id: RunId, path: str, text: str) -> None:
        """Let the editor show what was written."""
        await self._ask_about_file("writeTextFile", "fs/write_text_file", run_id, {"path": path, "content": text})

    async def _ask_about_file(self, offer: str, method: str, run_id: RunId, params: Mapping[str, Any]) -> Any:
        turn = self._by_run.get(run_id)
        if turn is None or self._files.get(offer) is not True:
            return None
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                return await self._peer.ask(method, {"sessionId": turn.session.session_id, **params})
        except (RpcError, TimeoutError):
            return None  # the disk has it

    def _show(self, session_id: str, updates: "Sequence[Update] | Any") -> None:
        for update in updates:
            self._newest_delta = None
            self._outgoing.put_nowait((session_id, update))

    def _say(self, session_id: str, text: str) -> None:
        from agent_fabric.interfaces.acp.updates import message_chunk  # noqa: PLC0415 - see above

        self._show(session_id, [message_chunk("assistant", text)])

    # ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _initialize(self, params: Mapping[str, Any]) -> Result:
        if not isinstance(params.get("protocolVersion"), int):
            raise RpcError(INVALID_PARAMS, "protocolVersion is missing, or no number")
        offers = params.get("clientCapabilities")
        files = offers.get("fs") if isinstance(offers, dict) else None
        self._files = files if isinstance(files, dict) else {}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
                "sessionCapabilities": {"list": {}},
            },
            "agentInfo": {"name": "agent-fabric", "title": "agent-fabric", "version": __version__},
            "authMethods": [],
        }

    async def _authenticate(self, _: Mapping[str, Any]) -> Result:
        return {}

    async def _new(self, params: Mapping[str, Any]) -> Result:
        folder = folder_param(params)
        talk, opened = await self._talk()
        from agent_fabric.interfaces.cli.chat.chat_places import Start  # noqa: PLC0415 - see above

        session = await talk.open(Start(project=str(opened.project(folder))))
        self._sessions[session.session_id] = session
        return {"sessionId": session.session_id, **self._mode_of(session.session_id)}

    async def _load_session(self, params: Mapping[str, Any]) -> Result:
        session_id, folder = text_param(params, "sessionId"), folder_param(params)
        talk, _ = await self._talk()
        session = await self._find(talk, session_id)
        if session.project and await asyncio.to_thread(folder.resolve) != Path(session.project):
            raise RpcError(INVALID_PARAMS, f"This session works in {session.project}")
        self._sessions[session_id] = session
        if session_id not in self._turns:
            await self._replay(talk, session)
            if session.turn is not None:  # a process was killed in the middle of it
                self._begin(self._go_on(talk, session, session.turn))
        await self._outgoing.join()
        return self._mode_of(session_id)

    async def _set_mode(self, params: Mapping[str, Any]) -> Result:
        session_id, mode = text_param(params, "sessionId"), text_param(params, "modeId")
        if session_id not in self._sessions or mode not in {each["id"] for each in MODES}:
            raise RpcError(INVALID_PARAMS, "There is no such mode, or the session is not open")
        self._modes[session_id] = mode
        return {}

    def _mode_of(self, session_id: str) -> Result:
        return {"modes": {"currentModeId": self._modes.get(session_id, WORK), "availableModes": [*MODES]}}

    async def _list(self, params: Mapping[str, Any]) -> Result:
        cursor, cwd = params.get("cursor"), params.get("cwd")
        try:
            before = float(cursor) if isinstance(cursor, str) else None
        except ValueError:
            raise RpcError(INVALID_PARAMS, "cursor is none of ours") from None
        talk, _ = await self._talk()
        from agent_fabric.interfaces.acp.updates import session_line  # noqa: PLC0415 - see above

        found = await talk.list(before=before, limit=LISTED)
        folder = str(await asyncio.to_thread(Path(cwd).resolve)) if isinstance(cwd, str) and "\0" not in cwd else ""
        shown = [session_line(each) for each in found if not folder or each.project == folder]
        more = {"nextCursor": repr(found[-1].updated_at)} if len(found) == LISTED else {}
        return {"sessions": shown, **more}

    async def _prompt(self, params: Mapping[str, Any]) -> Result:
        session_id, prompt = text_param(params, "sessionId"), prompt_param(params)
        session = self._sessions.get(session_id)
        if session is None:
            raise RpcError(INVALID_PARAMS, "The session is not open: session/new or session/load opens one")
        if session_id in self._turns:
            raise RpcError(INVALID_PARAMS, "A turn of this session is under way: session/cancel stops it")
        talk, _ = await self._talk()
        turn = self._new_turn(session)
        try:
            plan = self._modes.get(session_id) == PLAN
            run_id = await talk.say(session, prompt.text, quotes=prompt.quotes, plan=plan)
            return await self._answer(talk, turn, run_id)
        finally:
            self._end_turn(turn)

    # ── turns ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _new_turn(self, session: "Session") -> _Turn:
        from agent_fabric.interfaces.acp.updates import TurnUpdates  # noqa: PLC0415 - see above

        turn = _Turn(session, TurnUpdates(session.project))
        self._turns[session.session_id] = turn
        return turn

    def _end_turn(self, turn: _Turn) -> None:
        self._turns.pop(turn.session.session_id, None)
        if turn.run_id is not None:
            self._by_run.pop(turn.run_id, None)

    async def _answer(self, talk: "LocalTalk", turn: _Turn, run_id: RunId) -> Result:
        """Wait for the end of a turn, and ask the person what it asks."""
        from agent_fabric.domain.chat.sessions import answer_id  # noqa: PLC0415 - see above
        from agent_fabric.domain.runs.task import RunStatus  # noqa: PLC0415 - see above
        from agent_fabric.interfaces.acp.updates import said_at_end  # noqa: PLC0415 - see above

        session = turn.session
        turn.run_id = run_id
        self._by_run[run_id] = turn
        if turn.cancelled.is_set():
            turn.stopping = self._begin(self._stop(turn, run_id))
        result = await talk.answer(session, run_id)
        while result.status is RunStatus.WAITING and result.waiting_for and not turn.cancelled.is_set():
            if not await self._ask(talk, turn, result.waiting_for):
                break
            result = await talk.go_on(session, run_id)
        if turn.stopping is not None and result.status is RunStatus.WAITING:
            await turn.stopping
            result = await talk.answer(session, run_id)
        said = await talk.after(session, "")
        message = next((each for each in said if each.message_id == answer_id(run_id)), None)
        if message is not None:
            await talk.mark_seen(session)
            if result.status is RunStatus.COMPLETED and (more := said_at_end(message, turn.updates.said)):
                self._say(session.session_id, more)
        elif result.status is RunStatus.WAITING:
            self._say(session.session_id, f"\n\n(Run {run_id} waits for an answer: `fabric approvals list`.)")
        await self._outgoing.join()
        return {"stopReason": self._stop_reason(turn, result), "usage": turn.updates.usage}

    @staticmethod
    def _stop_reason(turn: _Turn, result: "RunResult") -> str:
        """Return why a turn has ended.

        Raises:
            RpcError: it failed.
        """
        match result.status.value:
            case "cancelled":
                return "cancelled"
            case "failed" if turn.updates.exhausted:
                return "max_tokens" if turn.updates.exhausted == "tokens" else "max_turn_requests"
            case "failed":
                failed = result.error
                message = "The turn failed" if failed is None else f"{failed.message} {failed.hint}".strip()
                raise RpcError(INTERNAL_ERROR, message, None if failed is None else {"code": failed.code})
            case _:
                return "end_turn"

    async def _ask(self, talk: "LocalTalk", turn: _Turn, approvals: Sequence[str]) -> bool:
        """Ask the person about everything that a turn waits for; return whether all of it has an answer."""
        from agent_fabric.application.ports.approvals import ApprovalStatus  # noqa: PLC0415 - see above
        from agent_fabric.interfaces.acp.permissions import answer_of, permission_request  # noqa: PLC0415 - see above

        for approval_id in approvals:
            card = await talk.question(approval_id)
            if card.status is not ApprovalStatus.PENDING:
                continue
            call = turn.updates.describe_call(card.call_id, card.tool, card.args, live=True)
            wanted = permission_request(turn.session.session_id, card, call)
            await self._outgoing.join()
            try:
                outcome = await self._outcome(talk, turn, card, wanted)
            except RpcError:
                return False  # it stays open, for the page or a terminal
            if outcome is None:
                continue
            if turn.cancelled.is_set():
                return False
            answer = answer_of(outcome, card)
            if answer is None:  # the editor has given up the whole turn
                self.notify("session/cancel", {"sessionId": turn.session.session_id})
                return False
            with suppress(_approval_settled()):  # another answer came first
                await talk.decide(card.approval_id, answer)
        return True

    async def _outcome(self, talk: "LocalTalk", turn: _Turn, card: "ApprovalCard", wanted: Result) -> Any:
        """Return what the editor answers; None: someone has answered elsewhere, or the turn was cancelled."""
        asking = asyncio.ensure_future(self._peer.ask("session/request_permission", wanted))
        stopped = asyncio.ensure_future(turn.cancelled.wait())
        try:
            while not asking.done() and not stopped.done():
                await asyncio.wait([asking, stopped], timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done() and (await talk.question(card.approval_id)).status is not card.status:
                    return None
            return asking.result() if asking.done() else {}
        finally:
            for each in (asking, stopped):
                each.cancel()
            await asyncio.gather(asking, stopped, return_exceptions=True)

    async def _stop(self, turn: _Turn, run_id: RunId) -> None:
        talk, _ = await self._talk()
        await talk.stop(turn.session, run_id)

    async def _go_on(self, talk: "LocalTalk", session: "Session", run_id: RunId) -> None:
        """See a turn through that an earlier process has left."""
        turn = self._new_turn(session)
        try:
            await self._answer(talk, turn, run_id)
        except RpcError as problem:
            self._say(session.session_id, problem.message)
        finally:
            self._end_turn(turn)

    async def _replay(self, talk: "LocalTalk", session: "Session") -> None:
        """Show a session from its beginning, but for the turn that is under way."""
        from agent_fabric.interfaces.acp.updates import TurnUpdates, message_chunk, said_at_end  # noqa: PLC0415 - see above

        updates = TurnUpdates(session.project)
        for message in await talk.after(session, ""):
            run_id = str(message.metadata.get("run_id", ""))
            if message.role == "user":
                self._show(session.session_id, [message_chunk("user", message.content)])
                updates = TurnUpdates(session.project)
                if run_id and run_id != session.turn:
                    self._show(session.session_id, updates.of(await self._events(talk, message), live=False))
            elif more := said_at_end(message, updates.said):
                self._show(session.session_id, [message_chunk("assistant", more)])

    @staticmethod
    async def _events(talk: "LocalTalk", message: "ChatMessage") -> "Sequence[Event]":
        try:
            return await talk.runs.events(RunId(str(message.metadata["run_id"])))
        except FabricError:
            return ()  # the run is gone, or cannot be read: what was said is there all the same

    # ── what is open ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _find(self, talk: "LocalTalk", session_id: str) -> "Session":
        from agent_fabric.interfaces.cli.chat.chat_places import Start  # noqa: PLC0415 - see above

        found = await talk.open(Start(session=session_id))
        if found.session_id != session_id:
            raise RpcError(INVALID_PARAMS, "There is no session with this id")
        return found

    async def _talk(self) -> "tuple[LocalTalk, Opened]":
        """Return the sessions of this folder, opened at the first call."""
        async with self._opening:
            if self._opened is None:
                opened = await asyncio.to_thread(self._load)
                ready: asyncio.Future[LocalTalk] = asyncio.get_running_loop().create_future()
                self._group.create_task(self._keep_open(opened, ready))
                self._opened = await ready, opened
            return self._opened

    async def _keep_open(self, opened: Opened, ready: "asyncio.Future[LocalTalk]") -> None:
        """Open and close the engine in one task."""
        try:
            async with opened.opens(self) as talk:
                if not ready.done():
                    ready.set_result(talk)
                await self._closing.wait()
        except Exception as problem:
            if ready.done():
                raise
            ready.set_exception(problem)

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._group.create_task(_log_failure(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _approval_settled() -> type[FabricError]:
    from agent_fabric.domain.errors import ApprovalSettled  # noqa: PLC0415 - see above

    return ApprovalSettled


async def _log_failure(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except FabricError as problem:
        _log.warning("%s", problem.message)


async def serve_editor(
    reader: asyncio.StreamReader, write: Callable[[bytes], Awaitable[None]], load: Callable[[], Opened]
) -> None:
    """Serve one editor until it closes its end. Turns that are under way then are interrupted, and can be resumed."""
    peer = Peer(reader, write)
    async with asyncio.TaskGroup() as group:
        agent = EditorAgent(peer, load, group)
        sending = group.create_task(agent.send_updates())
        try:
            await peer.serve(agent)
        finally:
            await agent.aclose()
            sending.cancel()
