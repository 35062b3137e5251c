"""Identity, seen from the doors of the server and from those who look after people and keys."""

from collections.abc import Sequence
from typing import Final, Protocol

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Unauthenticated
from agent_fabric.domain.identity.accounts import ApiKey, User, UserChange
from agent_fabric.domain.identity.principals import AnyScope, Principal

_LOG_IN: Final = "Log in again, or ask for a new key."


def invalid_credentials() -> Unauthenticated:
    """Return the one answer to whatever is wrong with a credential: who guesses learns nothing from it."""
    return Unauthenticated("Invalid authentication credentials", hint=_LOG_IN)


def expired_credentials() -> Unauthenticated:
    """Return the answer to a credential that was right, and is too old."""
    return Unauthenticated("Expired authentication credentials", hint=_LOG_IN)


class Authenticator(Protocol):
    """Finds out who is asking."""

    async def __call__(self, credential: str, *, is_key: bool, from_here: bool) -> Principal:
        """Return who showed this credential.

        Args:
            credential: What stood behind `Bearer`, or in `X-API-Key`.
            is_key: Whether it came as an API key.
            from_here: Whether the connection comes from this machine.

        Raises:
            Unauthenticated: no one we know; the message is the same whatever is wrong with it.
        """
        ...


class PageAuthenticator(Protocol):
    """Finds out who uses the page in a browser."""

    async def __call__(self, cookies: Sequence[str], page_token: str, *, from_here: bool) -> Principal:
        """Return who showed a cookie and the page token that belongs to it.

        Raises:
            Unauthenticated: no cookie belongs to the token, or the login is over.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenPayload:
    """What a token of ours says."""

    sub: str
    """Whom it was issued to."""
    scopes: frozenset[AnyScope]
    """What it may be used for; never more than that person may."""
    iat: float
    """When it was issued, in seconds since 1970."""
    exp: float
    """When it counts no more."""
    login: str = ""
    """The login that it belongs to, which can be ended; empty: none."""


class TokenSigner(Protocol):
    """Makes tokens that only we can make. One that renews a login opens nothing, and the other way round."""

    def sign(self, payload: TokenPayload, *, renews: bool = False) -> str:
        """Return the token; `renews`: one that renews a login."""
        ...

    def read(self, token: str, *, renews: bool = False) -> TokenPayload:
        """Return what one of our tokens says; `renews`: one that renews a login.

        Raises:
            Unauthenticated: it is not ours, not meant for this, or too old.
        """
        ...


class ForeignTokens(Protocol):
    """Tokens of another identity provider."""

    def are_like(self, token: str) -> bool:
        """Tell from the outside whether a token may be one of them, not whether it is genuine."""
        ...

    async def read(self, token: str) -> Principal:
        """Return whom a token is about.

        Raises:
            Unauthenticated: it is not genuine, not meant for us, or too old; or the provider's keys cannot be had.
        """
        ...


class Passwords(Protocol):
    """Recognises passwords without knowing them."""

    async def hash(self, password: str) -> str:
        """Return what recognises a password.

        Raises:
            TooManyRequests: too many wait for the same already.
        """
        ...

    async def match(self, hashed: str, password: str) -> bool:
        """Tell whether a password is the right one; takes as long if `hashed` is empty, for which none is.

        Raises:
            TooManyRequests: too many wait for the same already.
        """
        ...


class KeyHasher(Protocol):
    """Recognises API keys without knowing them."""

    def hash(self, key: str) -> bytes:
        """Return what recognises a key."""
        ...

    def made(self, hashed: bytes) -> bool:
        """Tell whether a hash was made with the secret that is in use here: else no key can match it."""
        ...


class UserRepository(Protocol):
    """Every person who can log in. A change counts at once, in every process; its `act` is recorded along with it."""

    async def find(self, name: str) -> User | None:
        """Return a user; None if there is none of this name. Takes microseconds."""
        ...

    async def list(self) -> Sequence[User]:
        """Return every user, by name."""
        ...

    async def add(self, user: User, *, act: Act | None) -> None:
        """Add a user.

        Raises:
            NameTaken: there is one of this name.
        """
        ...

    async def change(self, name: str, change: UserChange, *, keep_an_admin: bool, act: Act | None) -> User:
        """Change a user; return how they are now.

        Raises:
            AccountNotFound: there is none of this name.
            LastAdmin: `keep_an_admin`, and no admin would be left.
        """
        ...

    async def remove(self, name: str, *, keep_an_admin: bool, act: Act | None) -> None:
        """Remove a user.

        Raises:
            AccountNotFound: there is none of this name.
            LastAdmin: `keep_an_admin`, and they are the last.
        """
        ...


class EndedLogins(Protocol):
    """Logins that were ended before their time. It counts at once, in every process."""

    async def has(self, login: str) -> bool:
        """Tell whether a login was ended. Takes microseconds."""
        ...

    async def add(self, login: str, *, until: float) -> None:
        """End a login that would have lasted `until` this moment; again is no error."""
        ...


class ApiKeyRepository(Protocol):
    """Every API key. A change counts at once, in every process; its `act` is recorded along with it."""

    async def find(self, key_id: str) -> ApiKey | None:
        """Return a key; None if there is none. Takes microseconds."""
        ...

    async def list(self) -> Sequence[ApiKey]:
        """Return every key, the newest first; those that count no more, too."""
        ...

    async def add(self, key: ApiKey, *, act: Act | None) -> None:
        """Add a key.

        Raises:
            NameTaken: a live one has this name.
        """
        ...

    async def revoke(self, which: str, *, at: float, act: Act | None) -> ApiKey:
        """Revoke a key by its id, or the live one of a name; one that is revoked stays as it is.

        The act is recorded as one about the key that was found.

        Raises:
            AccountNotFound: there is none.
        """
        ...

    def note_use(self, key_id: str, *, at: float) -> None:
        """Record the use of a key; best effort, and never awaited."""
        ...
