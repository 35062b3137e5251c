"""Authenticate requests."""

import hmac
from collections.abc import Callable

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import (
    ApiKeyRepository,
    EndedLogins,
    ForeignTokens,
    KeyHasher,
    TokenSigner,
    UserRepository,
    expired_credentials,
    invalid_credentials,
)
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.accounts import KEY_PREFIX
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, narrow_scopes, widen

MAX_CREDENTIAL_CHARS = 16_384
"""Maximum length of a credential; tokens of some providers are long."""


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Authenticator for the local token, API keys, our own tokens and those of a provider.

    Users and keys are looked up with every request, so that a revocation takes effect at once.
    """

    local_token: Callable[[], str | None]
    """Returns the token of the fabric folder as it is now; None: there is none that can be trusted."""
    local_name: str
    """Who has it: the owner of the folder."""
    users: UserRepository
    ended_logins: EndedLogins
    keys: ApiKeyRepository
    hasher: KeyHasher
    tokens: TokenSigner
    provider: ForeignTokens | None
    clock: Clock

    async def __call__(self, credential: str, *, is_key: bool, from_here: bool) -> Principal:
        if not credential.isascii() or len(credential) > MAX_CREDENTIAL_CHARS:
            raise invalid_credentials()
        if credential.startswith(KEY_PREFIX):
            return await self._with_key(credential)
        if from_here and self._is_local_token(credential):
            return Principal(self.local_name, Kind.LOCAL, widen((Scope.ADMIN,)))
        if is_key or credential.count(".") != 2:
            raise invalid_credentials()
        if self.provider is not None and self.provider.are_like(credential):
            return await self.provider.read(credential)
        return await self._with_token(credential)

    def _is_local_token(self, credential: str) -> bool:
        token = self.local_token()
        return token is not None and hmac.compare_digest(credential, token)

    async def _with_key(self, credential: str) -> Principal:
        key_id, _, _ = credential.removeprefix(KEY_PREFIX).partition("_")
        hashed = self.hasher.hash(credential)  # before we know whether it is needed, as it takes time
        key = await self.keys.find(key_id)
        if key is None or key.revoked_at is not None or not hmac.compare_digest(key.hash, hashed):
            raise invalid_credentials()
        now = self.clock.now()
        if key.is_expired(now):
            raise expired_credentials()
        self.keys.note_use(key.id, at=now)
        return Principal(key.name, Kind.KEY, widen(key.scopes), expires_at=key.expires_at)

    async def _with_token(self, credential: str) -> Principal:
        payload = self.tokens.read(credential)
        user = await self.users.find(payload.sub)
        if user is None or user.disabled or payload.iat < user.tokens_after:
            raise invalid_credentials()
        if payload.login and await self.ended_logins.has(payload.login):
            raise invalid_credentials()
        scopes = narrow_scopes(widen(payload.scopes), user.scopes)
        return Principal(user.name, Kind.USER, scopes, expires_at=payload.exp, login=payload.login)
