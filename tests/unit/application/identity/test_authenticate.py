"""Who is asking: each kind of credential, and one answer to everything that is wrong."""

from dataclasses import dataclass, field, replace

import pytest

from agent_fabric.application.identity.authenticate import MAX_CREDENTIAL_CHARS, Authenticate
from agent_fabric.application.identity.manage_api_keys import ManageApiKeys
from agent_fabric.application.ports.identity import TokenPayload, expired_credentials, invalid_credentials
from agent_fabric.domain.errors import Unauthenticated
from agent_fabric.domain.identity.accounts import User
from agent_fabric.domain.identity.principals import Kind, Principal, Role, Scope, widen
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryEndedLogins, MemoryKeys, MemoryUsers

OWNER = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
TOKEN = "local_" + "x" * 43


class Hashes:
    """KeyHasher that can be read."""

    def hash(self, key: str) -> bytes:
        return b"hash of " + key.encode()

    def made(self, hashed: bytes) -> bool:
        return hashed.startswith(b"hash of ")


@dataclass
class Signed:
    """TokenSigner whose tokens are what it has given out."""

    given: dict[str, TokenPayload] = field(default_factory=dict)

    def sign(self, payload: TokenPayload, *, renews: bool = False) -> str:
        token = f"{'renews' if renews else 'ours'}.{len(self.given)}.signed"
        self.given[token] = payload
        return token

    def read(self, token: str, *, renews: bool = False) -> TokenPayload:
        if token not in self.given or token.startswith("renews") is not renews:
            raise invalid_credentials()
        if self.given[token].exp < 0:
            raise expired_credentials()
        return self.given[token]


@dataclass
class Door:
    """An Authenticate with everything behind it."""

    clock: FrozenClock = field(default_factory=FrozenClock)
    users: MemoryUsers = field(default_factory=MemoryUsers)
    ended: MemoryEndedLogins = field(default_factory=MemoryEndedLogins)
    books: MemoryKeys = field(default_factory=MemoryKeys)
    tokens: Signed = field(default_factory=Signed)
    local: str | None = TOKEN

    @property
    def keys(self) -> ManageApiKeys:
        return ManageApiKeys(self.books, Hashes(), self.clock)

    async def opened(self, credential: str, *, is_key: bool = False, from_here: bool = True) -> Principal:
        authenticate = Authenticate(
            local_token=lambda: self.local,
            local_name="owner",
            users=self.users,
            ended_logins=self.ended,
            keys=self.books,
            hasher=Hashes(),
            tokens=self.tokens,
            provider=None,
            clock=self.clock,
        )
        return await authenticate(credential, is_key=is_key, from_here=from_here)

    async def refusal(self, credential: str, *, is_key: bool = False, from_here: bool = True) -> str:
        with pytest.raises(Unauthenticated) as raised:
            await self.opened(credential, is_key=is_key, from_here=from_here)
        return raised.value.message


INVALID = "Invalid authentication credentials"
EXPIRED = "Expired authentication credentials"


async def test_the_local_token_opens_everything_but_only_from_here() -> None:
    door = Door()
    for is_key in (False, True):
        assert await door.opened(TOKEN, is_key=is_key) == OWNER
        assert await door.refusal(TOKEN, is_key=is_key, from_here=False) == INVALID
    assert await door.refusal(TOKEN[:-1]) == INVALID
    assert await door.refusal(TOKEN + " ") == INVALID
    door.local = None
    assert await door.refusal(TOKEN) == INVALID
    assert await door.refusal("") == INVALID
    assert await door.refusal("None") == INVALID


@pytest.mark.proves("A33-011", "A33-013")
async def test_a_key_opens_what_it_was_made_for_however_it_is_sent() -> None:
    door = Door()
    made = await door.keys.create("ci", by=OWNER, scopes=[Scope.RUNS])
    who = Principal("ci", Kind.KEY, frozenset({Scope.RUNS, Scope.RUNS_READ}))
    for is_key in (False, True):
        assert await door.opened(made.secret, is_key=is_key, from_here=False) == who
    await door.books.written()
    assert door.books.kept[made.key.id].last_used_at == door.clock.time
    assert made.key.hash == b""
    assert made.secret not in repr([*door.books.kept.values()])
    assert await door.refusal(made.secret + "x") == INVALID
    assert await door.refusal(made.secret.replace("a33_", "a33_0", 1)) == INVALID


async def test_a_key_that_counts_no_more_opens_nothing_and_only_its_owner_learns_that_it_expired() -> None:
    door = Door()
    made = await door.keys.create("ci", by=OWNER, lasts_s=60)
    door.clock.time += 60
    assert await door.refusal(made.secret) == EXPIRED
    assert await door.refusal(made.secret[:-1]) == INVALID
    await door.keys.revoke(made.key.id, by=OWNER)
    assert await door.refusal(made.secret) == INVALID


async def test_a_token_opens_what_its_user_may_now_and_never_more() -> None:
    door = Door()
    user = User(name="ada", role=Role.MEMBER, tokens_after=100.0)
    await door.users.add(user, act=None)

    def token(scope: Scope, iat: float = 100.0, exp: float = 1e12, sub: str = "ada") -> str:
        return door.tokens.sign(TokenPayload(sub=sub, scopes=frozenset({scope}), iat=iat, exp=exp))

    assert (await door.opened(token(Scope.ADMIN))).scopes == user.scopes
    assert (await door.opened(token(Scope.RUNS_READ))).scopes == {Scope.RUNS_READ}
    assert (await door.opened(token(Scope.APPROVALS))).scopes == {Scope.RUNS_READ}
    assert await door.refusal(token(Scope.RUNS, iat=99.9)) == INVALID
    assert await door.refusal(token(Scope.RUNS, sub="bob")) == INVALID
    assert await door.refusal(token(Scope.RUNS, exp=-1)) == EXPIRED
    assert await door.refusal(token(Scope.RUNS), is_key=True) == INVALID, "a token is no key"
    door.users.kept["ada"] = replace(user, disabled=True)
    assert await door.refusal(token(Scope.RUNS)) == INVALID


@pytest.mark.parametrize(
    "credential",
    ["", ".", "..", "...", "a33_", "a33__", "a33_x", "é", "\0", "a.b.c", "x" * (MAX_CREDENTIAL_CHARS + 1), "\ud800"],
)
async def test_whatever_else_comes_the_answer_is_the_same(credential: str) -> None:
    for is_key in (False, True):
        assert await Door().refusal(credential, is_key=is_key) == INVALID
