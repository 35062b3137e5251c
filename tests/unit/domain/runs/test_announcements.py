"""Workflows and agents as other systems are told of them, under the subjects that other systems know."""

from typing import Any

from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.announcements import announcements, is_announced
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Profile
from agent_fabric.domain.workflows.events import StepStarted

RUN = RunId("11111111-1111-4111-8111-111111111111")


def _created(workflow: FrozenWorkflow | None) -> RunCreated:
    return RunCreated(
        prompt="workflow nightly",
        specialist_id=None,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget(max_steps=3),
        workspace="/w",
        sandbox="A",
        policy_version="1",
        fabric_version="0",
        workflow=workflow,
    )


def _event(body: object, lane: str | None = None) -> Event:
    return Event(0, 12.0, LaneId(lane) if lane else None, "", body)  # type: ignore[arg-type]


NIGHTLY = FrozenWorkflow(definition={"name": "nightly", "version": "1.0.0", "steps": []}, inputs={})
ENDED = {"status": "partial", "steps_executed": ["a"], "duration_ms": 5}


def told(*bodies: object, discreet: bool = False) -> list[tuple[str, dict[str, Any]]]:
    events = [_event(body)._replace(seq=seq) for seq, body in enumerate(bodies)]
    return [(each.subject, dict(each.payload)) for each in announcements(RUN, events, discreet=discreet)]


def test_the_start_and_the_end_of_a_workflow_are_told() -> None:
    completed = RunCompleted(run_id=RUN, specialist_ids=(), task_force_mode="", payload=ENDED)
    (started, first), (ended, last) = told(_created(NIGHTLY), completed)
    assert (started, ended) == ("agent33.workflow.started", "agent33.workflow.completed")
    assert first == {"run_id": RUN, "workflow": "nightly", "version": "1.0.0", "at": 12.0}
    assert (last["status"], last["steps_executed"], last["error"]) == ("partial", ["a"], None)


def test_an_agent_that_a_step_invokes_is_told() -> None:
    child = RunId("22222222-2222-4222-8222-222222222222")
    started = StepStarted(step_id="ask", action="invoke-agent", attempt=1, inputs={}, child_run_id=child)
    waits = StepStarted(step_id="nap", action="wait", attempt=1, inputs={})
    message = {"run_id": RUN, "step_id": "ask", "attempt": 1, "child_run_id": child, "at": 12.0}
    assert told(waits, started) == [("agent33.agent.invoked", message)]


def test_a_failure_and_a_cancellation_are_told_with_their_reason() -> None:
    failed, cancelled = RunFailed(code="x", message="it broke", hint=""), RunCancelled(by="kim", reason="enough")
    statuses = [(message["status"], message["error"]) for _, message in told(failed, cancelled)]
    assert statuses == [("failed", "it broke"), ("cancelled", "enough")]


def test_nothing_is_told_that_may_quote_an_encrypted_run() -> None:
    failed, cancelled = RunFailed(code="x", message="it broke", hint=""), RunCancelled(by="kim", reason="enough")
    assert [message["error"] for _, message in told(failed, cancelled, discreet=True)] == [None, None]


def test_what_is_told_of_is_announced_and_tasks_are_not_workflows() -> None:
    failed = _event(RunFailed(code="x", message="y", hint=""))
    assert is_announced(_event(_created(NIGHTLY)), of_workflow=True)
    assert is_announced(failed, of_workflow=True)
    assert not is_announced(failed, of_workflow=False)
    assert not is_announced(_event(_created(None)), of_workflow=False)
