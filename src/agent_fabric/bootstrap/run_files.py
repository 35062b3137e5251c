"""Joins what is needed to hand out the files that runs have made: no model, no network, no configuration."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from agent_fabric.application.ports.runs import RunReader
from agent_fabric.application.ports.workspace_archive import WorkspaceArchive
from agent_fabric.application.runs.diff_run import folder_of
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.bootstrap.records import Records
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.files import RunFileList
from agent_fabric.infrastructure.runs.log.run_files import OpenFile, RunFiles


@dataclass(frozen=True, slots=True)
class FetchFiles:
    """Use case: see and fetch the files of a run."""

    reader: RunReader
    files: RunFiles
    bring: Callable[[RunId], Awaitable[None]] | None = None
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
        if self.bring is not None:
            await self.bring(run_id)
        return folder_of(await self.reader.page(run_id, after=-1, limit=1))


def fetch_files(records: Records) -> FetchFiles:
    """Return the use case that hands out the files of runs."""
    bring = None if records.archive is None else partial(_bring, records, records.archive)
    return FetchFiles(records.storage.reader, RunFiles(records.layout), bring)


async def _bring(records: Records, archive: WorkspaceArchive, run_id: RunId) -> None:
    """Restore the files of a run that has ended; nobody changes them any more."""
    if (await records.storage.runs.status(run_id)).settled:
        state = await fold_log(run_id, await records.storage.runs.read(run_id))
        if archive.covers(state):
            await archive.restore(run_id, state.saved)
