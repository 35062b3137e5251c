"""`fabric audit`: who did what, and whether the record is whole."""

import asyncio
import sys
import time
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.audit import ChainReport
from agent_fabric.bootstrap.audit import audit_chain
from agent_fabric.bootstrap.local import Records, open_records
from agent_fabric.domain.audit import AuditEntry, audit_of
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import AsJson, Workspace, existing_root
from agent_fabric.interfaces.cli.output import plain, print_json, shortened, styled

app = new_app("See who did what, and check that the record is whole: list, verify.")


@app.command("list")
def list_(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only one run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many runs to look into, the newest first.")] = 20,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """List every call that tools were asked for: by which rule or person it was allowed, and what came of it."""
    records = open_records(existing_root(workspace))
    try:
        entries = asyncio.run(_entries(records, run_id, limit))
    finally:
        records.close()
    if as_json:
        print_json([_object(entry) for entry in entries])
    else:
        sys.stdout.write("".join(_line(entry) + "\n" for entry in entries) or "No tool has been called.\n")
    return COMPLETED


@app.command()
def verify(
    expect: Annotated[
        str, typer.Option("--expect", metavar="HASH", help="A head that was noted down before and must still be there.")
    ] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="Others use this folder, too: do not mind entries with their keys.")
    ] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Check that no event was changed, no log cut and no run removed unnoticed.

    Note the head down where nobody here can change it: with `--expect` it also shows a record made anew as a whole.

    Exit codes: 0 all is as it was recorded, 1 it is not.
    """
    records = open_records(existing_root(workspace))

    async def go() -> tuple[ChainReport, bool]:
        chain = audit_chain(records)
        return await chain.verify(), not expect or await chain.holds(expect)

    try:
        report, expected = asyncio.run(go())
    finally:
        records.close()
    damage = [*report.damage, *([] if expected else [f"no entry of the chain has the hash {expect}"])]
    if report.unknown_key and not shared:  # or a change would go unnoticed if only another key is named with it
        damage.append(
            f"{report.unknown_key} entries of the chain were made with another key, so nobody can tell whether they "
            "are true; if other users work in this folder, or your key was lost, check the rest with --shared"
        )
    if as_json:
        print_json({"holds": not damage, **_report(report), "damage": damage})
        return FAILED if damage else COMPLETED
    for sentence in damage:
        sys.stdout.write(f"{styled('✗', 'red', sys.stdout)} {plain(sentence)}\n")
    counts = f"{report.runs} runs, {report.removed} removed with a tombstone, {report.entries} entries"
    if report.unknown_key:
        counts += f", {report.unknown_key} of them with another key and not checked"
    mark = styled("✗", "red", sys.stdout) if damage else styled("✓", "green", sys.stdout)
    sys.stdout.write(f"{mark} {counts}\nhead {report.head}\n")
    return FAILED if damage else COMPLETED


async def _entries(records: Records, run_id: str | None, limit: int) -> list[AuditEntry]:
    if run_id is not None:
        found = [await records.catalogue.find(run_id)]
    else:
        found = [record.run_id for record in await records.catalogue.recent(limit=limit)]
    return [entry for run in reversed(found) for entry in audit_of(run, await records.runs.read(run))]


def _line(entry: AuditEntry) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    allowed = f"by {entry.approver}" if entry.approver else f"rule {entry.rule or '-'}"
    main = next((str(entry.args[key]) for key in ("command", "path", "url", "query") if key in entry.args), "")
    what = shortened(f"{entry.tool} {main}", 60)
    return f"{at}  {entry.run_id[:8]}  {entry.status.value:<9}  {plain(what):<60}  {plain(allowed)}"


def _object(entry: AuditEntry) -> dict[str, Any]:
    return {
        "run_id": entry.run_id,
        "seq": entry.seq,
        "created_at": entry.at,
        "completed_at": entry.ended_at,
        "agent": entry.agent,
        "tool_name": entry.tool,
        "arguments": dict(entry.args),
        "args_hash": entry.args_hash,
        "rule": entry.rule or None,
        "approval_id": entry.approval_id or None,
        "approved_by": entry.approver or None,
        "sandbox": entry.sandbox,
        "status": entry.status.value,
    }


def _report(report: ChainReport) -> dict[str, Any]:
    return {
        "runs": report.runs,
        "removed": report.removed,
        "entries": report.entries,
        "unknown_key": report.unknown_key,
        "head": report.head,
    }
