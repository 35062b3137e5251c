"""Stand-ins for ports, for tests of packs, adapters and use cases: no disk, no network, no waiting."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.application.ports.llm import ChosenModel, Notice, OnDelta
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.runs import CANCEL, CHILD, InboxRow, NewRun
from agent_fabric.domain.agents.brief import AgentBrief
from agent_fabric.domain.errors import DriverConflict, RecruitError, RunHeld, RunNotFound
from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.tools import ToolSpec
from agent_fabric.domain.workflow_events import StepFinished, StepRetried, StepStatus
from agent_fabric.domain.workflows.children import child_run_id


@dataclass(slots=True)
class FrozenClock:
    """Clock that moves only when it is told to, or by `tick` at each look."""

    time: float = 1_000_000.0
    tick: float = 0.0

    def now(self) -> float:
        self.time += self.tick
        return self.time

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


@dataclass(slots=True)
class CountingIds:
    """IdSource that counts."""

    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def new_run_id(self) -> RunId:
        return RunId(f"run-{next(self._numbers)}")


@dataclass(frozen=True, slots=True)
class PermissivePolicy:
    """Policy that allows every tool but the named ones."""

    asks: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    version: str = "testing"

    def judge(self, call: ProposedCall) -> Ruling:
        for names, verdict in ((self.blocks, Verdict.BLOCK), (self.asks, Verdict.ASK)):
            if call.tool in names:
                rule = f"{verdict.value}_{call.tool}"
                return Ruling(verdict, f"{call.tool} is not for everybody.", rule, call.tool, call.tool)
        return Ruling(Verdict.ALLOW, "Everything else is allowed.", "default", call.tool)


class MemoryRuns:
    """RunRepository in memory; keeps every promise of the port within one process."""

    def __init__(self) -> None:
        self.logs: dict[RunId, list[Event]] = {}
        self.held: set[RunId] = set()
        self._inboxes: dict[RunId, list[InboxRow]] = {}
        self._posted: dict[RunId, asyncio.Event] = {}
        self._row_ids = itertools.count(1)

    async def create(
        self, run_id: RunId, events: Sequence[Event], *, first: Callable[[], None] | None = None
    ) -> "MemoryHeldRun":
        if run_id in self.logs:
            raise DriverConflict(f"There is a run {run_id} already")
        if first is not None:
            first()
        self.logs[run_id] = []
        self._inboxes[run_id] = []
        held = await self.take(run_id)
        await held.append(events)
        return held

    async def take(self, run_id: RunId) -> "MemoryHeldRun":
        if run_id not in self.logs:
            raise RunNotFound(f"There is no run {run_id!r}")
        if run_id in self.held:
            raise RunHeld(f"Run {run_id} is being driven by another task")
        self.held.add(run_id)
        self._posted[run_id] = asyncio.Event()
        return MemoryHeldRun(self, run_id)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        if run_id not in self.logs:
            raise RunNotFound(f"There is no run {run_id!r}")
        return self.logs[run_id][after + 1 :]

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        if run_id not in self.logs:
            raise RunNotFound(f"There is no run {run_id!r}")
        self._put(run_id, kind, payload)

    def _put(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        self._inboxes[run_id].append(InboxRow(row_id=next(self._row_ids), kind=kind, payload=payload))
        if run_id in self._posted:
            self._posted[run_id].set()

    def kill_driver(self, run_id: RunId) -> None:
        """Free a run's lock, as the kernel does when its driver is killed."""
        self.held.discard(run_id)

    def append(
        self, run_id: RunId, events: Sequence[Event], consumed: Sequence[InboxRow], children: Sequence[NewRun] = ()
    ) -> None:
        """Append in one go; what the held run does."""
        log = self.logs[run_id]
        if events and events[0].seq != len(log):
            raise DriverConflict(f"Somebody else has appended to run {run_id}")
        for child in children:
            if child.run_id in self.logs:
                raise DriverConflict(f"There is a run {child.run_id} already")
            child.prepare()
            self.logs[child.run_id] = [child.created]
            self._inboxes[child.run_id] = []
        log.extend(events)
        self._inboxes[run_id] = [row for row in self._inboxes[run_id] if row not in consumed]
        created, settles = log[0].body, any(_settles(event) for event in events)
        if isinstance(created, RunCreated) and created.parent and settles:
            self._put(created.parent.run_id, CHILD, {"run_id": run_id})
        for child_id in self._children(run_id) if settles else list(_given_up(run_id, events)):
            if child_id in self.logs and not any(_settles(event) for event in self.logs[child_id][-1:]):
                self._put(child_id, CANCEL, {"by": f"run {run_id}", "reason": "the workflow or its step has ended"})

    def _children(self, run_id: RunId) -> Sequence[RunId]:
        first = {other: log[0].body for other, log in self.logs.items() if log}
        return [
            other
            for other, body in first.items()
            if isinstance(body, RunCreated) and body.parent and body.parent.run_id == run_id
        ]

    def unread(self, run_id: RunId, after: int) -> Sequence[InboxRow]:
        """Return the inbox rows newer than `after`."""
        return [row for row in self._inboxes[run_id] if row.row_id > after]

    async def rows(self, run_id: RunId, after: int) -> Sequence[InboxRow]:
        """Wait for inbox rows newer than `after`."""
        while True:
            rows = self.unread(run_id, after)
            if rows:
                return rows
            self._posted[run_id].clear()
            await self._posted[run_id].wait()


def _given_up(run_id: RunId, events: Sequence[Event]) -> Iterator[RunId]:
    for event in events:
        if isinstance(event.body, StepFinished | StepRetried) and event.body.status is StepStatus.FAILED:
            assert event.lane is not None
            yield child_run_id(run_id, event.lane, event.body.attempt)


def _settles(event: Event) -> bool:
    return isinstance(event.body, RunCompleted | RunFailed | RunCancelled)


@dataclass(slots=True)
class MemoryHeldRun:
    """HeldRun of MemoryRuns."""

    runs: MemoryRuns
    run_id: RunId
    _seen: int = 0

    async def append(
        self, events: Sequence[Event], *, consumed: Sequence[InboxRow] = (), children: Sequence[NewRun] = ()
    ) -> None:
        self.runs.append(self.run_id, events, consumed, children)

    def receive(self) -> "asyncio.Future[Sequence[InboxRow]]":
        return asyncio.ensure_future(self._receive())

    async def _receive(self) -> Sequence[InboxRow]:
        rows = await self.runs.rows(self.run_id, self._seen)
        self._seen = rows[-1].row_id
        return rows

    async def unread(self) -> Sequence[InboxRow]:
        rows = self.runs.unread(self.run_id, self._seen)
        self._seen = rows[-1].row_id if rows else self._seen
        return rows

    async def release(self) -> None:
        self.runs.kill_driver(self.run_id)


@dataclass(slots=True)
class MemoryWorkspaces:
    """Workspaces that are only names."""

    missing: set[str] = field(default_factory=set)

    def workspace(self, run_id: RunId) -> str:
        return f"/memory/{run_id}/workspace"

    def prepare(self, run_id: RunId, *, at: str = "") -> None:
        """Nothing to make."""

    def copy(self, workspace: str, run_id: RunId) -> None:
        """Nothing to copy."""

    def run_dir(self, run_id: RunId) -> str:
        return f"/memory/{run_id}"

    def usable(self, workspace: str) -> bool:
        return workspace not in self.missing


@dataclass(frozen=True, slots=True)
class FunctionClient:
    """ChatClient and ChatClients over one function of the messages."""

    answer: Callable[[Sequence[Message]], Awaitable[LLMResponse]]

    @asynccontextmanager
    async def turn(
        self,
        settings: ModelSettings,  # noqa: ARG002 - the port's
        *,
        priority: Priority,  # noqa: ARG002 - the port's
        notice: Notice,  # noqa: ARG002 - the port's
    ) -> "AsyncIterator[FunctionClient]":
        yield self

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,  # noqa: ARG002 - the port's
        *,
        tools: Sequence[ToolSpec],  # noqa: ARG002 - the port's
        temperature: float,  # noqa: ARG002 - the port's
        top_p: float,  # noqa: ARG002 - the port's
        max_tokens: int,  # noqa: ARG002 - the port's
        must_call: str | None = None,  # noqa: ARG002 - the port's
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        response = await self.answer(messages)
        if on_delta is not None and response.content:
            on_delta(response.content)
        return response


@dataclass(frozen=True, slots=True)
class OneModel:
    """ModelChooser that knows one model, under every key."""

    settings: ModelSettings

    async def choose(self, key: str, notice: Notice) -> ChosenModel:  # noqa: ARG002 - the port's
        return ChosenModel(self.settings, "it is the only one")


@dataclass(frozen=True, slots=True)
class PackBuilders:
    """SpecialistRegistry over functions that make a pack for a workspace, anew for each run."""

    builders: Mapping[SpecialistId, Callable[[str], SpecialistPack]]

    def names(self) -> Sequence[SpecialistId]:
        return list(self.builders)

    def get_pack(
        self,
        specialist_id: SpecialistId,
        *,
        run_id: RunId,  # noqa: ARG002 - the port's
        workspace: str,
        network_allowed: bool,  # noqa: ARG002 - the port's
        agent: AgentBrief | None = None,  # noqa: ARG002 - the port's
    ) -> SpecialistPack:
        if specialist_id not in self.builders:
            raise RecruitError(f"There is no pack {specialist_id!r}")
        return self.builders[specialist_id](workspace)


def quiet(text: str) -> None:
    """Notice that tells nobody."""


@dataclass(slots=True)
class ListSink:
    """EventSink that remembers."""

    events: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    wants_deltas: bool = False

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:  # noqa: ARG002 - the port's
        self.events.extend(events)

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:  # noqa: ARG002 - the port's
        self.texts.append(text)

    def notice(self, run_id: RunId, text: str) -> None:  # noqa: ARG002 - the port's
        self.notices.append(text)
