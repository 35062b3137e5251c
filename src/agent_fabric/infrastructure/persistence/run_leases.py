"""Leases and named locks as kernel locks, which end with their process."""

import zlib
from dataclasses import dataclass

from agent_fabric.infrastructure.persistence.event_rows import this_process
from agent_fabric.infrastructure.persistence.run_locks import SERVER, RunLocks


@dataclass(frozen=True, slots=True)
class ProcessLeases:
    """RunLeases over the lock file of a store."""

    locks: RunLocks

    @property
    def driver(self) -> str:
        return this_process()

    def claim_server(self) -> bool:
        return self.locks.acquire(SERVER)

    def release_server(self) -> None:
        self.locks.release(SERVER)

    def is_served(self) -> bool:
        return not self.locks.is_free(SERVER)


@dataclass(frozen=True, slots=True)
class FileLocks:
    """NamedLocks over a lock file. Two names with the same checksum wait for each other, which is harmless."""

    locks: RunLocks

    def acquire(self, name: str) -> bool:
        return self.locks.acquire(_number(name))

    def release(self, name: str) -> None:
        self.locks.release(_number(name))

    def is_held(self, name: str) -> bool:
        return not self.locks.is_free(_number(name))


def _number(name: str) -> int:
    return 1 + zlib.crc32(name.encode())
