"""Logins of the page in the browser: a cookie and a page token, of which neither counts without the other."""

import binascii
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import field
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import (
    EndedLogins,
    KeyHasher,
    UserRepository,
    expired_credentials,
    invalid_credentials,
)
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen

CODE_LIFETIME_S: Final = 60.0
CODE_BYTES: Final = 16
MAX_CODES: Final = 1_000
"""Codes that wait to be used; the oldest make room."""
MAX_CREDENTIAL_CHARS: Final = 2_048


class PageLogin(NamedTuple):
    """What a browser gets, once."""

    cookie: str
    """Kept where no script can read it."""
    page_token: str
    """Kept by the page, and sent as `X-Fabric-Page`: cookies are sent to every port of a machine."""
    principal: Principal
    expires_at: float


@dataclass(frozen=True, slots=True)
class PageLogins:
    """Begins, recognises and ends logins of the page.

    Nothing is stored about one that is under way: both halves are signed, and users are looked up with every request,
    so that disabling one takes effect at once.
    """

    local_token: Callable[[], str | None]
    """Returns the token of the fabric folder. A new one ends the logins that the old one opened."""
    local_name: str
    users: UserRepository
    ended: EndedLogins
    hasher: KeyHasher
    clock: Clock
    lifetime_s: float

    def begin(self, principal: Principal) -> PageLogin:
        """Return a login of a principal under a new id.

        Raises:
            Forbidden: it is a program, or a user of another identity provider.
        """
        require_page_user(principal)
        now = self.clock.now()
        expires_at = now + self.lifetime_s
        said = {
            "id": secrets.token_urlsafe(CODE_BYTES),
            "kind": principal.kind.value,
            "name": principal.name,
            "iat": now,
            "exp": expires_at,
        }
        body = _encode(json.dumps(said, separators=(",", ":")).encode())
        cookie = f"{body}.{self._sign('cookie', body, principal.kind)}"
        token = self._sign("token", cookie, principal.kind)
        return PageLogin(cookie, token, principal, expires_at)

    async def read(self, cookies: Collection[str], page_token: str, *, from_here: bool) -> Principal:
        """Return who has logged in.

        Raises:
            Unauthenticated: no cookie and the token belong together, or the login is over.
        """
        return await self._principal(self._matching(cookies, page_token), from_here=from_here)

    async def end(self, cookies: Collection[str], page_token: str, *, from_here: bool) -> Principal:
        """End a login; return whose it was.

        Raises:
            Unauthenticated: there is no such login.
        """
        said = self._matching(cookies, page_token)
        principal = await self._principal(said, from_here=from_here)
        await self.ended.add(said["id"], until=said["exp"])
        return principal

    def _matching(self, cookies: Collection[str], page_token: str) -> dict[str, Any]:
        for cookie in cookies:
            said = self._cookie_content(cookie)
            if said is not None and _is_same(page_token, self._sign("token", cookie, Kind(said["kind"]))):
                return said
        raise invalid_credentials()

    async def _principal(self, said: dict[str, Any], *, from_here: bool) -> Principal:
        if said["exp"] <= self.clock.now():
            raise expired_credentials()
        if await self.ended.has(said["id"]):
            raise invalid_credentials()
        if Kind(said["kind"]) is Kind.LOCAL:
            if not from_here:
                raise invalid_credentials()
            return Principal(self.local_name, Kind.LOCAL, widen((Scope.ADMIN,)), expires_at=said["exp"])
        user = await self.users.find(said["name"])
        if user is None or user.disabled or said["iat"] < user.tokens_after:
            raise invalid_credentials()
        return Principal(user.name, Kind.USER, user.scopes, expires_at=said["exp"], login=said["id"])

    def _cookie_content(self, cookie: str) -> dict[str, Any] | None:
        """Return what a cookie says if we have signed it."""
        body, _, signature = cookie.partition(".")
        if len(cookie) > MAX_CREDENTIAL_CHARS or not cookie.isascii():
            return None
        try:
            said = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            kind = Kind(said["kind"])
        except (binascii.Error, ValueError, KeyError, TypeError, RecursionError):
            return None
        return said if _is_same(signature, self._sign("cookie", body, kind)) else None

    def _sign(self, purpose: str, text: str, kind: Kind) -> str:
        with_folder = self.local_token() or secrets.token_hex() if kind is Kind.LOCAL else ""
        return _encode(self.hasher.hash(f"page {purpose}\0{with_folder}\0{text}"))


@dataclass(frozen=True, slots=True)
class LoginCodes:
    """Codes that open the page once, within a minute. They live in this process only."""

    monotonic: Callable[[], float]
    _waiting: OrderedDict[str, tuple[Principal, float]] = field(default_factory=OrderedDict)

    def issue(self, principal: Principal) -> str:
        """Return a code for the user who asked. The page that it opens may all that the user may.

        Raises:
            Forbidden: it is a run or a program, or a token that was issued for a script, which may allow less.
        """
        require_page_user(principal)
        if principal.kind is Kind.USER and not principal.login:
            raise Forbidden(
                "A token for scripts does not open the page", hint="Log in with a name and a password: fabric login"
            )
        code = secrets.token_urlsafe(CODE_BYTES)
        self._waiting[code] = principal, self.monotonic() + CODE_LIFETIME_S
        while len(self._waiting) > MAX_CODES:
            self._waiting.popitem(last=False)
        return code

    def redeem(self, code: str) -> Principal:
        """Return whom a code was issued to; it counts no more.

        Raises:
            Unauthenticated: it was used before, is too old, or was never issued.
        """
        principal, until = self._waiting.pop(code, (None, 0.0))
        if principal is None or until < self.monotonic():
            raise invalid_credentials()
        return principal


def require_page_user(principal: Principal) -> None:
    """Check that a principal is a person of this server.

    Raises:
        Forbidden: it is not.
    """
    if principal.run:
        raise Forbidden("A run may not open the page", hint="A person does that themselves: fabric web")
    if principal.kind not in {Kind.LOCAL, Kind.USER}:
        raise Forbidden(
            "The page is for users of this server, and not for keys",
            hint="Log in with a name and a password, or on the server's own machine with: fabric web",
        )


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _is_same(given: str, right: str) -> bool:
    return given.isascii() and hmac.compare_digest(given, right)
