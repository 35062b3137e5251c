"""The real engine against a hostile world: random answers, random crashes at every point, second drivers, cancels.

The world is the witness: it counts what was really done, outside the log. Every seed is a different history.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_fabric.application.ports.runs import APPROVAL, InboxRow, NewRun
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.errors import (
    ContextExceeded,
    DriverConflict,
    FabricError,
    ModelAnswerUnusable,
    ModelBusy,
    ModelRefused,
    RunHeld,
)
from agent_fabric.domain.events import Event, ModelAnswered, PackStarted, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, RunId, SpecialistId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.evolve import evolve, fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Budget, RunStatus, Task, TaskForceMode
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def
from agent_fabric.testing.fakes import MemoryRuns, PermissivePolicy
from agent_fabric.testing.workbench import SETTINGS, Answer, BuildPack, Workbench, workbench
from effort import effort, report

RUN = RunId("run-0")
MAX_STEPS = 12
HISTORIES = effort(300, 10_000)
FINISH = make_finish_tool_def({"summary": {"type": "string"}}, needs_proof=True)


class Died(BaseException):
    """The process was killed."""


Key = tuple[str, int, str]
"""A tool call: whose, in which turn, and its id."""


@dataclass
class World:
    """Chance, and what really happened."""

    seed: int
    rng: random.Random = field(init=False)
    dead: bool = False
    lives: int = 0
    effects: Counter[Key] = field(default_factory=Counter)
    """How often the tool behind each call really ran."""
    after_finish: list[str] = field(default_factory=list)
    durable_results: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    @property
    def packs(self) -> tuple[str, ...]:
        """One specialist, or a task force."""
        return ("one", "two", "three")[: (1, 1, 2, 3)[self.seed % 4]]

    @property
    def mode(self) -> TaskForceMode:
        return TaskForceMode.PARALLEL if self.seed % 8 > 3 else TaskForceMode.SEQUENTIAL

    @property
    def asks(self) -> frozenset[str]:
        """Tools that a person has to agree to."""
        return frozenset({"send", "change"}) if self.seed % 3 == 0 else frozenset()

    async def answer(self, runs: MemoryRuns) -> None:
        """Let people answer what the run has asked: sensibly or not, several at once, some too late."""
        asked = [event.body for event in runs.logs[RUN] if isinstance(event.body, ApprovalRequested)]
        for question in asked[-3:]:
            if self.rng.random() < 0.5:
                decision = self.rng.choice((Decision.APPROVE, Decision.APPROVE, Decision.DENY, Decision.DONE))
                once = decision is not Decision.APPROVE or self.rng.random() < 0.8
                payload = {
                    "approval_id": question.approval_id,
                    "decision": decision,
                    "by": "simulation",
                    "reach": Reach.ONCE if once else Reach.RUN,
                    "args": {"n": 7} if decision is Decision.APPROVE and once and self.rng.random() < 0.2 else None,
                }
                await runs.post(RUN, APPROVAL, payload)

    async def pass_time(self) -> None:
        """Let others do something meanwhile."""
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)

    def may_die(self, chance: float) -> None:
        # Everybody lives long enough in the end, so that every run can settle.
        if self.lives < 12 and self.rng.random() < chance:
            self.dead = True
        if self.dead:
            raise Died


class MortalRuns(MemoryRuns):
    """The store survives; whoever writes to it may die before or after it did."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def append(
        self, run_id: RunId, events: Sequence[Event], consumed: Sequence[InboxRow], children: Sequence[NewRun] = ()
    ) -> None:
        self.world.may_die(0.03)
        super().append(run_id, events, consumed, children)
        for event in events:
            if isinstance(event.body, ToolReturned | ToolErred):
                assert event.lane is not None
                turn = _turn(self.logs[run_id][: event.seq], event.lane)
                self.world.durable_results.add((event.lane, turn, event.body.call_id))
        self.world.may_die(0.03)


def _turn(log: Sequence[Event], lane: str) -> int:
    return sum(isinstance(event.body, ModelAnswered) and event.lane == lane for event in log)


def packs_of(world: World, runs: MemoryRuns) -> dict[str, BuildPack]:
    return {name: lambda _, name=name: pack_of(name, world, runs) for name in world.packs}  # type: ignore[misc]  # mypy cannot infer the default


def pack_of(who: str, world: World, runs: MemoryRuns) -> BaseSpecialistPack:
    async def act(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        world.may_die(0.03)
        await world.pass_time()
        key = (who, _turn(runs.logs[RUN], who), context.call_id)
        if key in world.durable_results:
            world.after_finish.append(f"{key} ran after its result was durable")
        world.effects[key] += 1
        await world.pass_time()
        world.may_die(0.03)
        roll = world.rng.random()
        if roll < 0.1:
            raise PermissionError("outside the box")
        if roll < 0.2:
            raise ValueError("a tool's own error")
        return ToolResult(
            output={"ok": True, "args": dict(args)}, changed=roll < 0.5, proved="pytest" if roll > 0.8 else ""
        )

    def tool(name: str, effect: Effect) -> ToolSpec:
        return make_tool_def(name, name, {"n": {"type": "integer"}}, effect=effect)

    return BaseSpecialistPack(
        system_prompt="You are simulated.",
        tools=[
            (tool("look", Effect.READS), act),
            (tool("put", Effect.IDEMPOTENT), act),
            (tool("change", Effect.CHANGES_WORKSPACE), act),
            (tool("send", Effect.LEAVES_SANDBOX), act),
        ],
        finish=FINISH,
    )


def answer_of(world: World) -> Answer:
    async def answer(messages: Sequence[Message]) -> LLMResponse:
        require_valid(messages)
        await world.pass_time()
        world.may_die(0.05)
        rng = world.rng
        roll = rng.random()
        if roll < 0.03:
            raise ModelBusy("503", retry_after_s=0.0)
        if roll < 0.06:
            raise ModelAnswerUnusable("garbage")
        if roll < 0.065:
            raise ModelRefused("400")
        if roll < 0.08:
            raise ContextExceeded("too long")
        if roll < 0.12:
            return LLMResponse(content="  ", usage=Usage(10, 1))
        if roll < 0.17:
            return LLMResponse(content="Here is what I would do.", usage=None)
        calls = tuple(random_call(rng, index) for index in range(rng.choice((1, 1, 1, 2, 3))))
        return LLMResponse(content="", tool_calls=calls, usage=Usage(rng.randrange(900), 5))

    return answer


def random_call(rng: random.Random, index: int) -> ToolCallRequest:
    name = rng.choice(("look", "put", "change", "change", "send", "nonsense", "finish_task", "finish_task"))
    if name == "finish_task":
        arguments = rng.choice(('{"summary": "done"}', "{}", "not json", '{"summary": 7}'))
    else:
        arguments = rng.choice((json.dumps({"n": rng.randrange(3)}), '{"n": "x"}', "[", "", '{"n": 1, "n": 2}'))
    return ToolCallRequest(CallId(f"call_{index}"), name, arguments)


def require_valid(messages: Sequence[Message]) -> None:
    """Every call has exactly one answer before anything else is said; the opening never changes."""
    assert [message.role for message in messages[:2]] == [Role.SYSTEM, Role.USER]
    assert messages[0].content == "You are simulated."
    assert messages[1].content.startswith("do it")
    open_calls: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.call_id is not None
            open_calls.remove(message.call_id)
        else:
            assert open_calls == []
            open_calls = [call.call_id for call in message.tool_calls]
    assert open_calls == []


async def live(seed: int) -> tuple[World, MortalRuns]:
    """Drive one run through as many lives as it takes."""
    world = World(seed)
    runs = MortalRuns(world)
    settings = SETTINGS if seed % 3 else replace(SETTINGS, context_window=1_000)

    def born() -> Workbench:
        return workbench(
            packs_of(world, runs), answer_of(world), runs=runs, settings=settings, policy=PermissivePolicy(world.asks)
        )

    bench, status = born(), RunStatus.RUNNING
    while not status.settled:
        assert world.lives < 120, f"seed {seed}: the run never settles"
        work = bench.resume_run(RUN, by="person") if runs.logs.get(RUN) else bench.execute_task(_task(world))
        task = asyncio.ensure_future(work)
        await _meddle(world, bench.resume_run, bench.runs, task)
        world.lives += 1
        world.dead = False
        runs.kill_driver(RUN)
        if not runs.logs.get(RUN):
            runs.logs.pop(RUN, None)
            bench = born()
            continue
        status = fold(RUN, runs.logs[RUN]).status
        if status is RunStatus.WAITING:
            await world.answer(runs)
            bench.clock.time += world.rng.choice((0, 0, 0, 25 * 3600))  # nobody answers in time
    return world, runs


def _task(world: World) -> Task:
    budget = Budget(max_steps=MAX_STEPS, max_tokens=20_000 if world.seed % 5 else 3_000)
    return Task(
        prompt="do it",
        specialist_ids=tuple(map(SpecialistId, world.packs)),
        task_force_mode=world.mode,
        model_key="quality",
        budget=budget,
    )


async def _meddle(world: World, resume: ResumeRun, runs: MemoryRuns, task: "asyncio.Future[Any]") -> None:
    """Wait for a life to end, by itself or not, while others try to interfere."""
    while not task.done():
        await asyncio.sleep(0)
        roll = world.rng.random()
        if world.dead:
            task.cancel()
        elif roll < 0.02 and runs.logs.get(RUN):
            await world.answer(runs)
        elif roll < 0.022 and RUN in runs.logs:
            await runs.post(RUN, "cancel", {"by": "simulation", "reason": ""})
        elif roll < 0.03 and runs.logs.get(RUN):
            with suppress(RunHeld, Died):  # while the first driver lives, a second one is always refused
                held = RUN in runs.held
                await resume(RUN)
                assert not held or _settled(runs)
        elif roll < 0.032 and runs.logs.get(RUN) and not _settled(runs):
            log = runs.logs[RUN]
            with pytest.raises(DriverConflict):  # somebody with an old idea of the log
                MemoryRuns.append(runs, RUN, (log[-1],), ())
        elif roll < 0.04:
            task.cancel()
    with suppress(Died, asyncio.CancelledError, FabricError):
        await task


def _settled(runs: MemoryRuns) -> bool:
    return fold(RUN, runs.logs[RUN]).status.settled


def require_invariants(world: World, runs: MortalRuns) -> None:
    log = runs.logs[RUN]
    assert [event.seq for event in log] == list(range(len(log))), "prefix-closed"
    assert world.after_finish == [], "a finished step ran again"
    state = fold(RUN, log)
    assert state.status.settled
    assert all(lane.answers <= MAX_STEPS for lane in state.lanes.values())
    require_agreement(world, log)
    specs = {"look": 99, "put": 99, "change": 1, "send": 1}
    turns: Counter[str] = Counter()
    names: dict[Key, str] = {}
    for event in log:
        lane = event.lane or ""
        turns[lane] += isinstance(event.body, ModelAnswered)
        if isinstance(event.body, ToolCalled):
            names[lane, turns[lane], event.body.call_id] = event.body.tool
    again = Counter(_answered(log, Question.DID_IT_HAPPEN, Decision.APPROVE))
    for key, count in world.effects.items():
        assert count <= specs[names[key]] + again[key], f"{names[key]} ran {count} times"
    if state.status is RunStatus.COMPLETED:
        assert state.payload is not None
        assert log[-1].body.kind == "run_complete"
    require_nobodys_work_lost(state, log)
    one, other = RunState(RUN), RunState(RUN)
    for event in log:  # every prefix is a state of its own, and folding is the same every time
        evolve(one, event)
        evolve(other, event)
        assert event.seq % 7 or one == other
    assert one == other == state


def require_agreement(world: World, log: Sequence[Event]) -> None:
    """What a person had to agree to ran only if one did, and an agreement to one call was used for one call."""
    agreed = {
        event.body.approval_id: event.body
        for event in log
        if isinstance(event.body, ApprovalDecided) and event.body.decision is Decision.APPROVE
    }
    used: dict[str, set[Key]] = {}
    for key, called in _calls_under_way(log, world.asks):
        assert called.approval_id in agreed, f"{called.tool} ran without agreement"
        used.setdefault(called.approval_id, set()).add(key)
    for approval_id, keys in used.items():
        assert len(keys) == 1 or agreed[approval_id].reach is Reach.RUN, f"{approval_id} was used for {keys}"
    refused = [
        key for decision in (Decision.DENY, Decision.EXPIRED) for key in _answered(log, Question.MAY_IT_RUN, decision)
    ]
    assert not any(world.effects[key] for key in refused), "what was refused ran all the same"


def _calls_under_way(log: Sequence[Event], tools: frozenset[str]) -> list[tuple[Key, ToolCalled]]:
    """The calls of these tools that were about to run; those refused before carry no rule."""
    turns: Counter[str] = Counter()
    found: list[tuple[Key, ToolCalled]] = []
    for event in log:
        lane = event.lane or ""
        turns[lane] += isinstance(event.body, ModelAnswered)
        if isinstance(event.body, ToolCalled) and event.body.tool in tools and event.body.rule:
            found.append(((lane, turns[lane], event.body.call_id), event.body))
    return found


def _answered(log: Sequence[Event], question: Question, decision: Decision) -> list[Key]:
    turns: Counter[str] = Counter()
    asked: dict[str, Key] = {}
    found = []
    for event in log:
        lane = event.lane or ""
        turns[lane] += isinstance(event.body, ModelAnswered)
        match event.body:
            case ApprovalRequested() as body if body.question is question:
                asked[body.approval_id] = (lane, turns[lane], body.call_id)
            case ApprovalDecided() as body if body.decision is decision and body.approval_id in asked:
                found.append(asked[body.approval_id])
            case _:
                pass
    return found


def require_nobodys_work_lost(state: RunState, log: Sequence[Event]) -> None:
    starts = Counter(event.body.specialist_id for event in log if isinstance(event.body, PackStarted))
    assert set(starts.values()) <= {1}, "nobody begins twice"
    finished = [lane.specialist_id for lane in state.lanes.values() if lane.payload is not None]
    if len(state.specialist_ids) > 1 and state.status in (RunStatus.COMPLETED, RunStatus.FAILED) and finished:
        assert state.payload is not None
        assert list(state.payload["specialists"]) == [who for who in state.specialist_ids if who in finished]
    if state.status is RunStatus.COMPLETED:
        assert sorted(finished) == sorted(state.specialist_ids)
        assert not state.failed


async def _all(seeds: range) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in seeds:
        try:
            world, runs = await live(seed)
            require_invariants(world, runs)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise
        ends[fold(RUN, runs.logs[RUN]).status] += 1
        ends["crashes"] += world.lives - 1
        ends["incomplete"] += getattr(runs.logs[RUN][-1].body, "code", "") == "task_force_incomplete"
    return ends


@pytest.mark.proves("AF-134", "A33-059", "FC-024")
async def test_hundreds_of_histories_keep_every_promise() -> None:
    ends = await _all(range(HISTORIES))
    report("histories of runs simulated", HISTORIES)
    assert ends["crashes"] > HISTORIES // 2, ends
    assert all(ends[status] > HISTORIES // 50 for status in ("completed", "failed", "cancelled", "incomplete")), ends
