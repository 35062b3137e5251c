"""`fabric nodes release` and `fabric nodes upgrade`: a new program for nodes, signed by a key that no hub has."""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer

from agent_fabric.bootstrap.this_machine import approval_signer, node_program_hash
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.fleet.hub import at_server
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Hub


def release(
    sign: Annotated[str, typer.Option("--sign", metavar="KEY", help="The private key that nodes know you by.")],
) -> int:
    """Sign the node's program that belongs to this installation, and print the release as JSON."""
    from agent_fabric import __version__  # noqa: PLC0415 - few sign
    from agent_fabric.domain.fleet.releases import RELEASE_NAMESPACE, Release  # noqa: PLC0415 - as above

    require_a_person()
    unsigned = Release(version=__version__, sha256=node_program_hash(), released_at=int(time.time()))
    signer = approval_signer(Path(sign), RELEASE_NAMESPACE)
    print_json({**unsigned.plain(), "signature": asyncio.run(signer.sign(unsigned.message))})
    return COMPLETED


def upgrade(
    selector: Annotated[str, typer.Argument(metavar="SELECTOR", help="A name, role=web,env!=dev, or all.")],
    file: Annotated[str, typer.Option("--release", metavar="FILE", help="From `fabric nodes release`.")],
    canary: Annotated[int, typer.Option("--canary", help="How many machines go first.")] = 1,
    waves: Annotated[str, typer.Option("--waves", help="Shares of all, growing.")] = "10%,50%,100%",
    max_errors: Annotated[int, typer.Option("--max-errors", help="One more halts it.")] = 0,
    *,
    at: Hub,
) -> int:
    """Freeze a plan that upgrades machines. A node whose new program does not work is the old one again."""
    require_a_person()
    try:
        signed = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{file} cannot be read: {problem}") from None
    wish = {
        "selector": selector,
        "name": f"upgrade to {signed.get('version', '')}" if isinstance(signed, dict) else "upgrade",
        "tool_name": "upgrade",
        "arguments": signed,
        "canary": canary,
        "waves": [each.strip() for each in waves.split(",")],
        "max_errors": max_errors,
    }
    plan = at_server(at, lambda client: client.nodes.freeze_plan(wish))
    names = ", ".join(str(call["node"]) for call in plan["calls"])
    return at.print(plan, f"{plain(plan['name'])}: {plain(names)}\nApply it: fabric fleet apply {plain(plan['id'])}\n")
