"""Files of runs for channels."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from agent_fabric.bootstrap.records import Records
from agent_fabric.bootstrap.run_files import FetchFiles, fetch_files
from agent_fabric.domain.channels.files import size_words
from agent_fabric.domain.errors import FabricError, RunFilesWithheld, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.runs.log.run_files import OpenFile


@dataclass(frozen=True, slots=True)
class ChannelDocuments:
    """RunDocuments over the files that a run hands out to everyone who may read it."""

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


def channel_documents(records: Records) -> ChannelDocuments:
    """Return the files of runs."""
    return ChannelDocuments(fetch_files(records))


def _read(opened: OpenFile, max_bytes: int) -> bytes | None:
    """Return what is in a file; None: too much. It may grow while it is read."""
    with opened.file:
        data = b""
        while piece := opened.file.read(min(1 << 20, max_bytes + 1 - len(data))):
            data += piece
            if len(data) > max_bytes:
                return None
        return data
