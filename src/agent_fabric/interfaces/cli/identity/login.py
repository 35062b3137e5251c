"""`fabric login`: show a server once who one is; every later command is known there."""

import os
import sys
from typing import Annotated

import typer

from agent_fabric.client.credentials import server_address
from agent_fabric.client.logins import Logins
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.interfaces.cli.durations import minute
from agent_fabric.interfaces.cli.identity.identity_options import PasswordStdin, read_password
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, require_a_person
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import FABRIC_URL, Place, server_of, with_client

app = new_app("Log in to a server.")

MAX_NAME_CHARS = 256

Url = Annotated[
    str | None, typer.Argument(metavar="URL", show_default=False, help=f"The server; by default {FABRIC_URL}.")
]


@app.command()
def login(
    server: Url = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Your user name.")] = None,
    password_stdin: PasswordStdin = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Send the password over plain http, where others can read it.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Log in to a server; the password is asked for. Commands that work on this server need nothing more."""
    require_a_person()
    address = named_server(server)
    if not (insecure or is_local_url(address) or address.startswith("https://")):
        raise ConfigError(
            f"The password would go to {address} in the clear",
            hint="Use its https:// address; or --insecure, if the network between is private.",
        )
    name = _name() if user is None else user.strip()
    if not name:
        raise ConfigError("No user is named", hint="Name one with --user NAME.")
    password = read_password(name, from_stdin=password_stdin, twice=False)
    if not password:
        raise ConfigError("There is no password", hint="Type it, or send it on standard input with --password-stdin.")
    given = with_client(address, lambda client: client.login(name, password))
    Logins(os.environ).keep(address, given)
    if stronger := next((each for each in ("FABRIC_TOKEN", "FABRIC_API_KEY") if os.environ.get(each)), None):
        print_warning(f"{stronger} is set and takes precedence over this login.")
    scopes = sorted(given.scopes)
    text = f"Logged in to {address} as {name}, until {minute(given.ends_at)}. You may: {', '.join(scopes)}"
    value = {"server": address, "user": name, "expires_at": given.ends_at, "scopes": scopes}
    return Place(as_json=as_json).print(value, plain(text) + "\n")


def named_server(server: str | None) -> str:
    """Return the address of the server that is meant."""
    url = server_of(None, server)
    if url is None:
        raise ConfigError(
            "No server is named", hint=f"For example: fabric login https://fabric.example.org; or set {FABRIC_URL}."
        )
    return server_address(url)


def _name() -> str:
    if not sys.stdin.isatty():
        raise ConfigError("There is no terminal to ask for a name", hint="Say who logs in with --user NAME.")
    sys.stderr.write("Name: ")  # standard output is for the result
    sys.stderr.flush()
    return sys.stdin.readline(MAX_NAME_CHARS).strip()
