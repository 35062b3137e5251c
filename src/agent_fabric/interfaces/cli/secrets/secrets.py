"""`fabric secrets`: keep secrets sealed, and change the keys that seal them."""

import asyncio
import getpass
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.application.ports.secrets import MAX_SECRET_BYTES, require_usable
from agent_fabric.application.secrets.rotate_keys import Rotation
from agent_fabric.bootstrap.records import folder_backups, key_needs, open_records, open_secrets, owner_here, resealing
from agent_fabric.bootstrap.runs import change_secrets
from agent_fabric.bootstrap.this_machine import require_made_here
from agent_fabric.config.schema.secrets import SecretsConfig
from agent_fabric.domain.errors import ConfigError, SecretNotFound
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.secrets.folder_secrets import Secrets
from agent_fabric.infrastructure.secrets.key_needs import LostPlace
from agent_fabric.infrastructure.secrets.keyring import Keyring
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import FAILED
from agent_fabric.interfaces.cli.options import is_confirmed, require_a_person
from agent_fabric.interfaces.cli.output import colour, plain
from agent_fabric.interfaces.cli.place import Noun, Place, here, refuse_if, with_client
from agent_fabric.interfaces.views.secrets import ROTATION, SECRETS
from agent_fabric.wire.shape import Json

app = new_app("Manage secrets and the keys that seal them: set, list, remove, rotate.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called, as in `file:NAME`.")]


class _LocalSecrets:
    """The secrets of a fabric folder."""

    def __init__(self, at: Place) -> None:
        self.root = at.root()
        require_made_here(self.root)
        self.secrets = open_secrets(SecretsConfig(), self.root, os.environ)

    async def set(self, name: str, value: str) -> bool:
        with open_records(self.root) as records:
            return await change_secrets(self.secrets, records).set(name, value, by=owner_here())

    async def list(self) -> Json:
        return SECRETS.dump(self.secrets.file.list_secrets())

    async def remove(self, name: str) -> None:
        if self.root.exists():
            with open_records(self.root) as records:
                if await change_secrets(self.secrets, records).remove(name, by=owner_here()):
                    return
        raise SecretNotFound(f"There is no secret {name!r} here", hint="`fabric secrets list` shows what there is.")


_secrets = Noun(here(_LocalSecrets), lambda client: client.secrets)


@app.command("set")
def set_secret(
    name: Name,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the value from standard input.")] = False,
    *,
    at: Place,
) -> int:
    """Store a secret, encrypted, in the fabric folder. Its value is asked for and never shown.

    Settings then refer to it as `file:NAME`, workflows as `{{ secrets.NAME }}`.

    \b
    Examples:
      fabric secrets set OPENAI_API_KEY
      pass show openai | fabric secrets set OPENAI_API_KEY --stdin
    """  # noqa: D301 - the mark makes lines stay as they are
    require_a_person()
    if at.url() is None:
        _LocalSecrets(at)  # which refuses a folder of other people before a value is typed
    value = _from_stdin() if stdin else _ask_value(name)
    require_usable(name, value)
    is_new = _secrets(at, lambda secrets: secrets.set(name, value))
    text = f"{name} is kept. Refer to it as file:{name}.\n" if is_new else f"{name} is changed.\n"
    return at.print({"name": name, "new": is_new}, text)


@app.command("list")
def list_secrets(*, at: Place) -> int:
    """Show which secrets are kept, and when they were changed; never what they are.

    Example: fabric secrets list
    """
    found = _secrets(at, lambda secrets: secrets.list())
    stored = found["secrets"]
    width = max((len(each["name"]) for each in stored), default=0)
    lines = [
        f"{plain(each['name']):<{width}}  file  {colour(_date(each['updated_at']), 'dim', sys.stdout)}\n"
        for each in stored
    ]
    return at.print(found, "".join(lines) or "No secret is kept here. Keep one with: fabric secrets set NAME\n")


@app.command()
def remove(name: Name, *, at: Place) -> int:
    """Forget a secret.

    Example: fabric secrets remove OPENAI_API_KEY
    """
    require_a_person()
    _secrets(at, lambda secrets: secrets.remove(name))
    return at.print({"name": name, "removed": True}, f"{name} is removed.\n")


@app.command("rotate")
def rotate_keys(
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Make no new key; forget all but the newest, once nothing needs them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    at: Place,
) -> int:
    """Make a new key, and seal the secrets and encrypted runs of this folder with it.

    Old keys stay, for other fabric folders and for backups, until --drop-old, which first names those that are known to
    need them. Runs may keep working.

    \b
    Examples:
      fabric secrets rotate
      fabric secrets rotate --drop-old
    """  # noqa: D301 - the mark makes lines stay as they are
    require_a_person()
    url = at.url()
    if url is not None:
        refuse_if(drop_old, "--drop-old does not work with a server", hint="Forget keys at the server's own terminal.")
        there: Json = with_client(url, lambda client: client.secrets.rotate())
        return _print_rotated({**there, "dropped_old": False}, "its key", at)
    local = _LocalSecrets(at)
    root, secrets = local.root, local.secrets
    lost: list[LostPlace] = []
    if drop_old:
        lost = key_needs().lost_without_old(root, secrets.keyring(), folder_backups(root.absolute()).inside())
        if not at.as_json or not yes:
            _tell_lost(lost, secrets.keyring())
        if not is_confirmed("Forget the older keys?", yes=yes, hint="Add it if you need none of this."):
            sys.stderr.write("Nothing was dropped.\n")
            return FAILED
    done = ROTATION.dump(asyncio.run(_rotate(root, secrets, drop_old=drop_old)))
    keyring = secrets.keyring()
    rotated: Json = {
        **done,
        "dropped_old": drop_old,
        "keys": list(keyring.generations()),
        **({"lost": [asdict(place) for place in lost]} if drop_old else {}),
    }
    return _print_rotated(rotated, str(keyring.place), at)


def _print_rotated(done: Json, place: str, at: Place) -> int:
    generation = plain(done["generation"])
    key = f"a new key, {generation}," if done["new_key"] else f"the key {generation}"
    changed = f"{count_of(done['secrets'], 'secret')}, {count_of(done['runs'], 'run')} changed"
    text = f"Everything here is sealed with {key} now ({changed}).\n"
    if done["dropped_old"]:
        text += "All other keys are forgotten.\n"
    elif done["new_key"]:
        text += f"Back up {place}: without it, nothing that is sealed can be read.\n"
    return at.print(done, text)


async def _rotate(root: Path, secrets: Secrets, *, drop_old: bool) -> Rotation:
    with open_records(root) as records:
        rotate = resealing(secrets, records.storage)
        return await (rotate.drop_old if drop_old else rotate)(by=owner_here())


def _ask_value(name: str) -> str:
    if not sys.stdin.isatty():
        raise ConfigError("no terminal to ask for a secret", hint="Send it to standard input, and add --stdin.")
    try:
        value = getpass.getpass(f"Value of {plain(name)}: ")
        again = getpass.getpass("Once more: ")
    except EOFError:
        raise typer.Abort from None
    if value != again:
        raise ConfigError("the two values differ", hint="Nothing was changed. Try again.")
    return value


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(4 * MAX_SECRET_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError("the value is not text", hint="Encode it, for example in base64.") from None
    return text.removesuffix("\n").removesuffix("\r")


def _tell_lost(lost: Sequence[LostPlace], keyring: Keyring) -> None:
    """Name what is known to need older keys, before they are forgotten."""
    old = keyring.generations()[1:]
    if not old:
        return
    say = sys.stderr.write
    names = ", ".join(old)
    if lost:
        say(f"Without the older keys ({names}), these can never be read again:\n")
        for place in lost:
            say(f"  {place.kind}  {plain(place.path)}: {_what_is_lost(place)}\n")
    else:
        say(f"No other fabric folder and no backup is known to need the older keys ({names}).\n")
    say(
        "Not known: folders and backups that were copied, moved, made by another user or on another machine, or last "
        "used before 0.6.\n"
    )
    if any(place.kind == "folder" and place.state == "sealed" for place in lost):
        say("Keep a folder readable with: fabric secrets rotate --workspace DIR. Make new backups after that.\n")


def _what_is_lost(place: LostPlace) -> str:
    made = f"made {_date(place.made_at)}; " if place.made_at else ""
    if place.state == "unknown":
        return f"{made}it is not known which keys it needs"
    parts = ((place.runs, "encrypted run"), (place.secrets, "secret"))
    counted = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in parts if count]
    what = " and ".join(counted) or "encrypted runs or secrets"
    return f"{made}{what}" + ("; it no longer exists, or was moved" if place.state == "missing" else "")


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
