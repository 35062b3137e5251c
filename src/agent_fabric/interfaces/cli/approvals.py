"""`fabric approvals`: answer what runs ask."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, TypeVar

import typer

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.bootstrap.local import Records, decide_approval, open_records, this_person
from agent_fabric.domain.approvals import Decision, Reach
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.approval_view import approval_object
from agent_fabric.interfaces.cli.approval_card import card_line, shown_card
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import AsJson, Workspace, configuration, existing_root, require_a_person
from agent_fabric.interfaces.cli.output import print_json

T = TypeVar("T")

app = new_app("Answer what runs ask: list, show, approve, deny, done.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The approval, or the beginning of its id.")]
Reason = Annotated[str, typer.Option(help="Why; the model is told when it is denied, the log always.")]


@app.command("list")
def list_(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only those of one run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that are settled, too.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """List what waits for an answer, the oldest first."""

    async def go(records: Records) -> list[ApprovalCard]:
        run = None if run_id is None else await records.catalogue.find(run_id)
        return list(await records.approvals.list(run_id=run, pending_only=not everything))

    cards = _with_records(workspace, go)
    if as_json:
        print_json([approval_object(card) for card in cards])
    elif not cards:
        sys.stdout.write("Nothing waits for an answer.\n")
    else:
        sys.stdout.write("".join(card_line(card) + "\n" for card in cards))
        sys.stdout.write("\nSee one: fabric approvals show ID. Answer: fabric approvals approve|deny ID\n")
    return COMPLETED


@app.command()
def show(approval: Id, workspace: Workspace = None, as_json: AsJson = False) -> int:
    """Show one with everything that is known about it."""
    card = _with_records(workspace, lambda records: records.approvals.find(approval))
    if as_json:
        print_json(approval_object(card))
    else:
        sys.stdout.write(shown_card(card, sys.stdout, whole=True))
    return COMPLETED


@app.command()
def approve(
    approval: Id,
    reason: Reason = "",
    for_run: Annotated[bool, typer.Option("--for-run", help="For every call of this kind until the run ends.")] = False,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Run it with these arguments instead.")
    ] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Let it run: once, for the whole run, or with other arguments."""
    reach = Reach.RUN if for_run else Reach.ONCE
    return _answer(workspace, approval, Decision.APPROVE, reason, as_json=as_json, reach=reach, args=_changed(args))


@app.command()
def deny(approval: Id, reason: Reason = "", workspace: Workspace = None, as_json: AsJson = False) -> int:
    """Do not let it run; the model is told why and goes on."""
    return _answer(workspace, approval, Decision.DENY, reason, as_json=as_json)


@app.command()
def done(approval: Id, reason: Reason = "", workspace: Workspace = None, as_json: AsJson = False) -> int:
    """Count a call as done that was under way when the program was stopped."""
    return _answer(workspace, approval, Decision.DONE, reason, as_json=as_json)


def _answer(
    workspace: str | None,
    approval: str,
    decision: Decision,
    reason: str,
    *,
    as_json: bool,
    reach: Reach = Reach.ONCE,
    args: Mapping[str, Any] | None = None,
) -> int:
    require_a_person()
    root = existing_root(workspace)
    answer = Answer(decision=decision, by=this_person(), via="cli", reason=reason, reach=reach, args=args)

    async def go(records: Records) -> tuple[ApprovalCard, bool]:
        card = await decide_approval(records, lambda: configuration(root))(approval, answer)
        return await records.approvals.find(card.approval_id), records.has_server()

    card, served = _with_records(workspace, go)
    going_on = f"fabric resume {card.run_id}"
    if as_json:
        print_json({**approval_object(card), "resume": None if served else going_on})
    else:
        follows = "The server goes on with the run." if served else f"Go on with: {going_on}"
        sys.stdout.write(f"{card.approval_id} is {card.status.value}. {follows}\n")
    return COMPLETED


def _with_records(workspace: str | None, work: Callable[[Records], Coroutine[Any, Any, T]]) -> T:
    records = open_records(existing_root(workspace))
    try:
        return asyncio.run(work(records))
    finally:
        records.close()


_EXAMPLE = """For example: --args '{"command": "ls"}'"""


def _changed(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise ConfigError(f"--args is not JSON: {problem}", hint=_EXAMPLE) from None
    if not isinstance(value, dict):
        raise ConfigError("--args must be a JSON object", hint=_EXAMPLE)
    return value
