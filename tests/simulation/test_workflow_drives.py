"""The real driver on random workflows: a crash at every write, several processes, children, answers, signals."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from agent_fabric.application.ports.runs import APPROVAL, HeldLog
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.errors import RunHeld
from agent_fabric.domain.events import RunCreated, ToolCalled
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.events import SignalReceived, StepFinished, StepStarted, StepWaited, TimerFired
from effort import effort, report
from workflow_graphs import Graph, Oracle, Plain, random_graph
from workflow_lives import CAREFUL, LEAF, ROOT, Book, Died, Lives, Mortal, Process


def graph_of(seed: int, **more: Any) -> Graph:
    """Return a random workflow that leaves much to others; what a person has to agree to is a tool of its own."""
    graph = random_graph(seed, **more)
    for step in all_steps(graph.plain["steps"]):
        if step["id"] in graph.asks:
            step["action"] = CAREFUL
        elif step["action"] == "work" and graph.roll(step["id"]) < 0.5:
            step.update(action="workflow", workflow="other")
    return graph


def all_steps(steps: list[Plain]) -> Iterator[Plain]:
    for step in steps:
        yield step
        for inside in ("steps", "then", "else"):
            yield from all_steps(step.get(inside, []))


def ends_of(lives: Lives) -> dict[str, tuple[str, Any]]:
    return {
        event.lane: (event.body.status.value, event.body.outputs.get("v") if event.body.status == "success" else None)
        for event in lives.store.logs[ROOT]
        if isinstance(event.body, StepFinished) and event.lane is not None
    }


def require_as_foreseen(lives: Lives) -> None:
    """Every step ended as the oracle says, which knows nothing of processes, or was not begun at all."""
    foreseen = Oracle(lives.graph).ends
    ends = ends_of(lives)
    begun = {lane: end for lane, end in foreseen.items() if end[0] != "skipped"}
    assert {lane: end for lane, end in ends.items() if end[0] != "skipped"} == begun


def require_sound(lives: Lives) -> None:
    """What must hold for every history."""
    assert lives.wrong == []
    assert lives.store.held == set()
    idempotent = {step["id"] for step in all_steps(lives.graph.plain["steps"]) if step.get("idempotent")}
    for run_id, log in lives.store.logs.items():
        assert [event.seq for event in log] == list(range(len(log)))
        state = fold(run_id, log)
        assert state.status.settled, f"{run_id} is left behind"
        assert fold(run_id, log) == state
        require_each_once(lives, run_id, idempotent if run_id == ROOT else set())
        require_linked(lives, run_id)
        require_clock(lives, run_id)
        kinds = [event.body.kind for event in log]
        if not lives.served or kinds.count("run_interrupted") * 3 > lives.deaths:
            assert "run_interrupted" not in kinds, "who goes on with the workflow goes on with all of it"
        heard = [event.body.data["n"] for event in log if isinstance(event.body, SignalReceived)]
        assert len(heard) == len(set(heard)), "a signal was taken twice"


def require_each_once(lives: Lives, run_id: RunId, idempotent: set[str]) -> None:
    log = lives.store.logs[run_id]
    ends = Counter(event.lane for event in log if isinstance(event.body, StepFinished))
    assert set(ends.values()) <= {1}, "a step ends once"
    calls = Counter(str(event.body.call_id) for event in log if isinstance(event.body, ToolCalled))
    asked = {event.body.approval_id: event.body for event in log if isinstance(event.body, ApprovalRequested)}
    decided = [event.body for event in log if isinstance(event.body, ApprovalDecided)]
    assert len({body.approval_id for body in decided}) == len(decided), "an answer counts once"
    again = Counter(
        str(asked[body.approval_id].call_id)
        for body in decided
        if asked[body.approval_id].question is Question.DID_IT_HAPPEN and body.decision is Decision.APPROVE
    )
    for (owner, call_id), count in lives.effects.items():
        if owner == run_id:
            assert count <= calls[call_id], f"{run_id} {call_id} ran more often than it was called"
            if call_id.rpartition("#")[0].rpartition(".")[2] not in idempotent:
                assert count <= 1 + again[call_id], f"{run_id} {call_id} ran {count} times"
                assert not lives.by_witness or count == 1, f"{run_id} {call_id} ran although it had happened"
    questions = Counter(body.call_id for body in asked.values() if body.question is Question.ANSWER)
    assert set(questions.values()) <= {1}, "a person is asked once"


def require_linked(lives: Lives, run_id: RunId) -> None:
    """Each child belongs to one attempt at a step, and there is one for each."""
    log = lives.store.logs[run_id]
    children = [event.body.child_run_id for event in log if isinstance(event.body, StepStarted)]
    for child in filter(None, children):
        created = lives.store.logs[child][0].body
        assert isinstance(created, RunCreated)
        assert created.parent is not None
        assert created.parent.run_id == run_id
    assert len(set(children) - {None}) == len([child for child in children if child])


def require_clock(lives: Lives, run_id: RunId) -> None:
    """A wait goes on from when it began, whoever drives the run, and no moment comes too early."""
    begun: dict[Any, float] = {}
    action = ""
    for event in lives.store.logs[run_id]:
        match event.body:
            case StepStarted() as body:
                action = body.action
            case StepWaited(seconds=float() | int() as seconds):
                assert event.lane not in begun, f"{event.lane} began to wait twice"
                begun[event.lane] = event.ts + seconds
            case TimerFired(purpose="wait"):
                assert event.ts >= begun[event.lane]
            case _:
                pass
    assert action in {*BuiltIn, "work", CAREFUL, ""}


def live(seed: int, lives: Lives) -> Lives:
    try:
        asyncio.run(lives.live())
        require_sound(lives)
    except BaseException as problem:
        problem.add_note(f"seed {seed}, deaths at {sorted(lives.deaths_at)}, {lives.deaths} deaths")
        raise
    return lives


def crash_everywhere(seed: int, stride: int) -> int:
    """Die at every moment in turn, and once more soon after; the results are those of a run that nothing disturbed."""
    graph = graph_of(seed, continue_on_error=True)
    served = seed % 2 == 0
    calm = live(seed, Lives(graph, seed, served=served))
    require_as_foreseen(calm)
    for at in range(1 + seed % stride, calm.moments + 1, stride):
        soon = at + 1 + (at * 7 + seed) % 9
        lives = live(seed, Lives(graph, seed, deaths_at=frozenset({at, soon}), served=served))
        assert lives.deaths
        require_as_foreseen(lives)
    return calm.moments


def meddle(seed: int) -> Lives:
    """Let anything happen."""
    kind = seed % 4
    graph = graph_of(seed, continue_on_error=None if kind > 1 else True)
    lives = Lives(
        graph,
        seed,
        chance=(0.01, 0.03, 0.08)[seed % 3],
        served=seed % 2 == 0,
        meddled=True,
        by_witness=kind == 2,
        cancelled=kind == 3,
    )
    live(seed, lives)
    if kind < 2:
        require_as_foreseen(lives)
    return lives


CALLS: Plain = {
    "name": "w",
    "version": "1.0.0",
    "steps": [{"id": "call", "action": "workflow", "workflow": "other", "inputs": {"x": 1, "base": 2}}],
}


class Beaten(Mortal):
    """A store in which somebody else is always faster to take a child, and has ended it before we are told so."""

    async def take(self, run_id: RunId) -> HeldLog:
        if run_id != ROOT and not self.process.lives.state(run_id).status.settled:
            await Process(self.process.lives).go_on(run_id)
            for _ in range(20):  # until the news has been read
                await asyncio.sleep(0)
            raise RunHeld(f"Run {run_id} is being driven by another process")
        return await super().take(run_id)


async def test_a_child_that_ends_elsewhere_while_we_try_to_take_it_is_not_waited_for() -> None:
    lives = Lives(Graph(CALLS, 0, calm=True), 0)
    await Process(lives, store=Beaten).go_on(ROOT)
    assert lives.state(ROOT).status is RunStatus.COMPLETED
    assert "run_waiting" not in [event.body.kind for event in lives.store.logs[ROOT]]


async def test_a_child_that_kills_every_process_at_once_is_left_to_a_person_like_any_run() -> None:
    lives = Lives(Graph(CALLS, 0, calm=True), 0, deaths_at=frozenset({4}), served=True)
    with suppress(Died):
        await Process(lives).go_on(ROOT)  # which dies when the child has come into being
    (child,) = set(lives.store.logs) - {ROOT}
    assert len(lives.store.logs[child]) == 1
    lives.store.held.clear()
    for _ in range(3):
        lives.deaths_at = frozenset({lives.moments + 2})
        with suppress(Died):
            await Process(lives).go_on(child)
        lives.store.held.clear()
    lives.deaths_at = frozenset()
    await Process(lives).go_on(child)
    assert lives.state(child).status is RunStatus.INTERRUPTED
    await Process(lives).go_on(child)  # a person
    assert lives.state(child).status is RunStatus.COMPLETED
    await Process(lives).go_on(ROOT)
    assert lives.state(ROOT).status is RunStatus.COMPLETED
    assert set(lives.effects.values()) == {1}


async def test_a_workflow_whose_child_gets_on_is_not_given_up_however_often_its_server_dies() -> None:
    lives = Lives(Graph(CALLS, 0, calm=True), 0, served=True)
    work: Plain = {**LEAF["steps"][0], "idempotent": True}
    works = [{**work, "id": f"w{n}", "depends_on": [f"w{n - 1}"] if n else []} for n in range(12)]
    long = {**LEAF, "name": "other", "outputs": {}, "steps": works}
    lives.book = Book({"other": long})
    for done in range(1, 12):
        process = Process(lives)
        driving = asyncio.ensure_future(process.go_on(ROOT))
        while _results(lives) < done and not driving.done():
            await asyncio.sleep(0)
        process.dead = True
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        lives.store.held.clear()
    await Process(lives).go_on(ROOT)
    assert lives.state(ROOT).status is RunStatus.COMPLETED
    kinds = [event.body.kind for event in lives.store.logs[ROOT]]
    assert kinds.count("run_resumed") > 3
    assert "run_interrupted" not in kinds


async def test_a_refusal_that_ends_a_workflow_counts_although_a_step_was_in_doubt() -> None:
    steps = [
        {"id": "ask", "action": "approve", "inputs": {"message": "ok?"}},
        {"id": "do", "action": "work", "idempotent": True, "inputs": {"x": 1, "base": 2}},
    ]
    plain = {"name": "w", "version": "1.0.0", "steps": steps, "execution": {"parallel_limit": 1}}
    lives = Lives(Graph(plain, 0, calm=True), 0)
    process = Process(lives)
    driving = asyncio.ensure_future(process.go_on(ROOT))
    while not any(event.body.kind == "tool_call" for event in lives.store.logs.get(ROOT, ())):
        await asyncio.sleep(0)
    process.dead = True
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    lives.store.held.clear()
    (asked,) = lives.state(ROOT).asked
    refusal = {"approval_id": asked.approval_id, "decision": Decision.DENY, "by": "a test"}
    await lives.store.post(ROOT, APPROVAL, refusal)
    await Process(lives).go_on(ROOT)
    assert lives.state(ROOT).status is RunStatus.FAILED


def _results(lives: Lives) -> int:
    return sum(event.body.kind == "tool_result" for log in lives.store.logs.values() for event in log)


@pytest.mark.proves("A33-059")
def test_a_process_may_die_at_any_write_of_a_workflow_or_of_its_children() -> None:
    graphs = effort(12, 60)
    crashes = sum(crash_everywhere(seed, stride=effort(13, 4)) for seed in range(graphs))
    report("crashes of workflows and their children simulated", crashes)
    assert crashes > 25 * graphs


@pytest.mark.proves("A33-059")
def test_many_processes_answers_signals_and_crashes_change_nothing() -> None:
    histories = effort(60, 1_000)
    seen = [meddle(seed) for seed in range(histories)]
    report("histories of workflows with several processes simulated", histories)
    assert sum(len(lives.store.logs) - 1 for lives in seen) > histories // 2, "runs that work for others"
    assert sum(lives.deaths for lives in seen) > histories
    ends = Counter(fold(ROOT, lives.store.logs[ROOT]).status for lives in seen)
    assert ends[RunStatus.COMPLETED]
    assert ends[RunStatus.CANCELLED]
