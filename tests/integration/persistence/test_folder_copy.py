"""A fabric folder moves into PostgreSQL: row by row, all or nothing, with every hash recomputed there."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.application.ports.database import CopiedStore
from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import ConfigError, RunHeld, RunNotFound, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.postgres.upkeep import BUILT_ANEW, OF_DATABASE
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.storage import open_storage, open_upkeep
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring
from contract.identity_contract import ADA
from contract.run_repository_contract import CREATED, completed, log, run_created
from contract.storage_contract import numbered, settled, waiting
from effort import effort
from postgres_cluster import Cluster

RUNS = 12
LONG = 200_000
KEY = AuditKey.of(b"k" * 32)
KILLS = effort(3, 30)


class Folder:
    """A fabric folder with a bit of everything in its store."""

    def __init__(self, root: Path, keyring: Keyring) -> None:
        self.root = root / ".fabric"
        self.root.mkdir()
        self._keyring = keyring

    def open(self, url: str = "") -> Storage:
        return open_storage(
            self.root,
            address=StoreAddress(url, 4),
            clock=SystemClock(),
            ids=RandomIds(),
            run_dir=lambda run_id: str(self.root / "runs" / run_id),
            audit_key=KEY,
            open_keyring=lambda: self._keyring,
        )

    async def fill(self) -> None:
        storage, chance = self.open(), random.Random(7)
        for number in range(1, RUNS):
            await settled(storage, numbered(number), f"paint shed {number} é", chance.randbytes(LONG // 2).hex())
        secret = replace(run_created("whisper"), encrypted=True)
        held = await storage.runs.create(numbered(90), log(secret))
        await held.append(log(completed(numbered(90), "hush"), first=1))
        await held.release()
        await waiting(storage, numbered(91), asks="abcd1234")
        await storage.runs.post(numbered(91), "signal", {"x": 1})
        await storage.users.add(ADA, act=Act(at=1.0, by="ada", credential="local", deed=Deed.USER_ADDED))
        await storage.idempotency.claim("ada", "k", b"r")
        await storage.retention.remove(numbered(3), by="ada", reason="test")
        storage.close()

    def copy(self, url: str, *, damaged: bool = False) -> CopiedStore:
        upkeep = open_upkeep(StoreAddress(url), audit_key=KEY, open_keyring=lambda: self._keyring)
        return upkeep.copy_from(self.root, damaged=damaged, tell=lambda _: None)

    def tables(self) -> dict[str, list[Any]]:
        connection = apsw.Connection(str(self.root / "fabric.db"))
        query = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        names = [str(name) for (name,) in connection.execute(query)]
        found = {
            name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}")))
            for name in names
            if name not in BUILT_ANEW | OF_DATABASE and not name.startswith("sqlite_")
        }
        connection.close()
        return found

    def tamper(self, statement: str) -> None:
        connection = apsw.Connection(str(self.root / "fabric.db"))
        connection.execute(statement)
        connection.close()


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path, open_keyring({"XDG_DATA_HOME": str(tmp_path / "data")}))
    await folder.fill()
    return folder


def rows_of(cluster: Cluster, url: str, name: str) -> list[str]:
    return sorted(map(repr, cluster.execute(f"SELECT * FROM {name}", url)))


@pytest.mark.proves("SC-1")
async def test_every_row_arrives_and_every_hash_is_recomputed(
    folder: Folder, cluster: Cluster, database_url: str
) -> None:
    here = folder.tables()
    done = await asyncio.to_thread(folder.copy, database_url)
    assert len(here) > 15
    for name, rows in here.items():
        assert rows_of(cluster, database_url, name) == rows, name
    assert (done.runs, done.events, done.damage) == (len(here["runs"]), len(here["events"]), ())
    assert done.chain_entries == len(here["audit_chain"]) > RUNS
    assert folder.tables() == here, "the folder is not changed"


async def test_the_copy_goes_on_where_the_folder_was(folder: Folder, database_url: str) -> None:
    await asyncio.to_thread(folder.copy, database_url)
    storage = folder.open(database_url)
    assert [event.body.kind for event in await storage.runs.read(numbered(90))] == ["run_created", "run_complete"]
    assert [card.approval_id for card in await storage.approvals.list()] == ["abcd1234"]
    assert await storage.users.find(ADA.name) == ADA
    assert not (await storage.idempotency.claim("ada", "k", b"r")).is_new
    await storage.catalogue.update_index()
    assert (await storage.catalogue.search("shed 5", limit=1))[0].run_id == numbered(5)
    held = await storage.runs.create(numbered(92), CREATED)
    await held.release()
    report = await storage.chain.verify()
    assert (report.damage, report.removed) == ((), 1)
    storage.close()


async def test_the_number_of_a_deleted_run_is_not_given_again(
    folder: Folder, cluster: Cluster, database_url: str
) -> None:
    storage = folder.open()
    await settled(storage, numbered(93))
    await storage.retention.remove(numbered(93), by="ada", reason="test")
    storage.close()
    await asyncio.to_thread(folder.copy, database_url)
    storage = folder.open(database_url)
    await settled(storage, numbered(94))
    storage.close()
    ((last,),) = cluster.execute(f"SELECT number FROM runs WHERE run_id = '{numbered(94)}'", database_url)
    assert last == RUNS + 3


async def test_a_database_with_rows_is_refused(folder: Folder, cluster: Cluster, database_url: str) -> None:
    cluster.execute("INSERT INTO ended_logins (id, until) VALUES ('x', 1)", database_url)
    with pytest.raises(ConfigError, match="ended_logins has 1 row"):
        await asyncio.to_thread(folder.copy, database_url)
    cluster.execute("DELETE FROM ended_logins", database_url)
    await asyncio.to_thread(folder.copy, database_url)
    with pytest.raises(ConfigError, match="not empty"):
        await asyncio.to_thread(folder.copy, database_url)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE events SET payload = CAST('{}' AS BLOB) WHERE position = 4", "not what was recorded"),
        ("UPDATE audit_chain SET note = 'x' WHERE position = 2", "entry 2 of the chain"),
        ("DELETE FROM events WHERE position = (SELECT max(position) FROM events)", "missing"),
        ("UPDATE blobs SET data = x'00' WHERE hash = (SELECT min(hash) FROM blobs)", "blob"),
    ],
)
async def test_damage_is_named_and_nothing_is_copied(
    folder: Folder, cluster: Cluster, database_url: str, statement: str, words: str
) -> None:
    folder.tamper(statement)
    with pytest.raises(StoreUnavailable, match=words):
        await asyncio.to_thread(folder.copy, database_url)
    assert rows_of(cluster, database_url, "events") == []
    done = await asyncio.to_thread(folder.copy, database_url, damaged=True)
    assert any(words in sentence for sentence in done.damage)


@contextmanager
def held_by_another_process(locks: Path) -> Iterator[None]:
    script = (
        "import sys; from pathlib import Path;"
        "from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks;"
        "assert RunLocks(Path(sys.argv[1])).acquire(0); print('ready', flush=True); sys.stdin.read()"
    )
    environ = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", script, str(locks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.communicate()


def run_script(script: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environ = {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)


async def test_a_folder_in_use_is_refused_and_one_without_a_store_too(
    folder: Folder, database_url: str, tmp_path: Path
) -> None:
    with held_by_another_process(folder.root / "locks"), pytest.raises(RunHeld):
        await asyncio.to_thread(folder.copy, database_url)
    upkeep = open_upkeep(StoreAddress(database_url))
    with pytest.raises(RunNotFound):
        upkeep.copy_from(tmp_path, damaged=False, tell=lambda _: None)
    assert RunLocks(folder.root / "locks").is_free(0)


_KILLED = """
import os, signal, sys
from pathlib import Path
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.infrastructure.persistence.postgres import upkeep
from agent_fabric.infrastructure.persistence.storage import open_upkeep

upkeep.ROWS_TOLD = 1
left = int(sys.argv[3])
KEY = AuditKey.of(b"k" * 32)

def tell(text):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

open_upkeep(StoreAddress(sys.argv[2]), audit_key=KEY).copy_from(Path(sys.argv[1]), damaged=False, tell=tell)
"""


@pytest.mark.proves("SC-1")
async def test_a_copy_that_is_killed_leaves_nothing_and_starts_over(
    folder: Folder, cluster: Cluster, database_url: str
) -> None:
    chance = random.Random(3)
    for _ in range(KILLS):
        done = await asyncio.to_thread(run_script, _KILLED, folder.root, database_url, chance.randrange(60))
        assert done.returncode == -signal.SIGKILL
        assert rows_of(cluster, database_url, "events") == []
    done_now = await asyncio.to_thread(folder.copy, database_url)
    assert done_now.damage == ()


_MEASURED = """
import resource, sys
from pathlib import Path
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.infrastructure.persistence.storage import open_upkeep
import agent_fabric.infrastructure.persistence.postgres.upkeep
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = open_upkeep(StoreAddress(sys.argv[2])).copy_from(Path(sys.argv[1]), damaged=True, tell=lambda _: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, done.events)
"""


async def test_memory_does_not_grow_with_the_folder(tmp_path: Path, database_url: str) -> None:
    root = tmp_path / ".fabric"
    root.mkdir()
    storage = open_storage(root, clock=SystemClock(), ids=RandomIds(), run_dir=lambda run_id: run_id)
    held = await storage.runs.create(RunId(numbered(1)), CREATED)
    await held.release()
    storage.close()
    connection = apsw.Connection(str(root / "fabric.db"))
    with connection:  # 72 MB of one log; that its hashes are wrong is told, and costs no memory either
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)"
            " INSERT INTO events (run, seq, ts, kind, version, step, payload, hash)"
            " SELECT 1, i, 1.0, 'unknown', 1, '', randomblob(60000), randomblob(32) FROM n"
        )
    connection.close()
    done = await asyncio.to_thread(run_script, _MEASURED, root, database_url)
    assert not done.returncode, done.stderr
    grown_kb, events = map(int, done.stdout.split())
    assert events > 1_000
    assert grown_kb < 50 * 1024, f"{grown_kb} KB"
