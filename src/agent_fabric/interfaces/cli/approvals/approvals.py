"""`fabric approvals`: answer what runs ask."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.bootstrap.records import this_person
from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.approvals.approval_card import card_line, require_read, shown_card
from agent_fabric.interfaces.cli.approvals.approval_card import going_on as how_it_continues
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.options import Last, require_a_person
from agent_fabric.interfaces.cli.output import print_json, print_warning
from agent_fabric.interfaces.cli.place import RUNS, Answered, Place, RunAccess, choose_run
from agent_fabric.interfaces.views.approvals import fields_of, filled_in
from agent_fabric.wire.approvals import APPROVAL

app = new_app("Answer approval requests: list, show, approve, deny, done.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The approval, or the beginning of its id.")]
Reason = Annotated[str, typer.Option(help="The reason; it is logged, and the model is told when you deny.")]


@app.command("list")
def list_(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only those of one run.")] = None,
    last: Last = False,
    everything: Annotated[bool, typer.Option("--all", help="Include settled ones.")] = False,
    *,
    at: Place,
) -> int:
    """List pending approvals, the oldest first.

    Exit codes: 0 all of them can be read, 1 some are damaged.
    """
    chosen = choose_run(run_id, last=last) if last or run_id is not None else None

    async def go(place: RunAccess) -> list[ApprovalCard]:
        run = None if chosen is None else await chosen.find(place)
        return list(await place.questions(run_id=run, pending_only=not everything))

    cards: list[ApprovalCard] = RUNS(at, go, without=[] if chosen is None else None)
    if at.as_json:
        print_json([APPROVAL.dump(card) for card in cards])
    elif not cards:
        sys.stdout.write("Nothing waits for an answer.\n")
    else:
        sys.stdout.write("".join(card_line(card, sys.stdout) + "\n" for card in cards))
        words = (
            "approve|done|deny" if any(card.question is Question.DID_IT_HAPPEN for card in cards) else "approve|deny"
        )
        sys.stdout.write(f"\nSee one: fabric approvals show ID. Answer: fabric approvals {words} ID\n")
    damaged = sum(card.damage != "" for card in cards)
    if damaged:
        print_warning(f"{damaged} cannot be answered. See what is damaged: fabric audit verify")
    return FAILED if damaged else COMPLETED


@app.command()
def show(approval: Id, *, at: Place) -> int:
    """Show an approval in full."""
    card = RUNS(at, lambda runs: runs.question(approval))
    return at.print(APPROVAL.dump(card), shown_card(card, sys.stdout, whole=True))


@app.command()
def approve(
    approval: Id,
    reason: Reason = "",
    for_run: Annotated[bool, typer.Option("--for-run", help="For every call of this kind until the run ends.")] = False,
    args: Annotated[
        str | None,
        typer.Option(
            "--args", metavar="JSON", help="Use these arguments instead, or fill in the form. @FILE reads it."
        ),
    ] = None,
    shown_hash: Annotated[
        str, typer.Option("--hash", metavar="HASH", help="Only if this is the hash of the call, as `show` prints it.")
    ] = "",
    fill_in: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Fill in one field of a workflow's form; @FILE reads one."),
    ] = None,
    sign: Annotated[
        str | None,
        typer.Option("--sign", metavar="[NAME=]KEY", help="Sign it for a machine that wants signatures."),
    ] = None,
    *,
    at: Place,
) -> int:
    """Approve a call: once, for the whole run, or with other arguments. Or answer yes to a workflow.

    Exit codes: 0 approved, 3 other approvers have to sign, too.
    """
    if sign is not None and not _is_signed(at, approval, sign, shown_hash):
        return WAITING
    reach = Reach.RUN if for_run else Reach.ONCE
    return _answer(
        at,
        approval,
        Decision.APPROVE,
        reason,
        reach=reach,
        args=_new_arguments(args),
        fill_in=fill_in or (),
        shown_hash=shown_hash,
    )


def _is_signed(at: Place, approval: str, given: str, shown_hash: str) -> bool:
    """Add a signature; tell whether there are as many as the machine wants."""
    from agent_fabric.interfaces.cli.approvals.approval_signature import add_signature  # noqa: PLC0415 - few sign
    from agent_fabric.interfaces.cli.fleet.hub import at_server  # noqa: PLC0415 - as above

    require_a_person()
    signed = at_server(at, lambda client: add_signature(client, approval, given, shown_hash))
    if not signed.is_enough:
        sys.stdout.write(
            f"Signed as {signed.approver}. {signed.quorum - signed.count} more approver(s) have to sign.\n"
        )
    return signed.is_enough


@app.command()
def deny(approval: Id, reason: Reason = "", *, at: Place) -> int:
    """Deny a call; the model is told why and the run continues."""
    return _answer(at, approval, Decision.DENY, reason)


@app.command("done")
def count_as_done(approval: Id, reason: Reason = "", *, at: Place) -> int:
    """Count a call as done that was under way when the program was stopped."""
    return _answer(at, approval, Decision.DONE, reason)


def _answer(
    at: Place,
    approval: str,
    decision: Decision,
    reason: str,
    *,
    reach: Reach = Reach.ONCE,
    args: Mapping[str, Any] | None = None,
    fill_in: Sequence[str] = (),
    shown_hash: str = "",
) -> int:
    require_a_person()

    async def go(place: RunAccess) -> Answered:
        asked = await place.question(approval)
        given = _filled_in(asked, args, fill_in) if decision is Decision.APPROVE else args
        if decision is Decision.APPROVE and given is None:
            require_read(asked, shown_hash)
        answer = Answer(
            decision=decision,
            by=this_person(),
            via="cli",
            reason=reason,
            reach=reach,
            args=given,
            binding=shown_hash or asked.binding,
        )
        return await place.answer(asked.approval_id, answer)

    card, waiting = RUNS(at, go)
    going_on = None if waiting is None else f"fabric resume {waiting}"
    follows = (
        how_it_continues(card.run_id, RunStatus.RUNNING, served=True)
        if going_on is None
        else f"Resume with: {going_on}"
    )
    return at.print(
        {**APPROVAL.dump(card), "resume": going_on}, f"{card.approval_id} is {card.status.value}. {follows}\n"
    )


def _filled_in(card: ApprovalCard, args: Mapping[str, Any] | None, fill_in: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the changed arguments, or the form as it is filled in."""
    fields = {field.name: field.parameter for field in fields_of(card)}
    if fill_in and not fields:
        raise ConfigError("There is no form to fill in here", hint="Leave out --set.")
    from agent_fabric.interfaces.cli.workflows.inputs import typed_inputs  # noqa: PLC0415 - only answers need it

    typed = typed_inputs(fill_in, fields, of="The form")
    if twice := typed.keys() & (args or {}).keys():
        raise ConfigError(f"{min(twice)!r} is given with --set and with --args", hint="Use one of the two.")
    return filled_in(card, {**(args or {}), **typed} if args is not None or typed else None)


_EXAMPLE = """For example: --args '{"command": "ls"}', or --args @FILE"""


def _new_arguments(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    if text.startswith("@"):
        from agent_fabric.interfaces.cli.workflows.inputs import file_content  # noqa: PLC0415 - only answers need it

        text = file_content("--args", Path(text[1:]).expanduser())
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise ConfigError(f"--args is not JSON: {problem}", hint=_EXAMPLE) from None
    if not isinstance(value, dict):
        raise ConfigError("--args must be a JSON object", hint=_EXAMPLE)
    return value
