"""Hands out the files that runs have made."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from agent_fabric.application.ports.runs import RunReader, RunRepository
from agent_fabric.application.ports.workspace_archive import WorkspaceArchive
from agent_fabric.application.runs.diff_run import folder_of
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.channels.files import size_words
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunFilesWithheld, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.files import OpenFile, RunFile, RunFileList

PIECE_BYTES = 1 << 20


class RunFiles(Protocol):
    """The files of the runs of one fabric folder. Every method may block."""

    def list(self, run_id: RunId, workspace: str) -> tuple[Sequence[RunFile], bool]:
        """Return the files of a run by their paths, and whether there are more."""
        ...

    def open(self, run_id: RunId, workspace: str, path: str) -> OpenFile:
        """Open one file; `path` is as in the list."""
        ...


@dataclass(frozen=True, slots=True)
class FetchFiles:
    """Use case: list and fetch the files of a run."""

    reader: RunReader
    files: RunFiles
    runs: RunRepository
    archive: WorkspaceArchive | None = None
    """Restores files of a run that another machine has saved."""

    async def list(self, run_id: RunId) -> RunFileList:
        """Return the files in a run's workspace.

        Raises:
            RunNotFound: there is no such run.
            RunFilesWithheld: the files are not the run's own, or are gone.
        """
        workspace = await self._workspace(run_id)
        files, truncated = await asyncio.to_thread(self.files.list, run_id, workspace)
        return RunFileList(run_id=run_id, files=files, truncated=truncated)

    async def open(self, run_id: RunId, path: str) -> OpenFile:
        """Open one of them; the caller closes it.

        Raises:
            RunNotFound: there is no such run.
            RunFileNotFound: it has no such file.
            RunFilesWithheld: the files are not the run's own, or are gone.
        """
        workspace = await self._workspace(run_id)
        return await asyncio.to_thread(self.files.open, run_id, workspace, path)

    async def _workspace(self, run_id: RunId) -> str:
        if self.archive is not None and (await self.runs.status(run_id)).settled:  # its files change no more
            state = await fold_log(run_id, await self.runs.read(run_id))
            if self.archive.covers(state):
                await self.archive.restore(run_id, state.saved)
        return folder_of(await self.reader.page(run_id, after=-1, limit=1))


@dataclass(frozen=True, slots=True)
class FetchDocuments:
    """RunDocuments over the files that a run hands out to every user who may read it."""

    fetch: FetchFiles

    async def list(self, run_id: RunId, *, since: float = 0.0) -> Mapping[str, int]:
        try:
            found = await self.fetch.list(run_id)
        except StoreUnavailable:
            raise
        except FabricError:  # a project folder, or files that are gone: there is nothing to send
            return {}
        return {each.path: each.size for each in found.files if each.modified_at >= since}

    async def read(self, run_id: RunId, path: str, *, max_bytes: int) -> bytes:
        opened = await self.fetch.open(run_id, path)
        content = await asyncio.to_thread(_read, opened, max_bytes)
        if content is None:
            raise RunFilesWithheld(f"{path} is larger than {size_words(max_bytes)}")
        return content


def _read(opened: OpenFile, max_bytes: int) -> bytes | None:
    """Return what is in a file; None: too much. It may grow while it is read."""
    with opened.file:
        data = b""
        while piece := opened.file.read(min(PIECE_BYTES, max_bytes + 1 - len(data))):
            data += piece
            if len(data) > max_bytes:
                return None
        return data
