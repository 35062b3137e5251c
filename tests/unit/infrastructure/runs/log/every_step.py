"""A workflow's run that holds every kind of event that steps bring with them."""

from agent_fabric.domain.events import (
    Body,
    Event,
    RunCompleted,
    RunCreated,
    RunResumed,
    RunWaited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Parent, Priority, Profile
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepStatus,
    StepWaited,
    TimerFired,
)
from agent_fabric.domain.workflows.result import result_of_workflow

RUN = RunId("00000000-0000-4000-8000-000000000001")
PARENT = RunId("00000000-0000-4000-8000-000000000002")
CHILD = RunId("00000000-0000-4000-8000-000000000003")
BEGAN = 1_700_000_000.25

DEFINITION = {
    "name": "nightly",
    "version": "1.2.0",
    "inputs": {"topic": {"type": "string", "required": True}},
    "steps": [
        {"id": "fetch", "action": "run-command", "command": "cat {{ inputs.topic }}", "retry": {"max_attempts": 2}},
        {"id": "pause", "action": "wait", "depends_on": ["fetch"], "inputs": {"seconds": 60}},
        {"id": "ask", "action": "invoke-agent", "agent": "namer", "depends_on": ["pause"], "inputs": {"n": 1}},
        {"id": "news", "action": "wait", "depends_on": ["ask"], "inputs": {"event": "ready"}},
        {"id": "never", "action": "transform", "depends_on": ["news"], "condition": "false", "inputs": {"a": 1}},
        {"id": "sum", "action": "transform", "depends_on": ["news"], "inputs": {"text": "{{ ask.name }} ü"}},
    ],
}


def _tool(call: str) -> ToolCalled:
    return ToolCalled(
        tool="shell", args={"command": "cat a"}, call_id=CallId(call), attempt=1, rule="command_allowlist"
    )


_BODIES: tuple[tuple[str | None, Body], ...] = (
    (
        None,
        RunCreated(
            prompt="workflow nightly",
            specialist_id=None,
            model_key="quality",
            network_allowed=True,
            profile=Profile.TASK,
            budget=Budget(max_steps=40),
            workspace="/home/me/.fabric/runs/1/workspace",
            sandbox="A",
            policy_version="p1",
            fabric_version="0.5.0",
            priority=Priority.BATCH,
            workflow=FrozenWorkflow(
                definition=DEFINITION,
                inputs={"topic": "a"},
                source="workflow-definitions/nightly.yaml",
                exclusive=("namer",),
            ),
            parent=Parent(run_id=PARENT, lane=LaneId("outer"), level=1),
        ),
    ),
    (
        "fetch",
        StepStarted(
            step_id="fetch",
            action="run-command",
            attempt=1,
            inputs={"command": "cat a"},
            reads={"command": ("inputs.topic",)},
        ),
    ),
    ("fetch", _tool("fetch#1")),
    ("fetch", ToolErred(tool="shell", error_type="OSError", error_message="no", call_id=CallId("fetch#1"))),
    ("fetch", StepRetried(step_id="fetch", attempt=1, error="no", error_type="OSError", delay_s=2.0)),
    ("fetch", TimerFired(step_id="fetch", purpose="retry")),
    ("fetch", StepStarted(step_id="fetch", action="run-command", attempt=2, inputs={"command": "cat a"})),
    ("fetch", _tool("fetch#2")),
    (
        "fetch",
        ToolReturned(
            tool="shell",
            result={"exit_code": 0, "stdout": "x\n", "stderr": ""},
            call_id=CallId("fetch#2"),
            duration_s=0.5,
        ),
    ),
    (
        "fetch",
        StepFinished(
            step_id="fetch",
            attempt=2,
            status=StepStatus.SUCCESS,
            outputs={"exit_code": 0, "stdout": "x\n", "stderr": ""},
        ),
    ),
    ("pause", StepStarted(step_id="pause", action="wait", attempt=1, inputs={"seconds": 60})),
    ("pause", StepWaited(step_id="pause", attempt=1, seconds=60.0)),
    (None, RunWaited(reason="waits for a moment to come", until=BEGAN + 71.0)),
    (None, RunResumed(by="server", driver="process 1 on host")),
    ("pause", TimerFired(step_id="pause", purpose="wait")),
    (
        "pause",
        StepFinished(step_id="pause", attempt=1, status=StepStatus.SUCCESS, outputs={"waited_for": "seconds"}),
    ),
    (
        "ask",
        StepStarted(step_id="ask", action="invoke-agent", attempt=1, inputs={"n": 1}, child_run_id=CHILD),
    ),
    (
        "ask",
        ChildFinished(
            step_id="ask",
            child_run_id=CHILD,
            run_status="completed",
            payload={"name": "Rex"},
            prompt_tokens=100,
            completion_tokens=20,
            cost=0.25,
        ),
    ),
    ("ask", StepFinished(step_id="ask", attempt=1, status=StepStatus.SUCCESS, outputs={"name": "Rex"})),
    ("news", StepStarted(step_id="news", action="wait", attempt=1, inputs={"event": "ready"})),
    ("news", StepWaited(step_id="news", attempt=1, event="ready", timeout_s=3_600.0)),
    (None, SignalReceived(name="ready", data={"size": 7}, by="me")),
    (
        "news",
        StepFinished(
            step_id="news",
            attempt=1,
            status=StepStatus.SUCCESS,
            outputs={"waited_for": "event", "data": {"size": 7}},
        ),
    ),
    ("never", StepFinished(step_id="never", attempt=0, status=StepStatus.SKIPPED)),
    ("sum", StepStarted(step_id="sum", action="transform", attempt=1, inputs={"text": "Rex ü"})),
    (
        "sum",
        StepFinished(
            step_id="sum",
            attempt=1,
            status=StepStatus.SUCCESS,
            outputs={"text": "Rex ü"},
            reads={"text": ("ask.name",)},
        ),
    ),
)


def workflow() -> list[Event]:
    """Return the whole log of a workflow."""
    events = [
        Event(seq, BEGAN + seq, None if lane is None else LaneId(lane), "", body)
        for seq, (lane, body) in enumerate(_BODIES)
    ]
    state = fold(RUN, events)
    assert state.workflow is not None
    end = RunCompleted(run_id=RUN, specialist_ids=(), task_force_mode="", payload=result_of_workflow(state.workflow))
    return [*events, Event(len(events), BEGAN + len(events), None, "", end)]
