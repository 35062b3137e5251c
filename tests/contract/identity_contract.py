"""What every UserRepository and every ApiKeyRepository promises, wherever it keeps them."""

import asyncio
from dataclasses import replace

import pytest

from agent_fabric.application.ports.identity import ApiKeyRepository, EndedLogins, UserRepository
from agent_fabric.domain.errors import AccountNotFound, LastAdmin, NameTaken
from agent_fabric.domain.identity.accounts import ApiKey, User, UserChange
from agent_fabric.domain.identity.principals import Role, Scope

ADA = User(name="ada", role=Role.ADMIN, created_at=5.0, tokens_after=5.0, password="hashed")
BOB = User(name="bob", role=Role.MEMBER, extra=frozenset({Scope.APPROVALS}), created_at=6.0)
KEY = ApiKey(
    id="0a",
    name="ci",
    scopes=frozenset({Scope.RUNS}),
    created_by="ada",
    created_at=100.0,
    expires_at=200.0,
    hash=b"\x00\xff hash",
)


class UserRepositoryContract:
    """Subclasses give the fixture `users`."""

    async def test_users_come_back_as_they_were_by_name(self, users: UserRepository) -> None:
        assert await users.find("ada") is None
        await users.add(BOB, act=None)
        await users.add(ADA, act=None)
        assert await users.find("ada") == ADA
        assert list(await users.list()) == [ADA, BOB]

    async def test_a_name_is_given_once(self, users: UserRepository) -> None:
        await users.add(BOB, act=None)
        with pytest.raises(NameTaken):
            await users.add(replace(ADA, name="bob"), act=None)
        assert await users.find("bob") == BOB

    async def test_only_what_is_named_changes(self, users: UserRepository) -> None:
        await users.add(BOB, act=None)
        changed = await users.change(
            "bob", UserChange(role=Role.VIEWER, tokens_after=9.0), keep_an_admin=True, act=None
        )
        assert changed == replace(BOB, role=Role.VIEWER, tokens_after=9.0)
        assert await users.find("bob") == changed
        more = await users.change("bob", UserChange(extra=frozenset(), disabled=True), keep_an_admin=True, act=None)
        assert more == replace(changed, extra=frozenset(), disabled=True)

    async def test_what_was_voided_stays_void_although_the_clock_goes_back(self, users: UserRepository) -> None:
        await users.add(ADA, act=None)
        await users.change("ada", UserChange(tokens_after=50.0), keep_an_admin=True, act=None)
        assert (
            await users.change("ada", UserChange(tokens_after=40.0), keep_an_admin=True, act=None)
        ).tokens_after == 50.0

    async def test_nobody_is_changed_or_removed_who_is_not_there(self, users: UserRepository) -> None:
        with pytest.raises(AccountNotFound):
            await users.change("ada", UserChange(disabled=True), keep_an_admin=False, act=None)
        with pytest.raises(AccountNotFound):
            await users.remove("ada", keep_an_admin=False, act=None)

    async def test_an_admin_is_kept_if_wanted(self, users: UserRepository) -> None:
        await users.add(ADA, act=None)
        await users.add(BOB, act=None)
        for change in (UserChange(role=Role.MEMBER), UserChange(disabled=True)):
            with pytest.raises(LastAdmin):
                await users.change("ada", change, keep_an_admin=True, act=None)
        with pytest.raises(LastAdmin):
            await users.remove("ada", keep_an_admin=True, act=None)
        await users.change("bob", UserChange(extra=frozenset({Scope.ADMIN})), keep_an_admin=True, act=None)
        await users.remove("ada", keep_an_admin=True, act=None)
        await users.remove("bob", keep_an_admin=False, act=None)
        assert list(await users.list()) == []

    async def test_two_admins_who_remove_each_other_at_once_leave_one(self, users: UserRepository) -> None:
        await users.add(ADA, act=None)
        await users.add(replace(BOB, role=Role.ADMIN), act=None)
        outcomes = await asyncio.gather(
            users.remove("ada", keep_an_admin=True, act=None),
            users.remove("bob", keep_an_admin=True, act=None),
            return_exceptions=True,
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LastAdmin", "NoneType"]
        assert len(await users.list()) == 1


class ApiKeyRepositoryContract:
    """Subclasses give the fixture `keys`."""

    async def test_keys_come_back_as_they_were_the_newest_first(self, keys: ApiKeyRepository) -> None:
        assert await keys.find("0a") is None
        newer = replace(KEY, id="0b", name="other", created_at=150.0, expires_at=None, hash=b"2")
        await keys.add(KEY, act=None)
        await keys.add(newer, act=None)
        assert await keys.find("0a") == KEY
        assert list(await keys.list()) == [newer, KEY]

    async def test_a_live_name_is_given_once_and_free_when_its_key_counts_no_more(self, keys: ApiKeyRepository) -> None:
        await keys.add(KEY, act=None)
        second = replace(KEY, id="0b", created_at=150.0, hash=b"2")
        with pytest.raises(NameTaken):
            await keys.add(second, act=None)
        await keys.revoke("ci", at=120.0, act=None)
        await keys.add(second, act=None)
        await keys.add(replace(KEY, id="0c", created_at=200.0, expires_at=None, hash=b"3"), act=None)

    async def test_of_several_who_want_a_name_at_once_one_gets_it(self, keys: ApiKeyRepository) -> None:
        wanted = [replace(KEY, id=f"{number:02x}", hash=b"%d" % number) for number in range(5)]
        outcomes = await asyncio.gather(*(keys.add(key, act=None) for key in wanted), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == [*["NameTaken"] * 4, "NoneType"]

    async def test_a_key_is_revoked_by_id_or_name_and_the_first_time_counts(self, keys: ApiKeyRepository) -> None:
        await keys.add(KEY, act=None)
        assert (await keys.revoke("0a", at=120.0, act=None)).revoked_at == 120.0
        assert (await keys.revoke("0a", at=130.0, act=None)).revoked_at == 120.0
        with pytest.raises(AccountNotFound):
            await keys.revoke("ci", at=140.0, act=None)


class EndedLoginsContract:
    """Subclasses give the fixture `ended`."""

    async def test_a_login_is_ended_once_and_stays_so(self, ended: EndedLogins) -> None:
        assert not await ended.has("one")
        await ended.add("one", until=9e9)
        await ended.add("one", until=8e9)
        await ended.add("two", until=9e9)
        assert await ended.has("one")
        assert not await ended.has("three")
