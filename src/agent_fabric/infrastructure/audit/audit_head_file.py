"""The newest head of the audit chain of a fabric folder, kept beside the user's key and outside of the database.

The file has two records of fixed length, each authenticated with the key. A new head overwrites the older record, so a
process that is killed while it writes leaves the other one. The file is written after the commit: it may lag behind the
chain, and is never ahead of it unless entries were removed.
"""

import fcntl
import hmac
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from agent_fabric.application.ports.audit import ChainHead, HeadDamaged
from agent_fabric.config.folders import base_folder
from agent_fabric.domain.audit.key import UNKEYED, AuditKey

FOLDER: Final = "audit-heads"
CLOSE_TIMEOUT_S: Final = 0.5
"""How long other writers are waited for when it matters; each takes microseconds."""
_RECORD: Final = 192
_PURPOSE: Final = b"agent-fabric audit head\0"

_log = logging.getLogger(__name__)


class _Record(NamedTuple):
    number: int
    """Counts the writes of the file: the higher one is the newer."""
    head: ChainHead


class AuditHeadFile:
    """HeadKeeper in one file. Any number of processes may use it."""

    def __init__(self, path: Path, root: Path, key: AuditKey) -> None:
        self.path = path
        self._place = os.fsencode(os.path.realpath(root))
        self._key = key
        self._warned = False

    def read(self) -> ChainHead | None:
        try:
            with self._hold_lock(os.O_RDONLY, fcntl.LOCK_SH, CLOSE_TIMEOUT_S) as file:
                newest = self._newest(file)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise HeadDamaged(f"{self.path} cannot be read: {problem.strerror or problem}") from None
        return None if newest is None else newest.head

    def advance(self, head: ChainHead, continues: Callable[[ChainHead], bool], *, patient: bool = False) -> bool:
        try:
            with self._hold_lock(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, CLOSE_TIMEOUT_S if patient else 0.0) as file:
                before = self._newest(file)
                if before is not None and not continues(before.head):
                    self._warn("Entries of the audit chain are gone that were there before: `fabric audit verify`")
                elif before is None or before.head.position < head.position:
                    self._write(file, before, head)
        except (BlockingIOError, TimeoutError):
            return False  # another process writes: the next commit, or the end of this process, tries again
        except (OSError, HeadDamaged) as problem:
            self._warn(f"The head of the audit chain cannot be kept in {self.path}: {problem}")
        return True

    def replace(self, head: ChainHead) -> None:
        with self._hold_lock(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, CLOSE_TIMEOUT_S) as file:
            try:
                before = self._newest(file)
            except HeadDamaged:
                os.ftruncate(file, 0)
                before = None
            self._write(file, before, head)
            os.fsync(file)

    @contextmanager
    def _hold_lock(self, flags: int, lock: int, timeout_s: float) -> Iterator[int]:
        try:
            file = os.open(self.path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self.path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _lock(file, lock, timeout_s)
            yield file
        finally:
            os.close(file)

    def _newest(self, file: int) -> _Record | None:
        """Return the newer record; None if nothing was written yet.

        Raises:
            HeadDamaged: there are records, and none of them is ours.
        """
        data = os.pread(file, 2 * _RECORD, 0)
        found = [record for place in (0, _RECORD) if (record := self._record(data[place : place + _RECORD]))]
        if not found and len(data.strip(b"\0")) >= _RECORD:
            raise HeadDamaged(f"{self.path} is not what was written into it")
        return max(found, default=None)

    def _write(self, file: int, before: _Record | None, head: ChainHead) -> None:
        number = 1 if before is None else before.number + 1
        said = f"{number} {head.position} {head.hash.hex()}"
        line = f"{said} {self._mac(said)}".ljust(_RECORD - 1) + "\n"
        os.pwrite(file, line.encode(), _RECORD * (number % 2))

    def _record(self, data: bytes) -> _Record | None:
        said, _, mac = data.decode("ascii", "replace").strip().rpartition(" ")
        if not hmac.compare_digest(mac.encode(), self._mac(said).encode()):
            return None
        number, position, digest = said.split(" ")
        return _Record(int(number), ChainHead(int(position), bytes.fromhex(digest)))

    def _mac(self, said: str) -> str:
        return hmac.digest(self._key.value, _PURPOSE + self._place + b"\0" + said.encode(), "sha256").hex()

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s", text)


def audit_head_file(root: Path, key: AuditKey, environ: Mapping[str, str]) -> AuditHeadFile | None:
    """Return the head file of a fabric folder; a user without a home or a key has none."""
    folder = base_folder(environ, "XDG_DATA_HOME", ".local", "share")
    if folder is None or key == UNKEYED:
        return None
    name = hmac.digest(key.value, b"agent-fabric folder of a head\0" + os.fsencode(os.path.realpath(root)), "sha256")
    return AuditHeadFile(folder / FOLDER / name.hex()[:32], root, key)


def _lock(file: int, kind: int, timeout_s: float) -> None:
    """Lock a file.

    Raises:
        BlockingIOError, TimeoutError: another process has it.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not timeout_s:
                raise
            if time.monotonic() > until:
                raise TimeoutError("another process has it locked") from None
            time.sleep(0.002)
        else:
            return
