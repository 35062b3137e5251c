"""Leases of this process on shared servers."""

import asyncio
import os
import time

from agent_fabric.infrastructure.models.servers.locks import FileLock
from agent_fabric.infrastructure.models.servers.server_files import ServerFiles

_LOOK_S = 0.02


class Leases:
    """The servers that this process uses.

    A lease ends when it was not renewed for `lease_s`, so that a process that lives for weeks does not keep a model in
    memory for weeks; and with the process. Without `lease_s` it lasts until it is released.
    """

    def __init__(self, lease_s: float | None) -> None:
        self._lease_s = lease_s
        self._held: dict[str, FileLock] = {}
        self._renewed: dict[str, float] = {}

    def holds(self, files: ServerFiles) -> bool:
        """Whether this process has a lease on the server."""
        held = self._held.get(files.key)
        return held is not None and held.is_on(files.lease)

    async def renew(self, files: ServerFiles) -> None:
        """Keep the server for one lease from now."""
        if not self.holds(files):
            self.release(files.key)
        fresh = files.key not in self._held
        while files.key not in self._held:
            lock = FileLock.take(files.lease, shared=True)
            if lock is not None:
                self._held[files.key] = lock
            else:  # the server looks whether anyone is there, or is about to end
                await asyncio.sleep(_LOOK_S)
        self._renewed[files.key] = time.monotonic()
        if fresh and self._lease_s is not None:
            self._look_again(files.key, self._lease_s)

    def release(self, key: str) -> None:
        """End the lease; its file gets the time of this use."""
        lock = self._held.pop(key, None)
        if lock is not None:
            os.utime(lock.fileno())
            lock.release()

    def release_all(self) -> None:
        for key in list(self._held):
            self.release(key)

    def _look_again(self, key: str, lease_s: float, delay_s: float | None = None) -> None:
        delay_s = lease_s if delay_s is None else delay_s
        asyncio.get_running_loop().call_later(delay_s, self._end_if_old, key, lease_s, self._held[key])

    def _end_if_old(self, key: str, lease_s: float, lock: FileLock) -> None:
        if self._held.get(key) is not lock:
            return  # another lease by now, which has a look of its own
        left_s = self._renewed[key] + lease_s - time.monotonic()
        if left_s > 0:
            self._look_again(key, lease_s, left_s)
        else:
            self.release(key)
