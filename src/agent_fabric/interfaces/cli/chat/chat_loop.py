"""The conversation at a terminal: read a line, let the turn happen, show it; `/` begins a command."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.bootstrap.this_machine import run_own_command
from agent_fabric.domain.chat.sessions import QUEUED, STOPPED, ChatMessage, Session, answer_id
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, InvalidInputs
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.approvals.ask_approval import ask_person, is_interactive, typed_line
from agent_fabric.interfaces.cli.chat.chat_commands import ChatCommands, Left, unproven_count
from agent_fabric.interfaces.cli.chat.chat_places import Talk
from agent_fabric.interfaces.cli.chat.chat_view import ChatView
from agent_fabric.interfaces.cli.main import COMPLETED, INTERRUPTED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import colour, plain, plain_lines, print_error

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.chat.line_editor import LineEditor

SESSIONS_OF_HISTORY = 10
"""Newest sessions whose messages are found again with ↑ and Ctrl-R."""
LOOK_EVERY_S = 1.0
"""How often a session is looked at while nothing is typed: others may talk in it."""
STOP_PATIENCE_S = 1.0
"""How long leaving waits for a turn that is being stopped, so that what was said of it is kept."""
PROMPT = "> "


@dataclass(slots=True)
class Presses:
    """Ctrl-C: the first press stops what is under way, the second one leaves."""

    main: "asyncio.Task[Any]"
    stop: Callable[[], Coroutine[Any, Any, Any]] | None = None
    """Stops the turn that is under way; None: there is none."""
    pressed: bool = False
    leaves: bool = False
    """Whether a second press waits for the turn to stop."""
    _tasks: set["asyncio.Task[Any]"] = field(default_factory=set)

    def press(self) -> None:
        """Take in one press."""
        if self.pressed:
            self._leave()
            return
        self.pressed = True
        if self.stop is None:
            sys.stderr.write(f"\n(Ctrl-C again leaves)\n{PROMPT}")
            sys.stderr.flush()
        else:
            sys.stderr.write("\n(stopping; Ctrl-C again leaves)\n")
            sys.stderr.flush()
            self._begin(self.stop())

    def _begin(self, what: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._after_stop)

    def _leave(self) -> None:
        """Leave once the turn has stopped, or did not soon; at once if that is pressed again."""
        if self.stop is None or self.leaves:
            self.main.cancel()
            return
        self.leaves = True
        self._begin(self._leave_soon())

    async def _leave_soon(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_PATIENCE_S):
                while self.stop is not None:  # noqa: ASYNC110 - there is nothing to wait for but the end of the turn
                    await asyncio.sleep(0.02)
        self.main.cancel()

    def _after_stop(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, FabricError):
            print_error(problem, as_json=False)

    def forget(self) -> None:
        """Begin anew: what was pressed has been obeyed."""
        self.pressed, self.stop = False, None


MAX_LINE_BYTES = 4_095
"""A terminal drops what is typed or pasted behind them before the line ends."""
AT_ONCE_S = 0.02
"""Lines that arrive within this time were pasted, and belong together."""


class TypedLines:
    """Reads what is typed, while something else is looked at now and then."""

    def __init__(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
            sys.stdin.reconfigure(errors="replace")  # a byte that is no text must not end the conversation

    async def read(self, prompt: str, meanwhile: Callable[[], Awaitable[bool]], every_s: float) -> str | None:
        """Return what was typed, pasted lines together; None at the end of input.

        `meanwhile` is called again and again; if it has printed something, the prompt is shown anew.

        Raises:
            InvalidInputs: the terminal has dropped a part of it.
        """
        self._show(prompt)
        first = asyncio.ensure_future(typed_line())
        try:
            while not first.done():
                await asyncio.wait([first], timeout=every_s)
                if not first.done() and await meanwhile():
                    self._show(prompt)
        finally:
            if not first.done():
                first.cancel()
        line = first.result()
        if line is None:
            return None
        lines = [line]
        while (more := await self._soon()) is not None:
            lines.append(more)
        if any(len(each.rstrip("\n").encode()) >= MAX_LINE_BYTES for each in lines):
            raise InvalidInputs(
                f"A line is longer than the {MAX_LINE_BYTES:,} bytes that a terminal takes; nothing was sent",
                hint="Break it into lines, or send it from a file: fabric chat --last < FILE",
            )
        return "".join(lines).rstrip("\n")

    def _show(self, prompt: str) -> None:
        sys.stderr.write(prompt)
        sys.stderr.flush()

    async def _soon(self) -> str | None:
        try:
            async with asyncio.timeout(AT_ONCE_S):
                return await typed_line()
        except TimeoutError:
            return None


def can_edit(environment: Mapping[str, str]) -> bool:
    """Tell whether the terminal can show the line editor: a dumb one, or a pipe, cannot."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return environment.get("TERM", "dumb") not in ("", "dumb") and all(each.isatty() for each in streams)


@dataclass(slots=True)
class ChatLoop:
    """One conversation at a terminal, or one message from a pipe."""

    talk: Talk
    session: Session
    view: ChatView
    presses: Presses
    root: Path | None = None
    """The fabric folder whose commands can be said; None: the one that is found from here."""
    newest: str = ""
    """The newest message that was shown."""
    shows_others: bool = False
    """Whether what others say while our message waits is shown behind its answer."""
    vi: bool = False
    """Lines are edited with the keys of vi instead of Emacs."""
    tokens: int = 0
    """Of the turns of this process."""
    cost: float | None = None
    waits: int = 0
    """Questions that the last turn waits for."""

    async def turn(self, text: str, *, asks: bool, plan: bool = False) -> tuple[RunResult, ChatMessage | None]:
        """Say something and wait for the answer; return how the turn ended, and its message once it has one."""
        return await self.watch(await self.talk.say(self.session, text, plan=plan), asks=asks)

    async def make_plan(self, text: str) -> None:
        """Let a turn make a plan, which changes nothing, and tell how it stands."""
        await self._tell(self.turn(text, asks=True, plan=True))

    async def watch(self, run_id: RunId, *, asks: bool) -> tuple[RunResult, ChatMessage | None]:
        """Wait for the answer of a turn; return as above."""
        self.view.turn = run_id
        pressed_early = self.presses.pressed
        self.presses.forget()
        self.presses.stop = lambda: self.talk.stop(self.session, run_id)
        if pressed_early:  # before there was a turn that could be stopped
            self.presses.press()
        try:
            result = await self.talk.answer(self.session, run_id)
            result = await self._ask(result) if asks else result
        finally:
            self.view.end_line()
            self.presses.forget()
        return result, await self._message(run_id)

    async def _ask(self, result: RunResult) -> RunResult:
        while result.status is RunStatus.WAITING and result.waiting_for and is_interactive():
            self.view.end_line()
            if not await ask_person(result.waiting_for, self.talk.question, self.talk.decide):
                break
            result = await self.talk.go_on(self.session, result.run_id)
        return result

    async def _message(self, run_id: RunId) -> ChatMessage | None:
        said = await self.talk.after(self.session, self.newest)
        found = next((each for each in said if each.message_id == answer_id(run_id)), None)
        if found is not None:
            if self.shows_others:
                for each in said[: said.index(found)]:
                    if each.metadata.get("run_id") != run_id:
                        self.show(each)
            self.newest = found.message_id
            await self.talk.mark_seen(self.session)
        return found

    async def run(self, first: str = "") -> int:
        """Talk until the person leaves; `first` is said before anything is typed."""
        commands = ChatCommands(self)
        typed = await self._lines(commands)
        self._greet()
        await self._show_new(quiet=False)
        self.shows_others = True
        if self.session.turn is not None:  # another window is in the middle of it, or a process was killed there
            await self._attempt(self._tell(self.watch(self.session.turn, asks=True)))
        if first:
            await self._attempt(self._tell(self.turn(first, asks=True)))
        while True:
            try:
                line = await typed.read(PROMPT, self._look, LOOK_EVERY_S)
            except InvalidInputs as problem:
                print_error(problem, as_json=False)
                continue
            self.presses.forget()
            if line is None:
                sys.stderr.write("\n")
                return COMPLETED
            text = line.strip()
            if not text:
                continue
            try:
                if text.startswith("!") and text[1:].strip():
                    await self._attempt(self._run_own(text[1:].strip()))
                elif text.startswith("/") and not text.startswith("//"):
                    await self._attempt(commands(text))
                else:
                    words = text.removeprefix("/") if text.startswith("//") else text
                    await self._attempt(self.say(words))
            except Left:
                return COMPLETED

    async def say(self, text: str) -> None:
        """Say something that the person has meant, and show the answer."""
        await self._tell(self.turn(text, asks=True))

    async def _said_before(self) -> list[str]:
        """Return what the person said in the newest sessions, the oldest first."""
        said: list[str] = []
        try:
            for session in reversed(await self.talk.newest(SESSIONS_OF_HISTORY)):
                said += [each.content for each in await self.talk.after(session, "") if each.role == "user"]
        except FabricError:  # a session may be gone, or its key: the conversation does without
            return said
        return said

    async def _lines(self, commands: ChatCommands) -> "TypedLines | LineEditor":
        """Return what reads lines: the editor where the terminal can show it, else lines as they come."""
        if not can_edit(os.environ):
            return TypedLines()
        try:
            from agent_fabric.interfaces.cli.chat.line_editor import LineEditor  # noqa: PLC0415 - it takes its time
        except ModuleNotFoundError:  # it was installed without its parts
            return TypedLines()
        project = Path(self.session.project) if self.session.project and not self.talk.served else None
        return LineEditor(
            history=await self._said_before(),
            commands=commands.offered,
            folder=project,
            status=self.status,
            interrupted=self.presses.press,
            vi=self.vi,
        )

    def status(self) -> str:
        """Return the line below what is typed: the model, tokens, cost, and what waits for an answer."""
        model = self.session.model_key or "default model"
        parts = [plain(model), *([plain(self.session.pack)] if self.session.pack else []), f"{self.tokens:,} tokens"]
        if self.cost is not None:
            parts.append(f"cost {self.cost:.6f}".rstrip("0").rstrip("."))
        if self.waits:
            parts.append(f"{count_of(self.waits, 'question')} waiting: /approve")
        return " · ".join(parts)

    async def _run_own(self, command: str) -> None:
        """Run a command of the person, as the person; no model is told."""
        require_a_person()
        if code := await run_own_command(command):
            sys.stderr.write(colour(f"(exit {code})\n", "yellow", sys.stderr))

    async def _attempt(self, what: Awaitable[None]) -> None:
        """Do something; tell the person if it does not work."""
        try:
            await what
        except FabricError as problem:
            self.view.end_line()
            print_error(problem, as_json=False)

    async def _tell(self, turn: Awaitable[tuple[RunResult, ChatMessage | None]]) -> None:
        """Wait for a turn, and tell how it stands."""
        result, message = await turn
        self.tokens += result.usage.prompt_tokens + result.usage.completion_tokens
        if result.cost is not None:
            self.cost = (self.cost or 0.0) + result.cost
        self.waits = len(result.waiting_for)
        if message is not None and message.metadata.get("status") == STOPPED:
            sys.stderr.write(colour("(stopped; what was said is kept)\n", "yellow", sys.stderr))
        elif result.status is RunStatus.WAITING:
            sys.stderr.write("(waiting for an answer: /approve)\n")
        elif message is not None and (unproven := unproven_count(message)):
            what = "1 sentence rests" if unproven == 1 else f"{unproven} sentences rest"
            sys.stderr.write(colour(f"({what} on nothing in the record: /sources)\n", "yellow", sys.stderr))

    def _greet(self) -> None:
        title = plain(self.session.title) or "a new session"
        about = f"  machine {plain(self.session.node)}" if self.session.node else ""
        sys.stderr.write(f"{colour(title, 'bold', sys.stderr)}  {self.session.session_id[:8]}{about}\n")
        sys.stderr.write(colour("Enter sends, Ctrl-C stops, /help shows commands.\n", "dim", sys.stderr))

    async def _look(self) -> bool:
        """Show what others have said meanwhile, such as the same person in a browser."""
        try:
            return await self._show_new(quiet=True)
        except FabricError:
            return False  # the next look may work; who types something is told

    async def _show_new(self, *, quiet: bool) -> bool:
        said = [
            each for each in await self.talk.after(self.session, self.newest) if each.metadata.get("status") != QUEUED
        ]
        if not said:
            return False
        if quiet:
            sys.stderr.write("\n")
        for each in said:
            self.show(each)
        self.newest = said[-1].message_id
        return True

    def show(self, message: ChatMessage) -> None:
        """Print a message."""
        if message.role == "user":
            sys.stdout.write(f"{colour(PROMPT, 'cyan', sys.stdout)}{plain_lines(message.content)}\n")
        else:
            mark = "" if message.metadata.get("status") != STOPPED else " (stopped)"
            sys.stdout.write(f"{plain_lines(message.content)}{mark}\n")
        sys.stdout.flush()


async def obeying(work: Callable[[Presses], Any]) -> int:
    """Do some work under the rule of Ctrl-C; return the exit code."""
    main = asyncio.current_task()
    assert main is not None
    presses, loop = Presses(main), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, presses.press)
    loop.add_signal_handler(signal.SIGTERM, main.cancel)
    try:
        return int(await work(presses))
    except asyncio.CancelledError:
        main.uncancel()
        return INTERRUPTED
