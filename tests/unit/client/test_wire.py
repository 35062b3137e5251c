"""What servers answer with, turned back into what it was made of."""

import json
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus
from agent_fabric.application.ports.changes import UndoRecord
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.client.wire import event_from
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.events import Event, RunCancelled, UnknownEvent
from agent_fabric.domain.evidence.proofs import Proof
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.changes import Entry, EntryKind, FileChange
from agent_fabric.domain.runs.task import RunError, RunResult, RunStatus
from agent_fabric.domain.runs.undo import UndoRefusal, UndoStep
from agent_fabric.domain.runs.unified_diff import file_diff
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.interfaces.http.runs.live import whole_line
from agent_fabric.wire.approvals import APPROVAL
from agent_fabric.wire.changes import EXACT_DIFF, EXACT_UNDONE, diff_object, file_diffs_from, undo_object
from agent_fabric.wire.results import result_from, result_object
from agent_fabric.wire.shape import run_id_from, status_from

RUN = RunId("d36e91a5-7d1d-4cc0-9f1c-0a4a5f1f9a3b")
STRANGE = 'caf\udce9/\U0001f600 "x"\n'
"""Bytes that are no text, and characters that need care."""


def sent(value: Any) -> Any:
    """Return a value as it arrives."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("status", RunStatus)
def test_a_result_comes_back_as_it_was(status: RunStatus) -> None:
    result = RunResult(
        run_id=RUN,
        status=status,
        payload={"summary": "done", "artifacts": ["a"], "score": 1.5},
        error=RunError(code="x", message="went wrong", hint="mend it") if status is RunStatus.FAILED else None,
        specialist_ids=(SpecialistId("engineering"),),
        model="m",
        steps=3,
        usage=Usage(10, 5, 2),
        cost=0.25,
        egress=("elsewhere",),
        duration_s=1.25,
        proof=Proof(kind=ProofKind.PROGRAM, command="python3 a.py", seq=3),
        routing_method="named",
        workspace="/w",
        waiting_for=("abc",) if status is RunStatus.WAITING else (),
    )
    assert result_from(sent(result_object(result, "/r"))) == result


def test_a_question_comes_back_as_it_was() -> None:
    card = ApprovalCard(
        approval_id="a1",
        run_id=RUN,
        call_id="c",
        tool="shell",
        args={"command": "git push"},
        question=Question.MAY_IT_RUN,
        reason="why",
        rule="r",
        subject="git push",
        alike="",
        agent="engineering",
        target="here",
        sandbox="A",
        untrusted=("https://x",),
        policy_version="1",
        args_hash="h",
        created_at=1.5,
        expires_at=2.5,
        status=ApprovalStatus.DENIED,
        decided_by="me",
        decided_at=2.0,
        decided_because="no",
    )
    assert APPROVAL.load(sent(APPROVAL.dump(card))) == card


def test_an_event_comes_back_as_it_was_and_an_unknown_one_stays_unknown() -> None:
    known = Event(4, 1.25, LaneId("engineering"), "step_1", RunCancelled(by="me", reason="x" * 100_000))
    assert event_from(json.loads(whole_line(RUN, known))) == known
    newer = Event(5, 1.5, None, "", UnknownEvent(kind="from_the_future", payload={"a": [1, 2**70]}))
    assert event_from(json.loads(whole_line(RUN, newer))) == newer
    changed = Event(6, 1.5, None, "", UnknownEvent(kind="run_cancelled", payload={"who": "me"}))
    assert event_from(json.loads(whole_line(RUN, changed))) == changed


@pytest.mark.proves("C28", "AF-132")
@pytest.mark.parametrize(
    "written", [1.25, "1.25", "1970-01-01T00:00:01.250Z", "1970-01-01T01:00:01.250+01:00", "1970-01-01T00:00:01.250"]
)
def test_the_moment_of_an_event_may_be_a_text_as_other_tools_write_it(written: object) -> None:
    known = Event(4, 1.25, LaneId("engineering"), "step_1", RunCancelled(by="me", reason="x"))
    assert event_from({**json.loads(whole_line(RUN, known)), "ts": written}) == known
    with pytest.raises(ValueError, match="soon"):
        event_from({**json.loads(whole_line(RUN, known)), "ts": "soon"})


def test_what_only_a_newer_server_knows_is_not_settled() -> None:
    assert status_from("hibernating") is RunStatus.WAITING


def test_changes_come_back_byte_by_byte() -> None:
    was = Entry(EntryKind.FILE, 0o644, 3, "d1", kept=True, mtime_ns=1, ctime_ns=2, inode=3, uid=4, gid=5)
    large = Entry(EntryKind.FILE, 0o600, 10**12, "", mtime_ns=7, ctime_ns=8, inode=9)
    changes = [
        FileChange(path=STRANGE, before=was, after=was._replace(digest="d2"), mixed=True),
        FileChange(path="large", before=large, after=large._replace(mtime_ns=70), doubtful=True),
        FileChange(path="link", before=None, after=Entry(EntryKind.LINK, 0o777, 0, "to\udcff")),
    ]
    found = RunDiff(
        run_id=RUN,
        folder="/p/\udcff",
        status=RunStatus.COMPLETED,
        changes=tuple(changes),
        left_alone=("node_modules",),
        seen_now=True,
        undos=(UndoRecord(number=1, at=1.0, by="me", steps=(), redo=True, finished=True),),
    )
    compared = {change.path: file_diff(change, b"a\xff\n", b"b\xfe\n") for change in changes}
    shown = sent(diff_object(found, lambda change: compared[change.path], exact=True))
    again = EXACT_DIFF.load(shown)
    assert again == found
    assert [change.what for change in again.changes] == [change.what for change in changes]
    assert [change.why_final for change in again.changes] == [change.why_final for change in changes]
    assert file_diffs_from(shown) == compared


def test_what_was_taken_back_comes_back_as_it_was() -> None:
    entry = Entry(EntryKind.FILE, 0o644, 3, "d1", kept=True)
    undone = Undone(
        run_id=RUN,
        folder="/p",
        done=(UndoStep(STRANGE, entry, None), UndoStep("b", None, entry)),
        refused=(UndoRefusal("c\udcff", "somebody edited it", False),),
        already=("d",),
        dry=True,
        record=None,
    )
    assert EXACT_UNDONE.load(sent(undo_object(undone, exact=True))) == undone


@pytest.mark.parametrize("value", ["", "../../etc", "/abs", "a/b", ".", "a\0b", "a\n", 7, None, "x" * 101])
def test_an_id_that_would_lead_elsewhere_is_none(value: object) -> None:
    with pytest.raises(ValueError, match="is no id of a run"):
        run_id_from(value)
