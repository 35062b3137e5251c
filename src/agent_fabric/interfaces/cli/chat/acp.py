"""`fabric acp`: be the agent of an editor that speaks the Agent Client Protocol."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, INTERRUPTED
from agent_fabric.interfaces.cli.options import Workspace
from agent_fabric.interfaces.cli.place import Place, refuse_if

if TYPE_CHECKING:
    from agent_fabric.interfaces.acp.agent import Opened

NO_EDITOR = "An editor starts this command, and talks with it over pipes"
INSTEAD = "At a terminal: fabric chat --here"

app = new_app("Be the agent of an editor (Agent Client Protocol).")


@app.command()
def acp(workspace: Workspace = None) -> int:
    """Be the agent of an editor, over standard input and output (Agent Client Protocol, version 1).

    The editor starts it. Its working folder is the project, as with --here; sessions are those of `fabric chat`.

    \b
    In the settings of Zed:
      {"agent_servers": {"agent-fabric": {"type": "custom", "command": "fabric", "args": ["acp"]}}}

    Exit codes: 0 the editor has closed its end, 2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the mark makes lines stay as they are
    refuse_if(sys.stdin is None or sys.stdin.isatty(), NO_EDITOR, hint=INSTEAD)
    root = Place(workspace=workspace).root()
    try:
        asyncio.run(_serve(lambda: _load(root)))
    except asyncio.CancelledError:
        return INTERRUPTED
    return COMPLETED


async def _serve(load: "Callable[[], Opened]") -> None:
    from agent_fabric.interfaces.acp.agent import serve_editor  # noqa: PLC0415 - `--help` needs none

    reader, write = await _pipes()
    await serve_editor(reader, write, load)


async def _pipes() -> tuple[asyncio.StreamReader, Callable[[bytes], Awaitable[None]]]:
    """Return our end of the connection. From here on, whatever else is printed goes to standard error.

    Raises:
        ConfigError: it is a file, or a terminal.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        transport, protocol = await loop.connect_write_pipe(_unread, out)
    except ValueError:
        raise ConfigError(NO_EDITOR, hint=INSTEAD) from None
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write(data: bytes) -> None:
        with suppress(ConnectionError):  # an editor that is gone is told nothing; the end of its input ends us
            writer.write(data)
            await writer.drain()

    return reader, write


def _unread() -> asyncio.StreamReaderProtocol:
    return asyncio.StreamReaderProtocol(asyncio.StreamReader())


def _load(root: Path) -> "Opened":
    from agent_fabric.interfaces.acp.agent import Opened  # noqa: PLC0415 - see `_serve`
    from agent_fabric.interfaces.cli.chat.chat_places import local_talk  # noqa: PLC0415 - as above
    from agent_fabric.interfaces.cli.options import configuration  # noqa: PLC0415 - as above
    from agent_fabric.interfaces.cli.runs.run_task import project_in  # noqa: PLC0415 - as above

    loaded = configuration(root)
    return Opened(
        lambda agent: local_talk(root, loaded, agent, asks=True, buffers=agent),
        lambda folder: project_in(folder, root, loaded.config),
    )
