"""A run's folder is made before its transaction, and its log is read once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from agent_fabric.application.ports.runs import HeldLog
from agent_fabric.domain.errors import DriverConflict, StoreFull, StoreUnavailable
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.models.messages import LLMResponse, Message, ToolCallRequest, Usage
from agent_fabric.domain.runs.task import Budget, Profile, RunStatus, Task
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.testing.fakes import MemoryHeldRun, MemoryRuns, MemoryWorkspaces
from agent_fabric.testing.workbench import Workbench, workbench
from contract.run_repository_contract import CREATED, run_created

TASK = Task(prompt="do it", model_key="quality", budget=Budget.of(Profile.TASK))


class NotedRuns(MemoryRuns):
    """Runs that note what is asked of them; the disk may be full."""

    def __init__(self, notes: list[str], *, full: bool = False) -> None:
        super().__init__()
        self.notes = notes
        self.full = full

    async def create(self, run_id: RunId, events: Sequence[Event]) -> MemoryHeldRun:
        self.notes.append("create")
        if self.full:
            raise StoreFull("The disk is full")
        return await super().create(run_id, events)

    async def take(self, run_id: RunId) -> HeldLog:
        self.notes.append("take")
        return await super().take(run_id)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        self.notes.append("read")
        return await super().read(run_id, after=after)


class NotedFolders(MemoryWorkspaces):
    """Folders that note what is asked of them."""

    def __init__(self, notes: list[str], *, made: bool = True) -> None:
        super().__init__()
        self.notes = notes
        self.made = made

    async def prepare(self, run_id: RunId, *, at: str = "") -> bool:
        self.notes.append("prepare")
        return self.made

    async def discard(self, run_id: RunId) -> None:
        self.notes.append("discard")


async def finish(_: Sequence[Message]) -> LLMResponse:
    call = ToolCallRequest(CallId("c"), "finish_task", '{"summary": "done"}')
    return LLMResponse(content="", tool_calls=(call,), usage=Usage(1, 1))


def bench(runs: MemoryRuns, folders: MemoryWorkspaces | Layout) -> Workbench:
    finish_tool = make_finish_tool_def({"summary": {"type": "string"}})
    return workbench(
        lambda _: BaseSpecialistPack(system_prompt="Finish.", tools=[], finish=finish_tool),
        finish,
        runs=runs,
        workspaces=folders,
    )


async def test_a_folder_is_made_before_the_run_is() -> None:
    notes: list[str] = []
    await (await bench(NotedRuns(notes), NotedFolders(notes)).execute_task.create(TASK)).held.release()
    assert notes[:2] == ["prepare", "create"]
    assert "discard" not in notes


@pytest.mark.parametrize("made", [True, False])
async def test_a_folder_goes_when_the_run_could_not_be_made_unless_it_was_there_before(made: bool) -> None:
    notes: list[str] = []
    with pytest.raises(StoreFull):
        await bench(NotedRuns(notes, full=True), NotedFolders(notes, made=made)).execute_task.create(TASK)
    assert notes == ["prepare", "create", *(["discard"] if made else [])]


@dataclass(frozen=True)
class SlowMaker(Layout):
    """Folders whose first maker pauses before it goes on to make the run."""

    made: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def prepare(self, run_id: RunId, *, at: str = "") -> bool:
        return await self._first(await super().prepare(run_id, at=at))

    async def copy(self, workspace: str, run_id: RunId) -> bool:
        return await self._first(await super().copy(workspace, run_id))

    async def _first(self, made: bool) -> bool:
        if made:
            self.made.set()
            await self.go_on.wait()
        return made


@pytest.mark.parametrize("copies", [False, True])
async def test_who_loses_the_race_for_a_run_leaves_the_winners_folder(tmp_path: Path, copies: bool) -> None:
    folders, run_id = SlowMaker(tmp_path), RunId("run")
    folders.make()
    source = tmp_path / "source"
    source.mkdir()
    (source / "given").write_text("from before")
    create = partial(
        bench(MemoryRuns(), folders).execute_task.create, TASK, run_id=run_id, copy_of=str(source) if copies else ""
    )
    loser = asyncio.create_task(create())
    await folders.made.wait()
    await create()
    made = Path(folders.workspace(run_id)) / "made"
    made.write_text("by the winner")
    folders.go_on.set()
    with pytest.raises(DriverConflict):
        await loser
    with pytest.raises(DriverConflict):
        await create()
    assert made.read_text() == "by the winner"
    assert sorted(each.name for each in made.parent.iterdir()) == (["given", "made"] if copies else ["made"])
    assert [each.name for each in made.parent.parent.iterdir()] == ["workspace"], "no copy is left beside it"


async def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    folders = Layout(tmp_path)
    folders.make()
    with pytest.raises(StoreUnavailable, match="cannot be copied"):
        await folders.copy(str(tmp_path / "missing"), RunId("run"))
    assert not list((tmp_path / "runs").rglob("*workspace*"))


async def test_a_run_is_resumed_with_one_look_at_its_log() -> None:
    notes: list[str] = []
    runs = NotedRuns(notes)
    run_id = RunId("run")
    await (await runs.create(run_id, CREATED)).release()
    notes.clear()
    result = await bench(runs, MemoryWorkspaces()).resume_run(run_id)
    assert result.status is RunStatus.COMPLETED
    assert notes == ["take"]
    notes.clear()
    assert (await bench(runs, MemoryWorkspaces()).resume_run(run_id)).status is RunStatus.COMPLETED
    assert notes == ["read"], "one that has settled is not taken"


async def test_a_run_that_nobody_drives_is_cancelled_with_one_look_at_its_log() -> None:
    notes: list[str] = []
    runs = NotedRuns(notes)
    run_id = RunId("run")
    await (await runs.create(run_id, [Event(0, 1.0, None, "", run_created())])).release()
    notes.clear()
    result = await bench(runs, MemoryWorkspaces()).cancel_run(run_id, by="a test")
    assert result.status is RunStatus.CANCELLED
    assert notes == ["take"]
