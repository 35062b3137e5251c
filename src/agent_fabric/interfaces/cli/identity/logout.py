"""`fabric logout`: forget a login, on this machine or everywhere."""

import asyncio
import os
import time
from typing import Annotated

import typer

from agent_fabric.client.logins import Login, Logins
from agent_fabric.domain.errors import ConfigError, FabricError, Unauthenticated
from agent_fabric.interfaces.cli.durations import minute
from agent_fabric.interfaces.cli.identity.login import Url, named_server
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, require_a_person
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import Place

app = new_app("Log out of a server.")


@app.command()
def logout(
    server: Url = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Revoke all of your tokens, on every machine.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """End the login at a server, and forget it. With --everywhere, all of your logins and tokens."""
    require_a_person()
    address = named_server(server)
    logins = Logins(os.environ)
    kept = logins.find(address)
    if everywhere:
        if kept is None:
            raise ConfigError(f"You are not logged in to {address}", hint=f"First: fabric login {address}")
        asyncio.run(_everywhere(address, kept))
    elif kept is not None and kept.refresh_token:
        asyncio.run(_end(address, kept))
    forgotten = logins.forget(address)
    done = f"Logged out of {address}{', everywhere' if everywhere else ''}."
    return Place(as_json=as_json).print(
        {"server": address, "logged_out": forgotten, "everywhere": everywhere},
        plain(done if forgotten else f"You were not logged in to {address}.") + "\n",
    )


async def _end(address: str, kept: Login) -> None:
    """End a login at its server; one that does not answer does not keep us from forgetting it."""
    from agent_fabric.client import FabricClient  # noqa: PLC0415 - aiohttp takes its time

    try:
        async with FabricClient(address) as client:
            await client.logout(kept)
    except Unauthenticated:
        return  # it has ended already
    except FabricError as problem:
        until = minute(kept.ends_at)
        print_warning(f"The server was not informed: {problem.message}. Copies of the login stay valid until {until}.")


async def _everywhere(address: str, kept: Login) -> None:
    """Use this very login: the environment may hold another user's."""
    from agent_fabric.client import FabricClient  # noqa: PLC0415 - aiohttp takes its time

    try:
        if kept.expires_at <= time.time():
            async with FabricClient(address) as client:
                kept = await client.renew(kept)
        async with FabricClient(address, token=kept.token) as client:
            await client.logout_everywhere()
    except Unauthenticated as problem:
        problem.hint = f"Your login has ended, but others may not: fabric login {address}, and then this again."
        raise
