"""A workflow of a thousand steps costs a thousand times one: counted in calls, not in seconds."""

import random
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

import pytest

from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.events import StepFinished, StepStatus
from workflow_world import RUN, World, step, workflow


def chain(count: int) -> dict[str, Any]:
    steps = [
        step(
            f"s{n}",
            "transform",
            inputs={"v": f"{{{{ s{n - 1}.v + 1 }}}}" if n else 0},
            depends_on=[f"s{n - 1}"] if n else [],
        )
        for n in range(count)
    ]
    return workflow(*steps)


def fan_out(count: int) -> dict[str, Any]:
    steps = [step(f"s{n}", inputs={"v": "{{ first.v }}"}, depends_on=["first"]) for n in range(count)]
    last = step("last", depends_on=[f"s{n}" for n in range(count)])
    return workflow(step("first", inputs={"v": 1}), *steps, last, parallel_limit=32)


def fan_out_of_failures(count: int) -> dict[str, Any]:
    """Each failure tells which names there are."""
    steps = [step(f"s{n}", inputs={"v": "{{ nothing.v }}"}) for n in range(count)]
    return workflow(*steps, continue_on_error=True)


def levels(count: int) -> dict[str, Any]:
    return workflow(*(step(f"s{n}", inputs={"v": n}) for n in range(count)), mode="parallel")


def items(count: int) -> dict[str, Any]:
    body = [step("x", inputs={"v": "{{ item }}"}), step("y", "transform", inputs={"v": "{{ x.v }}"})]
    return workflow(step("e", "for-each", inputs={"items": list(range(count)), "max_items": count}, steps=body))


def waits(count: int) -> dict[str, Any]:
    return workflow(*(step(f"s{n}", "wait", inputs={"seconds": n}) for n in range(count)))


def questions(count: int) -> dict[str, Any]:
    return workflow(*(step(f"s{n}", "wait", inputs={"event": "go"}) for n in range(count)))


class InOrder(random.Random):
    """Lets happen first what was begun first."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


def calls_made(plain: Mapping[str, Any], count: int) -> int:
    made = 0

    def note(_: FrameType, kind: str, __: Any) -> None:
        nonlocal made
        made += kind == "call"

    world = World(plain, signals=("go",) * count if "event" in str(plain["steps"][0]) else (), patient=True)
    world.rng = InOrder()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        assert world.run()["status"] in ("success", "failed")
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize("shape", [chain, fan_out, fan_out_of_failures, levels, items, waits])
def test_the_cost_of_a_step_does_not_grow_with_their_number(shape: Any) -> None:
    few, many = calls_made(shape(50), 50) / 50, calls_made(shape(400), 400) / 400
    assert many < few * 1.5


def plain_chain(count: int) -> dict[str, Any]:
    return workflow(
        *(step(f"s{n}", "transform", inputs={}, depends_on=[f"s{n - 1}"] if n else []) for n in range(count))
    )


@pytest.mark.slow
def test_ten_thousand_steps_fold_in_bounded_time() -> None:
    world = World(plain_chain(10_000))
    world.run()
    started = time.process_time()
    folded = world.folded(world.log)
    assert time.process_time() - started < 3, "it takes some tenths of a second"
    assert folded.ended


def test_ten_thousand_results_that_are_taken_over_in_any_order_do_not_run_out_of_stack() -> None:
    world = World(plain_chain(10_000))
    for n in reversed(range(9_999)):
        body = StepFinished(step_id=f"s{n}", attempt=1, status=StepStatus.SUCCESS, reused_from=RUN)
        world.record(LaneId(f"s{n}"), body)
    assert world.run()["status"] == "success"
    assert world.started() == ["s9999"]
