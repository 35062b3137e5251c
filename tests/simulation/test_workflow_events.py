"""Events in an order that no engine would write: nothing raises, and folding is the same every time."""

import random
from collections.abc import Callable
from typing import Any

from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.events import Body, RunResumed, RunWaited, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.workflows.decide import decide_workflow
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
from effort import effort
from workflow_graphs import random_graph
from workflow_world import RUN, World

_NAMES = (
    *("items", "branch", "command", "env", "cwd", "event", "seconds", "until", "timeout", "data", "rules", "schema"),
    *("form", "message", "x", "parallel", "accept_status"),
)
_VALUES: tuple[Any, ...] = (None, 0, -1, "x", [], {}, [1, 2], float("nan"), {"items": 3}, True, "{{ x }}", 1e300)


def any_body(rng: random.Random, world: World, lane: str, number: int) -> Body:
    given = {name: rng.choice(_VALUES) for name in rng.sample(_NAMES, 4)}
    call_id = CallId(lane)
    ends = (StepStatus.SUCCESS, StepStatus.FAILED, StepStatus.SKIPPED)
    bodies: list[Callable[[], Body]] = [
        lambda: StepStarted(
            step_id=lane, action="x", attempt=rng.randrange(3), inputs=given, child_run_id=rng.choice((None, RUN))
        ),
        lambda: StepFinished(
            step_id=lane, attempt=1, status=rng.choice(ends), outputs=given, error=rng.choice(("", "x"))
        ),
        lambda: StepRetried(step_id=lane, attempt=1, error="x", error_type="y", delay_s=rng.choice((0, 5))),
        lambda: StepWaited(step_id=lane, attempt=1, seconds=rng.choice((None, 3)), event=rng.choice(("", "e0"))),
        lambda: TimerFired(step_id=rng.choice((lane, "")), purpose=rng.choice(("wait", "retry", "timeout"))),
        lambda: SignalReceived(name="e0"),
        lambda: RunResumed(by="person", driver=""),
        lambda: RunWaited(reason=""),
        lambda: ChildFinished(
            step_id=lane, child_run_id=RUN, run_status=rng.choice(("completed", "failed", "cancelled")), payload=given
        ),
        lambda: ToolCalled(tool="x", args=given, call_id=call_id),
        lambda: ToolReturned(tool="x", result=given, call_id=call_id, whole=rng.choice(("", "{", "[]", '{"a": 1}'))),
        lambda: ToolErred(tool="x", error_type="t", error_message="m", call_id=call_id),
        lambda: world._question(LaneId(lane), "x", rng.choice(list(Question))),
        lambda: ApprovalDecided(
            approval_id=f"{lane}/{number - 1}",
            decision=rng.choice(list(Decision)),
            by="x",
            args=rng.choice((None, given)),
        ),
    ]
    return rng.choice(bodies)()


def test_no_order_of_events_makes_anything_raise() -> None:
    for seed in range(effort(100, 3_000)):
        rng = random.Random(seed)
        world = World(random_graph(seed).plain)
        lanes = [*world.wf.plan.nodes, "e[0].x", "nowhere", ""]
        for number in range(40):
            lane = rng.choice(lanes)
            world.record(LaneId(lane) if lane else None, any_body(rng, world, lane, number))
            decide_workflow(world.wf)
            world.wf.due(rng.choice((0.0, 1e12)))
        result_of_workflow(world.wf)
        assert len(world.folded(world.log).executed) == len(world.wf.executed)
