"""Passwords, recognised with Argon2id: every guess costs an attacker 64 MB and a good part of a second."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from agent_fabric.domain.errors import TooManyRequests

AT_ONCE = 2
"""Each takes a core and 64 MB: who sends many passwords must not take the machine from runs."""
MAX_WAITING = 32
"""Further ones are refused: by the time it was their turn, no one would wait for them any more."""

T = TypeVar("T")


class Argon2Passwords:
    """Passwords on threads of their own. The parameters are those of RFC 9106 for machines with little memory."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._under_way = 0

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(AT_ONCE, "fabric-password")

    @cached_property
    def _nobodys(self) -> str:
        """What is compared with where there is no password: an answer that came sooner would tell who exists."""
        return self._hasher.hash("nobody's password")

    async def hash(self, password: str) -> str:
        return await self._on_thread(lambda: self._hasher.hash(_bytes(password)))

    async def match(self, hashed: str, password: str) -> bool:
        return await self._on_thread(lambda: self._match(hashed, password))

    def _match(self, hashed: str, password: str) -> bool:
        nobodys = self._nobodys  # made now in any case, or the first answer about no one would take twice as long
        try:
            self._hasher.verify(hashed or nobodys, _bytes(password))
        except (Argon2Error, InvalidHashError):
            return False
        return bool(hashed)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        if self._under_way >= MAX_WAITING:
            raise TooManyRequests(
                "Too many passwords are being checked", hint="Try again in a moment.", retry_after_s=2.0
            )
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """End the threads."""
        if "_threads" in self.__dict__:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")
