"""Every single write of a run may fail: it then ends with an error and can be resumed, or was not affected."""

from collections import Counter
from pathlib import Path

import apsw
import pytest

from agent_fabric.domain.errors import FabricError, StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog, RunIndex
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.testing.workbench import Workbench, workbench
from integration.persistence.five_steps import answers_of, looking_pack

STEPS = 5
MAX_WRITES = 40


class FailingStore:
    """A store whose n-th transaction fails at its commit; the others are real."""

    def __init__(self, root: Path, fail_at: int | None, error: BaseException | None) -> None:
        self.layout = Layout(root)
        self.layout.make()
        self.store = Store(self.layout.database)
        followers = (JsonlRunLog(self.layout), RunIndex(self.layout))
        self.runs = SqlRunRepository(self.store, SystemClock(), followers)
        self.commits = 0
        self._fail_at, self._error = fail_at, error
        self.store.writer._connection.set_commit_hook(self._commit)

    def _commit(self) -> bool:
        self.commits += 1
        if self.commits != self._fail_at:
            return False
        if self._error is not None:
            raise self._error
        return True  # SQLite then rolls back

    def bench(self, done: Counter[str]) -> Workbench:
        return workbench(lambda _: looking_pack(done), answers_of(STEPS), runs=self.runs)  # type: ignore[arg-type]  # any


FAULTS = {
    "full": apsw.FullError("database or disk is full"),
    "broken": apsw.IOError("disk I/O error"),
    "refused": None,
}


async def live(root: Path, fail_at: int | None, error: BaseException | None, done: Counter[str]) -> tuple[int, bool]:
    """Do a run of five steps; tell how many commits it took and whether it failed on the way."""
    failing = FailingStore(root, fail_at, error)
    failed = False
    try:
        await failing.bench(done).run("look around")
    except (FabricError, apsw.Error) as problem:
        failed = True
        if isinstance(error, apsw.FullError):
            assert isinstance(problem, StoreFull)
        elif error is not None:
            assert isinstance(problem, StoreUnavailable)
    finally:
        failing.store.close()
    return failing.commits, failed


async def resumed(root: Path, done: Counter[str]) -> RunResult | None:
    """Go on in a new process' place; None when the run was never created."""
    store = FailingStore(root, None, None)
    try:
        created = [
            RunId(str(run_id))
            for (run_id,) in await store.store.read(
                lambda connection: list(connection.execute("SELECT run_id FROM runs"))
            )
        ]
        if not created:
            return None
        await store.runs.catch_up()
        result = await store.bench(done).resume_run(created[0])
        await require_mirror(store, created[0])
        return result
    finally:
        store.store.close()


async def require_mirror(store: FailingStore, run_id: RunId) -> None:
    events = await store.runs.read(run_id)
    lines = Path(store.layout.runlog(run_id)).read_bytes().splitlines()
    assert len(lines) == len(events)


@pytest.mark.proves("AF-134")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_at_any_write_leaves_a_run_that_ends_the_same(tmp_path: Path, fault: str) -> None:
    whole, _ = await live(tmp_path / "whole", None, None, Counter())
    assert STEPS <= whole < MAX_WRITES
    failures = 0
    for number in range(1, whole + 1):
        root = tmp_path / f"{number}"
        done: Counter[str] = Counter()
        _, failed = await live(root, number, FAULTS[fault], done)
        failures += failed
        result = await resumed(root, done)
        if result is None:
            assert failed, "the run vanished without an error"
            assert number == 1
            continue
        assert (result.status, dict(result.payload)) == (RunStatus.COMPLETED, {"summary": "seen it all"}), number
        assert result.steps == STEPS
        assert set(done) == {f"place {step}" for step in range(STEPS - 1)}
        assert sum(done.values()) <= STEPS, f"write {number}: more than the one call in doubt was made again"
    assert failures >= whole - 2, "only the last writes, which let go of the run, may fail unnoticed"
