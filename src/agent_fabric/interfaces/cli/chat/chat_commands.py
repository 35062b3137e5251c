"""What `/` begins in `fabric chat`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agent_fabric.domain.chat.sessions import QUEUED, ChatMessage, Session
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.unified_diff import quote_path
from agent_fabric.interfaces.cli.approvals.ask_approval import ask_person, is_interactive
from agent_fabric.interfaces.cli.chat.chat_record import (
    LAST_SEQ,
    context_lines,
    record_lines,
    source_lines,
    timeline_lines,
)
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, plain_lines

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.chat.chat_loop import ChatLoop

HELP = """\
/model KEY     use another configured model from the next message on
/pack NAME     use another specialist
/node [NAME]   talk about a machine of the fleet; without a name: about none
/title TEXT    rename the session
/remember TEXT remember a fact in all sessions; fabric memory lists them
/approve       answer what the turn waits for
/diff          show what the last turn changed
/undo [N]      take back what the last N turns changed, as far as it can be
/fork [N]      go on in a new session from here, or from before the last N turns; the old one stays
/sources       show which events the last answer rests on, and what rests on nothing
/timeline      show when what happened in the last turn
/context [SEQ] show what the model had been told by an event of the last turn
/verify        recompute the hashes of the whole session
/session       show the id of the session
/quit          leave (Ctrl-D does, too)
//…            say something that begins with a slash
"""


class ChatCommands:
    """Commands of one conversation."""

    def __init__(self, loop: "ChatLoop") -> None:
        self._loop = loop
        self._known: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "model": self._model,
            "pack": self._pack,
            "node": self._node,
            "title": self._title,
            "remember": self._remember,
            "approve": self._approve,
            "diff": self._diff,
            "undo": self._undo,
            "fork": self._fork,
            "sources": self._sources,
            "timeline": self._timeline,
            "context": self._context,
            "verify": self._verify,
            "session": self._session,
            "quit": self._quit,
            "exit": self._quit,
        }

    async def __call__(self, line: str) -> None:
        """Do what a line says."""
        name, _, rest = line[1:].partition(" ")
        command = self._known.get(name.lower())
        if command is None:
            raise ConfigError(f"There is no command /{plain(name)}", hint="/help lists them.")
        await command(rest.strip())

    async def _help(self, _: str) -> None:
        sys.stderr.write(HELP)

    async def _quit(self, _: str) -> None:
        from agent_fabric.interfaces.cli.chat.chat_loop import Left  # noqa: PLC0415 - it imports this module

        raise Left

    async def _session(self, _: str) -> None:
        sys.stderr.write(f"{self._loop.session.session_id}\n")

    async def _model(self, key: str) -> None:
        await self._change("model_key", key, "the default model")

    async def _pack(self, name: str) -> None:
        await self._change("pack", name, "a specialist that is chosen")

    async def _node(self, name: str) -> None:
        await self._change("node", name, "no machine")

    async def _title(self, text: str) -> None:
        if not text:
            raise ConfigError("A title needs words", hint="/title TEXT")
        await self._change("title", text, "")

    async def _remember(self, text: str) -> None:
        require_a_person()
        if not text:
            raise ConfigError("There is nothing to remember", hint="/remember TEXT")
        fact_id = await self._loop.talk.remember(text)
        sys.stderr.write(f"remembered as {plain(fact_id)}; fabric memory forget {plain(fact_id)} takes it back\n")

    async def _change(self, what: str, value: str, otherwise: str) -> None:
        loop = self._loop
        loop.session = await loop.talk.change(await self._standing(), **{what: value})
        sys.stderr.write(f"from now on: {plain(value) or otherwise}\n")

    async def _standing(self) -> Session:
        return await self._loop.talk.session(self._loop.session.session_id)

    async def _approve(self, _: str) -> None:
        loop = self._loop
        turn = (await self._standing()).turn
        questions = [] if turn is None else [each.approval_id for each in await loop.talk.runs.questions(run_id=turn)]
        if turn is None or not questions:
            sys.stderr.write("Nothing waits for an answer.\n")
        elif not is_interactive():
            raise ConfigError("No person can be asked here", hint="fabric approvals list")
        elif await ask_person(questions, loop.talk.question, loop.talk.decide):
            await loop.talk.go_on(loop.session, turn)
            loop.view.end_line()

    async def _last_run(self) -> RunId:
        last = (await self._standing()).last_run
        if last is None:
            raise ConfigError("Nothing was said yet", hint="Say something first.")
        return last

    async def _diff(self, _: str) -> None:
        found, compared = await self._loop.talk.runs.diff(await self._last_run())
        if not found.changes:
            sys.stderr.write("The last turn changed no file.\n")
        for change in found.changes:
            shown = await asyncio.to_thread(compared, change)
            text = shown.text.decode("utf-8", "replace")
            sys.stdout.write(f"{plain_lines(text) or quote_path(change.path)}\n")
        sys.stdout.flush()

    async def _messages_so_far(self) -> list[ChatMessage]:
        said = await self._loop.talk.after(self._loop.session, "")
        return [each for each in said if each.metadata.get("status") != QUEUED]

    async def _question(self, turns: str) -> ChatMessage:
        """Return the message of the person that the last turns began with."""
        asked = [each for each in await self._messages_so_far() if each.role == "user"]
        if not turns.isdecimal() or not 1 <= int(turns) <= len(asked):
            hint = "/undo 2 takes back the last two, /fork 2 goes on from before them."
            raise ConfigError(f"There are {len(asked)} turns", hint=hint)
        return asked[-int(turns)]

    async def _undo(self, turns: str) -> None:
        message = await self._question(turns or "1")
        done = await self._loop.talk.take_back(await self._standing(), message.message_id)
        for undone in done["runs"]:
            for path in undone["done"]:
                sys.stderr.write(f"taken back: {quote_path(path)}\n")
            for each in undone["refused"]:
                sys.stderr.write(f"left alone {quote_path(each['path'])}: {plain(each['reason'])}\n")
        if not any(undone["done"] or undone["refused"] for undone in done["runs"]):
            sys.stderr.write("Nothing to take back: no file was changed.\n")
        for each in done["cannot_be_taken_back"]:
            certain = "" if each["certain"] else " (it may have happened)"
            sys.stderr.write(f"cannot be taken back: {plain(each['what'])}{certain}, event {each['seq']}\n")

    async def _fork(self, turns: str) -> None:
        loop = self._loop
        message = (await self._question(turns)).message_id if turns else ""
        forked, draft = await loop.talk.fork(await self._standing(), message)
        loop.session = forked
        loop.newest = (await loop.talk.after(forked, ""))[-1].message_id if forked.parent_message else ""
        sys.stderr.write(f"You are now in {forked.session_id[:8]}, a fork of the session before.\n")
        if turns and draft:
            sys.stderr.write(f"There you said: {plain_lines(draft)}\n")

    async def _sources(self, _: str) -> None:
        answers = [each for each in await self._messages_so_far() if each.role == "assistant"]
        sys.stdout.write(source_lines(answers[-1]) if answers else "Nothing was said yet.\n")

    async def _timeline(self, _: str) -> None:
        run_id = await self._last_run()
        sys.stdout.write(timeline_lines(run_id, await self._loop.talk.runs.events(run_id)))

    async def _context(self, seq: str) -> None:
        if seq and not seq.isdecimal():
            raise ConfigError("An event has a number", hint="/timeline shows them.")
        run_id = await self._last_run()
        sys.stdout.write(context_lines(run_id, await self._loop.talk.runs.events(run_id), int(seq or LAST_SEQ)))

    async def _verify(self, _: str) -> None:
        sys.stdout.write(record_lines(await self._loop.talk.verify(await self._standing())))
