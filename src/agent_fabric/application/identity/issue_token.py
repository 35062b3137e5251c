"""Issue tokens, after a login or for a script."""

import secrets
from collections.abc import Iterable
from dataclasses import field

from agent_fabric.application.ports.audit import ActLog
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import (
    EndedLogins,
    Passwords,
    TokenPayload,
    TokenSigner,
    UserRepository,
    expired_credentials,
    invalid_credentials,
)
from agent_fabric.domain.audit.acts import Act, Deed, moment_words
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import AccountNotFound, Forbidden, InvalidInputs, Unauthenticated
from agent_fabric.domain.identity.accounts import MAX_PASSWORD_CHARS, User, is_user_name
from agent_fabric.domain.identity.principals import AnyScope, Principal, narrow_scopes, widen

MAX_TOKEN_LIFETIME_S = 365 * 86_400.0
MAX_REFRESH_TOKEN_CHARS = 4_096
LOGIN_ID_BYTES = 16
_WRONG = "The name or the password is wrong, or the user is disabled. An admin can help: fabric users password NAME"
"""The same whatever is wrong: who guesses learns nothing from it."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token, shown once."""

    token: str
    name: str
    """Whom it was issued to."""
    scopes: frozenset[AnyScope]
    expires_at: float
    lifetime_s: float

    @property
    def expires_in(self) -> int:
        """Seconds until it counts no more."""
        return int(self.lifetime_s)


@dataclass(frozen=True, slots=True)
class IssuedLogin:
    """The tokens of a login, shown once."""

    access: IssuedToken
    refresh_token: str = field(default="", repr=False)
    """Gets another access token until the login ends; empty: it cannot be renewed."""
    refresh_expires_in: int = 0
    """Seconds until the login ends."""


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Use case: sign a token for a user that allows what they may, or less."""

    users: UserRepository
    tokens: TokenSigner
    acts: ActLog
    clock: Clock
    lifetime_s: float

    async def __call__(
        self, name: str, *, by: Principal, scopes: Iterable[AnyScope] | None = None, lifetime_s: float | None = None
    ) -> IssuedToken:
        """Return a token for a user; by default for all that they may, and for `lifetime_s` of this class.

        That `by` did so goes into the audit chain, before anyone sees the token.

        Raises:
            AccountNotFound: there is no such user.
            Forbidden: they are disabled, or may less than that.
            InvalidInputs: it would last too long, or no time at all.
        """
        user = await self.users.find(name) if is_user_name(name) else None
        if user is None:
            raise AccountNotFound(f"There is no user {name[:80]!r}", hint="See them with: fabric users list")
        if user.disabled:
            raise Forbidden(f"{name} is disabled", hint=f"Enable them with: fabric users set {name} --enable")
        issued = self.for_user(user, scopes=scopes, lifetime_s=lifetime_s)
        detail = f"{', '.join(sorted(issued.scopes))}; expires at {moment_words(issued.expires_at)}"
        act = Act.of(by, Deed.TOKEN_ISSUED, at=self.clock.now(), about=user.name, detail=detail)
        await self.acts.record(act)
        return issued

    def for_user(
        self,
        user: User,
        *,
        scopes: Iterable[AnyScope] | None = None,
        lifetime_s: float | None = None,
        login: str = "",
    ) -> IssuedToken:
        """Return a token for a user who has been found, and may have one; with `login`, it ends with that login.

        Raises:
            Forbidden: they may less than that.
            InvalidInputs: it would last too long, or no time at all.
        """
        wanted = user.scopes if scopes is None else widen(scopes)
        allowed = narrow_scopes(wanted, user.scopes)
        # Tools that are not named are those of the user.
        if beyond := sorted(wanted - allowed):
            raise Forbidden(
                f"{user.name} does not have: {', '.join(beyond)}", hint="Leave it out, or grant it to the user first."
            )
        wanted = allowed
        lasts = self.lifetime_s if lifetime_s is None else lifetime_s
        if not 0 < lasts <= MAX_TOKEN_LIFETIME_S:
            raise InvalidInputs("A token lasts at least a second, and at most a year", hint="For example 12h or 30d.")
        now = self.clock.now()
        # Not before the moment when older ones were voided, even if the machine's clock has been set back since.
        issued_at = max(now, user.tokens_after)
        payload = TokenPayload(sub=user.name, scopes=wanted, iat=issued_at, exp=now + lasts, login=login)
        token = self.tokens.sign(payload)
        return IssuedToken(token, user.name, wanted, now + lasts, lasts)


@dataclass(frozen=True, slots=True)
class LogIn:
    """Use case: give tokens to a user who knows their password."""

    users: UserRepository
    passwords: Passwords
    issue: IssueToken
    lifetime_s: float
    """How long a login can be renewed."""

    async def __call__(self, name: str, password: str) -> IssuedLogin:
        """Return tokens; takes equally long for every user and every fault.

        Raises:
            Unauthenticated: there is no such user, they are disabled, or the password is wrong.
            TooManyRequests: too many log in at the moment.
        """
        name = name.strip().casefold()
        user = await self.users.find(name) if is_user_name(name) else None
        hashed = "" if user is None else user.password
        right = await self.passwords.match(hashed, password[: MAX_PASSWORD_CHARS + 1])
        # Looked up again: what has happened meanwhile counts.
        user = await self.users.find(name) if right else None
        if user is None or user.disabled or user.password != hashed:
            raise Unauthenticated("Invalid authentication credentials", hint=_WRONG)
        if self.lifetime_s <= self.issue.lifetime_s:
            return IssuedLogin(self.issue.for_user(user))
        login = secrets.token_urlsafe(LOGIN_ID_BYTES)
        access = self.issue.for_user(user, login=login)
        now = self.issue.clock.now()
        # Without scopes: what the user may is looked up when it is renewed.
        ends = TokenPayload(
            sub=user.name, scopes=frozenset(), iat=max(now, user.tokens_after), exp=now + self.lifetime_s, login=login
        )
        return IssuedLogin(access, self.issue.tokens.sign(ends, renews=True), int(self.lifetime_s))


@dataclass(frozen=True, slots=True)
class RenewLogin:
    """Use case: give another access token for a login that has not ended, or end it.

    What voids the tokens of a user ends their logins, too: a new password, `fabric logout --everywhere`, disabling.
    """

    users: UserRepository
    ended: EndedLogins
    issue: IssueToken

    async def __call__(self, refresh_token: str) -> IssuedToken:
        """Return an access token for all that the user may now; it never outlasts the login.

        Raises:
            Unauthenticated: the login has ended, or it is no token that renews one.
        """
        login = self.issue.tokens.read(refresh_token, renews=True)
        user = await self.users.find(login.sub)
        if user is None or user.disabled or login.iat < user.tokens_after or await self.ended.has(login.login):
            raise invalid_credentials()
        left_s = login.exp - self.issue.clock.now()
        if left_s <= 0:
            raise expired_credentials()
        return self.issue.for_user(user, lifetime_s=min(self.issue.lifetime_s, left_s), login=login.login)

    async def end(self, refresh_token: str) -> str:
        """End a login: none of its tokens counts any more. Return whose it was.

        Raises:
            Unauthenticated: it has ended by itself, or it is no token that renews one.
        """
        login = self.issue.tokens.read(refresh_token, renews=True)
        await self.ended.add(login.login, until=login.exp)
        return login.sub
