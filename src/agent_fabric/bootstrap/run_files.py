"""Joins what is needed to hand out the files that runs have made: no model, no network, no configuration."""

import asyncio
from dataclasses import dataclass

from agent_fabric.application.ports.runs import RunReader
from agent_fabric.application.runs.diff_run import folder_of
from agent_fabric.bootstrap.records import Records
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.files import RunFileList
from agent_fabric.infrastructure.runlog.run_files import OpenFile, RunFiles


@dataclass(frozen=True, slots=True)
class FetchFiles:
    """Use case: see and fetch the files of a run."""

    reader: RunReader
    files: RunFiles

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
        return folder_of(await self.reader.page(run_id, after=-1, limit=1))


def fetch_files(records: Records) -> FetchFiles:
    """Return the use case that hands out the files of runs."""
    return FetchFiles(records.storage.reader, RunFiles(records.layout))
