"""Who may use the server: the parts joined."""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic

from agent_fabric.application.identity.authenticate import Authenticate
from agent_fabric.application.identity.issue_token import IssueToken, LogIn, RenewLogin
from agent_fabric.application.identity.manage_api_keys import ManageApiKeys
from agent_fabric.application.identity.manage_users import ManageUsers
from agent_fabric.application.identity.page_logins import LoginCodes, PageLogins
from agent_fabric.application.observability.find_answering_keys import FindAnsweringKeys
from agent_fabric.application.ports.identity import ForeignTokens, TokenPayload, TokenSigner
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.cluster_keys import require_identity_keys, require_token_key
from agent_fabric.bootstrap.records import this_person
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.identity import IdentityConfig, ProviderConfig
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.identity.argon2_passwords import Argon2Passwords
from agent_fabric.infrastructure.identity.jwks import ProviderTokens, key_set_source
from agent_fabric.infrastructure.identity.jwt_tokens import JwtTokens
from agent_fabric.infrastructure.identity.local_token import LocalToken
from agent_fabric.infrastructure.identity.own_secrets import PepperedHash, jwt_secret, key_pepper, long_enough


@dataclass(frozen=True, slots=True)
class Identity:
    """Finds out who is asking, and looks after people and keys."""

    authenticate: Authenticate
    login: LogIn
    renew: RenewLogin
    issue: IssueToken
    users: ManageUsers
    keys: ManageApiKeys
    page_logins: PageLogins
    login_codes: LoginCodes
    _provider: ForeignTokens | None
    _passwords: Argon2Passwords

    async def has_people(self) -> bool:
        """Tell whether anybody but the owner of the folder could come in: a user, a live key, another provider."""
        if self._provider is not None:
            return True
        return any(not user.disabled for user in await self.users.list()) or bool(await self.keys.list())

    def close(self) -> None:
        """End threads; the store that was given stays open."""
        self._passwords.close()


def open_identity(
    root: Path,
    config: IdentityConfig,
    storage: Storage,
    resolve: Resolve,
    *,
    environ: Mapping[str, str] | None = None,
    at_once: bool = True,
    shared: bool = False,
) -> Identity:
    """Join the parts.

    `resolve` gives the value of the reference `identity.jwt_secret`, if there is one: now, or unless `at_once` when
    the first token needs it. `shared`: the store is a database, whose processes all have the same keys.

    Raises:
        ConfigError: a secret is missing, too short, cannot be kept, or is not that of the other processes.
        StoreUnavailable: the store cannot be opened.
    """
    variables = os.environ if environ is None else environ
    clock, passwords = storage.clock, Argon2Passwords()

    def signer() -> JwtTokens:
        named = config.jwt_secret
        if named is None:
            secret = jwt_secret(root, variables, shared=shared)
        else:
            secret = long_enough(_resolved(resolve, named), named)
        if shared:
            require_token_key(storage, secret)
        return JwtTokens(secret, issuer=config.issuer, audience=config.audience)

    pepper = key_pepper(root, variables)
    if shared:
        require_identity_keys(storage, pepper)
    tokens = signer() if at_once else _LateTokens(signer)
    hasher = PepperedHash(pepper)
    provider = None if config.provider is None else _provider(config.provider)
    users, keys = storage.users, storage.api_keys
    issue = IssueToken(users, tokens, storage.acts, clock, config.token_lifetime_s)
    token, name, ended = LocalToken(root), this_person(), storage.ended_logins
    return Identity(
        authenticate=Authenticate(
            local_token=token,
            local_name=name,
            users=users,
            ended_logins=ended,
            keys=keys,
            hasher=hasher,
            tokens=tokens,
            provider=provider,
            clock=clock,
        ),
        login=LogIn(users, passwords, issue, config.login_lifetime_s),
        renew=RenewLogin(users, ended, issue),
        issue=issue,
        users=ManageUsers(users, passwords, clock),
        keys=ManageApiKeys(keys, hasher, clock),
        page_logins=PageLogins(
            token, name, users, ended, hasher, clock, max(config.login_lifetime_s, config.token_lifetime_s)
        ),
        login_codes=LoginCodes(monotonic),
        _provider=provider,
        _passwords=passwords,
    )


class _LateTokens:
    """TokenSigner that asks for its secret when the first token needs it: a vault may be down, and most need none."""

    def __init__(self, make: Callable[[], TokenSigner]) -> None:
        self._make = cache(make)

    def sign(self, payload: TokenPayload, *, renews: bool = False) -> str:
        return self._make().sign(payload, renews=renews)

    def read(self, token: str, *, renews: bool = False) -> TokenPayload:
        return self._make().read(token, renews=renews)


def _resolved(resolve: Resolve, reference: str) -> str:
    """Return what a reference stands for, at once: nothing can be served without it."""

    async def value() -> str:
        return await resolve(reference)

    with ThreadPoolExecutor(1) as thread:  # the event loop, if there is one here, is not waited for
        return thread.submit(lambda: asyncio.run(value())).result()


def _provider(config: ProviderConfig) -> ProviderTokens:
    return ProviderTokens(config, key_set_source(config.jwks, timeout_s=config.timeout_s), SystemClock())


def answering_keys(config: FabricConfig, resolve: Resolve, storage: Storage) -> FindAnsweringKeys:
    """Return the use case that warns of keys with which a run could answer questions."""
    return FindAnsweringKeys(config.specialists, resolve, storage.api_keys.find, SystemClock().now)
