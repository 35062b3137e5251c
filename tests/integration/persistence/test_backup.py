"""A backup made while runs go on is whole, and what somebody made up is refused before anything is touched."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import stat
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import ConfigError, FabricError, RunHeld, StoreFull, StoreUnavailable
from agent_fabric.infrastructure.backup.archive import Manifest
from agent_fabric.infrastructure.backup.folder_backups import restore_backup
from agent_fabric.infrastructure.backup.make import make_backup
from agent_fabric.infrastructure.persistence.database import APPLICATION_ID, connect
from agent_fabric.infrastructure.persistence.observability.snapshot import check_copy, copy_store
from agent_fabric.infrastructure.persistence.observability.store_gauge import SqliteStoreGauge
from agent_fabric.infrastructure.persistence.schema import FORMAT, read_steps
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.runs.log.folder_trust import is_ours
from agent_fabric.infrastructure.tree_walk import walk_tree
from integration.persistence.opened_store import copies_of
from integration.persistence.test_audit_chain import KEY, Folder

OTHER = AuditKey.of(b"o" * 32)


@pytest.fixture
async def filled(tmp_path: Path) -> Path:
    """A fabric folder with runs, files, links, settings, and things that are nobody's business."""
    folder = Folder(tmp_path / ".fabric")
    first, *_ = await folder.fill()
    folder.store.close()
    root = folder.layout.root
    work = Path(folder.layout.workspace(first))
    work.mkdir()
    (work / "empty").mkdir()
    (work / "a.txt").write_text("hello")
    (work / "odd \udc80 name\n.txt").write_bytes(b"\0" * 600)
    (work / ("long" * 60)).write_text("x")
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("/etc/passwd")
    os.mkfifo(work / "pipe")
    (root / "config.json").write_text("{}")
    (root / "token").write_text("never")
    (root / "own.key").write_text("never")
    return root


def described(root: Path) -> dict[str, Any]:
    """Return what a folder holds, so that two can be compared."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and not path.name.startswith(("fabric.db", "locks")):
            found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode) & 0o111)
        elif path.is_dir():
            found[name] = "folder"
    return found


@pytest.mark.proves("AF-134")
async def test_what_was_backed_up_comes_back_as_it_was_and_the_chain_holds(filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path, KEY, copies_of(filled))
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert made.changed == ()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [made.path.name], "nothing else is left"

    root = tmp_path / "elsewhere" / ".fabric"
    root.parent.mkdir()
    done = restore_backup(made.path, root, KEY, copies_of(root), force=False)

    assert done.manifest.ours
    assert is_ours(root, KEY), "whoever made the backup need not trust it again"
    before, after = described(filled), described(root)
    left_out = {name for name in before if name not in after}
    assert {Path(name).name for name in left_out} == {"token", "own.key"}
    assert {name: after[name] for name in before if name in after} == {
        name: value for name, value in before.items() if name not in left_out
    }
    again = Folder(root)
    report = await again.verify()
    assert (report.damage, report.runs) == ((), 3)
    again.store.close()


async def test_somebody_elses_backup_is_restored_but_not_obeyed(filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path, OTHER, copies_of(filled))
    root = tmp_path / "elsewhere"
    assert not restore_backup(made.path, root, KEY, copies_of(root), force=False).manifest.ours
    assert not is_ours(root, KEY)


def make_deep(folder: Path, levels: int, name: str) -> None:
    """Make folders in each other, with a file and a link in the innermost."""
    opened = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=opened)
        inner = os.open(name, os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=opened))
    os.symlink("/etc/passwd", "link", dir_fd=opened)
    os.close(opened)


@pytest.mark.proves("WA-12")
async def test_paths_longer_than_the_system_takes_are_backed_up_and_restored(filled: Path, tmp_path: Path) -> None:
    work = next(path for path in (filled / "runs").glob("*/workspace"))
    make_deep(work, 90, "n" * 200)
    made = make_backup(filled, tmp_path, KEY, copies_of(filled))
    assert made.changed == ()
    root = tmp_path / "other"
    restore_backup(made.path, root, KEY, copies_of(root), force=False)
    at = work.relative_to(filled)
    before, after = ({each.path for each in walk_tree(top / at)} for top in (filled, root))
    assert after == before - {"pipe"}
    assert max(map(len, after)) > os.pathconf("/", "PC_PATH_MAX")


@pytest.mark.proves("WA-12")
async def test_what_lies_too_deep_for_a_backup_is_named(filled: Path, tmp_path: Path) -> None:
    work = next(path for path in (filled / "runs").glob("*/workspace"))
    make_deep(work, 150, "d")
    made = make_backup(filled, tmp_path, KEY, copies_of(filled))
    assert [name.startswith(f"{work.relative_to(filled)}/d/d/d") for name in made.changed] == [True]


async def test_workspaces_can_be_left_out(filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path, KEY, copies_of(filled), workspaces=False)
    restore_backup(made.path, tmp_path / "other", KEY, copies_of(tmp_path / "other"), force=False)
    assert not list((tmp_path / "other").rglob("a.txt"))
    assert (tmp_path / "other" / "fabric.db").exists()


def test_a_copy_is_of_one_moment_while_others_write_as_fast_as_they_can(tmp_path: Path) -> None:
    """Two tables that every transaction keeps equal are equal in the copy."""
    path = tmp_path / "fabric.db"
    connection = connect(path)
    connection.execute("INSERT INTO users (name, role, created_at) VALUES ('n', '0', 0)")
    connection.execute("INSERT INTO blobs VALUES (x'00', zeroblob(30000000))")
    stop, writes = threading.Event(), list[int]()

    def write() -> None:
        writing = connect(path)
        number = 0
        while not stop.is_set():
            number += 1
            with writing:
                writing.execute("UPDATE users SET role = ?", (str(number),))
                writing.execute("INSERT INTO rate_limits VALUES (?, ?, 0)", (f"k{number}", number))
        writes.append(number)
        writing.close()

    thread = threading.Thread(target=write)
    thread.start()
    seen = list[float]()
    copy_store(path, tmp_path / "copy.db", seen.append)
    stop.set()
    thread.join()
    connection.close()
    assert check_copy(tmp_path / "copy.db") == FORMAT
    copied = apsw.Connection(str(tmp_path / "copy.db"))
    ((role, hits),) = copied.execute("SELECT role, (SELECT max(hits) FROM rate_limits) FROM users").fetchall()
    copied.close()
    assert int(str(role)) == int(str(hits or 0))
    assert len(seen) > 1, "it tells how far it is"
    assert writes[0] > int(str(role)), "others went on"


async def test_a_folder_with_runs_is_moved_aside_only_when_that_was_said(filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path, KEY, copies_of(filled))
    with pytest.raises(ConfigError, match="There are runs"):
        restore_backup(made.path, filled, KEY, copies_of(filled), force=False)
    (filled / "marker.json").write_text("{}")
    done = restore_backup(made.path, filled, KEY, copies_of(filled), force=True)
    assert done.aside is not None
    assert (done.aside / "marker.json").exists()
    assert not (filled / "marker.json").exists()
    assert is_ours(filled, KEY)


async def test_nothing_is_restored_while_somebody_holds_a_run_or_serves(filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path, KEY, copies_of(filled))
    store = Store(filled / "fabric.db")
    for number in (0, 7):  # a server, a run
        assert store.locks.acquire(number)
        with pytest.raises(RunHeld):
            restore_backup(made.path, filled, KEY, copies_of(filled), force=True)
        store.locks.release(number)
    assert restore_backup(made.path, filled, KEY, copies_of(filled), force=True).aside is not None
    store.close()


async def test_a_name_that_is_taken_is_not_replaced(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        make_backup(filled, tmp_path / "mine", KEY, copies_of(filled))
    with pytest.raises(ConfigError, match="no folder"):
        make_backup(filled, tmp_path / "none" / "b", KEY, copies_of(filled))
    assert (tmp_path / "mine").read_text() == "precious"


async def test_an_older_store_is_restored_and_lifted_when_it_is_opened(filled: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    connection = apsw.Connection(str(old / "fabric.db"))
    for migration in read_steps()[:3]:
        connection.execute(migration)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    archive = packed(tmp_path / "old.tar.gz", {"fabric.db": (old / "fabric.db").read_bytes()})
    restore_backup(archive, tmp_path / "new", KEY, copies_of(tmp_path / "new"), force=False)
    store = Store(tmp_path / "new" / "fabric.db")
    assert (await SqliteStoreGauge(store).status(check=True)).format == FORMAT
    store.close()


async def test_a_newer_store_is_refused_and_nothing_is_touched(filled: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "n.db"))
    connection.execute(f"CREATE TABLE t (x); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 999")
    connection.close()
    archive = packed(tmp_path / "newer.tar.gz", {"fabric.db": (tmp_path / "n.db").read_bytes()})
    before = described(filled)
    with pytest.raises(StoreUnavailable, match="newer agent-fabric"):
        restore_backup(archive, filled, KEY, copies_of(filled), force=True)
    assert described(filled) == before


# --- what somebody made up


def packed(path: Path, files: dict[str, bytes], *members: tarfile.TarInfo, manifest: bool = True) -> Path:
    """Write a backup by hand."""

    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for member in members:
            tar.addfile(member, io.BytesIO(b"\0" * min(member.size, 1_000)))
        if manifest:
            digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
            data = Manifest(created_at=1.0, fabric_version="1", store_format=1, workspaces=True, files=digests).encode(
                KEY
            )
            member = tarfile.TarInfo("manifest.json")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in more.items():
        setattr(made, key, value)
    return made


HOSTILE: dict[str, tarfile.TarInfo] = {
    "absolute": member("/etc/cron.d/x"),
    "upwards": member("runs/../../x"),
    "upwards at first": member("../x"),
    "dot": member("runs/./x"),
    "a device": member("runs/a/workspace/x", tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a pipe": member("runs/a/workspace/x", tarfile.FIFOTYPE),
    "a hard link": member("runs/a/workspace/x", tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a link outside workspaces": member("runs", tarfile.SYMTYPE, linkname="/etc"),
    "a link as a run": member("runs/a", tarfile.SYMTYPE, linkname="/etc"),
    "a link as a workspace": member("runs/a/workspace", tarfile.SYMTYPE, linkname="/etc"),
    "a token": member("token"),
    "a mark": member("made-here/x"),
    "a file nobody knows": member("run.sh"),
    "an endless name": member("runs/" + "x" * 300),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_backup_holds_is_refused_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    archive = packed(tmp_path / "b.tar.gz", {"fabric.db": b"x"}, HOSTILE[case])
    with pytest.raises(StoreUnavailable, match="agent-fabric never puts there"):
        restore_backup(archive, tmp_path / "root", KEY, copies_of(tmp_path / "root"), force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_file_cannot_be_written_through_a_link_of_the_same_archive(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "victim"
    target.mkdir()
    link = member("runs/a/workspace/d", tarfile.SYMTYPE, linkname=str(target))
    through = member("runs/a/workspace/d/x", size=3)
    archive = packed(tmp_path / "b.tar.gz", {}, link, through)
    with pytest.raises(FabricError):
        restore_backup(archive, tmp_path / "root", KEY, copies_of(tmp_path / "root"), force=False)
    assert list(target.iterdir()) == []


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "not compressed": lambda _: b"hello" * 1_000,
    "cut in half": lambda data: data[: len(data) // 2],
    "cut at its end": lambda data: data[:-9],
    "another byte": lambda data: data[:3_000] + bytes([data[3_000] ^ 1]) + data[3_001:],
    "only zeros": lambda _: gzip.compress(bytes(1_000_000)),
    "something behind it": lambda data: gzip.compress(gzip.decompress(data) + b"x" * 512),
    "endless behind it": lambda data: gzip.compress(gzip.decompress(data) + bytes(3_000_000)),
    "no manifest": lambda data: gzip.compress(_without_last(gzip.decompress(data))),
    "another manifest": lambda data: gzip.compress(gzip.decompress(data).replace(b"fabric.db", b"fabric.dc")),
}


def _without_last(data: bytes) -> bytes:
    return data[: data.rindex(b"manifest.json")] + bytes(1_024)


@pytest.mark.parametrize("case", DAMAGE)
async def test_a_damaged_backup_is_refused_before_anything_is_touched(case: str, filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path / "b.tar.gz", KEY, copies_of(filled))
    made.path.write_bytes(DAMAGE[case](made.path.read_bytes()))
    before = described(filled)
    with pytest.raises(StoreUnavailable):
        restore_backup(made.path, filled, KEY, copies_of(filled), force=True)
    assert described(filled) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".fabric", "b.tar.gz"]


def test_what_would_fill_disk_or_memory_is_refused_at_once(tmp_path: Path) -> None:
    huge = member("fabric.db", size=1 << 50)
    head = huge.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "disk.gz").write_bytes(gzip.compress(head + bytes(10_000)))
    with pytest.raises(StoreFull):
        restore_backup(tmp_path / "disk.gz", tmp_path / "root", KEY, copies_of(tmp_path / "root"), force=False)
    about = member("x", tarfile.XHDTYPE, size=1 << 40).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "memory.gz").write_bytes(gzip.compress(about + bytes(10_000)))
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        restore_backup(tmp_path / "memory.gz", tmp_path / "root", KEY, copies_of(tmp_path / "root"), force=False)
    assert time.monotonic() - started < 60


async def test_status_tells_what_is_there(filled: Path) -> None:
    store = Store(filled / "fabric.db")
    found = await SqliteStoreGauge(store).status(check=True)
    assert found.runs["completed"] == 3
    assert (found.damage, found.served) == ((), False)
    assert found.free_bytes > 0
    assert found.oldest_run_at is not None
    store.close()


async def test_backups_at_the_same_time_do_not_disturb_each_other(filled: Path, tmp_path: Path) -> None:
    made = await asyncio.gather(
        *(
            asyncio.to_thread(make_backup, filled, tmp_path / f"{number}.tar.gz", KEY, copies_of(filled))
            for number in range(4)
        )
    )
    assert len({json.dumps(each.files) for each in made}) == 1


WORKING = """
import sys
from pathlib import Path
from agent_fabric.infrastructure.backup.make import make_backup
from agent_fabric.infrastructure.backup.folder_backups import restore_backup
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.observability.snapshot import SqliteCopies
KEY = AuditKey.of(b"k" * 32)
copies_of = lambda root: SqliteCopies(root / "fabric.db", RunLocks(root / "locks"))
what, source, target, at = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]

def tell(text):
    if text.startswith(at):
        print(text, flush=True)
        sys.stdin.read()  # waits for its end

if what == "backup":
    make_backup(source, target, KEY, copies_of(source), tell=tell)
else:
    restore_backup(source, target, KEY, copies_of(target), force=True, tell=tell)
"""


async def killed(what: str, source: Path, target: Path, at: str) -> None:
    """Let another process work until it says something, and kill it there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKING, what, str(source), str(target), at),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert (await process.stdout.readline()).decode().startswith(at)
    process.kill()
    await process.wait()


@pytest.mark.parametrize("at", ["copying", "checking", "packing", "reading"])
async def test_a_backup_that_is_killed_leaves_no_half_file_under_its_name(
    at: str, filled: Path, tmp_path: Path
) -> None:
    await killed("backup", filled, tmp_path / "fabric-b.tar.gz", at)
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".") and path.is_file()]
    made = make_backup(filled, tmp_path / "fabric-b.tar.gz", KEY, copies_of(filled))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".fabric", made.path.name], "leftovers are gone"


@pytest.mark.parametrize("at", ["unpacking", "checking"])
async def test_a_restore_that_is_killed_leaves_the_folder_as_it_was(at: str, filled: Path, tmp_path: Path) -> None:
    made = make_backup(filled, tmp_path / "b.tar.gz", KEY, copies_of(filled))
    before = described(filled)
    await killed("restore", made.path, filled, at)
    assert described(filled) == before
    done = restore_backup(made.path, filled, KEY, copies_of(filled), force=True)
    assert done.aside is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".fabric", done.aside.name, "b.tar.gz"])


FULL = """
import resource, sys
from pathlib import Path
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.backup.make import make_backup
from agent_fabric.infrastructure.backup.folder_backups import restore_backup
from agent_fabric.domain.audit.key import AuditKey
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.observability.snapshot import SqliteCopies
KEY = AuditKey.of(b"k" * 32)
copies_of = lambda root: SqliteCopies(root / "fabric.db", RunLocks(root / "locks"))
try:
    if sys.argv[1] == "backup":
        make_backup(Path(sys.argv[2]), Path(sys.argv[3]), KEY, copies_of(Path(sys.argv[2])))
    else:
        restore_backup(Path(sys.argv[2]), Path(sys.argv[3]), KEY, copies_of(Path(sys.argv[3])), force=True)
except FabricError as problem:
    print(problem.code, bool(problem.hint))
"""


@pytest.mark.parametrize("what", ["backup", "restore"])
async def test_when_nothing_more_can_be_written_it_is_said_and_nothing_is_left(
    what: str, filled: Path, tmp_path: Path
) -> None:
    made = make_backup(filled, tmp_path / "b.tar.gz", KEY, copies_of(filled))
    before, names = described(filled), sorted(path.name for path in tmp_path.iterdir())
    given = (filled, tmp_path / "c.tar.gz") if what == "backup" else (made.path, filled)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FULL, what, *map(str, given)), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    assert out.decode().split() == ["store_unavailable", "True"]
    assert described(filled) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == names
