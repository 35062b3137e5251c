"""Joins what saves the files of runs for other machines, in a folder that they share or in a bucket."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.workspace_archive import ObjectStore
from agent_fabric.config.schema.runs import WorkspacesConfig
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedFolders
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


def open_archive(config: WorkspacesConfig, layout: Layout, resolve: Resolve) -> SavedFolders | None:
    """Return what saves and restores files of runs; None if nothing is configured. Nothing is connected yet."""
    return SavedFolders(layout, open_objects(config, resolve)) if config.backend else None


def open_objects(config: WorkspacesConfig, resolve: Resolve) -> ObjectStore:
    """Return the store that is configured."""
    place = urlsplit(config.backend)
    if place.scheme == "folder":
        return FolderObjects(Path(place.path))
    from agent_fabric.infrastructure.runs.workspaces.s3_objects import (  # noqa: PLC0415 - few have one
        S3Bucket,
        S3Credentials,
        S3Objects,
    )

    async def credentials() -> S3Credentials:
        return S3Credentials(await resolve(config.access_key), await resolve(config.secret_key))

    endpoint = config.endpoint or f"https://s3.{config.region}.amazonaws.com"
    bucket = S3Bucket(endpoint=endpoint, bucket=place.netloc, prefix=place.path.strip("/"), region=config.region)
    return S3Objects(bucket, credentials)
