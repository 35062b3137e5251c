"""Passwords: recognised, never on the event loop, and not more at once than the machine bears."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from agent_fabric.domain.errors import TooManyRequests
from agent_fabric.infrastructure.identity.argon2_passwords import MAX_WAITING, Argon2Passwords


@pytest.fixture
def passwords() -> Iterator[Argon2Passwords]:
    passwords = Argon2Passwords()
    yield passwords
    passwords.close()


async def test_a_password_is_recognised_and_no_other(passwords: Argon2Passwords) -> None:
    hashed = await passwords.hash("correct horse 🐎 \ud800")
    assert hashed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert "horse" not in hashed
    assert await passwords.match(hashed, "correct horse 🐎 \ud800")
    assert not await passwords.match(hashed, "correct horse")


@pytest.mark.parametrize("hashed", ["", "$argon2id$broken", "plain"])
async def test_where_there_is_no_password_none_is_right(passwords: Argon2Passwords, hashed: str) -> None:
    assert not await passwords.match(hashed, "nobody's password")
    assert not await passwords.match(hashed, "")


async def test_it_takes_as_long_where_there_is_no_password(passwords: Argon2Passwords) -> None:
    hashed = await passwords.hash("correct horse")

    async def taken(against: str) -> float:
        start = time.perf_counter()
        await passwords.match(against, "wrong horse")
        return time.perf_counter() - start

    await taken("")
    assert 0.1 < min([await taken(hashed) for _ in range(3)]) / min([await taken("") for _ in range(3)]) < 10


async def test_the_event_loop_goes_on_and_too_many_are_refused(passwords: Argon2Passwords) -> None:
    turns = 0
    checks = [asyncio.create_task(passwords.match("", "x")) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await passwords.hash("one too many")
    while not checks[0].done():
        turns += 1
        await asyncio.sleep(0.001)
    assert turns > 3
    for check in checks:
        check.cancel()
    await asyncio.gather(*checks, return_exceptions=True)
    assert await passwords.hash("again") != ""
