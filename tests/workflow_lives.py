"""The real driver on workflows in a hostile world: processes that die at any write, others that drive the same runs.

Several processes share one store in memory. Each may die before or after anything becomes durable, or in the middle of
a tool; its locks are free then, and what it left undone stays undone. The tools are the witness: they count what was
really done, outside the log.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from agent_fabric.application.ports.runs import APPROVAL, CANCEL, SIGNAL, HeldLog, InboxRow, NewRun
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.application.workflows.child_runs import ChildRuns
from agent_fabric.application.workflows.perform_step import PerformStep
from agent_fabric.application.workflows.step_tasks import StepTasks
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.errors import DefinitionNotFound, DriverConflict, FabricError, RunHeld, RunNotFound
from agent_fabric.domain.events import Event, RunCreated, RunWaited, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.models.messages import LLMResponse, Message
from agent_fabric.domain.packs.contents import STEPS
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Budget, Profile, RunStatus, Task
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.domain.workflows.events import StepFinished, StepStarted
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def
from agent_fabric.testing.fakes import MemoryRuns, PermissivePolicy
from agent_fabric.testing.workbench import Workbench, workbench
from workflow_graphs import Graph, Plain

ROOT = RunId("run-0")
CAREFUL = "careful"
"""The tool that a person has to agree to."""
MAX_DEATHS = 25
MAX_ROUNDS = 400
DAY_S = 24 * 3600.0

LEAF: Plain = {
    "name": "leaf",
    "version": "1.0.0",
    "inputs": {"x": "integer", "base": "integer"},
    "outputs": {"v": {"type": "integer", "value": "{{ deep.v }}"}},
    "steps": [{"id": "deep", "action": "work", "inputs": {"x": "{{ inputs.x }}", "base": "{{ inputs.base }}"}}],
}


def other(seed: int) -> Plain:
    """Return the workflow that does the work of steps: one that just works, or one that waits for something."""
    work = {"id": "w", "action": "work", "inputs": {"x": "{{ inputs.x }}", "base": "{{ inputs.base }}"}}
    then: tuple[Plain, ...] = (
        (),
        ({"id": "nap", "action": "wait", "inputs": {"seconds": 1}, "depends_on": ["w"]},),
        ({"id": "ok", "action": "approve", "inputs": {"message": "ok?"}, "depends_on": ["w"]},),
        ({"id": "go", "action": "wait", "inputs": {"event": "go"}},),
        ({"id": "leaf", "action": "workflow", "workflow": "leaf", "inputs": work["inputs"]},),
    )[seed % 5]
    return {
        **LEAF,
        "name": "other",
        "outputs": {"v": {"type": "integer", "value": "{{ w.v }}"}},
        "steps": [work, *then],
    }


class Died(BaseException):
    """The process was killed."""


@dataclass(frozen=True)
class Book:
    """WorkflowCatalogue over definitions, and AgentCatalogue without any."""

    definitions: Mapping[str, Plain]

    def get(self, name: str) -> SoundWorkflow:
        plain = self.definitions[name]
        return SoundWorkflow(plain=plain, definition=definition_from(plain), source=name)

    def plain(self, name: str) -> Plain:
        raise DefinitionNotFound(f"There is no agent {name!r}")


@dataclass
class Lives:
    """A workflow, the store that survives, and what really happened."""

    graph: Graph
    seed: int
    deaths_at: frozenset[int] = frozenset()
    """Numbers of the moments at which a process dies, for certain."""
    chance: float = 0.0
    """How likely it is to die at any other moment."""
    served: bool = False
    """A server drives what is to be driven, as it finds out by itself; otherwise a person goes on with the root."""
    meddled: bool = False
    """Others drive the same runs, answer twice, and send signals at any time."""
    cancelled: bool = False
    """Somebody ends it at some point."""
    by_witness: bool = False
    """Whoever is asked what became of a step tells what is true; otherwise it shall run again."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.store = MemoryRuns()
        self.time = 1_000_000.0
        self.moments = 0
        self.deaths = 0
        self.effects: Counter[tuple[RunId, str]] = Counter()
        """How often the tool behind each call really ran."""
        self.wrong: list[str] = []
        self.unsent = [(ROOT, name) for name in self.graph.signals * 3]
        self.sent = 0
        self.book = Book({"other": other(self.seed), "leaf": LEAF})

    async def live(self) -> RunState:
        """Let processes come and go until the workflow has ended; return where it stands."""
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the dead have many
        for _ in range(MAX_ROUNDS):
            todo = self._to_be_driven()
            if todo is None:
                break
            if not todo:
                await self._let_something_happen(at_last=True)
                continue
            processes = [Process(self) for _ in todo]
            works = [
                asyncio.ensure_future(process.go_on(run_id)) for process, run_id in zip(processes, todo, strict=True)
            ]
            await self._see(works, processes)
            self.time = max(self.time, *(process.bench.clock.time for process in processes))
            if self.store.logs.get(ROOT):
                await self._let_something_happen()
        else:
            raise AssertionError("it never ends")
        return self.state(ROOT)

    def state(self, run_id: RunId) -> RunState:
        return fold(run_id, self.store.logs[run_id])

    def _to_be_driven(self) -> list[RunId] | None:
        """Return the runs that processes are started for now; None: everything has ended."""
        logs = self.store.logs
        if not logs.get(ROOT):
            return [ROOT]
        states = {run_id: self.state(run_id) for run_id in logs}
        left = [run_id for run_id, state in states.items() if not state.status.settled]
        if not left:
            return None
        if ROOT not in left or self.served:
            return [run_id for run_id in left if self._is_woken(states[run_id])][:4]
        more = [self.rng.choice(left)] if self.meddled and self.rng.random() < 0.4 else []
        return [ROOT, *more]

    def _is_woken(self, state: RunState) -> bool:
        """Tell whether a server would go on with a run by itself, or a person with one that it left to them."""
        if state.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
            return True
        if state.status is not RunStatus.WAITING:
            return False
        last = self.store.logs[state.run_id][-1].body
        until = last.until if isinstance(last, RunWaited) else None
        expired = any(asked.expires_at <= self.time for asked in state.asked)
        return bool(self.store.unread(state.run_id, 0)) or (until is not None and until <= self.time) or expired

    async def _see(self, works: "Sequence[asyncio.Future[Any]]", processes: "Sequence[Process]") -> None:
        """Wait until every process has ended, while others interfere."""
        while not all(work.done() for work in works):
            await asyncio.sleep(0)
            for work, process in zip(works, processes, strict=True):
                if process.dead:
                    work.cancel()
            if self.meddled and self.rng.random() < 0.05 and self.store.logs.get(ROOT):
                await self._meddle()
        for work, process in zip(works, processes, strict=True):
            with suppress(Died, asyncio.CancelledError, FabricError):
                await work
            process.dead = True
            self.store.held -= process.mine
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _meddle(self) -> None:
        roll = self.rng.random()
        if roll < 0.5:
            await self._send()
        elif roll < 0.9:
            await self._answer(self.rng.choice(list(self.store.logs)))
        elif self.cancelled:
            await self.store.post(ROOT, CANCEL, {"by": "simulation", "reason": ""})
        else:
            log = self.store.logs[ROOT]
            with suppress(DriverConflict):  # somebody with an old idea of the log
                self.store.append(ROOT, (log[-1],), ())
                self.wrong.append("an old driver could append")

    async def _let_something_happen(self, *, at_last: bool = False) -> None:
        """Let people answer and time pass; `at_last` nothing else goes on, so something must."""
        if at_last and not self.unsent and not self._answerable():
            moment = min(self._moments(), default=None)
            assert moment is not None, "nobody will ever go on with what is left"
            self.time = max(self.time, moment)
        for run_id in list(self.store.logs):
            if at_last or not self.meddled or self.rng.random() < 0.6:
                await self._answer(run_id)
        if at_last or self.rng.random() < 0.7:
            await self._send()
        for run_id in self.store.logs:
            created = self.store.logs[run_id][0].body
            listens = isinstance(created, RunCreated) and created.parent and not self._sent_go(run_id)
            if listens and self.seed % 5 == 3 and not self.state(run_id).status.settled:
                self.unsent.append((run_id, "go"))
        if self.rng.random() < 0.5:
            self.time += self.rng.choice((0.1, 1.0, 3.0))
        if self.cancelled and self.rng.random() < 0.1:
            await self.store.post(ROOT, CANCEL, {"by": "simulation", "reason": ""})

    def _answerable(self) -> bool:
        return any(self.state(run_id).asked for run_id in self.store.logs)

    def _moments(self) -> list[float]:
        last = [log[-1].body for log in self.store.logs.values()]
        return [body.until for body in last if isinstance(body, RunWaited) and body.until is not None]

    def _sent_go(self, run_id: RunId) -> bool:
        posted = any(row.kind == SIGNAL for row in self.store.unread(run_id, 0))
        heard = any(event.body.kind == "signal_received" for event in self.store.logs[run_id])
        return posted or heard or (run_id, "go") in self.unsent

    async def _send(self) -> None:
        if self.unsent:
            run_id, name = self.unsent.pop(self.rng.randrange(len(self.unsent)))
            self.sent += 1
            with suppress(RunNotFound):
                await self.store.post(run_id, SIGNAL, {"name": name, "data": {"n": self.sent}, "by": "simulation"})

    async def _answer(self, run_id: RunId) -> None:
        """Let a person answer what a run has asked, or asked earlier."""
        log = self.store.logs[run_id]
        asked = [(event.lane, event.body) for event in log if isinstance(event.body, ApprovalRequested)]
        answered = {event.body.approval_id for event in log if isinstance(event.body, ApprovalDecided)}
        for lane, body in asked:
            again = self.meddled and self.rng.random() < 0.1  # too late, or twice
            if body.approval_id not in answered or again:
                assert lane is not None
                decision = self._decision(run_id, lane, body)
                if decision is not None:
                    payload = {"approval_id": body.approval_id, "decision": decision, "by": "simulation"}
                    await self.store.post(run_id, APPROVAL, payload)

    def _decision(self, run_id: RunId, lane: LaneId, asked: ApprovalRequested) -> Decision:
        if asked.question is not Question.DID_IT_HAPPEN:
            return self.graph.answer(asked, lane).decision if run_id == ROOT else Decision.APPROVE
        happened = self.by_witness and self.effects[run_id, asked.call_id]
        return Decision.DONE if happened else Decision.APPROVE

    def is_wanted(self, run_id: RunId) -> bool:
        """Tell whether a run works for nobody, or for a step that still waits for it."""
        log = self.store.logs.get(run_id)
        created = log[0].body if log else None
        if not isinstance(created, RunCreated) or created.parent is None:
            return True
        above = self.state(created.parent.run_id)
        assert above.workflow is not None
        return not above.status.settled and above.workflow.lane_of_child(run_id) is not None

    def place_of(self, run_id: RunId) -> tuple[LaneId, int] | None:
        """Return the step of the root that a run works for, and the attempt."""
        for event in self.store.logs[ROOT]:
            if isinstance(event.body, StepStarted) and event.body.child_run_id == run_id and event.lane is not None:
                return event.lane, event.body.attempt
        return None


@dataclass(eq=False)
class Process:
    """One process: its own use cases on the store that all share."""

    lives: Lives
    dead: bool = False
    mine: set[RunId] = field(default_factory=set)
    """The runs whose locks it has."""
    unwanted: set[RunId] = field(default_factory=set)
    """Those that nobody needed any more when it took them."""
    store: "type[Mortal] | None" = None
    """How it sees the store; by default as it is."""

    async def go_on(self, run_id: RunId) -> None:
        """Begin the workflow, or go on with a run of it."""
        if not self.lives.store.logs.get(ROOT):
            self.lives.store.logs.pop(ROOT, None)
            await self.bench.execute_task(self._task())
            return
        person = not self.lives.served or self.lives.state(run_id).status is RunStatus.INTERRUPTED
        await self._resume(run_id, by="person" if person else "server")

    def moment(self) -> None:
        """Live through a moment at which the process may die."""
        lives = self.lives
        if not self.dead and lives.deaths < MAX_DEATHS:
            lives.moments += 1
            if lives.moments in lives.deaths_at or lives.rng.random() < lives.chance:
                lives.deaths += 1
                self.dead = True
                lives.store.held -= self.mine
                self.mine.clear()
        if self.dead:
            raise Died

    @cached_property
    def bench(self) -> Workbench:
        bench = workbench(
            {STEPS: lambda _: self._pack()},
            _no_model,
            runs=(self.store or Mortal)(self),
            policy=PermissivePolicy(frozenset({CAREFUL})),
        )
        bench.clock.time = self.lives.time
        perform = replace(bench.execute_task.drive.perform, steps=lambda: self._steps)
        drive = replace(bench.execute_task.drive, perform=perform, patience_s=0.0, marks_interruption=False)
        return replace(bench, execute_task=replace(bench.execute_task, drive=drive))

    @cached_property
    def _resume(self) -> ResumeRun:
        return replace(self.bench.resume_run, drive=self.bench.execute_task.drive)

    @cached_property
    def _steps(self) -> PerformStep:
        bench = self.bench
        children = ChildRuns(
            runs=bench.runs,
            workspaces=bench.execute_task.workspaces,
            task_for=StepTasks(self.lives.book, self.lives.book),
            first_event=bench.execute_task.first_event,
            take=self._resume.take,
            drive=lambda taken: bench.execute_task.drive(*taken),
            cancel_run=bench.cancel_run,
        )
        perform = bench.execute_task.drive.perform
        return PerformStep(registry=perform.registry, invoke_tool=perform.invoke_tool, children=children)

    def _task(self) -> Task:
        plain = self.lives.graph.plain
        workflow = SoundWorkflow(plain=plain, definition=definition_from(plain), source="")
        like = Task(prompt="", model_key="quality", budget=Budget.of(Profile.TASK))
        return StepTasks(self.lives.book, self.lives.book).of_workflow(workflow, {}, like)

    def _pack(self) -> BaseSpecialistPack:
        def tool(name: str) -> Any:
            spec = make_tool_def(name, name, {}, effect=Effect.CHANGES_WORKSPACE)
            return replace(spec, parameters={"type": "object"})

        return BaseSpecialistPack(
            system_prompt="",
            tools=[(tool(name), self._act) for name in ("work", "shell", CAREFUL)],
            finish=make_finish_tool_def({"summary": {"type": "string"}}),
        )

    async def _act(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        lives, run_id = self.lives, context.run_id
        lane, _, attempt = context.call_id.rpartition("#")
        self.moment()
        await self.pass_time()
        self._require_wanted(run_id, lane)
        lives.effects[run_id, context.call_id] += 1
        await self.pass_time()
        self.moment()
        place = lives.place_of(run_id) if run_id != ROOT and lane == "w" else (LaneId(lane), int(attempt))
        if run_id != ROOT and lane != "w":
            return ToolResult(output={"v": args["x"] + args["base"]})
        assert place is not None
        gave = lives.graph.script(*place, args)
        if gave.error_type:
            raise ValueError(gave.error)
        return ToolResult(output=dict(gave.output))

    def _require_wanted(self, run_id: RunId, lane: str) -> None:
        """Check that the call which runs now is durable, and that nothing has come of it yet."""
        if self.dead:
            raise Died
        if run_id in self.unwanted:
            self.lives.wrong.append(f"{run_id} {lane} ran for a step that had ended")
        kinds = (ToolCalled, ToolReturned, ToolErred, StepFinished)
        log = [event.body for event in self.lives.store.logs[run_id] if event.lane == lane]
        last = next((body for body in reversed(log) if isinstance(body, kinds)), None)
        if not isinstance(last, ToolCalled):
            self.lives.wrong.append(f"{run_id} {lane} ran behind {type(last).__name__}")

    async def pass_time(self) -> None:
        """Let others do something meanwhile."""
        for _ in range(self.lives.rng.randrange(3)):
            await asyncio.sleep(0)


class Mortal(MemoryRuns):
    """The store, as one process sees it."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process
        vars(self).update(vars(process.lives.store))

    def append(
        self, run_id: RunId, events: Sequence[Event], consumed: Sequence[InboxRow], children: Sequence[NewRun] = ()
    ) -> None:
        self.process.moment()
        super().append(run_id, events, consumed, children)
        self.process.moment()

    async def take(self, run_id: RunId) -> HeldLog:
        if self.process.dead:
            raise Died
        try:
            taken = await super().take(run_id)
        except RunHeld:
            await self.process.pass_time()  # others need a while to find out
            raise
        self.process.mine.add(run_id)
        if not self.process.lives.is_wanted(run_id):
            self.process.unwanted.add(run_id)
        return taken

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        await self.process.pass_time()
        return await super().read(run_id, after=after)

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        self.process.moment()
        await super().post(run_id, kind, payload)
        self.process.moment()

    def kill_driver(self, run_id: RunId) -> None:
        if run_id in self.process.mine:  # the dead free nothing that somebody else has taken since
            self.process.mine.discard(run_id)
            super().kill_driver(run_id)


async def _no_model(messages: Sequence[Message]) -> LLMResponse:
    raise AssertionError(f"nobody needs a model here: {messages}")
