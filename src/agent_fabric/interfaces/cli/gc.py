"""`fabric gc`: take old runs away."""

import asyncio
import re
import sys
from typing import Annotated

import typer

from agent_fabric.bootstrap.audit import collect_garbage
from agent_fabric.bootstrap.local import open_records, this_person
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import AsJson, Workspace, own_root
from agent_fabric.interfaces.cli.output import print_json

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}

app = new_app("Take old runs away.")


@app.command()
def gc(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Such as 30d, 12h or 2w.")] = "30d",
    keep: Annotated[int, typer.Option(min=0, help="Of these, keep the newest ones.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Remove runs that settled long ago, with their files; each leaves a tombstone for `fabric audit verify`."""
    age = _seconds(older_than)
    records = open_records(own_root(workspace))
    try:
        done = asyncio.run(collect_garbage(records)(older_than_s=age, by=this_person(), keep=keep, dry_run=dry_run))
    finally:
        records.close()
    if as_json:
        print_json({"removed": list(done.runs), "freed_bytes": done.freed_bytes, "dry_run": dry_run})
    elif dry_run:
        sys.stdout.write("".join(f"{run_id}\n" for run_id in done.runs) + f"{len(done.runs)} runs would be removed.\n")
    else:
        sys.stdout.write(f"{len(done.runs)} runs removed, {done.freed_bytes / 1e6:.1f} MB freed.\n")
    return COMPLETED


def _seconds(age: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", age.strip())
    if found is None:
        raise ConfigError(f"{age!r} is no age", hint="Write a number and one of s, m, h, d, w: 30d.")
    return float(found[1]) * _UNITS[found[2]]
