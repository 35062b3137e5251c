"""Manage users."""

from collections.abc import Iterable, Sequence

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import Passwords, UserRepository, invalid_credentials
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import AccountNotFound, Forbidden
from agent_fabric.domain.identity.accounts import (
    User,
    UserChange,
    is_user_name,
    password_for,
    require_may_grant,
    user_name,
)
from agent_fabric.domain.identity.principals import SCOPES_OF, AnyScope, Kind, Principal, Role


@dataclass(frozen=True, slots=True)
class ManageUsers:
    """Use cases: list, add, change and remove users. A caller grants only scopes that it holds.

    Every change is recorded in the audit chain. Only the local token can remove the last admin: its owner can always
    add another.
    """

    users: UserRepository
    passwords: Passwords
    clock: Clock

    async def list(self) -> Sequence[User]:
        """Return every user, by name."""
        return await self.users.list()

    async def get(self, name: str) -> User:
        """Return a user.

        Raises:
            AccountNotFound: there is none of this name.
        """
        user = await self.users.find(name) if is_user_name(name) else None
        if user is None:
            raise AccountNotFound(f"There is no user {name[:80]!r}", hint="See them with: fabric users list")
        return user

    async def add(
        self,
        name: str,
        *,
        password: str | None,
        by: Principal,
        role: Role = Role.VIEWER,
        extra: Iterable[AnyScope] = (),
    ) -> User:
        """Add a user; without a password they cannot log in, only use tokens that were issued for them.

        Raises:
            InvalidInputs: the name or the password cannot be used.
            Forbidden: `by` does not have what they give.
            NameTaken: there is one of this name.
        """
        more = frozenset(extra)
        require_may_grant(by, SCOPES_OF[role] | more)
        checked = None if password is None else password_for(user_name(name), password)
        now = self.clock.now()
        user = User(
            name=user_name(name),
            role=role,
            extra=more,
            created_at=now,
            tokens_after=now,  # those of a user of the same name who was removed count no more
            password="" if checked is None else await self.passwords.hash(checked),
        )
        act = Act.of(by, Deed.USER_ADDED, at=now, about=user.name, detail=_rights(user.role, more))
        await self.users.add(user, act=act)
        return user

    async def change(
        self,
        name: str,
        *,
        by: Principal,
        role: Role | None = None,
        extra: Iterable[AnyScope] | None = None,
        disabled: bool | None = None,
    ) -> User:
        """Change what a user may. Their tokens count no more: they log in again, with what they may now.

        Raises:
            AccountNotFound: there is none of this name.
            Forbidden: `by` does not have what the user would have.
            LastAdmin: no one would be an admin any more.
        """
        before = await self.get(name)
        more = None if extra is None else frozenset(extra)
        require_may_grant(by, SCOPES_OF[role or before.role] | (before.extra if more is None else more))
        now = self.clock.now()
        change = UserChange(role=role, extra=more, disabled=disabled, tokens_after=now)
        act = Act.of(by, Deed.USER_CHANGED, at=now, about=name, detail=_rights(role, more, disabled))
        return await self.users.change(name, change, keep_an_admin=_must_stay(by), act=act)

    async def set_password(self, name: str, password: str, *, by: Principal) -> User:
        """Give a user a new password. Their tokens count no more.

        Raises:
            AccountNotFound: there is none of this name.
            InvalidInputs: the password cannot be used.
            Forbidden: `by` may not do all that the user may: they could log in as them.
        """
        require_may_grant(by, (await self.get(name)).scopes)
        return await self._put_password(name, password, by)

    async def change_own_password(self, who: Principal, *, old: str, new: str) -> User:
        """Let someone choose a new password. Their tokens count no more.

        Raises:
            Forbidden: they have not logged in: a program, or a token that was issued for a script.
            Unauthenticated: the old one is wrong.
            InvalidInputs: the new one cannot be used.
        """
        user = await self._user_behind(who)
        if not who.login:
            raise Forbidden("A token for scripts changes no password", hint="Log in with it first: fabric login")
        if not await self.passwords.match(user.password, old):
            raise invalid_credentials()
        return await self._put_password(user.name, new, who)

    async def log_out(self, who: Principal) -> None:
        """Make all of someone's tokens count no more, wherever they are.

        Raises:
            Forbidden: they are no user.
        """
        user = await self._user_behind(who)
        await self.users.change(user.name, UserChange(tokens_after=self.clock.now()), keep_an_admin=False, act=None)

    async def remove(self, name: str, *, by: Principal) -> None:
        """Remove a user. Their tokens count no more; keys that they have made stay.

        Raises:
            AccountNotFound: there is none of this name.
            Forbidden: `by` may not do all that the user may.
            LastAdmin: no one would be an admin any more.
        """
        require_may_grant(by, (await self.get(name)).scopes)
        act = Act.of(by, Deed.USER_REMOVED, at=self.clock.now(), about=name)
        await self.users.remove(name, keep_an_admin=_must_stay(by), act=act)

    async def _put_password(self, name: str, password: str, by: Principal) -> User:
        hashed = await self.passwords.hash(password_for(name, password))
        now = self.clock.now()
        act = Act.of(by, Deed.PASSWORD_SET, at=now, about=name)
        change = UserChange(password=hashed, tokens_after=now)
        return await self.users.change(name, change, keep_an_admin=False, act=act)

    async def _user_behind(self, who: Principal) -> User:
        if who.kind is not Kind.USER:
            raise Forbidden(
                f"{who.name} has not logged in with a password", hint="Only people who have can do this for themselves."
            )
        return await self.get(who.name)


def _rights(role: Role | None, extra: frozenset[AnyScope] | None, disabled: bool | None = None) -> str:
    """Say what someone was given."""
    said = [] if role is None else [f"role {role.value}"]
    said += [] if extra is None else [f"also {', '.join(sorted(extra)) or 'nothing'}"]
    said += [] if disabled is None else ["disabled" if disabled else "enabled"]
    return "; ".join(said)


def _must_stay(by: Principal) -> bool:
    """Tell whether someone must remain who is an admin."""
    return by.kind is not Kind.LOCAL
