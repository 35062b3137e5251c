"""`fabric token`: the token of this folder, and tokens for people's scripts."""

import sys
import time
from typing import Annotated

import typer

from agent_fabric.bootstrap.records import open_records, owner_here
from agent_fabric.bootstrap.this_machine import read_local_token, require_ours, rotate_local_token, token_file
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.interfaces.cli.durations import minute, seconds_in
from agent_fabric.interfaces.cli.identity.identity_options import Scopes, read_scopes
from agent_fabric.interfaces.cli.identity.users import USERS
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import from_here, plain, print_json
from agent_fabric.interfaces.cli.place import Folder, Place

app = new_app("Manage tokens: show, rotate, issue.")


@app.command()
def show(
    reveal: Annotated[bool, typer.Option("--reveal", help="Print the token itself, and nothing else.")] = False,
    *,
    at: Folder,
) -> int:
    """Show where the local token of this folder is. Programs on this machine use the server with it."""
    root = at.root()
    if reveal:
        require_a_person()
    token = read_local_token(root)
    found = token if reveal else from_here(token_file(root))
    none = "There is none yet: the first `fabric serve`, or `fabric token rotate`, makes it."
    return at.print(
        {"path": str(token_file(root)), "exists": token is not None, "token": token if reveal else None},
        f"{none if token is None else found}\n",
    )


@app.command()
def rotate(*, at: Folder) -> int:
    """Replace this folder's token; the old one stops working at once."""
    require_a_person()
    root = at.root()
    require_ours(root)
    import asyncio  # noqa: PLC0415 - to show a token waits for nothing

    with open_records(root) as records:
        rotate_local_token(root)
        act = Act.of(owner_here(), Deed.LOCAL_TOKEN_ROTATED, at=time.time())
        asyncio.run(records.storage.acts.record(act))
    return at.print(
        {"path": str(token_file(root)), "rotated": True},
        f"{from_here(token_file(root))} is new; whatever used the old one needs it.\n",
    )


@app.command()
def issue(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user it is for; see `fabric users`.")],
    scopes: Scopes = None,
    lifetime: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="How long it is valid, such as 12h; by default `identity.token_lifetime_s`."),
    ] = None,
    *,
    at: Place,
) -> int:
    """Issue a token for a user's script: with all scopes of the user, or with --scope fewer."""
    require_a_person()
    lifetime_s = None if lifetime is None else seconds_in(lifetime)
    wanted = read_scopes(scopes)
    issued = USERS(at, lambda users: users.issue_token(user, scopes=wanted, lifetime_s=lifetime_s))
    if at.as_json:
        return print_json(issued)
    until = minute(time.time() + issued["expires_in"])
    sys.stderr.write(f"For {user}, who may: {', '.join(sorted(issued['scopes']))}. Valid until {until}.\n")
    sys.stderr.flush()
    sys.stdout.write(f"{plain(issued['access_token'])}\n")
    return COMPLETED
