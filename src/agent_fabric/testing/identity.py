"""People and keys in memory, and passwords that cost nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import AccountNotFound, LastAdmin, NameTaken
from agent_fabric.domain.identity.accounts import ApiKey, User, UserChange


@dataclass
class MemoryActs:
    """ActLog that forgets."""

    acts: list[Act] = field(default_factory=list)

    def keep(self, act: Act | None) -> None:
        """Record an act, if there is one."""
        self.acts += [] if act is None else [act]

    async def record(self, act: Act) -> None:
        self.keep(act)

    async def recent(self, *, limit: int) -> Sequence[Act]:
        return self.acts[::-1][:limit]


@dataclass
class MemoryUsers:
    """UserRepository that forgets."""

    users: dict[str, User] = field(default_factory=dict)
    acts: MemoryActs = field(default_factory=MemoryActs)

    async def find(self, name: str) -> User | None:
        return self.users.get(name)

    async def list(self) -> Sequence[User]:
        return [self.users[name] for name in sorted(self.users)]

    async def add(self, user: User, *, act: Act | None) -> None:
        if user.name in self.users:
            raise NameTaken(f"There is a user {user.name!r} already")
        self.users[user.name] = user
        self.acts.keep(act)

    async def change(self, name: str, change: UserChange, *, keep_an_admin: bool, act: Act | None) -> User:
        before = self._get(name)
        after = before.changed(change)
        if keep_an_admin and before.is_admin and not after.is_admin:
            self._require_another_admin(name)
        self.users[name] = after
        self.acts.keep(act)
        return after

    async def remove(self, name: str, *, keep_an_admin: bool, act: Act | None) -> None:
        if self._get(name).is_admin and keep_an_admin:
            self._require_another_admin(name)
        del self.users[name]
        self.acts.keep(act)

    def _get(self, name: str) -> User:
        if name not in self.users:
            raise AccountNotFound(f"There is no user {name!r}")
        return self.users[name]

    def _require_another_admin(self, name: str) -> None:
        if not any(user.is_admin for user in self.users.values() if user.name != name):
            raise LastAdmin(f"{name} is the last admin")


@dataclass
class MemoryEndedLogins:
    """EndedLogins that forgets."""

    until: dict[str, float] = field(default_factory=dict)

    async def has(self, login: str) -> bool:
        return login in self.until

    async def add(self, login: str, *, until: float) -> None:
        self.until.setdefault(login, until)


@dataclass
class MemoryKeys:
    """ApiKeyRepository that forgets."""

    keys: dict[str, ApiKey] = field(default_factory=dict)
    acts: MemoryActs = field(default_factory=MemoryActs)

    async def find(self, key_id: str) -> ApiKey | None:
        return self.keys.get(key_id)

    async def list(self) -> Sequence[ApiKey]:
        return sorted(self.keys.values(), key=lambda key: (-key.created_at, key.id))

    async def add(self, key: ApiKey, *, act: Act | None) -> None:
        if self._live(key.name, key.created_at) is not None:
            raise NameTaken(f"There is a live key {key.name!r} already")
        self.keys[key.id] = key
        self.acts.keep(act)

    async def revoke(self, which: str, *, at: float, act: Act | None) -> ApiKey:
        key = self.keys.get(which) or self._live(which, at)
        if key is None:
            raise AccountNotFound(f"There is no key {which!r}")
        if key.revoked_at is None:
            self.keys[key.id] = replace(key, revoked_at=at)
            self.acts.keep(None if act is None else replace(act, about=key.title))
        return self.keys[key.id]

    def note_use(self, key_id: str, *, at: float) -> None:
        self.keys[key_id] = replace(self.keys[key_id], last_used_at=at)

    def _live(self, name: str, now: float) -> ApiKey | None:
        return next((key for key in self.keys.values() if key.name == name and key.is_live(now)), None)


@dataclass
class PlainPasswords:
    """Passwords that remembers how often it was asked."""

    asked: int = 0

    async def hashed(self, password: str) -> str:
        return f"plain:{password}"

    async def match(self, hashed: str, password: str) -> bool:
        self.asked += 1
        return hashed == f"plain:{password}"
