"""Fetches files that people send, while the other chats go on."""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from agent_fabric.application.ports.channels import BringsFiles, Channel
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.files import (
    MAX_FILE_IN,
    MAX_FILES_IN,
    MAX_TOTAL_IN,
    FileProblem,
    StoredFile,
    inbox_path,
    size_words,
)
from agent_fabric.domain.channels.inbound import InboundFile
from agent_fabric.domain.dataclass import dataclass

RETRIES_S = (1.0, 5.0)
"""Pauses before a file is asked for again."""
SHOWN_NAME = 80
AT_ONCE = 4
"""Messages whose files are fetched at the same time: each may take some memory."""


class FetchedFiles(NamedTuple):
    """What became of the files of a message."""

    files: Sequence[StoredFile]
    problems: Sequence[str] = ()
    """One sentence for each that could not be had."""


@dataclass(slots=True)
class ReceiveFiles:
    """Use case: fetch the files of a message within the limits. Each message has a task of its own."""

    clock: Clock
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _under_way: "dict[str, asyncio.Task[FetchedFiles]]" = field(default_factory=dict)

    async def __call__(self, channel: Channel, key: str, files: Sequence[InboundFile]) -> FetchedFiles | None:
        """Return the files of a message; None: they are still on their way, and this is to be asked again."""
        if not files:
            return FetchedFiles([])
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._fetch(channel, key, files))
        await asyncio.wait([task], timeout=0.2)  # most are small, and there at once
        if not task.done():
            return None
        del self._under_way[key]
        return task.result()

    async def aclose(self) -> None:
        """End what is under way; it is fetched again by the next process."""
        tasks = list(self._under_way.values())
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetch(self, channel: Channel, key: str, files: Sequence[InboundFile]) -> FetchedFiles:
        async with self._at_once:
            return await self._fetch_all(channel, key, files)

    async def _fetch_all(self, channel: Channel, key: str, files: Sequence[InboundFile]) -> FetchedFiles:
        found, problems, left = list[StoredFile](), list[str](), MAX_TOTAL_IN
        if len(files) > MAX_FILES_IN:
            problems.append(f"I took the first {MAX_FILES_IN} files of {len(files)}.")
        for number, file in enumerate(files[:MAX_FILES_IN]):
            path = inbox_path(key, number, file.name)
            content = await self._content(channel, file, min(MAX_FILE_IN, left))
            if isinstance(content, FileProblem):
                shown = path.partition("-")[2][:SHOWN_NAME]
                problems.append(f"I did not get {shown}: {content.problem}.")
                continue
            left -= len(content)
            found.append(StoredFile(path, content))
        return FetchedFiles(found, problems)

    async def _content(self, channel: Channel, file: InboundFile, room: int) -> bytes | FileProblem:
        if not isinstance(channel, BringsFiles):
            return FileProblem("files cannot be received on this channel")
        too_large = FileProblem(
            f"it is larger than the {size_words(MAX_FILE_IN)} that are taken, or all together are too large"
        )
        if room <= 0 or (file.size is not None and file.size > room):
            return too_large
        for pause in (*RETRIES_S, None):
            content = await channel.download(file, max_bytes=room)
            if isinstance(content, bytes):
                return content if len(content) <= room else too_large
            if not content.may_pass or pause is None:
                break
            await self.clock.sleep(pause)
        return content
