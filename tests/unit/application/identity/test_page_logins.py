"""Logins of the page: two halves that belong together, codes that count once, and nothing for runs and programs."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.identity.page_logins import CODE_LIFETIME_S, LoginCodes, PageLogins
from agent_fabric.domain.errors import Forbidden, Unauthenticated
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.infrastructure.identity.own_secrets import PepperedHash

OWNER = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))


class Ended:
    """EndedLogins in memory."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    async def has(self, login: str) -> bool:
        return login in self.ids

    async def add(self, login: str, *, until: float) -> None:
        self.ids.add(login)


class Clock:
    """A clock that is set by hand."""

    at = 1_000.0

    def now(self) -> float:
        return self.at


def logins(token: str = "local_token", clock: Any = None, ended: Any = None) -> PageLogins:
    hasher = PepperedHash(b"x" * 32)
    no_users: Any = None
    time: Any = clock or Clock()
    return PageLogins(lambda: token, "owner", no_users, ended or Ended(), hasher, time, 3600.0)


async def test_both_halves_together_and_only_from_this_machine() -> None:
    book = logins()
    first, second = book.begin(OWNER), book.begin(OWNER)
    assert first.cookie != second.cookie
    assert await book.read(["a.b", first.cookie], first.page_token, from_here=True) == OWNER
    for cookies, token, from_here in (
        ([first.cookie], second.page_token, True),
        ([first.cookie], "", True),
        ([], first.page_token, True),
        ([first.cookie], first.page_token, False),
        ([first.cookie[:-1]], first.page_token, True),
        ([first.cookie + "ü"], first.page_token, True),
        ([first.cookie], first.page_token + "ü", True),
    ):
        with pytest.raises(Unauthenticated):
            await book.read(cookies, token, from_here=from_here)


async def test_a_changed_cookie_another_folder_and_time_end_a_login() -> None:
    clock = Clock()
    book = logins(clock=clock)
    login = book.begin(OWNER)
    body, _, signature = login.cookie.partition(".")
    said = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    forged = urlsafe_b64encode(json.dumps({**said, "exp": 9e9}).encode()).rstrip(b"=").decode()
    with pytest.raises(Unauthenticated):
        await book.read([f"{forged}.{signature}"], login.page_token, from_here=True)
    with pytest.raises(Unauthenticated):
        await logins("another_token").read([login.cookie], login.page_token, from_here=True)
    clock.at += 3601
    with pytest.raises(Unauthenticated):
        await book.read([login.cookie], login.page_token, from_here=True)


async def test_a_login_that_was_ended_stays_ended() -> None:
    book = logins()
    login, other = book.begin(OWNER), book.begin(OWNER)
    await book.end([login.cookie, other.cookie], login.page_token, from_here=True)
    with pytest.raises(Unauthenticated):
        await book.read([login.cookie], login.page_token, from_here=True)
    assert await book.read([other.cookie], other.page_token, from_here=True) == OWNER


def test_a_code_counts_once_and_for_a_minute() -> None:
    now = 0.0
    codes = LoginCodes(lambda: now)
    code = codes.issue(OWNER)
    assert codes.redeem(code) == OWNER
    with pytest.raises(Unauthenticated):
        codes.redeem(code)
    late = codes.issue(OWNER)
    now = CODE_LIFETIME_S + 1
    with pytest.raises(Unauthenticated):
        codes.redeem(late)


def test_a_token_for_scripts_gets_no_code_since_the_page_may_more_than_the_token() -> None:
    script = Principal("bob", Kind.USER, widen((Scope.RUNS_READ,)))
    with pytest.raises(Forbidden):
        LoginCodes(lambda: 0.0).issue(script)
    assert LoginCodes(lambda: 0.0).issue(replace(script, login="one"))


@pytest.mark.parametrize(
    "principal", [OWNER.acting_for("some-run"), replace(OWNER, kind=Kind.KEY), replace(OWNER, kind=Kind.EXTERNAL)]
)
def test_runs_keys_and_strangers_get_neither_a_code_nor_a_login(principal: Principal) -> None:
    with pytest.raises(Forbidden):
        LoginCodes(lambda: 0.0).issue(principal)
    with pytest.raises(Forbidden):
        logins().begin(principal)
