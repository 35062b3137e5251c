"""Objects in a folder that several machines share."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.tree_walk import remove_tree

T = TypeVar("T")


class FolderObjects:
    """ObjectStore in a folder. An object appears whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = f"folder {folder}"

    async def put(self, name: str, data: bytes) -> None:
        await self._attempt(lambda: self._put(name, data))

    async def get(self, name: str) -> bytes:
        return await self._attempt((self._folder / name).read_bytes)

    async def remove(self, prefix: str) -> int:
        return await self._attempt(lambda: self._remove(prefix))

    async def aclose(self) -> None:
        pass

    def _put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, data)

    def _remove(self, prefix: str) -> int:
        folder = self._folder / prefix
        count = len(os.listdir(folder)) if folder.is_dir() else 0  # noqa: PTH208 - only counted
        remove_tree(folder)
        return count

    async def _attempt(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(act)
        except OSError as problem:
            raise StoreUnavailable(
                f"The {self.place} cannot be used: {problem.strerror or problem}",
                hint="Check `workspaces.backend`, and that the folder is mounted and can be written.",
            ) from None
