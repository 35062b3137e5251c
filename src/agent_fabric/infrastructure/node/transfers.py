"""Copies files to and from a machine, chunk by chunk, and shows outputs that were too long for a result.

A call of `file_put` or `file_get` is judged and approved like every other, and opens one transfer. What is written is
exactly what was approved: the size and the SHA-256 are part of the call. A transfer outlives connections and restarts.
"""

import asyncio
import hashlib
import os
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.node_tools import FILE_GET, FILE_PUT
from agent_fabric.domain.fleet.protocol import CHUNK_BYTES, MAX_LIFETIME_S
from agent_fabric.infrastructure.node.file_tools import NodeFiles
from agent_fabric.infrastructure.node.spool import Spool

MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Of all long outputs together; the oldest are removed first."""
MAX_OUTPUT_AGE_S: Final = 7 * 86_400.0
_ENDINGS: Final = {"stdout": "out", "stderr": "err"}


class TransferProblem(Exception):
    """A chunk cannot be taken or given; the message says why."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """Open transfers of a node, and its long outputs."""

    files: NodeFiles
    spool: Spool
    uploads: Path
    outputs: Path

    async def open(self, execution_id: str, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Open a transfer, as `file_put` or `file_get` asks; the result says where to begin."""
        grant = {"tool": tool_name, "path": arguments["path"], "until": time.time() + MAX_LIFETIME_S}
        if tool_name == FILE_GET:
            looked = await self.files.look_at(arguments["path"])
            if looked["status"] == "success":
                self.spool.keep(_name(execution_id), {**grant, "version": looked["output"]["version"]})
            return looked
        try:
            self.files.require_reachable(arguments["path"])
        except (OSError, ValueError) as problem:
            return {"status": "error", "error": str(problem)}
        grant |= {"size": arguments["size"], "sha256": arguments["sha256"]}
        self.spool.keep(_name(execution_id), grant)
        return {"status": "success", "output": {"path": arguments["path"], "offset": _size(self._part(grant))}}

    async def write(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take a chunk; after the last one the file is checked and put in its place.

        Raises:
            TransferProblem: there is no such transfer, or the chunk does not follow what is there.
        """
        execution_id, grant = self._grant(params, FILE_PUT)
        part, offset = self._part(grant), params.get("offset")
        data, have = _data(params), _size(part)
        if offset != have:
            return {"offset": have, "done": False}  # a chunk was lost, or came twice: go on from here
        if have + len(data) > grant["size"] or len(data) > CHUNK_BYTES:
            raise TransferProblem("the chunk is longer than what was approved")
        await asyncio.to_thread(_append, part, data)
        if have + len(data) < grant["size"]:
            return {"offset": have + len(data), "done": False}
        return await self._finish(execution_id, grant, part)

    async def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Give a chunk.

        Raises:
            TransferProblem: there is no such transfer, or the file has changed since it was opened.
        """
        _, grant = self._grant(params, FILE_GET)
        looked = await self.files.read_bytes(grant["path"], _offset(params), CHUNK_BYTES)
        if looked["status"] != "success":
            raise TransferProblem(str(looked["error"]))
        output: dict[str, Any] = looked["output"]
        if output.pop("version") != grant["version"]:
            raise TransferProblem("the file has changed since it was opened: copy it again")
        return output

    def output(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Give a part of an output that was too long for the result.

        Raises:
            TransferProblem: there is none.
        """
        execution_id, ending = str(params.get("execution_id", "")), _ENDINGS.get(str(params.get("stream", "stdout")))
        if ending is None or self.spool.find(execution_id) is None:
            raise TransferProblem("there is no such output")
        try:
            with (self.outputs / f"{execution_id}.{ending}").open("rb") as file:
                size, offset = os.fstat(file.fileno()).st_size, _offset(params)
                data = os.pread(file.fileno(), CHUNK_BYTES, offset)
        except FileNotFoundError:
            raise TransferProblem("the output was short, or is not kept any more") from None
        return {"data": b64encode(data).decode(), "offset": offset, "size": size}

    def forget_old(self) -> None:
        """Remove what no one has fetched or finished in time, and the oldest outputs if there is too much of them."""
        now, left = time.time(), MAX_OUTPUT_BYTES
        for path in _newest_first(self.outputs):
            about = path.stat()
            left -= about.st_size
            if left < 0 or now - about.st_mtime > MAX_OUTPUT_AGE_S:
                path.unlink(missing_ok=True)
        for path in _newest_first(self.uploads):
            if now - path.stat().st_mtime > MAX_LIFETIME_S:
                path.unlink(missing_ok=True)

    async def _finish(self, execution_id: str, grant: Mapping[str, Any], part: Path) -> dict[str, Any]:
        digest = await asyncio.to_thread(_digest, part)
        if digest != grant["sha256"]:
            _remove(part)
            raise TransferProblem("the content is not the one that was approved; it was thrown away")
        placed = await self.files.install(grant["path"], part)
        if placed["status"] != "success":
            raise TransferProblem(str(placed["error"]))
        self.spool.note("file_written", execution_id, {"path": grant["path"], "sha256": digest})
        self.spool.drop(_name(execution_id))
        _remove(part)
        return {"offset": grant["size"], "done": True}

    def _grant(self, params: Mapping[str, Any], tool_name: str) -> tuple[str, Mapping[str, Any]]:
        execution_id = str(params.get("execution_id", ""))
        grant = self.spool.read(_name(execution_id))
        if not isinstance(grant, dict) or grant["tool"] != tool_name or grant["until"] < time.time():
            raise TransferProblem("no such transfer is open: it is done, has expired, or was never approved")
        return execution_id, grant

    def _part(self, grant: Mapping[str, Any]) -> Path:
        """Return where a file is gathered; the same for the same content and place, so that it can be resumed."""
        place = hashlib.sha256(str(grant["path"]).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self.uploads / f"{grant['sha256'][:32]}-{place}.part"


def _name(execution_id: str) -> str:
    return f"transfer {execution_id}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _offset(params: Mapping[str, Any]) -> int:
    offset = params.get("offset", 0)
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise TransferProblem("offset is a number from 0 on")
    return offset


def _data(params: Mapping[str, Any]) -> bytes:
    try:
        return b64decode(str(params.get("data", "")), validate=True)
    except NotBase64:
        raise TransferProblem("data is base64") from None


def _newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
