"""`fabric nodes audit`: the records of machines, held against the hub's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.interfaces.cli.fleet.hub import at_server, refuse_unknown
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Hub

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.wire.shape import Json

VERIFY: Final = "verify"
_ODD: Final = {
    "only the machine knows": "only_node",
    "only the hub knows": "only_hub",
    "not signed": "unsigned",
}


def audit(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[verify] [SELECTOR]", help="A name, role=web,env!=dev, or all, which is the usual."),
    ] = None,
    *,
    at: Hub,
) -> int:
    """Compare the record that each machine keeps with the hub's. `fabric audit verify --nodes all` does both.

    Exit codes: 0 they agree, 1 they do not or one could not be compared, 2 no machine fits.
    """
    selector = selector_of(words or ())
    found = at_server(at, lambda client: compare_records(client, selector))
    at.print(found, compared_text(found))
    refuse_unknown(selector, found)
    return COMPLETED if all(map(agrees, found)) else FAILED


def selector_of(words: Sequence[str]) -> str:
    """Return which machines are meant; the word `verify` may come first."""
    rest = list(words[1:] if words and words[0] == VERIFY else words)
    if len(rest) > 1:
        raise ConfigError(f"{rest[1]!r} is one word too many", hint="fabric nodes audit verify SELECTOR")
    return rest[0] if rest else "all"


async def compare_records(client: "FabricClient", selector: str) -> "list[Json]":
    """Return what came of each machine; one that cannot be asked has a `problem`."""
    found: list[Json] = []
    for node in await client.nodes.list(selector):
        try:
            found.append(await client.nodes.audit(node["id"]))
        except FabricError as problem:
            found.append({"node": node["name"], "problem": problem.message})
    return found


def agrees(each: "Json") -> bool:
    """Tell whether both records say the same."""
    return "problem" not in each and bool(each["intact"]) and not each["only_node"] and not each["only_hub"]


def compared_text(found: "Sequence[Json]") -> str:
    """Return it for people."""
    lines: list[str] = []
    for each in found:
        if "problem" in each:
            lines.append(f"{plain(each['node'])}: not compared: {plain(each['problem'])}")
            continue
        state = "intact" if each["intact"] else "DAMAGED"
        lines.append(f"{plain(each['node'])}: {each['entries']} entries, {state}")
        lines += [f"  {title}: {plain(id_)}" for title, name in _ODD.items() for id_ in each[name]]
    return "".join(f"{line}\n" for line in lines)
