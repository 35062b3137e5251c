"""Who may use the server: the parts joined."""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from time import monotonic
from typing import NamedTuple, assert_never

from agent_fabric.application.cluster import require_keys as keys
from agent_fabric.application.identity.authenticate import Authenticate
from agent_fabric.application.identity.issue_token import IssueToken, LogIn, RenewLogin
from agent_fabric.application.identity.manage_api_keys import ManageApiKeys
from agent_fabric.application.identity.manage_users import ManageUsers
from agent_fabric.application.identity.page_logins import LoginCodes, PageLogins
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import ForeignTokens, TokenPayload, TokenSigner
from agent_fabric.application.ports.limits import Counters, Limiter, Rate
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.runs.limits import Limits, RunQuota
from agent_fabric.bootstrap.records import this_person
from agent_fabric.config.constants import DEFAULT_CLUSTER
from agent_fabric.config.schema.identity import IdentityConfig
from agent_fabric.config.schema.limits import LimitsConfig, how_often
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.runs.task import RunCaps
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.identity.argon2_passwords import Argon2Passwords
from agent_fabric.infrastructure.identity.jwks import ProviderTokens, key_set_source
from agent_fabric.infrastructure.identity.jwt_tokens import JwtTokens
from agent_fabric.infrastructure.identity.local_token import LocalToken
from agent_fabric.infrastructure.identity.own_secrets import PepperedHash, key_pepper, token_secret
from agent_fabric.infrastructure.threads import wait_for


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
        """Tell whether users other than the folder's owner could log in: a user, a live key, another provider."""
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
        secret = token_secret(root, config.jwt_secret, variables, resolve, shared=shared)
        if shared:
            wait_for(keys.require_keys(storage.fingerprints, {keys.JWT: keys.fingerprint(keys.JWT, secret)}))
        return JwtTokens(secret, issuer=config.issuer, audience=config.audience)

    pepper = key_pepper(root, variables)
    if shared:
        own = {keys.AUDIT: audit_key(os.environ).name, keys.PEPPER: keys.fingerprint(keys.PEPPER, pepper)}
        wait_for(keys.require_keys(storage.fingerprints, own))
    tokens = signer() if at_once else _LateTokens(signer)
    hasher = PepperedHash(pepper)
    provider = None
    if config.provider is not None:
        known = key_set_source(config.provider.jwks, timeout_s=config.provider.timeout_s)
        provider = ProviderTokens(config.provider, known, SystemClock())
    users, api_keys = storage.users, storage.api_keys
    issue = IssueToken(users, tokens, storage.acts, clock, config.token_lifetime_s)
    token, name, ended = LocalToken(root), this_person(), storage.ended_logins
    return Identity(
        authenticate=Authenticate(
            local_token=token,
            local_name=name,
            users=users,
            ended_logins=ended,
            keys=api_keys,
            hasher=hasher,
            tokens=tokens,
            provider=provider,
            clock=clock,
        ),
        login=LogIn(users, passwords, issue, config.login_lifetime_s),
        renew=RenewLogin(users, ended, issue),
        issue=issue,
        users=ManageUsers(users, passwords, clock),
        keys=ManageApiKeys(api_keys, hasher, clock),
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


class _Opened(NamedTuple):
    """A limiter, and what closes it."""

    limiter: Limiter
    close: Callable[[], Awaitable[None]]


def build_limits(
    settings: LimitsConfig,
    storage: Storage,
    clock: Clock,
    *,
    redis_url: str | None = None,
    cluster: str = DEFAULT_CLUSTER,
) -> Limits:
    """Return the limits that the configuration describes.

    Raises:
        MissingExtra: the client of Redis is not installed.
    """
    known, strangers = (
        _open_limiter(settings, storage, clock, redis_url, f"{cluster}:{name}") for name in ("caller", "address")
    )
    locks = None if storage.cluster is None else storage.agent_locks  # of all servers together, if they share a store
    quota = None if settings.concurrent_runs is None else RunQuota(settings.concurrent_runs, locks)
    return Limits(
        settings=settings,
        known=known.limiter,
        strangers=strangers.limiter,
        requests=_rate(settings.requests),
        starts=_rate(settings.starts),
        endpoints={endpoint: Rate(*how_often(rate)) for endpoint, rate in settings.endpoints.items()},
        login=_rate(settings.login),
        failures=_rate(settings.failures),
        runs=quota,
        caps=RunCaps(
            max_steps=settings.run.max_steps,
            max_tokens=settings.run.max_tokens,
            max_seconds=settings.run.max_seconds,
            max_cost=settings.run.max_cost,
        ),
        _closers=(known.close, strangers.close),
    )


def _open_limiter(settings: LimitsConfig, storage: Storage, clock: Clock, redis_url: str | None, name: str) -> _Opened:
    from agent_fabric.infrastructure.identity.limits.window_limiter import MemoryCounters, WindowLimiter  # noqa: PLC0415 - commands need none

    match settings.storage:
        case "memory":
            counters: Counters = MemoryCounters(clock)
        case "sqlite":
            counters = storage.counters()
        case "redis":
            assert redis_url is not None, "the configuration was checked"
            return _open_redis_limiter(redis_url, clock, name)
        case unknown:
            assert_never(unknown)
    return _Opened(WindowLimiter(counters, clock), counters.aclose)


def _open_redis_limiter(url: str, clock: Clock, name: str) -> _Opened:
    try:
        from agent_fabric.infrastructure.identity.limits.redis_limiter import RedisLimiter  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`limits.storage: redis`") from None
    limiter = RedisLimiter(url, clock, name=name)
    return _Opened(limiter, limiter.aclose)


def _rate(text: str | None) -> Rate | None:
    return None if text is None else Rate(*how_often(text))


PROBLEM = "Everyone with `runs:read` sees all runs, because `identity.visibility` is not set"
HINT = "Set it to `team` or `private`; in the next release it counts as `private`."
MARK = "runs-shared-said"
"""The file in a fabric folder that says that it has been said."""


def is_to_be_said(root: Path, config: IdentityConfig) -> bool:
    """Tell whether it is to be said now, and remember that it was; asked once other people can see runs."""
    if "visibility" in config.model_fields_set:
        return False
    try:
        (root / MARK).touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True  # better said twice than never
    return True
