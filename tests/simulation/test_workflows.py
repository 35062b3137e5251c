"""Thousands of random workflows against a simple oracle, and crashes at every event of many of them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.workflows.events import StepFinished, StepRetried, StepStarted, StepStatus
from effort import effort, report
from workflow_graphs import Graph, Oracle, Plain, random_graph
from workflow_world import World, of


def world_of(graph: Graph, seed: int, crash_at: frozenset[int] = frozenset()) -> World:
    return World(
        graph.plain,
        script=graph.script,
        asks=frozenset(graph.asks),
        answers=graph.answer,
        seed=seed,
        signals=tuple(graph.signals * 3),
        crash_at=crash_at,
    )


def ends_of(result: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    return {
        lane: (each["status"], each["outputs"].get("v") if each["status"] == "success" else None)
        for lane, each in of(result).items()
    }


def require_sound(graph: Graph, world: World, result: Mapping[str, Any]) -> None:
    """What must hold for every workflow, whatever failed and however it was scheduled."""
    assert world.wf.ended, "it came to its end"
    assert not world.flights
    assert not world.wf.open, "whatever began came to its end"
    assert world.most_at_once <= graph.plain["execution"]["parallel_limit"]
    finished = Counter(event.lane for event in world.log if isinstance(event.body, StepFinished))
    assert set(finished.values()) <= {1}, "each step ends at most once"
    require_order(graph.plain["steps"], "", world)
    assert world.folded(world.log) == world.wf, "folding is the same every time"


def require_order(steps: list[Plain], prefix: str, world: World) -> None:
    ends = {event.lane: event.seq for event in world.log if isinstance(event.body, StepFinished)}
    starts: dict[Any, int] = {}
    for event in world.log:
        if isinstance(event.body, StepStarted):
            starts.setdefault(event.lane, event.seq)
    _require_order(steps, prefix, starts, ends, ordered=False)
    if world.plain["execution"]["mode"] == "sequential":
        _require_order(steps, prefix, starts, ends, ordered=True)


def _require_order(
    steps: list[Plain], prefix: str, starts: Mapping[Any, int], ends: Mapping[Any, int], *, ordered: bool
) -> None:
    for index, one in enumerate(steps):
        lane = prefix + one["id"]
        before = [each["id"] for each in steps[:index]] if ordered else one.get("depends_on", ())
        for other in before:
            if lane in starts:
                assert ends[prefix + other] < starts[lane], f"{lane} began before {other} was done"
        for key in ("steps", "then", "else"):
            inner = one.get(key, [])
            if one["action"] == "for-each":
                for item in one["inputs"]["items"]:
                    _require_order(inner, f"{lane}[{item}].", starts, ends, ordered=True)
            else:
                _require_order(inner, prefix, starts, ends, ordered=key != "steps")
        if lane in starts and lane in ends:
            for each in one.get("steps", []) if one["action"] == "parallel-group" else ():
                if prefix + each["id"] in starts:
                    assert starts[lane] < starts[prefix + each["id"]] < ends[lane]


def require_as_foreseen(graph: Graph, result: Mapping[str, Any]) -> None:
    oracle = Oracle(graph)
    assert ends_of(result) == oracle.ends
    succeeded = any(status == "success" for status, _ in oracle.ends.values())
    if oracle.failed:
        assert result["status"] == ("partial" if succeeded else "failed")
    else:
        assert result["status"] == ("success" if succeeded else "skipped")


def require_halted(graph: Graph, world: World, result: Mapping[str, Any]) -> None:
    """After the first failure nothing new begins, and whatever did succeed is as it would have been."""
    oracle = Oracle(graph)
    if not oracle.failed:
        require_as_foreseen(graph, result)
        return
    failures = [e.seq for e in world.log if isinstance(e.body, StepFinished) and e.body.status is StepStatus.FAILED]
    assert failures
    assert result["status"] == "failed"
    assert not [e for e in world.log[failures[0] + 1 :] if isinstance(e.body, StepStarted | StepRetried)]
    for lane, (status, value) in ends_of(result).items():
        if status == "success":
            assert oracle.ends[lane] == (status, value)
        elif status == "failed":
            error = world.finished()[lane].error_type  # type: ignore[index]  # a lane is a text
            assert lane in oracle.failed or error in ("Cancelled", "Broken", "CommandFailed", "StepFailed")


def check(seed: int) -> Counter[str]:
    graph = random_graph(seed)
    seen: Counter[str] = Counter()
    for schedule in range(2):
        world = world_of(graph, schedule)
        result = world.run()
        require_sound(graph, world, result)
        if graph.plain["execution"]["continue_on_error"]:
            require_as_foreseen(graph, result)
        else:
            require_halted(graph, world, result)
        seen[result["status"]] += 1
        seen["steps"] += len(result["steps_executed"])
    return seen


def check_all(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            seen += check(seed)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise
    return seen


def check_crashes(seed: int, step: int) -> int:
    """Crash after every event, twice; the results must be those of a run that nothing disturbed."""
    graph = random_graph(seed, continue_on_error=True)
    undisturbed = world_of(graph, seed)
    expected = undisturbed.run()
    for at in range(0, len(undisturbed.log) - 1, step):
        world = world_of(graph, seed, crash_at=frozenset({at, at + 1 + (at * 7 + seed) % 9}))
        result = world.run()
        assert world.crashes
        require_sound(graph, world, result)
        assert ends_of(result) == ends_of(expected), f"after a crash at {at}"
        require_nothing_twice(world)
    return len(undisturbed.log)


def check_crashes_while_it_ends(seed: int, step: int) -> None:
    """Crash after every event of a workflow that ends with its first failure."""
    graph = random_graph(seed, continue_on_error=False)
    undisturbed = world_of(graph, seed)
    undisturbed.run()
    for at in range(0, len(undisturbed.log) - 1, step):
        world = world_of(graph, seed, crash_at=frozenset({at, at + 1 + (at * 5 + seed) % 7}))
        result = world.run()
        require_sound(graph, world, result)
        require_halted(graph, world, result)
        require_nothing_twice(world)


def require_nothing_twice(world: World) -> None:
    """A finished call is never made again; one in doubt only if it may be, or if a person says so."""
    begun: dict[Any, int] = {}
    again: set[Any] = set()
    idempotent = {each.id: each.idempotent for each in world.definition.all_steps()}
    asked: dict[str, Any] = {}
    for event in world.log:
        lane = event.lane
        match event.body:
            case ToolCalled() as body:
                key = (lane, body.call_id)
                if key in begun:
                    assert begun[key] == 0, f"{key} was made again although it had an end"
                    name = str(lane).rpartition(".")[2]
                    assert idempotent[name] or lane in again, f"{key} was in doubt and nobody was asked"
                    again.discard(lane)
                begun[key] = 0
            case ToolReturned() | ToolErred() as body:
                begun[lane, body.call_id] = 1
            case ApprovalRequested() as body if body.question is Question.DID_IT_HAPPEN:
                asked[body.approval_id] = lane
            case ApprovalDecided() as body if body.approval_id in asked and body.decision is Decision.APPROVE:
                again.add(lane)
            case _:
                pass


@pytest.mark.proves("A33-052", "A33-053", "A33-055", "A33-058", "A33-060")
def test_random_workflows_come_to_what_the_oracle_says_on_every_schedule() -> None:
    graphs = effort(300, 12_000)
    seen = check_all(range(graphs))
    report("random workflows compared with the oracle", graphs)
    assert all(seen[status] > graphs * 3 // 100 for status in ("success", "failed", "partial")), seen


@pytest.mark.proves("A33-059")
def test_a_crash_after_any_event_changes_nothing_and_repeats_nothing() -> None:
    graphs = effort(25, 500)
    crashes = sum(check_crashes(seed, effort(2, 1)) for seed in range(graphs))
    report("crashes after an event of a workflow simulated", crashes)
    assert crashes > 15 * graphs


def test_a_crash_while_a_workflow_ends_after_a_failure_lets_nothing_new_begin() -> None:
    for seed in range(effort(25, 500)):
        check_crashes_while_it_ends(seed, effort(2, 1))
