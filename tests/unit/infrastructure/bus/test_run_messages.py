"""Workflows and agents on the bus, under the subjects that other systems know."""

from typing import Any

import pytest

from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Profile
from agent_fabric.domain.workflow_events import StepStarted
from agent_fabric.infrastructure.bus.in_process import InProcessBus
from agent_fabric.infrastructure.bus.run_messages import RunMessages

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


@pytest.fixture
def heard() -> list[tuple[str, object]]:
    return []


@pytest.fixture
def messages(heard: list[tuple[str, object]]) -> RunMessages:
    bus = InProcessBus()
    bus.subscribe("agent33.>", lambda subject, message: heard.append((subject, message)))
    return RunMessages(bus)


NIGHTLY = FrozenWorkflow(definition={"name": "nightly", "version": "1.0.0", "steps": []}, inputs={})


def test_the_start_and_the_end_of_a_workflow_are_told(
    messages: RunMessages, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    messages.publish(RUN, [_event(_created(NIGHTLY))])
    result = {"status": "partial", "steps_executed": ["a"], "duration_ms": 5}
    messages.publish(RUN, [_event(RunCompleted(run_id=RUN, specialist_ids=(), task_force_mode="", payload=result))])

    assert [subject for subject, _ in heard] == ["agent33.workflow.started", "agent33.workflow.completed"]
    assert heard[0][1]["workflow"] == "nightly"
    assert (heard[1][1]["status"], heard[1][1]["steps_executed"]) == ("partial", ["a"])


def test_an_agent_that_a_step_invokes_is_told(messages: RunMessages, heard: list[tuple[str, dict[str, Any]]]) -> None:
    child = RunId("22222222-2222-4222-8222-222222222222")
    started = StepStarted(step_id="ask", action="invoke-agent", attempt=1, inputs={}, child_run_id=child)
    messages.publish(RUN, [_event(started, "ask")])

    assert heard == [
        ("agent33.agent.invoked", {"run_id": RUN, "step_id": "ask", "attempt": 1, "child_run_id": child, "at": 12.0})
    ]


def test_a_workflow_that_another_process_began_is_told_too(
    messages: RunMessages, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    messages.publish(RUN, [_event(StepStarted(step_id="a", action="wait", attempt=1, inputs={}), "a")])
    messages.publish(RUN, [_event(RunCancelled(by="kim", reason="enough"))])

    assert [(subject, message["status"]) for subject, message in heard] == [("agent33.workflow.completed", "cancelled")]


def test_tasks_are_not_workflows(messages: RunMessages, heard: list[tuple[str, dict[str, Any]]]) -> None:
    messages.publish(RUN, [_event(_created(None)), _event(RunFailed(code="x", message="y", hint=""))])

    assert heard == []


def test_patterns_are_those_of_nats_and_a_listener_that_fails_disturbs_nobody() -> None:
    bus, heard = InProcessBus(), list[str]()

    def fail(subject: str, message: object) -> None:
        raise RuntimeError(subject)

    bus.subscribe("agent33.alert.*", fail)
    end = bus.subscribe("agent33.alert.*", lambda subject, _: heard.append(subject))
    bus.subscribe("agent33.alert", lambda subject, _: heard.append(f"!{subject}"))
    for subject in ("agent33.alert.disk", "agent33.alert", "agent33.alert.disk.full", "agent33.workflow.started"):
        bus.publish(subject, {})
    end()
    bus.publish("agent33.alert.disk", {})

    assert heard == ["agent33.alert.disk", "!agent33.alert"]
