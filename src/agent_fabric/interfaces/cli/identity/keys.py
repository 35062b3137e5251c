"""`fabric keys`: which programs may use the server, and for what."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import typer

from agent_fabric.bootstrap.records import listed_keys, owner_here
from agent_fabric.domain.identity.principals import AnyScope, Scope
from agent_fabric.interfaces.cli.durations import day, minute, seconds_in
from agent_fabric.interfaces.cli.identity.identity_options import (
    LocalIdentity,
    Scopes,
    opens,
    read_scopes,
    warn_of_shared_runs,
)
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Noun, Place
from agent_fabric.wire.identity import KEY, KeyState
from agent_fabric.wire.shape import Json

app = new_app("Manage API keys: list, create, revoke.")

NEVER: Final = "never"
_SHORT_LIFE_S = 7 * 86_400.0
"""Of a key that counts for less, the time of day matters as well."""


class _LocalKeys:
    """The API keys of a fabric folder."""

    def __init__(self, identity: LocalIdentity) -> None:
        self._identity = identity

    async def list(self, *, also_dead: bool) -> list[Json]:
        now, keys = time.time(), listed_keys(self._identity.records)
        found = await keys.list(also_dead=also_dead)
        return [KEY.dump(KeyState.of(key, now=now, usable=keys.is_usable(key))) for key in found]

    async def create(self, name: str, *, scopes: Sequence[AnyScope], lasts_s: float | Literal["never"]) -> Json:
        lifetime_s = None if lasts_s == NEVER else lasts_s
        made = await self._identity.joined.keys.create(name, scopes=scopes, lasts_s=lifetime_s, by=owner_here())
        return {**KEY.dump(KeyState(made.key, "live")), "key": made.secret}

    async def revoke(self, key: str) -> Json:
        revoked = await self._identity.joined.keys.revoke(key, by=owner_here())
        return KEY.dump(KeyState.of(revoked, now=time.time()))


_keys = Noun(opens(_LocalKeys), lambda client: client.keys)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Include those that are no longer valid.")] = False,
    *,
    at: Place,
) -> int:
    """List API keys, the newest first. The keys themselves are not stored."""
    found = _keys(at, lambda keys: keys.list(also_dead=everything))
    text = "".join(_line(key) + "\n" for key in found) or "There are no keys.\n"
    if any(key["status"] == "foreign" for key in found):
        text += "foreign: made with a different identity.key or API_KEY_PEPPER; restore that, or create new keys.\n"
    return at.print(found, text)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for, such as ci.")],
    scopes: Scopes = None,
    expires: Annotated[str, typer.Option(metavar="AGE", help="How long it is valid: 30d, 12h, 2w, or never.")] = "90d",
    *,
    at: Place,
) -> int:
    """Create an API key and print it, once. Without --scope it can only read runs."""
    require_a_person()
    lasts_s: float | Literal["never"] = NEVER if expires == NEVER else seconds_in(expires)
    wanted = read_scopes(scopes) or [Scope.RUNS_READ]
    made = _keys(at, lambda keys: keys.create(name, scopes=wanted, lasts_s=lasts_s))
    warn_of_shared_runs(at)
    if not at.as_json:
        sys.stderr.write(
            f"The key {plain(made['name'])} may: {plain(', '.join(sorted(made['scopes'])))}. Valid {_until(made)}.\n"
            "Store it now: it is shown only once. Send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`.\n"
        )
        sys.stderr.flush()
    return at.print(made, f"{plain(made['key'])}\n")


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The id of a key, or the name of a live one.")], *, at: Place
) -> int:
    """Revoke an API key, with immediate effect."""
    require_a_person()
    revoked = _keys(at, lambda keys: keys.revoke(key))
    return at.print(revoked, f"The key {plain(revoked['name'])} ({plain(revoked['id'])}) is revoked.\n")


def _line(key: Json) -> str:
    used = "never used" if key["last_used_at"] is None else f"used {day(key['last_used_at'])}"
    scopes, status = plain(",".join(sorted(key["scopes"]))), plain(key["status"])
    return f"{plain(key['id'])}  {plain(key['name']):<20}  {status:<7}  {scopes:<24}  {_until(key):<16}  {used}"


def _until(key: Json) -> str:
    if key["expires_at"] is None:
        return "without limit"
    life_s = key["expires_at"] - key["created_at"]
    return f"until {(minute if life_s < _SHORT_LIFE_S else day)(key['expires_at'])}"
