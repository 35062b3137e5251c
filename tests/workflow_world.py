"""A world in memory that a workflow can be driven in: who answers what, in which order, and when everything crashes."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    Body,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.actions import Record
from agent_fabric.domain.workflows.actions import (
    AskAboutStep,
    AskPerson,
    CallStepTool,
    RunChild,
    StopStep,
    Wait,
)
from agent_fabric.domain.workflows.decide import decide_workflow
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.domain.workflows.events import ChildFinished, SignalReceived, StepFinished, StepStarted
from agent_fabric.domain.workflows.evolve import evolve_workflow, initial_workflow_state
from agent_fabric.domain.workflows.result import result_of_workflow
from agent_fabric.domain.workflows.state import WorkflowState

RUN = RunId("11111111-1111-1111-1111-111111111111")


class Crashed(Exception):
    """The program was killed."""


@dataclass(frozen=True)
class Gave:
    """What a tool, a child or a person answers."""

    output: Mapping[str, Any] = field(default_factory=dict)
    error_type: str = ""
    error: str = ""
    decision: Decision = Decision.APPROVE


Script = Callable[[LaneId, int, Mapping[str, Any]], Gave]
"""What comes of a lane's attempt with these arguments."""


def worked(_: LaneId, __: int, args: Mapping[str, Any]) -> Gave:
    return Gave({"exit_code": 0, "stdout": "", "stderr": ""} if "command" in args else dict(args))


@dataclass
class World:
    """Drives one workflow, alone, in an order that chance decides."""

    plain: Mapping[str, Any]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    script: Script = worked
    asks: frozenset[str] = frozenset()
    """Steps whose tools need a person's agreement."""
    answers: Callable[[ApprovalRequested, LaneId], Gave | None] = lambda _, __: Gave()
    seed: int = 0
    exclusive: frozenset[str] = frozenset()
    crash_at: frozenset[int] = frozenset()
    """Numbers of events right after which the program is killed."""
    signals: tuple[str, ...] = ()
    """Names that somebody sends, early or late."""
    patient: bool = False
    """Time passes only when nothing else can happen."""
    waits_for_nobody: bool = False
    """Stop when only somebody outside could move it on."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.now = 1_000.0
        self.log: list[Event] = []
        self.flights: dict[LaneId, tuple[CallStepTool | RunChild, int]] = {}
        self.effects: Counter[tuple[LaneId, int]] = Counter()
        self.most_at_once = 0
        self.unsent = list(self.signals)
        self.definition = definition_from(self.plain)
        self.decisions = 0
        self.crashes = 0
        self.waited: Wait | None = None
        self.wf = self.folded(())

    def folded(self, events: Sequence[Event]) -> WorkflowState:
        wf = initial_workflow_state(self.definition, self.inputs, RUN, self.exclusive)
        for event in events:
            evolve_workflow(wf, event)
        return wf

    # -- what drives

    def run(self) -> dict[str, Any]:
        """Drive until it ends, through all crashes; return the final payload."""
        crashed = False
        while True:
            try:
                if crashed:
                    self.record(None, RunResumed(by="person", driver="test"))
                self._drive()
                break
            except Crashed:
                crashed = True
                self.crashes += 1
                self.flights.clear()
                self.now += self.rng.choice((0.0, 5.0))
                self.wf = self.folded(self.log)
        return result_of_workflow(self.wf)

    def _drive(self) -> None:
        for _ in range(200_000):
            for lane, fired in self.wf.due(self.now):
                self.record(lane, fired)
            action = self._next()
            if self.wf.ended:
                return
            if action is not None and not isinstance(action, Wait):
                self._perform(action)
            elif not self._let_something_happen():
                self.waited = action if isinstance(action, Wait) else None
                return
        raise AssertionError("it never ends")

    def _next(self) -> Any:
        self.decisions += 1
        for action in decide_workflow(self.wf):
            if isinstance(action, StopStep) or action.lane is None or action.lane not in self.flights:
                return action
        return None

    def record(self, lane: LaneId | None, *bodies: Body) -> None:
        for body in bodies:
            event = Event(len(self.log), self.now, lane, "", body)
            self.log.append(event)
            evolve_workflow(self.wf, event)
            if event.seq in self.crash_at:
                raise Crashed

    def _perform(self, action: Any) -> None:
        match action:
            case Record():
                self.record(action.lane, *action.bodies)
            case CallStepTool():
                self._call(action)
            case RunChild():
                self.flights[action.lane] = (action, action.started.attempt)
                if not action.begun:
                    self.record(action.lane, action.started)
            case AskPerson():
                before = () if action.started is None else (action.started,)
                self.record(action.lane, *before, self._question(action.lane, "approve", Question.MAY_IT_RUN))
            case AskAboutStep():
                self.record(action.lane, self._question(action.lane, action.call.tool, Question.DID_IT_HAPPEN))
            case StopStep():
                self.flights.pop(action.lane, None)
                self.record(action.lane, action.ended)
            case _:
                raise AssertionError(action)
        self.most_at_once = max(self.most_at_once, len(self.flights))

    def _call(self, action: CallStepTool) -> None:
        before = () if action.started is None else (action.started,)
        decided = self.wf.steps[action.lane].decided if action.started is None else None
        if action.step.id in self.asks and (decided is None or decided.decision is not Decision.APPROVE):
            self.record(action.lane, *before, self._question(action.lane, action.call.tool, Question.MAY_IT_RUN))
            return
        args = json.loads(action.call.arguments)
        called = ToolCalled(tool=action.call.tool, args=args, call_id=action.call.call_id)
        self.flights[action.lane] = (action, action.attempt)
        self.record(action.lane, *before, called)

    def _question(self, lane: LaneId, tool: str, question: Question) -> ApprovalRequested:
        return ApprovalRequested(
            approval_id=f"{lane}/{len(self.log)}",
            call_id=lane,  # type: ignore[arg-type]  # only a text
            tool=tool,
            args={},
            question=question,
            reason="",
            rule="",
            subject="",
            alike="",
            agent="",
            target="",
            sandbox="",
            untrusted=(),
            policy_version="",
            binding="",
            args_hash="",
            expires_at=self.now + 1e9,
        )

    # -- what happens outside

    def _let_something_happen(self) -> bool:
        """Let one thing happen that the workflow waits for; False: nothing can."""
        choices: list[Callable[[], None]] = [lambda lane=lane: self._land(lane) for lane in self.flights]  # type: ignore[misc]  # mypy cannot infer the default
        if not self.waits_for_nobody:
            choices += [lambda lane=lane: self._answer(lane) for lane in self.wf.questions]  # type: ignore[misc]  # as above
            choices += [lambda name=name: self._send(name) for name in self.unsent]  # type: ignore[misc]  # as above
        moment = self.wf.next_due
        if moment is not None and not (self.patient and choices):
            choices.append(lambda: setattr(self, "now", max(self.now, moment)))
        if not choices:
            return False
        self.now += self.rng.random() / 10
        self.rng.choice(choices)()
        return True

    def _land(self, lane: LaneId) -> None:
        action, attempt = self.flights.pop(lane)
        self.effects[lane, attempt] += 1
        if isinstance(action, RunChild):
            gave = self.script(lane, attempt, action.inputs)
            assert action.started.child_run_id is not None
            body: Body = ChildFinished(
                step_id=action.step.id,
                child_run_id=action.started.child_run_id,
                run_status="failed" if gave.error_type else "completed",
                payload=gave.output,
                error=gave.error,
                error_type=gave.error_type,
            )
        else:
            gave = self.script(lane, attempt, json.loads(action.call.arguments))
            tool, call_id = action.call.tool, action.call.call_id
            body = (
                ToolErred(tool=tool, error_type=gave.error_type, error_message=gave.error, call_id=call_id)
                if gave.error_type
                else ToolReturned(tool=tool, result=gave.output, call_id=call_id)
            )
        self.record(lane, body)

    def _answer(self, lane: LaneId) -> None:
        asked = self.wf.questions[lane].asked
        assert asked is not None
        gave = self.answers(asked, lane)
        if gave is not None:
            self.decide(lane, gave)

    def decide(self, lane: LaneId, gave: Gave) -> None:
        """Let a person answer what a step asks."""
        asked = self.wf.questions[lane].asked
        assert asked is not None
        self.record(
            lane,
            ApprovalDecided(
                approval_id=asked.approval_id, decision=gave.decision, by="someone", args=gave.output or None
            ),
        )

    def _send(self, name: str) -> None:
        self.unsent.remove(name)
        self.record(None, SignalReceived(name=name, data={"n": 1}, by="someone"))

    # -- what tests look at

    def bodies(self, *kinds: type) -> list[Any]:
        return [event.body for event in self.log if isinstance(event.body, kinds)]

    def started(self) -> list[LaneId]:
        return [event.lane for event in self.log if isinstance(event.body, StepStarted) and event.lane is not None]

    def finished(self) -> dict[LaneId, StepFinished]:
        return {event.lane: event.body for event in self.log if isinstance(event.body, StepFinished) and event.lane}

    def place(self, lane: str, kind: type) -> int:
        """Where in the log something happened to a step first."""
        return next(event.seq for event in self.log if event.lane == lane and isinstance(event.body, kind))

    @property
    def ending(self) -> RunCompleted | RunFailed | RunCancelled:
        body = self.log[-1].body
        assert isinstance(body, RunCompleted | RunFailed | RunCancelled)
        return body


def workflow(*steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a plain definition; keywords of `execution` may be given beside its own."""
    execution = {name: more.pop(name) for name in list(more) if name not in ("inputs", "outputs")}
    return {"name": "w", "version": "1.0.0", "steps": list(steps), "execution": execution, **more}


def step(name: str, action: str = "work", **more: Any) -> dict[str, Any]:
    return {"id": name, "action": action, **more}


def of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps' results by id."""
    return {each["step_id"]: each for each in result["step_results"]}


def again(world: World, **changes: Any) -> World:
    """Return the same world from its beginning, with something changed."""
    return replace(world, **changes)
