"""Stand-ins for ports, for tests of packs, adapters and use cases: no disk, no network, no waiting."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any

from agent_fabric.application.ports.llm import ChosenModel, Notice, OnDelta
from agent_fabric.application.ports.memory import Briefing, BriefingRequest
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.runs import CANCEL, CHILD, HeldLog, InboxRow, NewRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import DriverConflict, RecruitError, RunHeld, RunNotFound
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.runs.consequences import Consequences, consequences
from agent_fabric.domain.runs.task import AgentBrief, Priority, RunStatus
from agent_fabric.domain.tools.specs import ToolSpec

_TURNS_OF_A_COMMIT = 3
"""So often others get their turn before a driver learns that its events are durable, as with a real store."""


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

    def __init__(self, on_append: Callable[[RunId, Consequences], None] | None = None) -> None:
        self._on_append = on_append
        self.logs: dict[RunId, list[Event]] = {}
        self.held: set[RunId] = set()
        self._statuses: dict[RunId, RunStatus] = {}
        self._inboxes: dict[RunId, list[InboxRow]] = {}
        self._posted: dict[RunId, asyncio.Event] = {}
        self._row_ids = itertools.count(1)

    async def create(self, run_id: RunId, events: Sequence[Event]) -> "MemoryHeldRun":
        if run_id in self.logs:
            raise DriverConflict(f"There is a run {run_id} already")
        self._add(run_id)
        await self.take(run_id)
        held = MemoryHeldRun(self, run_id)
        await held.append(events)
        return held

    def _add(self, run_id: RunId) -> None:
        self.logs[run_id] = []
        self._inboxes[run_id] = []
        self._statuses[run_id] = RunStatus.RUNNING

    async def take(self, run_id: RunId) -> HeldLog:
        log = self._log(run_id)
        if run_id in self.held:
            raise RunHeld(f"Run {run_id} is being driven by another task")
        self.held.add(run_id)
        self._posted[run_id] = asyncio.Event()
        return HeldLog(MemoryHeldRun(self, run_id), log[:])

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return self._log(run_id)[after + 1 :]

    def _log(self, run_id: RunId) -> list[Event]:
        if run_id not in self.logs:
            raise RunNotFound(f"There is no run {run_id!r}")
        return self.logs[run_id]

    async def status(self, run_id: RunId) -> RunStatus:
        self._log(run_id)
        return self._statuses[run_id]

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        if not (await self.status(run_id)).settled:
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
            raise DriverConflict(f"Another process has appended to run {run_id}")
        if any(child.run_id in self.logs for child in children):
            raise DriverConflict("There is a run with the id of a child already")
        for child in children:
            self._add(child.run_id)
            self.logs[child.run_id].append(child.created)
        created = log[0].body if log else None
        log.extend(events)
        self._inboxes[run_id] = [row for row in self._inboxes[run_id] if row not in consumed]
        self._follow(run_id, consequences(run_id, created if isinstance(created, RunCreated) else None, events))

    def _follow(self, run_id: RunId, following: Consequences) -> None:
        """Write what was decided to follow from events; `on_append` writes approval rows and the audit chain."""
        if self._on_append is not None:
            self._on_append(run_id, following)
        if following.status is not None:
            self._statuses[run_id] = following.status
        if following.notify_parent is not None and self._goes_on(following.notify_parent):
            self._put(following.notify_parent, CHILD, {"run_id": run_id})
        for cancel in following.cancel_children:
            for child in self.children(run_id) if cancel.child is None else [cancel.child]:
                if self._goes_on(child):
                    self._put(child, CANCEL, {"by": f"run {run_id}", "reason": cancel.reason})
        if following.empty_inbox:
            self._inboxes[run_id].clear()

    def _goes_on(self, run_id: RunId) -> bool:
        return run_id in self.logs and not self._statuses[run_id].settled

    def children(self, run_id: RunId) -> Sequence[RunId]:
        """Return the runs that work for one."""
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
        for _ in range(_TURNS_OF_A_COMMIT):
            await asyncio.sleep(0)

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

    async def prepare(self, run_id: RunId, *, at: str = "") -> bool:
        return False

    async def discard(self, run_id: RunId) -> None:
        """Nothing to remove."""

    async def copy(self, workspace: str, run_id: RunId) -> bool:
        return False

    def usable(self, workspace: str) -> bool:
        return workspace not in self.missing


@dataclass(frozen=True, slots=True)
class FunctionClient:
    """ChatClient and ChatClients over one function of the messages."""

    answer: Callable[[Sequence[Message]], Awaitable[LLMResponse]]

    @asynccontextmanager
    async def turn(
        self, settings: ModelSettings, *, priority: Priority, notice: Notice
    ) -> "AsyncIterator[FunctionClient]":
        yield self

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        tools: Sequence[ToolSpec],
        temperature: float,
        top_p: float,
        max_tokens: int,
        must_call: str | None = None,
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

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
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
        run_id: RunId,
        workspace: str,
        network_allowed: bool,
        agent: AgentBrief | None = None,
    ) -> SpecialistPack:
        if specialist_id not in self.builders:
            raise RecruitError(f"There is no pack {specialist_id!r}")
        return self.builders[specialist_id](workspace)


def quiet(text: str) -> None:
    """Notice that tells no one."""


@dataclass(slots=True)
class ListSink:
    """EventSink that remembers."""

    events: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    wants_deltas: bool = False

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        self.events.extend(events)

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        self.texts.append(text)

    def notice(self, run_id: RunId, text: str) -> None:
        self.notices.append(text)


async def nothing_known(_: BriefingRequest) -> Briefing:
    """ContextSource of runs that are told nothing."""
    return Briefing()
