"""Who did what, and whether the record is whole, as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.application.audit.collect_garbage import Collected
from agent_fabric.application.ports.audit import AuditChain, ChainReport
from agent_fabric.domain.acts import Act
from agent_fabric.domain.audit import AuditEntry


def entry_object(entry: AuditEntry) -> dict[str, Any]:
    """Return one call that a tool was asked for, in a run."""
    return {
        "kind": "call",
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


def act_object(act: Act) -> dict[str, Any]:
    """Return what somebody did to the folder itself."""
    return {
        "kind": "admin",
        "created_at": act.at,
        "by": act.by,
        "credential": act.credential,
        "act": act.deed,
        "about": act.about or None,
        "detail": act.detail or None,
    }


def act_from(shown: Mapping[str, Any]) -> Act:
    """Return what `act_object` made an object of."""
    return Act(
        at=shown["created_at"],
        by=shown["by"],
        credential=shown["credential"],
        deed=shown["act"],
        about=shown["about"] or "",
        detail=shown["detail"] or "",
    )


async def chain_object(chain: AuditChain, *, expect: str = "", shared: bool = False) -> dict[str, Any]:
    """Check the chain over all runs; return what it says.

    `expect` is a head that was noted down before. Unless the folder is `shared`, entries with another key are damage.
    """
    report = await chain.verify()
    damage = list(report.damage)
    if expect and not await chain.holds(expect):
        damage.append(f"no entry of the chain has the hash {expect}")
    if report.unknown_key and not shared:  # or a change would go unnoticed if only another key is named with it
        damage.append(
            f"{report.unknown_key} entries of the chain were made with another key, so nobody can tell whether they "
            "are true; if other users work in this folder, or your key was lost, check the rest with --shared"
        )
    return {"holds": not damage, **_counts(report), "damage": damage}


def collected_object(done: Collected, *, dry_run: bool) -> dict[str, Any]:
    """Return which runs were taken away, or would be."""
    return {"removed": list(done.runs), "freed_bytes": done.freed_bytes, "dry_run": dry_run}


def _counts(report: ChainReport) -> dict[str, Any]:
    return {
        "runs": report.runs,
        "removed": report.removed,
        "entries": report.entries,
        "unknown_key": report.unknown_key,
        "head": report.head,
    }
