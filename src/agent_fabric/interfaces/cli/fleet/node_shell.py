"""`fabric nodes shell`: a shell on a machine that allows it, once a person has approved the session."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agent_fabric.domain.errors import FabricError, NodeUnavailable
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.fleet.hub import at_server
from agent_fabric.interfaces.cli.main import FAILED, WAITING
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import PlainHub

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.wire.shape import Json

LEAVE: Final = b"\x1d"
"""Ctrl+]: ends the session, whatever the shell is doing."""
OPEN_TIMEOUT_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.5
_OPEN: Final = frozenset({"waiting", "queued", "sent"})
_END_OF_INPUT: Final = b"\x04"


def shell(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The name of a node, or its id.")],
    cwd: Annotated[str, typer.Option("--cwd", metavar="DIR", help="The folder to begin in.")] = "",
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long the session may last.")] = "1h",
    wait: Annotated[str, typer.Option("--wait", metavar="TIME", help="How long to wait for the approval.")] = "15m",
    *,
    at: PlainHub,
) -> int:
    """Open a shell on a machine whose own file allows it. Every session is approved by itself, and recorded.

    Ctrl+] ends it; so do 15 minutes without a key. Exit codes: that of the shell, 1 if it was ended or refused, 3 if
    it was not approved in time.
    """
    require_a_person()
    columns, rows = shutil.get_terminal_size()
    arguments: dict[str, Any] = {"columns": columns, "rows": rows, "timeout_s": seconds_in(timeout)}
    arguments |= {"cwd": cwd} if cwd else {}
    term = os.environ.get("TERM", "")
    arguments |= {"term": term} if term and term != "dumb" else {}
    patience_s = seconds_in(wait)
    return at_server(at, lambda client: _open(client, node, arguments, patience_s))


async def _open(client: "FabricClient", node: str, arguments: "Json", patience_s: float) -> int:
    wish = {"tool_name": "shell", "arguments": arguments, "expires_in_s": max(patience_s, 1.0)}
    asked = await client.nodes.execute(node, wish, timeout_s=OPEN_TIMEOUT_S)
    execution_id = str(asked["execution_id"])
    if approval := asked.get("approval_id"):
        sys.stderr.write(f"{plain(asked['reason'])}\nIt waits for: fabric approvals approve {approval}\n")
    if not await _is_there(client, node, execution_id, patience_s):
        return WAITING
    sys.stderr.write(f"{plain(node)}: connected. What is printed is recorded. Ctrl+] ends the session.\n")
    sys.stderr.flush()
    last = await _Session(client, node, execution_id).run()
    if last["error"] or last["exit_code"] is None:
        sys.stderr.write(f"{plain(node)}: {last['status']}: {plain(last['error'] or 'no exit code')}\n")
        return FAILED
    return int(last["exit_code"])


async def _is_there(client: "FabricClient", node: str, execution_id: str, patience_s: float) -> bool:
    """Wait until the session is approved; tell whether it was."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            while True:
                command = await client.nodes.command(node, execution_id)
                if command["status"] == "sent":
                    return True
                if command["status"] not in _OPEN:
                    said = (command["result"] or {}).get("error", "")
                    raise NodeUnavailable(f"The shell was not opened ({command['status']}): {said}")
                await asyncio.sleep(LOOK_AGAIN_S)
    return False


class _Session:
    """A terminal here and one there."""

    def __init__(self, client: "FabricClient", node: str, execution_id: str) -> None:
        self._client, self._node, self._id = client, node, execution_id
        self._typed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def run(self) -> "Json":
        """Read and type until the shell has ended; return what was said last."""
        loop = asyncio.get_running_loop()
        with _raw(sys.stdin.fileno()):
            typing = asyncio.create_task(self._type())
            with suppress(PermissionError):  # a file or /dev/null cannot be waited for, and need not be
                loop.add_reader(sys.stdin.fileno(), self._take)
            loop.add_signal_handler(signal.SIGWINCH, self._resize)
            try:
                return await self._read()
            finally:
                loop.remove_reader(sys.stdin.fileno())
                loop.remove_signal_handler(signal.SIGWINCH)
                typing.cancel()
                await asyncio.gather(typing, return_exceptions=True)

    async def _read(self) -> "Json":
        offset = 0
        while True:
            told = await self._client.nodes.read_terminal(self._node, self._id, offset=offset)
            data = b64decode(told["data"])
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            offset += len(data)
            if not data and told["status"] not in _OPEN:
                return told

    def _take(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:  # the end of a file that is typed
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            data = _END_OF_INPUT
        before, leave, _ = data.partition(LEAVE)
        self._typed.put_nowait({"data": b64encode(before).decode(), **({"end": True} if leave else {})})

    def _resize(self) -> None:
        columns, rows = shutil.get_terminal_size()
        self._typed.put_nowait({"columns": columns, "rows": rows})

    async def _type(self) -> None:
        while True:
            wish = await self._typed.get()
            try:
                await self._client.nodes.type_into(self._node, self._id, wish)
            except FabricError as problem:  # the reader finds out whether the shell has ended
                sys.stderr.write(f"{plain(problem.message)}\r\n")


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Let every key reach the shell there; here, the terminal is as before afterwards."""
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
