"""`fabric audit`: the audit log, and its integrity."""

import asyncio
import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from agent_fabric.application.audit.verify_chain import AcceptHead, VerifyChain
from agent_fabric.bootstrap.records import (
    Records,
    has_store,
    head_sender,
    missing_record,
    open_records,
    open_secrets,
    owner_here,
)
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.audit.chain import OUTSIDE, AuditEntry, audit_of, tells_audit
from agent_fabric.domain.errors import FabricError, Forbidden, RunKeyMissing
from agent_fabric.domain.events import Event, problem_of
from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.fleet.hub import at_server, refuse_unknown
from agent_fabric.interfaces.cli.fleet.node_audit import agrees, compare_records, compared_text
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import (
    Last,
    configuration,
    existing_root,
    fabric_root,
    own_root,
    require_a_person,
)
from agent_fabric.interfaces.cli.output import colour, fit_width, plain, print_warning
from agent_fabric.interfaces.cli.place import RUNS, Place, RunAccess, RunChoice, choose_run, refuse_if, with_client
from agent_fabric.wire.audit import ACT, CALL, CHAIN
from agent_fabric.wire.shape import Json

app = new_app("Show the audit log and verify its integrity: list, verify.")


class Kind(StrEnum):
    """What the record has entries of."""

    CALL = "call"
    ADMIN = "admin"


@app.command("list")
def list_(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only one run.")] = None,
    last: Last = False,
    kind: Annotated[Kind | None, typer.Option(help="Only tool calls, or only admin actions.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many of the newest runs and admin actions to look at.")
    ] = 20,
    *,
    at: Place,
) -> int:
    """List who did what: every call that tools were asked for, and every change of users, keys, secrets and backups.

    A call comes with the rule or person that allowed it and what came of it; with --run, only the calls of that run.

    Exit codes: 0 all of it can be read, 1 some events are damaged.
    """
    chosen = choose_run(run_id, last=last) if last or run_id is not None else None
    refuse_if(
        chosen is not None and kind is Kind.ADMIN, "Such acts belong to no run", hint="Leave out --run or --kind."
    )

    damaged: list[str] = []
    found: list[AuditEntry | Act] = []
    if kind is not Kind.ADMIN:
        found += RUNS(at, lambda runs: _entries(runs, chosen, limit, damaged), without=[] if chosen is None else None)
    if chosen is None and kind is not Kind.CALL:
        found += _acts(at, limit, wanted=kind is not None)
    found.sort(key=lambda entry: entry.at)
    lines = (_act_line(entry) if isinstance(entry, Act) else _line(entry) for entry in found)
    at.print(
        [ACT.dump(entry) if isinstance(entry, Act) else CALL.dump(entry) for entry in found],
        "".join(f"{line}\n" for line in lines) or "Nothing has been done.\n",
    )
    for sentence in damaged:
        print_warning(sentence)
    return FAILED if damaged else COMPLETED


@app.command()
def verify(
    expect: Annotated[
        str, typer.Option("--expect", metavar="HASH", help="A head that was noted down before and must still be there.")
    ] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="Other users work in this folder too: accept entries made with their keys.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="You removed or replaced the record yourself: accept it as it is now."),
    ] = False,
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="SELECTOR", help="Compare the records of these machines as well: all.")
    ] = "",
    *,
    at: Place,
) -> int:
    """Check that no event was changed, no log cut, no run removed, and no status or approval changed beside its log.

    Your data folder keeps the newest head, so missing newest runs are detected. Note the head down on another machine:
    with `--expect` a record that was rewritten as a whole, by someone with your rights, is detected, too.

    Exit codes: 0 all is as it was recorded, 1 it is not.
    """
    url = at.url()
    refuse_if(
        accept and url is not None, "A server's record is accepted on its own machine", hint="Leave out --server."
    )
    if url is None:
        report = _verified_here(at.workspace, expect, shared=shared, accept=accept)
    else:
        report = with_client(url, lambda client: client.audit.verify(expect=expect, shared=shared))
    machines = at_server(at, lambda client: compare_records(client, nodes)) if nodes else []
    at.print({**report, "nodes": machines} if nodes else report, _report_text(report) + compared_text(machines))
    if nodes:
        refuse_unknown(nodes, machines)
    return COMPLETED if report["holds"] and all(map(agrees, machines)) else FAILED


def _verified_here(workspace: str | None, expect: str, *, shared: bool, accept: bool) -> Json:
    root = fabric_root(workspace)
    if not has_store(root) and (gone := missing_record(root)) is not None:
        return CHAIN.dump(gone)
    if accept:
        require_a_person()
    records = open_records(own_root(workspace) if accept else existing_root(workspace))

    async def verify_here() -> Json:
        chain = records.storage.chain
        if accept:
            act = Act.of(owner_here(), Deed.RECORD_ACCEPTED, at=records.storage.clock.now(), about=str(root))
            await AcceptHead(chain, records.storage.acts)(act)
        report = await VerifyChain(chain)(expect=expect, shared=shared)
        await _send_head(records)
        return CHAIN.dump(report)

    try:
        return asyncio.run(verify_here())
    finally:
        records.close()


async def _send_head(records: Records) -> None:
    """Send the head to where the configuration says; what fails is only said, since the check itself has not."""
    root = records.layout.root
    try:
        config = configuration(root).config
    except FabricError as problem:
        print_warning(f"The head was not sent anywhere: {problem.message}")
        return
    if config.audit.head_to:
        resolve = open_secrets(config.secrets, root, os.environ).chain.resolve
        async with head_sender(records.storage.chain, root, config.audit, resolve) as send:
            for sentence in await send():
                print_warning(sentence)


def _report_text(report: Json) -> str:
    lines = [f"{colour('✗', 'red', sys.stdout)} {plain(sentence)}" for sentence in report["damage"]]
    entries = count_of(report["entries"], "entry", "entries")
    counts = f"{count_of(report['runs'], 'run')}, {report['removed']} removed with a tombstone, {entries}"
    if report["unknown_key"]:
        counts += f", {report['unknown_key']} of them with another key and not checked"
    if report.get("untied"):
        counts += f", the newest {report['untied']} not covered by the head yet"
    mark = colour("✓", "green", sys.stdout) if report["holds"] else colour("✗", "red", sys.stdout)
    lines += [f"{mark} {counts}", f"head {report['head']}"]
    if not report["kept_head"]:
        yet = "No head of this folder has been kept outside the database yet"
        lines.append(f"{yet}, so runs removed before now are not detected.")
    elif report["holds"]:
        lines.append(f"Later: fabric audit verify --expect {report['head']}")
    return "\n".join(lines) + "\n"


def _acts(at: Place, limit: int, *, wanted: bool) -> list[Act]:
    url = at.url()
    if url is not None:
        try:
            return [ACT.load(act) for act in with_client(url, lambda client: client.audit.acts(limit=limit))]
        except Forbidden:
            if wanted:
                raise
            sys.stderr.write("What people did to the server itself is shown to its administrators only.\n")
            return []
    root = at.root()
    if not has_store(root):
        return []
    with open_records(root) as records:
        return list(asyncio.run(records.storage.acts.recent(limit=limit)))


async def _entries(place: RunAccess, chosen: RunChoice | None, limit: int, damaged: list[str]) -> list[AuditEntry]:
    if chosen is not None:
        found = [await chosen.find(place)]
    else:
        found = [record.run_id for record in await place.recent(limit=limit)]
    entries: list[AuditEntry] = []
    for run in reversed(found):
        try:
            events: list[Event] = []
            async for page in place.pages(run):
                events += filter(tells_audit, page)
                damaged += [f"Run {run}: {problem}" for event in page if (problem := problem_of(event))]
            entries += audit_of(run, events)
        except RunKeyMissing as problem:
            if chosen is not None:
                raise
            sys.stderr.write(f"{problem.message}\n")  # the others can be told all the same
    return entries


def _act_line(act: Act) -> str:
    what = f"{act.deed.replace('_', ' ')} {act.about}" + (f" ({act.detail})" if act.detail else "")
    return (
        f"{moment(act.at)}  {'admin':<8}  {'done':<9}  {fit_width(what, 60, sys.stdout):<60}  {plain(f'by {act.by}')}"
    )


def _line(entry: AuditEntry) -> str:
    allowed = f"by {entry.approver}" if entry.approver else f"rule {entry.rule or '-'}"
    main = next((str(entry.args[key]) for key in ("command", "path", "url", "query") if key in entry.args), "")
    allowed += ", outside the box" * (entry.sandbox == OUTSIDE)
    what = fit_width(f"{entry.tool} {main}", 60, sys.stdout)
    return f"{moment(entry.at)}  {entry.run_id[:8]}  {entry.status.value:<9}  {what:<60}  {plain(allowed)}"
