"""`fabric sessions`: manage conversations."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_fabric.application.ports.chat import FoundMessage, SessionQuery
from agent_fabric.bootstrap.records import Records, owner_here
from agent_fabric.bootstrap.runs import export_session, find_session, manage_sessions
from agent_fabric.domain.chat.sessions import COMPLETED as ANSWERED
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.errors import ConfigError, SessionNotFound
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility
from agent_fabric.interfaces.cli.durations import minute
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import (
    colour,
    json_text,
    plain,
    plain_lines,
    print_json,
    shorten,
    terminal_columns,
    write_export,
)
from agent_fabric.interfaces.cli.place import RUNS, Place, RunAccess, refuse_if
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.interfaces.views.chat import json_export, markdown_export
from agent_fabric.wire.chat import FORKED, FOUND_MESSAGES, MESSAGE, SESSION, SESSION_LIST, ForkedSession
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.application.chat.export_session import SessionExport
    from agent_fabric.application.chat.manage_sessions import ManageSessions
    from agent_fabric.client.sessions import Sessions as ServerSessions


class LocalSessions:
    """The sessions of a fabric folder."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._find = find_session(records)
        self._by = owner_here()

    async def show(self, session_id: str) -> Session:
        return await self._find(session_id, by=self._by)

    async def list(self, *, limit: int, own: bool = False, archived: bool = False) -> Sequence[Session]:
        query = SessionQuery(owner=LOCAL_OWNER if own else "", limit=limit, archived=archived)
        return await self._records.storage.sessions.list(query)

    async def all_messages(self, session_id: str) -> Sequence[ChatMessage]:
        return (await self._whole(session_id)).messages

    async def search(self, words: str, *, limit: int) -> Sequence[FoundMessage]:
        return await self._records.storage.messages.search(words, wanted=SessionQuery(limit=limit))

    async def change(self, session_id: str, **values: str) -> Session:
        return await self._manage.change(await self.show(session_id), values, by=self._by)

    async def fork(self, session_id: str, message_id: str) -> ForkedSession:
        return ForkedSession(*await self._manage.fork(await self.show(session_id), message_id, by=self._by))

    async def delete(self, session_id: str) -> None:
        await self._manage.delete(await self.show(session_id), by=self._by)

    async def export(self, session_id: str) -> Json:
        return json_export(await self._whole(session_id))

    async def export_markdown(self, session_id: str) -> str:
        return markdown_export(await self._whole(session_id))

    async def _whole(self, session_id: str) -> "SessionExport":
        return await export_session(self._records)(await self.show(session_id))

    @property
    def _manage(self) -> "ManageSessions":
        encrypts = configuration(self._records.layout.root).config.encryption != "off"
        return manage_sessions(self._records, encrypts=encrypts)


def sessions_at(place: RunAccess) -> "LocalSessions | ServerSessions":
    """Return the sessions of the place that a command works on."""
    return LocalSessions(place.records) if isinstance(place, LocalRuns) else place.client.sessions


async def find_session_at(sessions: "LocalSessions | ServerSessions", session_id: str | None) -> Session:
    """Return a session; None: the newest of this person."""
    if session_id is not None:
        return await sessions.show(session_id)
    found = await sessions.list(limit=1, own=True)
    if found:
        return found[0]
    missing = "There is no session here yet"
    if not isinstance(sessions, LocalSessions):
        missing = "You have no session at this server yet"
    raise SessionNotFound(missing, hint="Start one: fabric chat")


app = new_app("Manage conversations: list, show, search, rename, fork, export, delete.")

SessionArgument = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The session, or the beginning of its id; else --last.")
]
Last = Annotated[bool, typer.Option("--last", help="Your newest session, instead of SESSION.")]


def _session_choice(session: str | None, *, last: bool) -> str | None:
    if (session is None) is not last:
        raise ConfigError("Say which session: its id, or --last", hint="See them with `fabric sessions list`.")
    return session


@app.command("list")
def list_sessions(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Most sessions to list.")] = 20,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away.")] = False,
    *,
    at: Place,
) -> int:
    """List sessions, the one in which something was said last first."""
    found: Sequence[Session] = RUNS(at, lambda runs: sessions_at(runs).list(limit=limit, archived=archived), without=[])
    none = "" if found else "There are no sessions yet. Start one: fabric chat\n"
    return at.print(SESSION_LIST.dump(found), "".join(map(_line, found)), note=none)


@app.command()
def show(session: SessionArgument = None, last: Last = False, *, at: Place) -> int:
    """Show what was said in a session."""
    chosen = _session_choice(session, last=last)

    async def go(place: RunAccess) -> tuple[Session, Sequence[ChatMessage]]:
        sessions = sessions_at(place)
        found = await find_session_at(sessions, chosen)
        return found, await sessions.all_messages(found.session_id)

    found, messages = RUNS(at, go)
    value = {"session": SESSION.dump(found), "messages": [MESSAGE.dump(each) for each in messages]}
    return at.print(value, _line(found) + "".join(map(_message_text, messages)))


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words; each may be the beginning of one.")],
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most messages to list.")] = 20,
    *,
    at: Place,
) -> int:
    """Search what was said, the newest first."""
    found: Sequence[FoundMessage] = RUNS(
        at, lambda runs: sessions_at(runs).search(" ".join(words), limit=limit), without=[]
    )
    return at.print(FOUND_MESSAGES.dump(found), "".join(map(_hit, found)), note="" if found else "Nothing was found.\n")


@app.command()
def rename(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session, or the beginning of its id.")],
    title: Annotated[str, typer.Argument(help="What it is called from now on.")],
    *,
    at: Place,
) -> int:
    """Rename a session."""
    refuse_if(not title.strip(), "The title is empty", hint="Give it a few words.")
    renamed = RUNS(at, lambda runs: sessions_at(runs).change(session, title=title))
    return at.print(SESSION.dump(renamed), _line(renamed))


@app.command()
def fork(
    session: SessionArgument = None,
    message: Annotated[
        str, typer.Option("--message", metavar="ID", help="The last message to share; by default all of them.")
    ] = "",
    last: Last = False,
    *,
    at: Place,
) -> int:
    """Make a session that goes on from a message of another one. Files are copied when it is first used."""
    chosen = _session_choice(session, last=last)

    async def go(place: RunAccess) -> ForkedSession:
        sessions = sessions_at(place)
        return await sessions.fork((await find_session_at(sessions, chosen)).session_id, message)

    forked = RUNS(at, go)
    made = forked.session
    note = f"Go on with it: fabric chat --session {made.session_id[:8]}\n"
    return at.print(FORKED.dump(forked), _line(made), note=note)


@app.command()
def export(
    session: SessionArgument = None,
    last: Last = False,
    to: Annotated[str | None, typer.Option("--to", metavar="FILE", help="A new file; else standard output.")] = None,
    *,
    at: Place,
) -> int:
    """Write a whole session, with all that was done in it: as Markdown, or with --json as JSON."""
    chosen = _session_choice(session, last=last)

    async def go(place: RunAccess) -> object:
        sessions = sessions_at(place)
        found = (await find_session_at(sessions, chosen)).session_id
        return await (sessions.export(found) if at.as_json else sessions.export_markdown(found))

    whole = RUNS(at, go)
    if to is None:
        if isinstance(whole, str):
            sys.stdout.write("\n".join(map(plain, whole.split("\n"))))
        else:
            print_json(whole)
        return COMPLETED
    target = Path(to)
    refuse_if(target.exists(), f"{to} exists", hint="Name a file that does not.")
    text = whole if isinstance(whole, str) else json_text(whole, indent=1) + "\n"
    write_export(target, text)
    sys.stderr.write(f"Written to {to}\n")
    return COMPLETED


@app.command()
def delete(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session, or the beginning of its id.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    at: Place,
) -> int:
    """Delete a session with all that was said and done in it. It cannot be taken back."""
    found = RUNS(at, lambda runs: sessions_at(runs).show(session))
    if not yes:
        refuse_if(not sys.stdin.isatty(), "Nobody can be asked here", hint="Say --yes.")
        sys.stderr.write(f"Delete {plain(found.title) or found.session_id} for good? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stderr.write("Nothing was deleted.\n")
            return COMPLETED
    RUNS(at, lambda runs: sessions_at(runs).delete(found.session_id))
    return at.print({"deleted": found.session_id}, f"Deleted {found.session_id}\n")


def _message_text(message: ChatMessage) -> str:
    status = str(message.metadata.get("status") or ANSWERED)
    mark = "" if status == ANSWERED else f" ({status})"
    who = colour("you" if message.role == "user" else "agent", "cyan", sys.stdout)
    return f"\n{who} {minute(message.created_at)}{mark}\n{plain_lines(message.content)}\n"


def _line(session: Session) -> str:
    wide = not sys.stdout.isatty()
    shown = session.session_id if wide else session.session_id[:8]
    marks = "*" if session.has_unread else " "
    team = " (team)" if session.visibility is Visibility.TEAM else ""
    busy = " …" if session.turn is not None else ""
    line = f"{shown} {marks} {minute(session.updated_at)}  {session.title or '(nothing said yet)'}{team}{busy}"
    return (plain(line) if wide else shorten(line, terminal_columns())) + "\n"


def _hit(found: FoundMessage) -> str:
    session, message = found
    shown = session.session_id if not sys.stdout.isatty() else session.session_id[:8]
    where = "title" if message is None else message.role
    text = session.title if message is None else message.content
    line = f"{shown}  {where:<9}  {text}"
    return (shorten(line, terminal_columns()) if sys.stdout.isatty() else plain(" ".join(line.split()))) + "\n"
