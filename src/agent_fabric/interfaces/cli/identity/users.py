"""`fabric users`: who can log in to the server, and what they may."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.errors import ConfigError, NameTaken
from agent_fabric.domain.identity.accounts import user_name
from agent_fabric.domain.identity.principals import SCOPES_OF, AnyScope, Role, Scope, scope_from
from agent_fabric.interfaces.cli.identity.identity_options import (
    LocalIdentity,
    PasswordStdin,
    Scopes,
    opens,
    read_password,
    read_scopes,
    warn_of_shared_runs,
)
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import Noun, Place
from agent_fabric.wire.identity import REMOVED_USER, TOKEN, USER, KeyState, RemovedUser
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.application.identity.manage_users import ManageUsers
    from agent_fabric.client.people import Users as ServerUsers

app = new_app("Manage the users of the server: list, add, set, password, remove.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
_ROLES = "; ".join(f"{role}: {', '.join(sorted(SCOPES_OF[role]))}" for role in Role)


class _LocalUsers:
    """The users of a fabric folder."""

    def __init__(self, identity: LocalIdentity) -> None:
        self._identity, self._stored, self._by = identity, identity.records.storage.users, owner_here()

    @property
    def _users(self) -> "ManageUsers":
        return self._identity.joined.users

    async def list(self) -> list[Json]:
        return [USER.dump(user) for user in await self._stored.list()]

    async def show(self, name: str) -> Json:
        return USER.dump(await self._users.get(name))

    async def add(self, name: str, *, password: str | None, role: Role, scopes: Sequence[AnyScope]) -> Json:
        return USER.dump(await self._users.add(name, password=password, role=role, extra=scopes, by=self._by))

    async def change(
        self, name: str, *, role: Role | None, scopes: Sequence[AnyScope] | None, disabled: bool | None
    ) -> Json:
        return USER.dump(await self._users.change(name, role=role, extra=scopes, disabled=disabled, by=self._by))

    async def set_password(self, name: str, password: str) -> None:
        await self._users.set_password(name, password, by=self._by)

    async def remove(self, name: str) -> Json:
        await self._users.remove(name, by=self._by)
        made = await self._identity.joined.keys.made_by(name)
        return REMOVED_USER.dump(RemovedUser(name, [KeyState(key, "live") for key in made]))

    async def issue_token(self, name: str, *, scopes: Sequence[AnyScope] | None, lifetime_s: float | None) -> Json:
        return TOKEN.dump(await self._identity.joined.issue(name, by=self._by, scopes=scopes, lifetime_s=lifetime_s))


USERS = Noun(opens(_LocalUsers), lambda client: client.users)
Users: TypeAlias = "_LocalUsers | ServerUsers"


@app.command("list")
def list_(*, at: Place) -> int:
    """List users."""
    users = USERS(at, lambda users: users.list())
    return at.print(users, "".join(_line(user) + "\n" for user in users) or "There are no users.\n")


@app.command()
def add(
    name: Name,
    role: Annotated[Role, typer.Option(help=f"What they may. {_ROLES}.")] = Role.VIEWER,
    scopes: Scopes = None,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="The user cannot log in, only use tokens of `fabric token issue`.")
    ] = False,
    *,
    at: Place,
) -> int:
    """Add a user; the password is asked for. --scope adds scopes to those of the role."""
    require_a_person()
    if no_password and password_stdin:
        raise ConfigError("--no-password and --password-stdin cannot be combined", hint="Use one of the two.")
    extra = read_scopes(scopes) or ()
    if not no_password and not password_stdin:
        _require_free_name(name, at)
    password = None if no_password else read_password(name, from_stdin=password_stdin)
    user = USERS(at, lambda users: users.add(name, password=password, role=role, scopes=extra))
    warn_of_shared_runs(at)
    return _print(user, "added", at)


@app.command("set")
def set_(
    name: Name,
    role: Annotated[Role | None, typer.Option(help=f"What they may. {_ROLES}.")] = None,
    scopes: Scopes = None,
    no_scopes: Annotated[bool, typer.Option("--no-scopes", help="Nothing beyond their role.")] = False,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Whether the user is locked out.")] = None,
    *,
    at: Place,
) -> int:
    """Change the role or scopes of a user, with immediate effect; the user logs in again.

    --scope says which scopes they have in addition to those of the role; --scope +SCOPE adds one more.
    """
    require_a_person()
    if scopes and no_scopes:
        raise ConfigError("--scope and --no-scopes cannot be combined", hint="Use one of the two.")
    added, extra = _added_and_set(scopes, no_scopes=no_scopes)
    if role is None and extra is None and not added and disabled is None:
        raise ConfigError(
            "There is nothing to change", hint="Give --role, --scope, --no-scopes, --disable or --enable."
        )

    async def change(users: Users) -> Json:
        before = await users.show(name)
        wanted = _with_added(before, added) if added else extra
        user = await users.change(name, role=role, scopes=wanted, disabled=disabled)
        _warn_of_lost_scopes(before, user)
        _warn_if_it_was_the_last_admin(before, await users.list())
        return user

    return _print(USERS(at, change), "changed", at)


@app.command()
def password(name: Name, password_stdin: PasswordStdin = False, *, at: Place) -> int:
    """Set a new password; it is asked for. The user logs in again."""
    require_a_person()
    fresh = read_password(name, from_stdin=password_stdin)

    async def set_password(users: Users) -> Json:
        await users.set_password(name, fresh)
        return await users.show(name)

    return _print(USERS(at, set_password), "given a new password", at)


@app.command()
def remove(name: Name, *, at: Place) -> int:
    """Remove a user. Their tokens are revoked; API keys that they created stay, and are listed."""
    require_a_person()

    async def take_away(users: Users) -> Json:
        before = await users.show(name)
        removed = await users.remove(name)
        _warn_if_it_was_the_last_admin(before, await users.list())
        return removed

    removed = USERS(at, take_away)
    text = f"{name} has been removed.\n"
    if removed["keys"]:
        keys = ", ".join(f"{plain(key['name'])} ({plain(key['id'])})" for key in removed["keys"])
        text += f"Keys that they made still work: {keys}; revoke with: fabric keys revoke ID\n"
    return at.print(removed, text)


def _require_free_name(name: str, at: Place) -> None:
    """Refuse a name before a password is typed for it."""
    user_name(name)
    if at.url() is None and not at.root().exists():
        return  # no folder, no users; it is made once there is one
    users = USERS(at, lambda users: users.list())
    if any(user["name"] == name for user in users):
        raise NameTaken(f"There is a user {name!r} already", hint=f"Change them with: fabric users set {name}")


def _added_and_set(
    scopes: list[str] | None, *, no_scopes: bool
) -> tuple[Sequence[AnyScope], Sequence[AnyScope] | None]:
    """Return the scopes to add, and those to have instead of what was granted before; None: as before."""
    if no_scopes:
        return (), ()
    adding = [name for name in scopes or () if name.startswith("+")]
    if not adding:
        return (), read_scopes(scopes)
    if len(adding) < len(scopes or ()):
        raise ConfigError(
            "--scope +SCOPE adds, --scope SCOPE replaces: not both at once", hint="Write + before all of them, or none."
        )
    return read_scopes([name.removeprefix("+") for name in adding]) or (), None


def _with_added(before: Json, added: Sequence[AnyScope]) -> list[AnyScope]:
    return list(dict.fromkeys((*map(scope_from, before["extra_scopes"]), *added)))


def _warn_of_lost_scopes(before: Json, after: Json) -> None:
    lost = sorted(set(before["extra_scopes"]) - set(after["scopes"]))
    if lost and not after["disabled"]:
        again = " ".join(f"--scope +{plain(scope)}" for scope in lost)
        print_warning(
            f"{plain(after['name'])} no longer has: {plain(', '.join(lost))}. "
            f"To give it back: fabric users set {plain(after['name'])} {again}"
        )


def _warn_if_it_was_the_last_admin(before: Json, users: Sequence[Json]) -> None:
    if _is_admin(before) and not any(map(_is_admin, users)):
        print_warning("No user is an admin now. The machine itself still is one, with the token of the folder.")


def _is_admin(user: Json) -> bool:
    return Scope.ADMIN in user["scopes"] and not user["disabled"]


def _print(user: Json, what: str, at: Place) -> int:
    may = "They are disabled." if user["disabled"] else f"They may: {_scopes(user)}"
    return at.print(user, f"{plain(user['name'])} has been {what}. {may}\n")


def _line(user: Json) -> str:
    notes = ["disabled"] if user["disabled"] else []
    notes += [] if user["has_password"] else ["no password"]
    about = f"  ({', '.join(notes)})" if notes else ""
    return f"{plain(user['name']):<20}  {plain(user['role']):<9}  {_scopes(user)}{about}"


def _scopes(user: Json) -> str:
    return plain(", ".join(sorted(user["scopes"])))
