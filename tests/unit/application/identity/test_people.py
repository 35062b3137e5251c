"""People and keys: who may give what, and what a change takes away."""

import pytest

from agent_fabric.application.identity.issue_token import IssueToken, LogIn, RenewLogin
from agent_fabric.application.identity.manage_api_keys import LASTS_S, ManageApiKeys
from agent_fabric.application.identity.manage_users import ManageUsers
from agent_fabric.domain.errors import (
    AccountNotFound,
    Forbidden,
    InvalidInputs,
    LastAdmin,
    NameTaken,
    Unauthenticated,
)
from agent_fabric.domain.identity.principals import Kind, Principal, Role, Scope, widen
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryEndedLogins, MemoryKeys, MemoryUsers
from unit.application.identity.test_authenticate import Hashes, Signed

OWNER = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
ADMIN = Principal("root", Kind.USER, widen((Scope.ADMIN,)))
OPERATOR = Principal("op", Kind.USER, widen((Scope.RUNS, Scope.APPROVALS)))
PASSWORD = "correct horse battery"


class PlainPasswords:
    """Passwords that remembers how often it was asked."""

    asked = 0

    async def hash(self, password: str) -> str:
        return f"plain:{password}"

    async def match(self, hashed: str, password: str) -> bool:
        self.asked += 1
        return hashed == f"plain:{password}"


class House:
    """Everything about people, over memory."""

    def __init__(self) -> None:
        self.clock, self.book, self.passwords, self.tokens = FrozenClock(), MemoryUsers(), PlainPasswords(), Signed()
        self.users = ManageUsers(self.book, self.passwords, self.clock)
        self.issue = IssueToken(self.book, self.tokens, self.book.acts, self.clock, 3600.0)
        self.login = LogIn(self.book, self.passwords, self.issue, 43_200.0)
        self.renew = RenewLogin(self.book, MemoryEndedLogins(), self.issue)
        self.keys = ManageApiKeys(MemoryKeys(acts=self.book.acts), Hashes(), self.clock)


async def test_a_new_person_may_only_look_unless_somebody_says_otherwise() -> None:
    house = House()
    user = await house.users.add("ada", password=PASSWORD, by=OWNER)
    assert user.scopes == {Scope.RUNS_READ}
    assert PASSWORD not in repr(user)
    with pytest.raises(NameTaken):
        await house.users.add("ada", password=None, by=OWNER)


@pytest.mark.proves("A33-017")
async def test_nobody_gives_what_they_do_not_have() -> None:
    house = House()
    with pytest.raises(Forbidden, match="admin"):
        await house.users.add("eve", password=None, role=Role.ADMIN, by=OPERATOR)
    with pytest.raises(Forbidden, match="nodes"):
        await house.users.add("eve", password=None, extra=[Scope.NODES], by=OPERATOR)
    with pytest.raises(Forbidden, match="workflows"):
        await house.keys.create("ci", scopes=[Scope.WORKFLOWS], by=OPERATOR)
    await house.users.add("boss", password=PASSWORD, role=Role.ADMIN, by=OWNER)
    for attempt in (
        house.users.set_password("boss", "another good phrase", by=OPERATOR),
        house.users.remove("boss", by=OPERATOR),
        house.users.change("boss", disabled=True, by=OPERATOR),
    ):
        with pytest.raises(Forbidden):
            await attempt
    await house.users.add("eve", password=None, extra=[Scope.APPROVALS], by=OPERATOR)


async def test_a_login_gives_a_token_for_all_that_the_person_may() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, role=Role.APPROVER, by=OWNER)
    issued = await house.login(" Ada ", PASSWORD)
    payload = house.tokens.given[issued.access.token]
    assert (payload.sub, payload.scopes) == ("ada", frozenset({Scope.APPROVALS, Scope.RUNS_READ}))
    assert (payload.iat, payload.exp) == (house.clock.time, house.clock.time + 3600)


async def test_a_failed_login_does_the_same_work_whoever_it_is() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, by=OWNER)
    await house.users.add("out", password=PASSWORD, by=OWNER)
    await house.users.add("bare", password=None, by=OWNER)
    await house.users.change("out", disabled=True, by=OWNER)
    wrong = [("ada", "x"), ("nobody", PASSWORD), ("", PASSWORD), ("\0", ""), ("out", PASSWORD), ("bare", "")]
    for count, (name, password) in enumerate(wrong, 1):
        with pytest.raises(Unauthenticated, match="Invalid authentication credentials"):
            await house.login(name, password)
        assert house.passwords.asked == count


async def test_after_a_change_older_tokens_are_void_and_new_ones_are_not_even_if_the_clock_goes_back() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, by=OWNER)
    ada = Principal("ada", Kind.USER, widen((Scope.RUNS_READ,)), login="one")
    for change in (
        lambda: house.users.log_out(ada),
        lambda: house.users.change("ada", role=Role.MEMBER, by=OWNER),
        lambda: house.users.set_password("ada", PASSWORD, by=OWNER),
        lambda: house.users.change_own_password(ada, old=PASSWORD, new=PASSWORD),
    ):
        before = house.tokens.given[(await house.login("ada", PASSWORD)).access.token]
        house.clock.time += 10
        await change()
        assert before.iat < house.book.kept["ada"].tokens_after
        house.clock.time -= 1_000
        after = house.tokens.given[(await house.login("ada", PASSWORD)).access.token]
        assert after.iat >= house.book.kept["ada"].tokens_after
        house.clock.time += 2_000


@pytest.mark.proves("DU-7")
async def test_a_login_is_renewed_for_a_working_day_and_no_longer() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, by=OWNER)
    login = await house.login("ada", PASSWORD)
    assert login.refresh_expires_in == 12 * 3600
    house.clock.time += 11 * 3600
    renewed = await house.renew(login.refresh_token)
    assert (renewed.name, renewed.lifetime_s) == ("ada", 3600)
    house.clock.time += 1800
    assert (await house.renew(login.refresh_token)).lifetime_s == 1800, "it does not outlast the login"
    house.clock.time += 1800
    with pytest.raises(Unauthenticated):
        await house.renew(login.refresh_token)
    with pytest.raises(Unauthenticated):
        await house.renew((await house.login("ada", PASSWORD)).access.token)


@pytest.mark.proves("DU-7")
async def test_what_voids_tokens_ends_logins_too() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, by=OWNER)
    ada = Principal("ada", Kind.USER, widen((Scope.RUNS_READ,)), login="one")
    for end in (
        lambda: house.users.log_out(ada),
        lambda: house.users.change_own_password(ada, old=PASSWORD, new=PASSWORD),
        lambda: house.users.set_password("ada", PASSWORD, by=OWNER),
        lambda: house.users.change("ada", disabled=True, by=OWNER),
    ):
        login = await house.login("ada", PASSWORD)
        house.clock.time += 10
        await house.renew(login.refresh_token)
        await end()
        with pytest.raises(Unauthenticated):
            await house.renew(login.refresh_token)


@pytest.mark.proves("DU-7")
async def test_ending_one_login_leaves_the_others() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, by=OWNER)
    here, there = await house.login("ada", PASSWORD), await house.login("ada", PASSWORD)
    assert house.tokens.given[here.access.token].login != house.tokens.given[there.access.token].login
    assert await house.renew.end(here.refresh_token) == "ada"
    with pytest.raises(Unauthenticated):
        await house.renew(here.refresh_token)
    renewed = await house.renew(there.refresh_token)
    assert house.tokens.given[renewed.token].login == house.tokens.given[there.access.token].login


async def test_a_login_that_is_shorter_than_its_token_cannot_be_renewed() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, by=OWNER)
    login = await LogIn(house.book, house.passwords, house.issue, 0.0)("ada", PASSWORD)
    assert (login.refresh_token, login.refresh_expires_in) == ("", 0)


async def test_who_has_not_logged_in_has_no_password_and_cannot_log_out() -> None:
    house = House()
    await house.users.add("owner", password=PASSWORD, by=OWNER)
    for who in (OWNER, Principal("owner", Kind.KEY, OWNER.scopes), Principal("owner", Kind.EXTERNAL, OWNER.scopes)):
        with pytest.raises(Forbidden):
            await house.users.log_out(who)
        with pytest.raises(Forbidden):
            await house.users.change_own_password(who, old=PASSWORD, new=PASSWORD)
    issued = Principal("owner", Kind.USER, OWNER.scopes)
    with pytest.raises(Forbidden, match="for scripts"):
        await house.users.change_own_password(issued, old=PASSWORD, new=PASSWORD)


async def test_the_last_admin_goes_only_by_the_owner_of_the_folder() -> None:
    house = House()
    await house.users.add("root", password=None, role=Role.ADMIN, by=OWNER)
    with pytest.raises(LastAdmin):
        await house.users.remove("root", by=ADMIN)
    with pytest.raises(LastAdmin):
        await house.users.change("root", role=Role.OPERATOR, by=ADMIN)
    await house.users.remove("root", by=OWNER)


@pytest.mark.parametrize(
    "password", ["", "tiny one", "x" * 1025, "ababababababab", "my name is ada!", "ADA ADA ADA ADA"]
)
async def test_a_password_that_is_easily_guessed_is_refused(password: str) -> None:
    house = House()
    with pytest.raises(InvalidInputs) as raised:
        await house.users.add("ada", password=password, by=OWNER)
    assert raised.value.hint
    assert not password or password not in raised.value.message


@pytest.mark.parametrize("name", ["", "A", "-a", "a b", "a/b", "a\n", "é", "x" * 65, "\ud800"])
async def test_a_name_is_plain(name: str) -> None:
    house = House()
    with pytest.raises(InvalidInputs):
        await house.users.add(name, password=PASSWORD, by=OWNER)
    with pytest.raises(AccountNotFound):
        await house.users.get(name)


async def test_a_token_for_a_script_is_for_less_than_its_user_may_and_for_a_time() -> None:
    house = House()
    await house.users.add("ada", password=None, role=Role.MEMBER, by=OWNER)
    issued = await house.issue("ada", by=OWNER, scopes=[Scope.RUNS], lifetime_s=60)
    assert issued.scopes == {Scope.RUNS, Scope.RUNS_READ}
    assert issued.lifetime_s == 60
    with pytest.raises(Forbidden):
        await house.issue("ada", by=OWNER, scopes=[Scope.ADMIN])
    for lifetime_s in (0, -1, float("nan"), float("inf"), 1e12):
        with pytest.raises(InvalidInputs):
            await house.issue("ada", by=OWNER, lifetime_s=lifetime_s)
    with pytest.raises(AccountNotFound):
        await house.issue("bob", by=OWNER)
    await house.users.change("ada", disabled=True, by=OWNER)
    with pytest.raises(Forbidden):
        await house.issue("ada", by=OWNER)


@pytest.mark.proves("A33-013")
async def test_a_key_may_only_look_and_expires_unless_somebody_says_otherwise() -> None:
    house = House()
    made = await house.keys.create("ci", by=OWNER)
    assert made.secret.startswith(f"a33_{made.key.id}_")
    assert made.key.scopes == {Scope.RUNS_READ}
    assert made.key.expires_at == house.clock.time + LASTS_S
    assert (await house.keys.create("other", by=OWNER, lasts_s=None)).key.expires_at is None
    assert made.secret != (await house.keys.create("third", by=OWNER)).secret
    house.clock.time += LASTS_S
    assert [key.name for key in await house.keys.list()] == ["other"]
    assert len(await house.keys.list(also_dead=True)) == 3
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInputs):
            await house.keys.create("x", by=OWNER, lasts_s=wrong)
    with pytest.raises(InvalidInputs):
        await house.keys.create("x", by=OWNER, scopes=[])
    for name in ("", "a b", "é", "x" * 65):
        with pytest.raises(InvalidInputs):
            await house.keys.create(name, by=OWNER)
    with pytest.raises(AccountNotFound):
        await house.keys.revoke("é", by=OWNER)


async def test_every_change_is_recorded_with_who_made_it_and_nothing_that_failed_is() -> None:
    house = House()
    await house.users.add("ada", password=PASSWORD, role=Role.MEMBER, extra=[Scope.APPROVALS], by=OWNER)
    ada = Principal("ada", Kind.USER, widen((Scope.RUNS_READ,)), login="one")
    with pytest.raises(NameTaken):
        await house.users.add("ada", password=PASSWORD, by=OWNER)
    await house.users.change("ada", disabled=False, extra=[], by=ADMIN)
    await house.users.set_password("ada", PASSWORD, by=ADMIN)
    await house.users.change_own_password(ada, old=PASSWORD, new=PASSWORD)
    await house.users.log_out(ada)
    issued = await house.issue("ada", by=OWNER)
    made = await house.keys.create("ci", by=ADMIN, lasts_s=None)
    await house.keys.revoke("ci", by=OWNER)
    await house.users.remove("ada", by=OWNER)
    acts = [*reversed(await house.book.acts.recent(limit=100))]
    assert [(act.by, act.credential, act.deed, act.about, act.detail) for act in acts] == [
        ("owner", "local", "user_added", "ada", "role member; also approvals"),
        ("root", "user", "user_changed", "ada", "also nothing; enabled"),
        ("root", "user", "password_set", "ada", ""),
        ("ada", "user", "password_set", "ada", ""),
        ("owner", "local", "token_issued", "ada", acts[4].detail),
        ("root", "user", "key_created", made.key.title, "runs:read; never expires"),
        ("owner", "local", "key_revoked", made.key.title, ""),
        ("owner", "local", "user_removed", "ada", ""),
    ]
    assert {act.at for act in acts} == {house.clock.time}
    for secret in (PASSWORD, made.secret, issued.token):
        assert secret not in repr(acts)
