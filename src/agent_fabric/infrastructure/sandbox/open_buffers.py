"""A box whose files are seen as an editor has them open: what is not saved is read, what is written is shown."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.application.ports.sandbox import CommandOutcome, OpenBuffers, Sandbox
from agent_fabric.domain.ids import RunId

_BOM = "\ufeff"


class BufferedBox:
    """Sandbox whose reads and writes of files an editor takes part in.

    The box itself opens each path first, and an editor is asked only while no command of the run could turn the path
    into a link: so no path leads an editor where the box would not go. Commands see the disk.
    """

    def __init__(self, inner: Sandbox, buffers: OpenBuffers, run_id: RunId, workspace: str) -> None:
        self._inner, self._buffers = inner, buffers
        self._run_id, self._workspace = run_id, Path(workspace)
        self.level = inner.level
        self._commands = 0
        self._asking = asyncio.Lock()

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        async with self._asking:
            self._commands += 1
        try:
            return await self._inner.run_command(command, timeout_s=timeout_s, environment=environment)
        finally:
            self._commands -= 1

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        async with self._asking:
            data, size = await self._inner.read_file(path, max_bytes=max_bytes)
            place = self._place(path)
            if not place or b"\0" in data:
                return data, size
            text = await self._buffers.read(self._run_id, place)
        if text is None or (size <= len(data) and text.encode("utf-8", "replace") == _as_shown(data)):
            return data, size
        whole = _as_on_disk(text, data)
        return whole[:max_bytes], len(whole)

    async def write_file(self, path: str, data: bytes) -> bool:
        async with self._asking:
            created = await self._inner.write_file(path, data)
            place, text = self._place(path), data.decode("utf-8", "replace")
            if place and text.encode() == data:
                await self._buffers.write(self._run_id, place, text)
        return created

    def _place(self, path: str) -> str:
        """Return where a file lies, for an editor; empty: it is not to be asked."""
        place = self._workspace / path
        plain = ".." not in place.parts and place.is_relative_to(self._workspace)
        return str(place) if plain and not self._commands else ""

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return await self._inner.list_files(path, max_entries=max_entries)

    async def end_leftovers(self) -> int:
        return await self._inner.end_leftovers()


def _as_shown(data: bytes) -> bytes:
    """Return a file as editors give it: without its mark at the start, with plain line ends."""
    return data.removeprefix(_BOM.encode()).replace(b"\r\n", b"\n")


def _as_on_disk(text: str, data: bytes) -> bytes:
    """Return the text of a buffer with the line ends and the mark that the file has."""
    if b"\r\n" in data and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    if data.startswith(_BOM.encode()) and not text.startswith(_BOM):
        text = _BOM + text
    return text.encode("utf-8", "replace")
