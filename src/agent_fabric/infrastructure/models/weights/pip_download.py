"""Asks the user's own package index for one wheel.

pip does the asking, as a process: so its index, proxies, certificates and credentials are those that the user has set
up. The wheel is only stored; nothing in it is run.
"""

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agent_fabric.config.own_secrets import without_own_secrets
from agent_fabric.infrastructure.models.weights.mirrors import MirrorFailed
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
    requirement: str, folder: Path, *, environ: Mapping[str, str], max_bytes: int, grown: Callable[[int], None]
) -> Path:
    """Store one wheel in `folder`, which must be empty, and return its path. `grown` is told the bytes so far.

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
            saying = group.create_task(_said(process))
            await _watch(process, folder, max_bytes, grown)
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
    process: asyncio.subprocess.Process, folder: Path, max_bytes: int, grown: Callable[[int], None]
) -> None:
    while process.returncode is None:
        largest = _largest(folder)
        if largest > max_bytes:
            raise MirrorFailed(f"{folder.name} is larger than the {max_bytes} bytes that it can have")
        grown(largest)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _LOOK_S)


async def _said(process: asyncio.subprocess.Process) -> bytes:
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
