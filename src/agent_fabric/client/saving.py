"""Writes what comes in pieces into a file: whole, or not at all."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterable
from contextlib import suppress
from io import FileIO
from pathlib import Path

from agent_fabric.domain.errors import ConfigError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


async def save(pieces: AsyncIterable[bytes], to: Path, *, overwrite: bool = False) -> int:
    """Write a file and return its size; until the last piece has come, nothing has this name.

    Raises:
        ConfigError: it exists already and is not to be overwritten, or cannot be written.
        FabricError: what the pieces raised.
    """
    beside = to.parent / f".{secrets.token_hex(8)}.part"
    size = 0
    try:
        file = await asyncio.to_thread(_begin, beside, to, overwrite)
        try:
            with file:
                async for piece in pieces:
                    size += len(piece)
                    await asyncio.to_thread(_write, file, piece)
            await asyncio.to_thread(_finish, beside, to, overwrite)
        finally:
            with suppress(OSError):
                beside.unlink()
    except FileExistsError:
        raise ConfigError(f"{to} exists already", hint="Choose another name, or say that it is overwritten.") from None
    except OSError as problem:
        raise ConfigError(
            f"{to} cannot be written: {problem.strerror or problem}", hint="Choose another file or folder."
        ) from None
    return size


def _begin(beside: Path, to: Path, overwrite: bool) -> FileIO:
    if not overwrite and os.path.lexists(to):  # before anything is fetched
        raise FileExistsError
    # Readable as the umask says, like everything that a person saves.
    return FileIO(os.open(beside, _NEW, 0o666), "w")


def _write(file: FileIO, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) :]


def _finish(beside: Path, to: Path, overwrite: bool) -> None:
    if not overwrite:
        os.close(os.open(to, _NEW, 0o600))  # refuses if another process was quicker
    beside.replace(to)
