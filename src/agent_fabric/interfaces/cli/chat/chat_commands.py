"""What `/` begins in `fabric chat`, and how it shows what a conversation rests on."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agent_fabric.application.chat.verify_session import VerifiedSession
from agent_fabric.bootstrap.this_machine import open_commands
from agent_fabric.domain.chat.sessions import QUEUED, ChatMessage, Session
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.events import ModelReasoned
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.evolve import run_as_of
from agent_fabric.domain.runs.timeline import Span, timeline_of
from agent_fabric.domain.runs.unified_diff import quote_path
from agent_fabric.interfaces.cli.approvals.ask_approval import ask_person, is_interactive
from agent_fabric.interfaces.cli.options import fabric_root, require_a_person
from agent_fabric.interfaces.cli.output import plain, plain_lines

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.chat.chat_loop import ChatLoop

HELP = """\
/model KEY     use another configured model from the next message on
/pack NAME     use another specialist
/node [NAME]   talk about a machine of the fleet; without a name: about none
/skill NAME    use a skill: /skill NAME TEXT; fabric skills lists them
/plan TEXT     only make a plan of what to do: the turn may read, and changes nothing
/title TEXT    rename the session
/remember TEXT remember a fact in all sessions; fabric memory lists them
/approve       answer what the turn waits for
/diff          show what the last turn changed
/undo [N]      take back what the last N turns changed, as far as it can be
/fork [N]      go on in a new session from here, or from before the last N turns; the old one stays
/sources       show which events the last answer rests on, and what rests on nothing
/thoughts      show what the model thought in the last turn
/timeline      show when what happened in the last turn
/context [SEQ] show what the model had been told by an event of the last turn
/verify        recompute the hashes of the whole session
/session       show the id of the session
/quit          leave (Ctrl-D does, too)
//…            say something that begins with a slash
!COMMAND       run a command of your own in this shell; no model is told
"""


class Left(Exception):
    """The person leaves."""


class ChatCommands:
    """Commands of one conversation."""

    def __init__(self, loop: "ChatLoop") -> None:
        self._loop = loop
        self._known: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "model": partial(self._change, "model_key", "the default model"),
            "pack": partial(self._change, "pack", "a specialist that is chosen"),
            "node": partial(self._change, "node", "no machine"),
            "skill": self._skill,
            "plan": self._plan,
            "title": self._title,
            "remember": self._remember,
            "approve": self._approve,
            "diff": self._diff,
            "undo": self._undo,
            "fork": self._fork,
            "sources": self._sources,
            "thoughts": self._thoughts,
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
            await self._say_own(name, rest.strip())
        else:
            await command(rest.strip())

    async def _say_own(self, name: str, rest: str) -> None:
        """Say what a command of the person's own stands for."""
        commands = open_commands(self._loop.root or fabric_root(None))
        command = commands.find(name)
        if command is None:
            raise ConfigError(f"There is no command /{plain(name)}", hint="/help lists them.")
        if not commands.is_trusted(command):
            hint = f"Look at {plain(command.file)}; `fabric run /{name}` asks about it, once."
            raise ConfigError(f"/{name} came with the project, and you have not agreed to it", hint=hint)
        changes = {"model_key": command.model, "pack": command.pack}
        if changes := {what: value for what, value in changes.items() if value}:
            self._loop.session = await self._loop.talk.change(await self._standing(), **changes)
        await self._loop.say(command.fill(rest))

    async def _skill(self, rest: str) -> None:
        name, _, text = rest.partition(" ")
        if not name:
            raise ConfigError("Which skill?", hint="/skill NAME [TEXT]; fabric skills lists them.")
        await self._loop.say(f"Use the skill {name}: read it with the tool `skill`, then follow it. {text}".rstrip())

    @property
    def offered(self) -> list[tuple[str, str]]:
        """Each command with what it does, to choose from."""
        told = {line[1:].split()[0]: line[15:] for line in HELP.splitlines() if line[1:2].isalpha()}
        own = open_commands(self._loop.root or fabric_root(None)).names()
        return [*((name, told.get(name, "")) for name in self._known), *((name, "yours") for name in own)]

    async def _help(self, _: str) -> None:
        sys.stderr.write(HELP)
        for name, file in open_commands(self._loop.root or fabric_root(None)).names().items():
            sys.stderr.write(f"/{name:<13} yours: {plain(str(file))}\n")

    async def _quit(self, _: str) -> None:
        raise Left

    async def _session(self, _: str) -> None:
        sys.stderr.write(f"{self._loop.session.session_id}\n")

    async def _plan(self, text: str) -> None:
        if not text:
            raise ConfigError("There is nothing to plan", hint="/plan TEXT")
        await self._loop.make_plan(text)

    async def _title(self, text: str) -> None:
        if not text:
            raise ConfigError("A title needs words", hint="/title TEXT")
        await self._change("title", "", text)

    async def _remember(self, text: str) -> None:
        require_a_person()
        if not text:
            raise ConfigError("There is nothing to remember", hint="/remember TEXT")
        fact_id = await self._loop.talk.remember(text)
        sys.stderr.write(f"remembered as {plain(fact_id)}; fabric memory forget {plain(fact_id)} takes it back\n")

    async def _change(self, what: str, otherwise: str, value: str) -> None:
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

    async def _thoughts(self, _: str) -> None:
        sys.stdout.write(thought_lines(await self._loop.talk.runs.events(await self._last_run())))

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


LAST_SEQ = 2**63 - 1
"""An event behind all others."""


def source_lines(answer: ChatMessage) -> str:
    """Return the sentences of an answer that can be checked, each with the events that it rests on."""
    sentences = answer.metadata.get("sentences") or []
    run_id = str(answer.metadata.get("run_id", ""))
    lines = [_source(answer.content, each) for each in sentences]
    if not lines:
        return "The last answer says nothing that could be checked against its events.\n"
    return "\n".join([*lines, f"Show an event: fabric logs show {run_id[:8]} --full"]) + "\n"


def unproven_count(answer: ChatMessage) -> int:
    """Return how many sentences of an answer rest on nothing in its record."""
    return sum(bool(each["missing"]) for each in answer.metadata.get("sentences") or ())


def _source(content: str, sentence: dict[str, object]) -> str:
    start, end = int(str(sentence["start"])), int(str(sentence["end"]))
    text = plain(" ".join(content[start:end].split()))
    events, missing = _list(sentence["events"]), _list(sentence["missing"])
    rests = f"event {', '.join(map(str, events))}" if events else "nothing"
    doubt = f"; nowhere: {', '.join(plain(str(each)) for each in missing)}" if missing else ""
    return f"[{rests}{doubt}] {text}"


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def timeline_lines(run_id: RunId, events: Sequence[Event]) -> str:
    """Return what took time in a run: model calls, tools and waits of each lane."""
    found = timeline_of(events, run_as_of(run_id, events, LAST_SEQ).status)
    lines = [_span(span, found.started_at) for span in found.spans]
    total = f"{found.prompt_tokens:,} tokens in, {found.completion_tokens:,} out, {count_of(found.events, 'event')}"
    return "\n".join([*lines, total]) + "\n"


def thought_lines(events: Iterable[Event]) -> str:
    """Return what the models of a run thought before they answered."""
    found = [plain_lines(each.body.text) for each in events if isinstance(each.body, ModelReasoned)]
    return "\n---\n".join(found or ["No thoughts were recorded."]) + "\n"


def _span(span: Span, started_at: float) -> str:
    took = "goes on" if span.end is None else f"{span.end - span.start:.1f} s"
    tokens = f", {span.prompt_tokens:,} in, {span.completion_tokens:,} out" if span.completion_tokens else ""
    failed = ", failed" if span.failed else ""
    place = f"{span.first_seq:>5}  +{span.start - started_at:.1f} s"
    return f"{place}  {span.kind:<5}  {plain(span.lane or 'run')}: {plain(span.label)} ({took}{tokens}{failed})"


def context_lines(run_id: RunId, events: Iterable[Event], seq: int) -> str:
    """Return what the models of a run had been told by an event."""
    state = run_as_of(run_id, events, seq)
    lines: list[str] = []
    for lane in state.lanes.values():
        lines.append(f"{plain(lane.lane_id)}: {plain(lane.model.model)}, about {lane.context_tokens:,} tokens")
        for message in lane.messages:
            calls = [f"→ {call.tool} {call.arguments}" for call in message.tool_calls]
            text = "\n".join(part for part in (message.content, *calls) if part)
            lines.append(f"--- {message.role.value}\n{plain_lines(text)}")
    return "\n".join(lines or ["No model had been told anything by then."]) + "\n"


def record_lines(found: VerifiedSession) -> str:
    """Return whether the hash chain of a session holds."""
    if found.holds:
        events, turns = count_of(found.events, "event"), count_of(len(found.turns), "turn")
        return f"Verified: the hash chain of {events} in {turns} holds.\n"
    damage = [f"{turn.run_id}: {plain(each)}" for turn in found.turns for each in turn.damage]
    return "\n".join(["Not as recorded:", *damage]) + "\n"
