"""Runs at a server, shown and answered as if they were driven here."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial

from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.client import Delta, FabricClient, Notice
from agent_fabric.domain.errors import FabricError, RunNotFound
from agent_fabric.domain.events import Event, RunWaited
from agent_fabric.domain.identity.principals import SCOPES_OF, Scope, widen
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.events import ChildFinished, StepFinished, StepStarted
from agent_fabric.interfaces.cli.place_remote import ServerRuns
from agent_fabric.interfaces.cli.runs.foreground import Opens

TO_ITS_END_S = 2.0
"""How long the end of a step waits for the last lines about the run that worked for it."""


def foreground_there(url: str) -> "Opens[RemoteForeground]":
    """Return what opens the foreground of a server."""
    return partial(_open, url)


@asynccontextmanager
async def _open(url: str, sink: EventSink | None, _asks: bool) -> "AsyncIterator[RemoteForeground]":
    async with FabricClient(url, run=acting_run()) as client:
        there = RemoteForeground(client, sink)
        try:
            yield there
        finally:
            await there.aclose()


class RemoteForeground:
    """Foreground at a server: it drives, we look on. The run continues when we leave."""

    served = True

    def __init__(self, client: FabricClient, sink: EventSink | None) -> None:
        self.client = client
        self.run_id: RunId | None = None
        """The run that is driven, as soon as there is one."""
        self.runs = runs = ServerRuns(client)
        self.events, self.run_dir, self.answer = runs.events, runs.run_dir, runs.answer
        self.questions, self.question = runs.questions, runs.question
        self._sink = sink
        self._seen: dict[RunId, int] = {}
        """Sequence number of the newest event of each run that was shown."""
        self._children: dict[RunId, asyncio.Task[None]] = {}
        """Runs that work for the one that is looked at, and who looks at them."""
        self._working_for: dict[tuple[RunId, LaneId | None], RunId] = {}
        """Which of them works for which step."""

    async def aclose(self) -> None:
        """Look at nothing any more."""
        for task in self._children.values():
            task.cancel()
        await asyncio.gather(*self._children.values(), return_exceptions=True)

    @property
    def deltas(self) -> bool:
        """Whether answers are shown as they are written."""
        return self._sink is not None and self._sink.wants_deltas

    async def start(self, starting: Awaitable[RunId]) -> RunResult:
        """Start a run and follow it until it ends or waits for an answer."""
        self.run_id = await starting
        return await self.go_on(self.run_id)

    async def resume(self, run_id: RunId) -> RunResult:
        """Resume a run that stopped, and look at it."""
        self.run_id = run_id
        events = await self.events(run_id)
        self._seen[run_id] = events[-1].seq
        result = await self.client.runs.resume(run_id)
        if result.status.settled:
            return result
        for lane, child in _at_work(events).items():
            with suppress(RunNotFound):
                self._seen[child] = (await self.client.runs.show(child)).events - 1
                self._look_at(child, works_for=(run_id, lane))
        return await self.go_on(run_id)

    async def go_on(self, run_id: RunId) -> RunResult:
        try:
            return await self._follow(run_id)
        except FabricError:  # the server is gone, or lets us in no more: the run is not lost with it
            sys.stderr.write(f"Run {run_id} is kept at {self.client.url}: fabric logs show {run_id} --follow\n")
            raise

    async def _follow(self, run_id: RunId) -> RunResult:
        async with aclosing(self._happenings(run_id)) as happenings:
            async for each in happenings:
                if isinstance(each, RunResult):
                    return each
                if isinstance(each.body, RunWaited) and await self._needs_an_answer(run_id, each.body):
                    result = (await self.client.runs.show(run_id)).result
                    if result.status is RunStatus.WAITING:
                        return result
        return (await self.client.runs.show(run_id)).result

    async def who_may_answer(self) -> str:
        who = await self.client.me()
        if who.may(Scope.APPROVALS):
            return ""
        roles = [role.value for role, scopes in SCOPES_OF.items() if Scope.APPROVALS in widen(scopes)]
        return (
            f"{who.name} may not answer: it takes the scope `approvals`, which users with the role "
            f"{', '.join(roles[:-1])} or {roles[-1]} have"
        )

    async def leave(self, run_id: RunId) -> RunResult:
        sys.stderr.write(f"The run continues at {self.client.url}; `fabric cancel {run_id}` ends it.\n")
        return (await self.client.runs.show(run_id)).result

    async def changes(self, run_id: RunId) -> str:  # noqa: ARG002 - as on this machine
        """A run at a server works in no project of ours."""
        return ""

    async def _needs_an_answer(self, run_id: RunId, waited: RunWaited) -> bool:
        """Return whether a waiting run stays where it is unless a person or something outside does its part."""
        if waited.until is None or waited.approvals:
            return True
        try:
            shown = await self.client.workflows.run(run_id)
        except RunNotFound:  # it is no workflow, and only those have moments to wait for
            return True
        return not any(each["kind"] == "time" for each in shown["_meta"]["waiting_for"])

    async def _happenings(self, run_id: RunId) -> AsyncGenerator[Event | RunResult, None]:
        """Show what happens to a run, and yield it."""
        after = self._seen.get(run_id, -1)
        async with aclosing(self.client.runs.follow(run_id, after=after, deltas=self.deltas)) as happenings:
            async for each in happenings:
                match each:
                    case Event():
                        await self._show(run_id, each)
                        yield each
                    case Delta():
                        if self._sink is not None:
                            self._sink.delta(run_id, each.lane, each.text)
                    case Notice():
                        if self._sink is not None:
                            self._sink.notice(run_id, ProgressText(each.text) if each.progress else each.text)
                    case RunResult():
                        yield each

    async def _show(self, run_id: RunId, event: Event) -> None:
        self._seen[run_id] = event.seq
        if isinstance(event.body, StepFinished | ChildFinished):
            await self._last_lines_of(run_id, event.lane)
        if self._sink is not None:
            self._sink.publish(run_id, (event,))
        if isinstance(event.body, StepStarted) and event.body.child_run_id is not None:
            self._look_at(event.body.child_run_id, works_for=(run_id, event.lane))

    def _look_at(self, child: RunId, *, works_for: tuple[RunId, LaneId | None]) -> None:
        self._working_for[works_for] = child
        if self._sink is not None and child not in self._children:
            self._children[child] = asyncio.create_task(self._look_on(child))

    async def _look_on(self, run_id: RunId) -> None:
        # What goes wrong here is only missing on the screen: how things stand is read elsewhere.
        with suppress(FabricError):
            async with aclosing(self._happenings(run_id)) as happenings:
                async for _ in happenings:
                    pass

    async def _last_lines_of(self, run_id: RunId, lane: LaneId | None) -> None:
        """Let everything about a run be shown before the step ends that it worked for."""
        child = self._working_for.pop((run_id, lane), None)
        if child is not None and child in self._children:
            await asyncio.wait([self._children[child]], timeout=TO_ITS_END_S)


def _at_work(events: Sequence[Event]) -> dict[LaneId | None, RunId]:
    """Return the runs that work for steps which have not ended."""
    found: dict[LaneId | None, RunId] = {}
    for event in events:
        if isinstance(event.body, StepStarted) and event.body.child_run_id is not None:
            found[event.lane] = event.body.child_run_id
        elif isinstance(event.body, StepFinished):
            found.pop(event.lane, None)
    return found
