"""The files of a workspace, as every box handles them."""

import asyncio

from agent_fabric.infrastructure.sandbox.beneath import Beneath


class WorkspaceFiles:
    """The part of a Sandbox that reads, writes and lists: in this process, on a thread, never outside the workspace."""

    @property
    def _files(self) -> Beneath:
        """The workspace, with what of it may be seen and written."""
        raise TypeError(f"{type(self).__name__} does not say which files are its own")

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        return await asyncio.to_thread(self._files.read_file, path, max_bytes)

    async def write_file(self, path: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._files.write_file, path, data)

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return await asyncio.to_thread(self._files.list_files, path, max_entries)
