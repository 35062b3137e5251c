"""How `fabric chat` talks: at the terminal, or of one message in a pipe."""

import asyncio
import sys
from contextlib import suppress

from agent_fabric.domain.chat.sessions import MAX_MESSAGE_CHARS, STOPPED, Session, answer_id
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.approvals.ask_approval import is_interactive
from agent_fabric.interfaces.cli.chat.chat_loop import ChatLoop, Presses, obeying
from agent_fabric.interfaces.cli.chat.chat_places import Start, Talk, local_talk
from agent_fabric.interfaces.cli.chat.chat_view import ChatView
from agent_fabric.interfaces.cli.main import FAILED
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import plain_lines, print_json
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.interfaces.cli.runs.driving import exit_code
from agent_fabric.interfaces.cli.runs.foreground import refuse_here
from agent_fabric.wire.chat import MESSAGE, SESSION
from agent_fabric.wire.results import EFFECTS


def talk_with(start: Start, words: str, here: bool, at: Place) -> int:
    """Open the session that was chosen, talk in it, and return the exit code."""
    talks_with_person = sys.stdin is not None and sys.stdin.isatty() and not at.as_json
    text = words.strip() if words.strip() or talks_with_person else _standard_input()
    said = None if at.as_json else sys.stdout if talks_with_person else None
    view = ChatView(said, sys.stderr if talks_with_person else None)
    start = start._replace(root=at.root())
    url, vi = at.url(local_only=here), False
    if url is None:
        root = at.root()
        loaded = configuration(root)
        vi = loaded.config.cli.editing == "vi"
        if here:
            from agent_fabric.interfaces.cli.runs.run_task import project_here  # noqa: PLC0415 - few talk about a project

            start = start._replace(project=str(project_here(root, loaded.config)))
        opened = local_talk(root, loaded, view, asks=talks_with_person and is_interactive())
    else:
        refuse_here(here)
        from agent_fabric.interfaces.cli.chat.chat_places_remote import server_talk  # noqa: PLC0415 - aiohttp takes its time

        with suppress(FabricError):  # what is configured here need not be in order to talk there
            vi = talks_with_person and configuration(at.root()).config.cli.editing == "vi"
        opened = server_talk(url, view)  # type: ignore[assignment] # both can be talked with

    async def go(presses: Presses) -> int:
        async with opened as talk:
            if talks_with_person:
                return await _converse(talk, start, view, presses, text, vi)
            return await _say_once(talk, start, view, presses, text, at.as_json)

    return asyncio.run(obeying(go))


async def _converse(talk: Talk, start: Start, view: ChatView, presses: Presses, text: str, vi: bool) -> int:
    found = await _open_session(talk, start)
    return await ChatLoop(talk, found, view, presses, root=start.root, vi=vi).run(text)


async def _open_session(talk: Talk, start: Start) -> Session:
    """Return the session to talk in, with what was chosen for it."""
    found = await talk.open(start)
    chosen = {"model_key": start.model_key, "pack": start.pack, "node": start.node}
    changes = {what: value for what, value in chosen.items() if value is not None and value != getattr(found, what)}
    return await talk.change(found, **changes) if changes else found


async def _say_once(talk: Talk, start: Start, view: ChatView, presses: Presses, text: str, as_json: bool) -> int:
    found = await _open_session(talk, start)
    loop = ChatLoop(talk, found, view, presses)
    result, message = await loop.turn(text, asks=False)
    if as_json:
        standing = await talk.session(found.session_id)
        print_json(
            {
                "session": SESSION.dump(standing),
                "session_id": standing.session_id,
                "run_id": result.run_id,
                "message_id": answer_id(result.run_id) if message is not None else None,
                "status": result.status.value,
                "outcome": None if result.outcome is None else result.outcome.value,
                "effects": EFFECTS.dump(result.effects),
                "content": "" if message is None else message.content,
                "message": None if message is None else MESSAGE.dump(message),
                "waiting_for": [*result.waiting_for],
            }
        )
    elif message is not None:
        sys.stdout.write(plain_lines(message.content) + "\n")
    elif result.status is RunStatus.WAITING:
        sys.stderr.write(f"Run {result.run_id} waits for an answer: fabric approvals list --run {result.run_id}\n")
    stopped = message is not None and message.metadata.get("status") == STOPPED
    return FAILED if stopped else exit_code(result)


def _standard_input() -> str:
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(4 * MAX_MESSAGE_CHARS + 1)
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise ConfigError("There is no message", hint='In a pipe: echo "…" | fabric chat')
    if len(text) > MAX_MESSAGE_CHARS:
        raise ConfigError(
            f"The message is longer than {MAX_MESSAGE_CHARS:,} characters", hint="Put long material into a file."
        )
    return text
