"""Manage API keys."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import ApiKeyRepository, KeyHasher
from agent_fabric.domain.audit.acts import Act, Deed, moment_words
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import AccountNotFound, InvalidInputs
from agent_fabric.domain.identity.accounts import KEY_PREFIX, ApiKey, key_name, require_may_grant
from agent_fabric.domain.identity.principals import AnyScope, Principal, Scope, tool_scopes

LASTS_S = 90 * 86_400.0
"""Default lifetime of a key."""
MAX_KEY_LIFETIME_S = 10 * 365 * 86_400.0
_SECRET_BYTES = 32
_ID_BYTES = 6


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key. The secret is shown once and not stored."""

    secret: str
    """The key itself."""
    key: ApiKey


@dataclass(frozen=True, slots=True)
class ManageApiKeys:
    """Use cases: list, create and revoke API keys. Every change is recorded in the audit chain."""

    keys: ApiKeyRepository
    hasher: KeyHasher
    clock: Clock

    async def list(self, *, also_dead: bool = False) -> Sequence[ApiKey]:
        """Return the keys that count, the newest first; with `also_dead` the others, too."""
        now = self.clock.now()
        return [key for key in await self.keys.list() if also_dead or key.is_live(now)]

    async def made_by(self, name: str) -> Sequence[ApiKey]:
        """Return the keys that someone of this name made and that still open something, the newest first."""
        return [key for key in await self.list() if key.created_by == name and self.is_usable(key)]

    async def create(
        self,
        name: str,
        *,
        by: Principal,
        scopes: Iterable[AnyScope] = (Scope.RUNS_READ,),
        lasts_s: float | None = LASTS_S,
    ) -> NewKey:
        """Make a key; `lasts_s` None: it never expires.

        Raises:
            InvalidInputs: the name cannot be used, or it would count for nothing, or too long.
            Forbidden: `by` does not have what they give.
            NameTaken: a live key has this name.
        """
        wanted = frozenset(scopes)
        if not wanted:
            raise InvalidInputs("A key needs at least one scope", hint="Give it at least runs:read.")
        if wanted == tool_scopes(wanted):
            raise InvalidInputs(
                "A tool scope only narrows what runs may use; a key needs a scope to start them, too",
                hint="Add runs, workflows or both.",
            )
        if lasts_s is not None and not 0 < lasts_s <= MAX_KEY_LIFETIME_S:
            raise InvalidInputs(
                "A key lasts at least a second, and at most ten years", hint="One that never expires has to say so."
            )
        require_may_grant(by, wanted)
        now, key_id = self.clock.now(), secrets.token_hex(_ID_BYTES)
        secret = f"{KEY_PREFIX}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        key = ApiKey(
            id=key_id,
            name=key_name(name),
            scopes=wanted,
            created_by=by.name,
            created_at=now,
            expires_at=None if lasts_s is None else now + lasts_s,
            hash=self.hasher.hash(secret),
        )
        until = "never expires" if key.expires_at is None else f"expires at {moment_words(key.expires_at)}"
        detail = f"{', '.join(sorted(wanted))}; {until}"
        await self.keys.add(key, act=Act.of(by, Deed.KEY_CREATED, at=now, about=key.title, detail=detail))
        return NewKey(secret, replace(key, hash=b""))

    async def revoke(self, which: str, *, by: Principal) -> ApiKey:
        """Revoke a key by its id, or the live one of a name; it opens nothing from now on.

        Raises:
            AccountNotFound: there is none.
        """
        if not which.isascii():
            raise AccountNotFound(f"There is no key {which[:80]!r}", hint="See them with: fabric keys list")
        now = self.clock.now()
        return await self.keys.revoke(which, at=now, act=Act.of(by, Deed.KEY_REVOKED, at=now))

    def is_usable(self, key: ApiKey) -> bool:
        """Tell whether a key can be recognised here; not if its hash was made with another secret than ours."""
        return self.hasher.made(key.hash)
