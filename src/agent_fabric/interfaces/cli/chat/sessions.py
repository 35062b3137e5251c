"""`fabric sessions`: manage conversations."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.ports.chat import FoundMessage
from agent_fabric.domain.chat.sessions import COMPLETED as ANSWERED
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.interfaces.cli.chat.session_places import sessions_at
from agent_fabric.interfaces.cli.exports import write_export
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.output import (
    json_text,
    plain,
    plain_lines,
    print_json,
    shortened,
    styled,
    terminal_columns,
)
from agent_fabric.interfaces.cli.place import Place, RunAccess, at_place, refuse_if
from agent_fabric.wire.chat import FORKED, FOUND_MESSAGES, MESSAGE, SESSION, SESSION_LIST, ForkedSession

app = new_app("Manage conversations: list, show, search, rename, fork, export, delete.")

SessionArgument = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The session, or the beginning of its id; else --last.")
]
Last = Annotated[bool, typer.Option("--last", help="Your newest session, instead of SESSION.")]


def _chosen(session: str | None, *, last: bool) -> str | None:
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

    async def go(place: RunAccess) -> list[Session]:
        return list(await sessions_at(place).list(limit=limit, archived=archived))

    none: list[Session] = []
    found = at_place(at, go, without=none)
    if at.as_json:
        print_json(SESSION_LIST.dump(found))
    elif not found:
        sys.stderr.write("There are no sessions yet. Start one: fabric chat\n")
    for each in () if at.as_json else found:
        sys.stdout.write(_line(each) + "\n")
    return COMPLETED


@app.command()
def show(session: SessionArgument = None, last: Last = False, *, at: Place) -> int:
    """Show what was said in a session."""
    chosen = _chosen(session, last=last)

    async def go(place: RunAccess) -> tuple[Session, list[ChatMessage]]:
        sessions = sessions_at(place)
        found = await sessions.find(chosen)
        return found, list(await sessions.messages(found))

    found, said = at_place(at, go)
    if at.as_json:
        return print_json({"session": SESSION.dump(found), "messages": [MESSAGE.dump(each) for each in said]})
    sys.stdout.write(_line(found) + "\n")
    for each in said:
        status = str(each.metadata.get("status") or ANSWERED)
        mark = "" if status == ANSWERED else f" ({status})"
        who = styled("you" if each.role == "user" else "agent", "cyan", sys.stdout)
        sys.stdout.write(f"\n{who} {_moment(each.created_at)}{mark}\n{plain_lines(each.content)}\n")
    return COMPLETED


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words; each may be the beginning of one.")],
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most messages to list.")] = 20,
    *,
    at: Place,
) -> int:
    """Search what was said, the newest first."""

    async def go(place: RunAccess) -> list[FoundMessage]:
        return list(await sessions_at(place).search(" ".join(words), limit=limit))

    none: list[FoundMessage] = []
    found = at_place(at, go, without=none)
    if at.as_json:
        return print_json(FOUND_MESSAGES.dump(found))
    for each in found:
        sys.stdout.write(_hit(each) + "\n")
    if not found:
        sys.stderr.write("Nothing was found.\n")
    return COMPLETED


@app.command()
def rename(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session, or the beginning of its id.")],
    title: Annotated[str, typer.Argument(help="What it is called from now on.")],
    *,
    at: Place,
) -> int:
    """Rename a session."""
    refuse_if(not title.strip(), "The title is empty", hint="Give it a few words.")

    async def go(place: RunAccess) -> Session:
        sessions = sessions_at(place)
        return await sessions.rename(await sessions.find(session), title)

    return _present(at_place(at, go), at)


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
    chosen = _chosen(session, last=last)

    async def go(place: RunAccess) -> tuple[Session, str]:
        sessions = sessions_at(place)
        return await sessions.fork(await sessions.find(chosen), message)

    made, draft = at_place(at, go)
    if at.as_json:
        return print_json(FORKED.dump(ForkedSession(made, draft)))
    sys.stdout.write(_line(made) + "\n")
    sys.stderr.write(f"Go on with it: fabric chat --session {made.session_id[:8]}\n")
    return COMPLETED


@app.command()
def export(
    session: SessionArgument = None,
    last: Last = False,
    to: Annotated[str | None, typer.Option("--to", metavar="FILE", help="A new file; else standard output.")] = None,
    *,
    at: Place,
) -> int:
    """Write a whole session, with all that was done in it: as Markdown, or with --json as JSON."""
    chosen = _chosen(session, last=last)

    async def go(place: RunAccess) -> object:
        sessions = sessions_at(place)
        return await sessions.export(await sessions.find(chosen), as_json=at.as_json)

    whole = at_place(at, go)
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

    async def look(place: RunAccess) -> Session:
        return await sessions_at(place).find(session)

    found = at_place(at, look)
    if not yes:
        refuse_if(not sys.stdin.isatty(), "Nobody can be asked here", hint="Say --yes.")
        sys.stderr.write(f"Delete {plain(found.title) or found.session_id} for good? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stderr.write("Nothing was deleted.\n")
            return COMPLETED

    async def go(place: RunAccess) -> None:
        await sessions_at(place).delete(found)

    at_place(at, go)
    return at.print({"deleted": found.session_id}, f"Deleted {found.session_id}\n")


def _present(session: Session, at: Place) -> int:
    return at.print(SESSION.dump(session), _line(session) + "\n")


def _line(session: Session) -> str:
    wide = not sys.stdout.isatty()
    shown = session.session_id if wide else session.session_id[:8]
    marks = "*" if session.has_unread else " "
    team = " (team)" if session.visibility is Visibility.TEAM else ""
    busy = " …" if session.turn is not None else ""
    line = f"{shown} {marks} {_moment(session.updated_at)}  {session.title or '(nothing said yet)'}{team}{busy}"
    return plain(line) if wide else shortened(line, terminal_columns())


def _hit(found: FoundMessage) -> str:
    session, message = found
    shown = session.session_id if not sys.stdout.isatty() else session.session_id[:8]
    where = "title" if message is None else message.role
    text = session.title if message is None else message.content
    line = f"{shown}  {where:<9}  {text}"
    return plain(" ".join(line.split())) if not sys.stdout.isatty() else shortened(line, terminal_columns())


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
