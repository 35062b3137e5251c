"""`fabric whoami`: the name and the scopes under which commands work, here or at a server."""

from typing import TYPE_CHECKING

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.interfaces.cli.durations import minute
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import fabric_root
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Place, with_client
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient

app = new_app("Show who you are.")

_KINDS = {
    Kind.LOCAL: "owner of the fabric folder",
    Kind.USER: "user",
    Kind.KEY: "API key",
    Kind.EXTERNAL: "user of the identity provider",
}


@app.command()
def whoami(*, at: Place) -> int:
    """Show your name and scopes, how you are logged in, and until when: here, or at a server.

    Example: fabric whoami --server https://fabric.example.org
    """
    url = at.url()
    found = _here(at.workspace) if url is None else with_client(url, _there)
    return at.print(found, _text(found))


def _here(workspace: str | None) -> Json:
    how = f"your account on this machine; no login is needed for {fabric_root(workspace)}"
    return _object(owner_here(), None, how, until=None)


async def _there(client: "FabricClient") -> Json:
    who = await client.me()
    login = client.kept_login  # its token is renewed until it ends
    return _object(who, client.url, client.origin, until=who.expires_at if login is None else login.ends_at)


def _object(who: Principal, server: str | None, how: str, *, until: float | None) -> Json:
    return {
        "name": who.name,
        "kind": who.kind.value,
        "scopes": sorted(who.scopes),
        "server": server,
        "credential": how,
        "expires_at": until,
    }


def _text(found: Json) -> str:
    until = found["expires_at"]
    ends = "no end" if until is None else minute(until)
    lines = [
        f"{found['name']} ({_KINDS[Kind(found['kind'])]})",
        *([f"server:       {found['server']}"] if found["server"] else []),
        f"logged in by: {found['credential']}",
        f"valid until:  {ends}",
        f"you may:      {', '.join(found['scopes'])}",
    ]
    return "".join(f"{plain(line)}\n" for line in lines)
