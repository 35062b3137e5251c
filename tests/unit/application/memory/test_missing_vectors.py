"""Passages without a vector get one although nobody uploads anything: unless somebody is at it, or nothing answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agent_fabric.application.memory.embed_passages import LOOK_EVERY_S, EmbedPassages, FindMissingVectors
from agent_fabric.application.ports.runs import RunPage, RunQuery, RunRecord
from agent_fabric.domain.errors import ModelUnreachable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.memory.documents import DocumentState
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from contract.memory_contract import add, document
from memory_storage import MemoryStorage
from unit.application.automation.simulated_servers import SilentLog


@dataclass
class Letters:
    """Embedder on a server: its size is known after its first answer."""

    name: str = "letters"
    dimensions: int = 0
    is_away: bool = False
    read: list[str] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if self.is_away:
            raise ModelUnreachable("nobody answers")
        self.dimensions = 2
        self.read += texts
        return [pack_vector([1.0, float(len(each))]) for each in texts]


@dataclass
class World:
    """A store, its embedder, runs that are under way, and how often one was started."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    embedder: Letters = field(default_factory=Letters)
    under_way: list[RunRecord] = field(default_factory=list)
    started: int = 0
    log: SilentLog = field(default_factory=SilentLog)
    pauses: list[float] = field(default_factory=list)

    async def page(self, wanted: RunQuery, *, awaited: object = ()) -> RunPage:
        return RunPage([each for each in self.under_way if wanted.matches(each)], None)

    async def start(self) -> None:
        self.started += 1
        await EmbedPassages(self.storage.memory.passages, self.embedder)()

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.embedder.is_away = False
        if len(self.pauses) == 2:
            raise asyncio.CancelledError

    @property
    def duty(self) -> FindMissingVectors:
        return FindMissingVectors(
            self.storage.memory,
            lambda: self.embedder,
            self,  # type: ignore[arg-type] # pages are all that is asked for
            (),
            self.start,
            self.storage.agent_locks,
            self.log,
            self.pause,
        )


def run(prompt: str) -> RunRecord:
    return RunRecord(
        run_id=RunId("r"),
        status=RunStatus.RUNNING,
        created_at=1.0,
        updated_at=1.0,
        prompt=prompt,
        specialist_ids=(),
        summary="",
    )


@pytest.mark.proves("ME-1", "ME-2")
async def test_what_nobody_reads_is_read() -> None:
    world = World()
    assert not await world.duty.look()
    assert world.embedder.read == [], "nothing is loaded where there are no documents"
    kept = await add(world.storage, document(), "one", "two")
    assert kept.state is DocumentState.WORDS_READY
    assert await world.duty.look()
    assert (await world.storage.memory.documents.find(kept.document_id)).state is DocumentState.READY
    assert not await world.duty.look()
    assert world.started == 1


async def test_what_has_a_vector_is_not_read_again_by_a_process_that_does_not_know_its_size_yet() -> None:
    world = World()
    await add(world.storage, document(), "one")
    await world.start()
    world.embedder = Letters()
    await world.start()
    assert world.embedder.read == ["-"]


async def test_a_run_that_is_under_way_is_left_to_its_work() -> None:
    world = World(under_way=[run("workflow add-documents: Adds documents to memory")])
    await add(world.storage, document(), "one")
    assert not await world.duty.look()
    world.under_way = [run("workflow other: Adds documents to memory")]
    assert await world.duty.look()


async def test_no_run_is_started_that_would_fail_and_the_next_look_finds_what_waits() -> None:
    world = World(embedder=Letters(dimensions=2, is_away=True))
    await add(world.storage, document(), "one")
    with pytest.raises(asyncio.CancelledError):
        await world.duty()
    assert [event for event, _ in world.log.lines] == ["vectors_wait"]
    assert (world.started, world.pauses) == (1, [LOOK_EVERY_S] * 2)
    assert await world.storage.agent_locks.acquire("vectors of documents"), "the duty has released it"


async def test_of_several_processes_one_looks() -> None:
    world = World()
    await add(world.storage, document(), "one")
    assert await world.storage.agent_locks.acquire("vectors of documents")
    with pytest.raises(asyncio.CancelledError):
        await world.duty()
    assert world.started == 0


async def test_a_document_whose_passages_all_stand_in_others_becomes_ready() -> None:
    world = World()
    await add(world.storage, document(), "one")
    await world.start()
    twin = document("c" * 16)  # type: ignore[arg-type] # an id
    await add(world.storage, twin, "one")
    assert not await world.duty.look()
    assert (await world.storage.memory.documents.find(twin.document_id)).state is DocumentState.READY
