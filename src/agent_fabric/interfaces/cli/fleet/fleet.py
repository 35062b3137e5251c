"""`fabric fleet`: plans for many machines: freeze, apply, watch, halt."""

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated, Final

import typer

from agent_fabric.client.errors import ServerUnreachable
from agent_fabric.domain.audit.acts import moment_words
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.fleet.hub import at_server, has_hub
from agent_fabric.interfaces.cli.fleet.nodes import Selector
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Hub, Place

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.wire.shape import Json

app = new_app("Roll out commands to many machines: plan, list, show, apply, halt, resume, abort.")

LOOK_S: Final = 0.5
HUB_BACK_S: Final = 60.0
"""How long `--wait` waits for a hub that does not answer."""
PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="The id of a plan.")]


@app.command(context_settings={"ignore_unknown_options": True})
def plan(  # noqa: PLR0913 - what a plan consists of
    selector: Selector,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="What to run; write -- before it.")],
    canary: Annotated[int, typer.Option("--canary", help="How many machines go first.")] = 1,
    waves: Annotated[str, typer.Option("--waves", help="Shares of all, growing.")] = "10%,50%,100%",
    max_errors: Annotated[int, typer.Option("--max-errors", help="One more halts it.")] = 0,
    pause: Annotated[str, typer.Option("--pause", metavar="TIME", help="Between waves.")] = "0s",
    on_offline: Annotated[str, typer.Option("--on-offline", help="skip, queue or fail.")] = "skip",
    check: Annotated[
        str, typer.Option("--check", metavar="COMMAND", help="Must succeed on each machine afterwards; only reads.")
    ] = "",
    *,
    at: Hub,
) -> int:
    """Freeze a plan: which machines, which exact command, under which policies. Nothing is sent yet."""
    line = command[0] if len(command) == 1 else shlex.join(command)
    wish = {
        "selector": selector,
        "arguments": {"command": line},
        "canary": canary,
        "waves": [each.strip() for each in waves.split(",")],
        "max_errors": max_errors,
        "pause_s": seconds_in(pause),
        "on_offline": on_offline,
        "check": check,
    }
    return _print(at_server(at, lambda client: client.nodes.freeze_plan(wish)), at)


@app.command("list")
def list_(*, at: Hub) -> int:
    """List plans, the newest first."""
    found = at_server(at, lambda client: client.nodes.plans()) if has_hub(at) else []
    lines = [
        f"{each['id']}  {each['status']:<10}  wave {each['wave'] + 1}/{each['waves']}  {plain(each['name'])}\n"
        for each in found
    ]
    return at.print(found, "".join(lines) or "There are no plans yet.\n")


@app.command()
def show(
    plan_id: PlanId,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it does not run any more.")] = False,
    *,
    at: Hub,
) -> int:
    """Show what was frozen, how far it has come, and which machines are waited for.

    Exit codes: 0 it has completed or goes on, 1 it is halted, incomplete, aborted or denied, 3 --wait, and it waits for
    a person.
    """
    found = at_server(at, lambda client: _until_still(client, plan_id) if wait else client.nodes.plan(plan_id))
    _print(found, at)
    if found["status"] == "waiting":
        return WAITING if wait else COMPLETED
    return COMPLETED if found["status"] in {"completed", "running"} else FAILED


async def _until_still(client: "FabricClient", plan_id: str) -> "Json":
    """Return the plan when it does not run; a hub that restarts meanwhile is waited for."""
    failures = 0
    while True:
        try:
            found = await client.nodes.plan(plan_id)
        except ServerUnreachable:
            failures += 1
            if failures * LOOK_S >= HUB_BACK_S:
                raise
        else:
            failures = 0
            if found["status"] != "running":
                return found
        await asyncio.sleep(LOOK_S)


@app.command()
def apply(plan_id: PlanId, *, at: Hub) -> int:
    """Apply a plan: one approval shows all of it.

    Exit codes: 0 it has begun, 3 a person has to approve it.
    """
    require_a_person()
    told = at_server(at, lambda client: client.nodes.change_plan(plan_id, "apply"))
    asks = f"Waits for approval: fabric approvals approve {plain(told['approval_id'] or '')}\n"
    at.print(told, asks if told["approval_id"] else f"{plain(told['id'])} is {plain(told['status'])}.\n")
    return WAITING if told["approval_id"] else COMPLETED


@app.command()
def halt(plan_id: PlanId, *, at: Hub) -> int:
    """Halt a plan: nothing more is sent."""
    return _print(at_server(at, lambda client: client.nodes.change_plan(plan_id, "halt")), at)


@app.command()
def resume(plan_id: PlanId, *, at: Hub) -> int:
    """Resume a plan that was halted, in the same wave."""
    require_a_person()
    return _print(at_server(at, lambda client: client.nodes.change_plan(plan_id, "resume")), at)


@app.command()
def abort(plan_id: PlanId, *, at: Hub) -> int:
    """Abort a plan for good."""
    return _print(at_server(at, lambda client: client.nodes.change_plan(plan_id, "abort")), at)


def _stand(found: "Json", node: str) -> str:
    since = found["away"].get(node)
    away = "" if since is None else f"(away since {moment_words(since)}, waited for)"
    return found["outcomes"].get(node, "") or away


def _print(found: "Json", at: Place) -> int:
    note = f": {plain(found['note'])}" if found["note"] else ""
    lines = [f"{plain(found['id'])} {plain(found['name'])} is {plain(found['status'])}{note}"]
    for number in range(found["waves"]):
        calls = [call for call in found["calls"] if call["wave"] == number]
        shown = ", ".join(f"{call['node']} {_stand(found, call['node'])}".strip() for call in calls)
        lines.append(f"  wave {number + 1}: {plain(shown)}")
    if found["check"]:
        lines.append(f"  check: {plain(found['check'])}")
    lines.append(f"  at most {found['max_errors']} error(s); hash {plain(found['hash'][:16])}")
    return at.print(found, "".join(f"{line}\n" for line in lines))
