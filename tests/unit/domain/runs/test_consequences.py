"""What else is written when events are appended."""

from dataclasses import replace

import pytest

from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.events import (
    Body,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    UnknownEvent,
)
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.consequences import NO_CONSEQUENCES, ChildCancel, consequences
from agent_fabric.domain.runs.task import FrozenWorkflow, Parent, RunStatus
from agent_fabric.domain.workflows.child_run_ids import child_run_id
from agent_fabric.domain.workflows.events import StepFinished, StepRetried, StepStatus
from contract.run_repository_contract import RUN, completed, log, run_created

PLAIN = run_created()
WORKFLOW = replace(PLAIN, workflow=FrozenWorkflow(definition={}, inputs={}))
ABOVE = RunId("above")
CHILD = replace(PLAIN, parent=Parent(run_id=ABOVE, lane=LaneId("a"), level=1))


def test_most_events_have_no_consequences() -> None:
    assert consequences(RUN, PLAIN, log(UnknownEvent(kind="x", payload={}), first=3)) is NO_CONSEQUENCES
    assert consequences(RUN, PLAIN, []) is NO_CONSEQUENCES


def test_a_new_run_is_sealed_and_keeps_its_status() -> None:
    found = consequences(RUN, None, log(PLAIN))
    assert (found.seal, found.status, found.empty_inbox) == (True, None, False)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (RunResumed(by="person", driver="a test"), RunStatus.RUNNING),
        (RunWaited(reason="x", until=7.0), RunStatus.WAITING),
        (RunInterrupted(reason="x"), RunStatus.INTERRUPTED),
        (completed(RUN), RunStatus.COMPLETED),
        (RunFailed(code="x", message="x", hint=""), RunStatus.FAILED),
        (RunCancelled(by="x", reason="x"), RunStatus.CANCELLED),
    ],
)
def test_a_change_of_status_is_sealed_and_only_an_end_settles_what_is_open(body: Body, status: RunStatus) -> None:
    found = consequences(RUN, CHILD, log(body, first=4))
    assert (found.status, found.seal) == (status, True)
    assert found.wake_at == (7.0 if status is RunStatus.WAITING else None)
    assert found.empty_inbox is found.cancel_approvals is status.settled
    assert found.notify_parent == (ABOVE if status.settled else None)
    assert found.cancel_children == ()


def test_the_last_status_counts() -> None:
    found = consequences(RUN, PLAIN, log(RunWaited(reason="x", until=7.0), RunInterrupted(reason="x"), first=4))
    assert (found.status, found.wake_at) == (RunStatus.INTERRUPTED, None)


def test_a_run_that_ends_in_its_first_events_notifies_its_parent() -> None:
    assert consequences(RUN, None, log(CHILD, completed(RUN))).notify_parent == ABOVE


@pytest.mark.parametrize("end", [completed(RUN), RunCancelled(by="x", reason="x")])
def test_a_workflow_that_ends_cancels_all_children(end: RunCompleted | RunCancelled) -> None:
    found = consequences(RUN, WORKFLOW, log(end, first=4))
    assert found.cancel_children == (ChildCancel(child=None, reason="the workflow has ended"),)


def test_a_step_that_failed_cancels_its_own_child() -> None:
    failed = StepFinished(step_id="a", attempt=1, status=StepStatus.FAILED)
    retried = StepRetried(step_id="b", attempt=2, error="", error_type="", delay_s=0.0)
    done = StepFinished(step_id="c", attempt=1, status=StepStatus.SUCCESS)
    steps: list[tuple[str, Body]] = [("a", failed), ("b", retried), ("c", done)]
    events = [Event(4 + at, 1.0, LaneId(lane), "", body) for at, (lane, body) in enumerate(steps)]
    found = consequences(RUN, WORKFLOW, events)
    assert [cancel.child for cancel in found.cancel_children] == [
        child_run_id(RUN, LaneId("a"), 1),
        child_run_id(RUN, LaneId("b"), 2),
    ]
    assert (found.status, found.seal) == (None, False)


def test_approval_events_are_passed_on_in_order() -> None:
    events = log(
        ApprovalDecided(approval_id="a", decision=Decision.DENY, by="x"),
        RunInterrupted(reason="x"),
        ApprovalDecided(approval_id="b", decision=Decision.APPROVE, by="x"),
        first=4,
    )
    assert consequences(RUN, PLAIN, events).approvals == (events[0], events[2])
