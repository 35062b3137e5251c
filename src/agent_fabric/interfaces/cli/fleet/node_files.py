"""`fabric nodes cp` and `fabric nodes output`: files to and from machines, and outputs that were too long."""

import asyncio
import hashlib
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, NamedTuple

import typer

from agent_fabric.domain.errors import ConfigError, InvalidInputs, NodeUnavailable
from agent_fabric.domain.fleet.protocol import CHUNK_BYTES
from agent_fabric.interfaces.cli.fleet.hub import at_server
from agent_fabric.interfaces.cli.main import COMPLETED, WAITING
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import PlainHub

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.wire.shape import Json

OPEN_TIMEOUT_S: Final = 600.0
"""The machine reads a file once before it is copied."""
_LISTED: Final = 100
SENT_TIMEOUT_S: Final = 60.0
"""How long a transfer that is being opened is waited for."""
_LOOK_AGAIN_S: Final = 0.2


class RemotePath(NamedTuple):
    """A file on a machine."""

    node: str
    path: str


def remote_path(text: str) -> RemotePath | None:
    """Return what `NODE:/path` means; None: it is a path on this machine."""
    node, colon, path = text.partition(":")
    return RemotePath(node, path) if colon and node and "/" not in node and path.startswith("/") else None


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file, or NODE:/path.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="NODE:/path, or a file.")],
    *,
    at: PlainHub,
) -> int:
    """Copy a file to or from a machine whose own file allows it. What was cut off goes on where it stopped.

    Exit codes: 0 copied, 1 failed, 3 a person has to approve it: then run the same again.
    """
    there, here = remote_path(source), remote_path(target)
    if (there is None) is (here is None):
        raise ConfigError("One of both is on a machine of the fleet", hint="Write NODE:/path for it.")
    if here is not None:
        return at_server(at, lambda client: _put(client, Path(source), here))
    assert there is not None
    return at_server(at, lambda client: _get(client, there, Path(target)))


def output(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The name of a node, or its id.")],
    execution_id: Annotated[
        str, typer.Argument(metavar="ID", help="The command, as `fabric nodes queue --all` names it.")
    ],
    errors: Annotated[bool, typer.Option("--stderr", help="What it wrote to standard error.")] = False,
    *,
    at: PlainHub,
) -> int:
    """Print all of an output that was too long for the result. A machine keeps it for a week."""

    async def go(client: "FabricClient") -> int:
        offset = 0
        while True:
            part = await client.nodes.output(node, execution_id, stream="stderr" if errors else "stdout", offset=offset)
            data = b64decode(part["data"])
            sys.stdout.buffer.write(data)
            offset += len(data)
            if not data or offset >= part["size"]:
                sys.stdout.buffer.flush()
                return COMPLETED

    return at_server(at, go)


async def _put(client: "FabricClient", source: Path, target: RemotePath) -> int:
    try:
        file = source.open("rb")
    except OSError as problem:
        raise ConfigError(f"{source} cannot be read: {problem.strerror}") from None
    with file:
        wish = {
            "path": target.path,
            "size": os.fstat(file.fileno()).st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }
        opened = await _open(client, target.node, "file_put", wish)
        if opened is None:
            return WAITING
        await _send(client, target.node, opened, file)
    sys.stdout.write(f"{source} is {target.path} on {plain(target.node)}: {wish['size']:,} bytes.\n")
    return COMPLETED


async def _send(client: "FabricClient", node: str, opened: "Json", file: BinaryIO) -> None:
    offset, done = int(opened["result"]["output"]["offset"]), False
    while not done:
        file.seek(offset)
        data = b64encode(file.read(CHUNK_BYTES)).decode()
        told = await client.nodes.write_file(node, opened["execution_id"], offset=offset, data=data)
        done = told["done"]
        if not done and told["offset"] == offset:
            raise NodeUnavailable(f"{node} does not take the file: it stays at {offset:,} bytes")
        offset = int(told["offset"])


async def _get(client: "FabricClient", source: RemotePath, target: Path) -> int:
    opened = await _open(client, source.node, "file_get", {"path": source.path})
    if opened is None:
        return WAITING
    about, digest, offset = opened["result"]["output"], hashlib.sha256(), 0
    part = target.with_name(f".{target.name}.{opened['execution_id'][:8]}.part")
    try:
        with part.open("xb") as file:
            while offset < about["size"]:
                told = await client.nodes.read_file(source.node, opened["execution_id"], offset=offset)
                data = b64decode(told["data"])
                if not data:
                    raise NodeUnavailable(f"{source.path} has become shorter while it was copied")
                file.write(data)
                digest.update(data)
                offset += len(data)
        if digest.hexdigest() != about["sha256"]:
            raise NodeUnavailable(f"{source.path} did not arrive as it is on {source.node}")
        part.replace(target)
    except OSError as problem:
        raise ConfigError(f"{target} cannot be written: {problem.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    sys.stdout.write(f"{plain(source.path)} of {plain(source.node)} is {target}: {offset:,} bytes.\n")
    return COMPLETED


async def _open(client: "FabricClient", node: str, tool_name: str, arguments: Mapping[str, Any]) -> "Json | None":
    """Open a transfer, or find the one that was approved; None: a person has to approve it."""
    same = await _same_commands(client, node, tool_name, arguments)
    try:
        async with asyncio.timeout(SENT_TIMEOUT_S):
            while any(each["status"] == "sent" for each in same):  # it was approved a moment ago
                await asyncio.sleep(_LOOK_AGAIN_S)
                same = await _same_commands(client, node, tool_name, arguments)
    except TimeoutError:
        raise NodeUnavailable(f"{node} has not answered yet", hint="Run the same again in a while.") from None
    for each in same:
        if tool_name == "file_put" and each["status"] == "success" and await _is_open(client, node, each):
            return each
    if waiting := next((each["execution_id"] for each in same if each["status"] == "waiting"), None):
        sys.stderr.write(f"It waits for an approval already: {waiting}. Run the same again then.\n")
        return None
    wish = {"tool_name": tool_name, "arguments": dict(arguments)}
    opened = await client.nodes.execute(node, wish, timeout_s=OPEN_TIMEOUT_S)
    if "result" not in opened:
        approval = plain(opened.get("approval_id", ""))
        sys.stderr.write(f"Approve it, then run the same again: fabric approvals approve {approval}\n")
        return None
    if opened["status"] != "success":
        said = (opened["result"] or {}).get("error", opened["status"])
        raise NodeUnavailable(f"{node}: {said}")
    return opened


async def _same_commands(
    client: "FabricClient", node: str, tool_name: str, arguments: Mapping[str, Any]
) -> "list[Json]":
    found = await client.nodes.commands(node, limit=_LISTED)
    return [each for each in found if each["tool_name"] == tool_name and each["arguments"] == dict(arguments)]


async def _is_open(client: "FabricClient", node: str, command: "Json") -> bool:
    """Tell whether a transfer that was approved before can be used; it says where to go on."""
    try:
        told = await client.nodes.write_file(node, command["execution_id"], offset=2**32, data="")
    except InvalidInputs:
        return False
    command["result"]["output"]["offset"] = told["offset"]
    return True
