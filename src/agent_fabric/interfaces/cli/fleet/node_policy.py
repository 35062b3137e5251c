"""`fabric nodes policy`: what may happen on a machine, and why."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.fleet.hub import at_server
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Hub

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.wire.shape import Json

_SOURCES = {"floor": "own file", "hub": "hub", "all_nodes": "hub, for all"}
_PROFILES = {
    "node": "what surely only reads runs at once, everything else asks",
    "open": "nothing is asked about, except catastrophes",
}

TRUST_WORDS = {
    "": "no; what it says is untrusted and private, and private data goes there only after a question",
    "text": "what it says counts as yours, though strangers may write into its logs and files",
    "data": "private data that runs have read goes there without a question",
    "true": "what it says counts as yours, and private data goes there without a question",
}
"""What the label `trusted` of a machine means."""


def policy(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The name of a node, or its id.")],
    file: Annotated[str | None, typer.Option("--set", metavar="FILE", help="JSON file: the hub's policy.")] = None,
    check: Annotated[
        str | None, typer.Option("--check", metavar="COMMAND", help="Explain what would become of a command.")
    ] = None,
    *,
    at: Hub,
) -> int:
    """Show what is in force on a machine and why, explain a command, or set the hub's policy for it."""
    document: Any = None
    if file is not None:
        require_a_person()
        try:
            document = json.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise ConfigError(f"{file} cannot be read: {problem}") from None

    async def go(client: "FabricClient") -> "Json":
        if document is not None:
            await client.nodes.set_policy(node, document)
        if check is not None:
            return await client.nodes.check(node, "run_command", {"command": check})
        return await client.nodes.policy(node)

    found = at_server(at, go)
    return at.print(found, "".join(f"{line}\n" for line in (_policy_lines if check is None else _check_lines)(found)))


def _policy_lines(found: "Json") -> Iterator[str]:
    by = " and ".join(_SOURCES[each] for each in found["otherwise_by"])
    yield f"In force: {found['version']}; the strictest of what fits decides."
    for rule in found["rules"]:
        about = ", ".join(rule["about"]) or "everything"
        note = f"  no effect: {rule['note']}" if not rule["effective"] else f"  {rule['note']}" if rule["note"] else ""
        where = f"{_SOURCES[rule['source']]}, {rule['id']}"
        yield f"{rule['verdict']:<6} {plain(about)}  [{plain(where)}]{plain(note)}"
    yield f"otherwise: {_PROFILES[found['otherwise']]} [{by}]"
    yield f"trusted: {TRUST_WORDS.get(found.get('trusted', ''), TRUST_WORDS[''])}"


def _check_lines(found: "Json") -> Iterator[str]:
    yield f"{found['verdict']}: {plain(found['reason'])}"
    for said in found["said"]:
        mark = "*" if said["decides"] else " "
        where = f"{_SOURCES[said['source']]}, {said['rule']}"
        yield f"{mark} {said['verdict']:<6} {plain(said['subject'])}  [{plain(where)}] {plain(said['reason'])}"
