"""How many runs somebody may have under way."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.application.runs.limits import RunQuota
from agent_fabric.domain.errors import ServerBusy, TooManyRequests
from agent_fabric.domain.evidence.proofs import NO_PROOF
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunResult, RunStatus

pytestmark = pytest.mark.proves("A33-123")


def result(status: RunStatus = RunStatus.COMPLETED) -> RunResult:
    return RunResult(
        run_id=RunId("r"),
        status=status,
        payload={},
        error=None,
        specialist_ids=(),
        model="",
        steps=0,
        usage=Usage(0, 0),
        duration_s=0,
        proof=NO_PROOF,
        routing_method="",
        workspace="",
    )


class Runs:
    """Begins runs that end when they are told to."""

    def __init__(self) -> None:
        self.ends: list[asyncio.Event] = []

    async def begin(self) -> Drive:
        end = asyncio.Event()
        self.ends.append(end)

        async def outcome() -> RunResult:
            await end.wait()
            return result()

        return Drive(RunId(str(len(self.ends))), asyncio.create_task(outcome()), queued=False)


async def test_nobody_has_more_runs_under_way_than_they_may_and_others_do_not_matter() -> None:
    quota, runs = RunQuota(2), Runs()
    for _ in range(2):
        await quota("ada", runs.begin)
    with pytest.raises(TooManyRequests) as refused:
        await quota("ada", runs.begin)
    assert refused.value.retry_after_s > 0
    assert len(runs.ends) == 2, "nothing was begun"
    await quota("bob", runs.begin)
    for end in runs.ends:
        end.set()


async def test_the_end_of_a_run_makes_room_however_it_ends() -> None:
    quota, runs = RunQuota(1), Runs()
    for end in ("well", "cancelled"):
        drive = await quota("ada", runs.begin)
        assert isinstance(drive, Drive)
        if end == "well":
            runs.ends[-1].set()
        else:
            drive.outcome.cancel()
        await asyncio.wait([drive.outcome])
        await asyncio.sleep(0)
        assert quota.under_way("ada") == 0


async def test_what_could_not_be_begun_takes_no_room() -> None:
    quota = RunQuota(1)

    async def full() -> Drive:
        raise ServerBusy("full")

    for _ in range(3):
        with pytest.raises(ServerBusy):
            await quota("ada", full)
    assert quota.under_way("ada") == 0


async def test_a_run_that_had_settled_already_takes_no_room() -> None:
    quota = RunQuota(1)

    async def settled() -> RunResult:
        return result()

    for _ in range(3):
        await quota("ada", settled)
    assert quota.under_way("ada") == 0


async def test_many_at_once_get_as_much_room_as_there_is_and_whoever_leaves_while_waiting_takes_none() -> None:
    quota, runs = RunQuota(5), Runs()
    answers = await asyncio.gather(*(quota("ada", runs.begin) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(each, Drive) for each in answers) == 5
    for end in runs.ends:
        end.set()
    await asyncio.wait([each.outcome for each in answers if isinstance(each, Drive)])
    await asyncio.sleep(0)

    async def never() -> Drive:
        await asyncio.Event().wait()
        raise AssertionError

    waiting = asyncio.create_task(quota("ada", never))
    await asyncio.sleep(0)
    assert quota.under_way("ada") == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert quota.under_way("ada") == 0


class SharedLocks:
    """NamedLocks of several servers."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def acquire(self, name: str) -> bool:
        await asyncio.sleep(0)
        if name in self.names:
            return False
        self.names.add(name)
        return True

    async def release(self, name: str) -> None:
        self.names.remove(name)

    async def is_held(self, name: str) -> bool:
        return name in self.names

    async def find_taken(self, names: Sequence[str]) -> Collection[str]:
        return self.names.intersection(names)


@pytest.mark.proves("SC-10")
async def test_servers_that_share_a_store_count_together() -> None:
    locks, runs = SharedLocks(), Runs()
    servers = [RunQuota(3, locks) for _ in range(4)]
    begun = await asyncio.gather(
        *(server("ada", runs.begin) for server in servers for _ in range(2)), return_exceptions=True
    )
    drives = [each for each in begun if isinstance(each, Drive)]
    assert (len(drives), len(runs.ends), len(locks.names)) == (3, 3, 3)
    assert all(isinstance(each, Drive | TooManyRequests) for each in begun)
    await servers[0]("bob", runs.begin)
    runs.ends[0].set()
    await asyncio.wait([drives[0].outcome])
    await asyncio.sleep(0.01)
    assert isinstance(await servers[3]("ada", runs.begin), Drive)
    with pytest.raises(TooManyRequests):
        await servers[1]("ada", runs.begin)
    for end in runs.ends:
        end.set()
    await asyncio.sleep(0.05)
    assert locks.names == set()
