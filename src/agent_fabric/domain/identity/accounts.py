"""People and keys that the server knows, and what may be done with them."""

import re
from collections.abc import Iterable
from dataclasses import field, fields, replace

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Forbidden, InvalidInputs
from agent_fabric.domain.identity.principals import (
    ALL_TOOLS,
    SCOPES_OF,
    AnyScope,
    Principal,
    Role,
    Scope,
    holds_scope,
    tool_scopes,
    widen,
)

KEY_PREFIX = "a33_"
"""Every API key begins so, so that people and scanners of leaked secrets know one when they see it."""
MIN_PASSWORD_CHARS = 12
MAX_PASSWORD_CHARS = 1024
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange:
    """What becomes different about a user; None: it stays as it is."""

    role: Role | None = None
    extra: frozenset[AnyScope] | None = None
    disabled: bool | None = None
    password: str | None = None
    """What recognises the new one."""
    tokens_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person who can log in."""

    name: str
    role: Role = Role.VIEWER
    extra: frozenset[AnyScope] = frozenset()
    """Scopes beyond the role, and tool scopes that narrow it."""
    disabled: bool = False
    tokens_after: float = 0.0
    """Tokens that were issued before this moment count no more."""
    created_at: float = 0.0
    password: str = field(default="", repr=False)
    """How the password can be recognised; empty: there is none, and the user cannot log in."""

    @property
    def scopes(self) -> frozenset[AnyScope]:
        """All scopes, with implied ones."""
        return widen(SCOPES_OF[self.role] | self.extra)

    @property
    def is_admin(self) -> bool:
        """Whether they may do everything, now."""
        return Scope.ADMIN in self.scopes and not self.disabled

    def apply(self, change: UserChange) -> "User":
        """Return them after a change."""
        wanted = {each.name: getattr(change, each.name) for each in fields(change)}
        after = replace(self, **{name: value for name, value in wanted.items() if value is not None})
        # Never back: what has been voided stays so, whatever the machine's clock says.
        return replace(after, tokens_after=max(self.tokens_after, after.tokens_after))

    @property
    def has_password(self) -> bool:
        """Whether they can log in."""
        return bool(self.password)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key for a program. The key itself is nowhere; only what recognises it is kept."""

    id: str
    """Stands in the key, too, so that one that was found somewhere can be revoked."""
    name: str
    scopes: frozenset[AnyScope]
    created_by: str
    created_at: float
    expires_at: float | None
    """None: never."""
    revoked_at: float | None = None
    last_used_at: float | None = None
    """Right to the minute."""
    hash: bytes = field(default=b"", repr=False)

    @property
    def title(self) -> str:
        """What people call it, and what tells it apart from others that were called so."""
        return f"{self.name} ({self.id})"

    def is_live(self, now: float) -> bool:
        """Tell whether it still opens anything."""
        return self.revoked_at is None and not self.is_expired(now)

    def is_expired(self, now: float) -> bool:
        """Tell whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


def is_user_name(text: str) -> bool:
    """Tell whether there could be a user of this name."""
    return _USER_NAME.fullmatch(text) is not None


def user_name(text: str) -> str:
    """Return a name for a person, checked.

    Raises:
        InvalidInputs: it cannot be one.
    """
    if not is_user_name(text):
        raise InvalidInputs(
            f"{text[:80]!r} cannot be the name of a user",
            hint="Use at most 64 of a-z, 0-9, '.', '_', '-' and '@', and start with a letter or digit.",
        )
    return text


def key_name(text: str) -> str:
    """Return a name for a key, checked.

    Raises:
        InvalidInputs: it cannot be one.
    """
    if not _KEY_NAME.fullmatch(text):
        raise InvalidInputs(
            f"{text[:80]!r} cannot be the name of a key",
            hint="Use at most 64 letters, digits, '.', '_', '-' and '@', and start with a letter or digit.",
        )
    return text


def password_for(name: str, password: str) -> str:
    """Return a password, checked.

    Raises:
        InvalidInputs: it is too easily guessed, or too long.
    """
    if len(password) < MIN_PASSWORD_CHARS:
        raise InvalidInputs(
            f"The password is shorter than {MIN_PASSWORD_CHARS} characters",
            hint="Four or five unrelated words are good, and easy to remember.",
        )
    if len(password) > MAX_PASSWORD_CHARS:
        raise InvalidInputs(
            f"The password is longer than {MAX_PASSWORD_CHARS} characters", hint="Choose a shorter one."
        )
    if name in password.casefold() or len(set(password)) < 5:
        raise InvalidInputs(
            "The password is too easily guessed",
            hint="It must not contain the user's name, nor consist of the same few characters.",
        )
    return password


def require_may_grant(by: Principal, scopes: Iterable[AnyScope]) -> None:
    """Check that scopes make sense together and that `by` holds all of them.

    Raises:
        InvalidInputs: `admin` together with a tool scope.
        Forbidden: `by` does not hold one of them.
    """
    wanted = widen(scopes)
    tools = tool_scopes(wanted)
    if Scope.ADMIN in wanted and tools:
        raise InvalidInputs(
            f"'admin' includes every tool; {', '.join(sorted(tools))} would not narrow it",
            hint="Leave out the tool scopes, or grant 'runs' and 'workflows' instead of 'admin'.",
        )
    beyond: list[str] = sorted(scope for scope in wanted if isinstance(scope, Scope) and scope not in by.scopes)
    if not by.may(Scope.ADMIN) and (most := tool_scopes(by.scopes)):
        beyond += sorted(tool for tool in tools if not holds_scope(most, tool)) if tools else [ALL_TOOLS]
    if beyond:
        raise Forbidden(
            f"{by.name} cannot grant scopes that {by.name} does not have: {', '.join(beyond)}",
            hint="Ask an admin, or leave them out.",
        )
