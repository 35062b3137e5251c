"""What runs at a server did to files, and whether what they claim is true: as the same is known on this machine."""

from typing import Any

from agent_fabric.application.ports.audit import LogCondition
from agent_fabric.application.ports.changes import UndoRecord
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.domain.changes import Entry, EntryKind, FileChange
from agent_fabric.domain.undo import UndoRefusal, UndoStep
from agent_fabric.domain.unified_diff import FileDiff
from agent_fabric.domain.verification import CheckedClaim, ClaimStatus
from agent_fabric.wire.shape import Json, run_id_from, status_from


def diff_from(shown: Json) -> RunDiff:
    """Return what a run changed; the steps of each undo are not told."""
    return RunDiff(
        run_id=run_id_from(shown["run_id"]),
        folder=shown["folder"],
        status=status_from(shown["status"]),
        changes=[_change(each) for each in shown["changes"]],
        left_alone=shown["not_watched"],
        seen_now=shown["seen_now"],
        undos=[
            UndoRecord(
                number=each["number"],
                at=each["at"],
                by=each["by"],
                steps=(),
                redo=each["redo"],
                finished=each["finished"],
            )
            for each in shown["undone"]
        ],
    )


def file_diffs_from(shown: Json) -> dict[str, FileDiff]:
    """Return how paths changed, as far as there was room for it."""
    return {
        each["path"]: FileDiff(
            each["diff"].encode(errors="surrogateescape"), each["added"], each["removed"], each["binary"]
        )
        for each in shown["changes"]
        if each.get("diff") is not None
    }


def undone_from(shown: Json) -> Undone:
    """Return what was taken back."""
    return Undone(
        run_id=run_id_from(shown["run_id"]),
        folder=shown["folder"],
        done=[UndoStep(each["path"], _entry(each["current"]), _entry(each["target"])) for each in shown["steps"]],
        refused=[UndoRefusal(each["path"], each["reason"], each["final"]) for each in shown["refused"]],
        already=shown["already"],
        dry=shown["dry_run"],
        record=shown["record"],
    )


def verification_from(shown: Json) -> Verification:
    """Return what became of checking a run."""
    return Verification(
        run_id=run_id_from(shown["run_id"]),
        status=shown["status"],
        prompt=shown["prompt"],
        specialist_ids=shown["specialist_ids"],
        log=LogCondition(events=shown["events"], head=shown["last_hash"], status=shown["status"]),
        claims=[CheckedClaim(each["about"], ClaimStatus(each["standing"]), each["detail"]) for each in shown["claims"]],
    )


def _change(shown: Json) -> FileChange:
    return FileChange(
        path=shown["path"],
        before=_entry(shown["before"]),
        after=_entry(shown["after"]),
        mixed=shown["mixed"],
        doubtful=shown["doubtful"],
    )


def _entry(shown: Json | None) -> Entry | None:
    if shown is None:
        return None
    known: dict[str, Any] = {name: shown[name] for name in Entry._fields if name in shown}
    return Entry(**{**known, "kind": EntryKind(shown["kind"]), "mode": int(shown["mode"], 8)})
