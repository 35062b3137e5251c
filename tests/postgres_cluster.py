"""A real PostgreSQL of the tests' own, and pgbouncer in front of it: on free ports, in a temporary folder."""

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from free_ports import free_port
from plain_user import NOBODY
from services import need, need_program

START_TIMEOUT_S = 60.0
# Nothing is written to the disk itself: a machine that crashes ends the tests as well.
_SETTINGS = (
    *("fsync=off", "full_page_writes=off", "max_connections=60", "shared_buffers=32MB", "jit=off"),
    *("wal_level=minimal", "max_wal_senders=0", "autovacuum=off"),
    *("listen_addresses=127.0.0.1", "unix_socket_directories=", "log_min_messages=fatal", "logging_collector=off"),
)

_KEPT = frozenset({"fabric_format"})
"""Tables that say what the others are like."""
_NEW = ("-U", "fabric", "-A", "trust", "-N", "--locale", "C", "--encoding", "UTF8")


def need_postgres() -> Path:
    """Return the folder of PostgreSQL's programs; without them the test is skipped, or failed in CI."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    need(folders, "needs PostgreSQL's server; on Debian and Ubuntu: apt install postgresql")
    return folders[-1]


@dataclass(slots=True)
class Cluster:
    """A running server with a user `fabric`, whom it trusts."""

    programs: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)
    _names: Iterator[int] = field(default_factory=lambda: count(1))
    _emptying: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)
    """A connection to each database that is emptied between tests."""

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://fabric@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        settings = [word for setting in (*_SETTINGS, f"port={self.port}") for word in ("-c", setting)]
        program = str(self.programs / "postgres")
        self.process = _start([program, "-D", str(self.folder / "data"), *settings], self.folder)
        _wait_for(self.port, self.process, self.folder)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():  # it listens before it lets anybody in
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: by default at once and in order, with SIGQUIT as in a crash."""
        for connection in self._emptying.values():
            connection.close()
        self._emptying.clear()
        self.process.send_signal(how)
        try:
            self.process.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # told while it recovered from a crash, it may wait for ever
            self.crash()

    def crash(self) -> None:
        """Kill all its processes at once, as a machine does that loses power; what they were doing is not finished."""
        self.process.kill()
        self.process.wait(START_TIMEOUT_S)
        deadline = time.monotonic() + START_TIMEOUT_S
        while left := self._serving():  # else they would end one after another, each after what it is doing
            assert time.monotonic() < deadline, left
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def kill_connection(self, pid: int) -> None:
        """Kill the process behind a connection; the server then ends all others and recovers, as after a crash."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _serving(self) -> list[int]:
        """Return the living processes that work in the data folder."""
        data, found = str(self.folder / "data"), []
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and str((process / "cwd").readlink()) == data:
                    found.append(int(process.name))
        return found

    def create_database(self, template: str = "template0") -> str:
        """Create a database and return its address."""
        name = f"t{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")
        return self.url(name)

    def empty(self, url: str) -> None:
        """Delete all rows of a database with our tables. A new database would take a hundred times as long."""
        connection = self._emptying.get(url)
        if connection is None:  # one for all tests: a new one takes thirty times as long, until it knows the tables
            connection = self._emptying[url] = psycopg.connect(url, autocommit=True)
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        changes = [
            f"UPDATE {name} SET position = 0" if name.endswith("_progress") else f"DELETE FROM {name}"
            for (name,) in names
            if name not in _KEPT
        ]
        connection.execute("; ".join(changes).encode())

    def execute(self, sql: str, url: str = "") -> list[Any]:
        """Run statements as the superuser."""
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def run_cluster() -> Iterator[Cluster]:
    """Start a server, and stop it at the end."""
    programs = need_postgres()
    with tempfile.TemporaryDirectory(prefix="fabric-postgres-", dir="/tmp") as name:
        folder = Path(name)
        _give_away(folder)
        _run(["cp", "-a", str(_empty_data(programs)), str(folder / "data")], folder)
        cluster = Cluster(programs, folder, free_port())
        cluster.start()
        try:
            yield cluster
        finally:
            if cluster.process.poll() is None:
                cluster.stop()


def _empty_data(programs: Path) -> Path:
    """Return the data folder of a server that was never started; made once for all tests of a machine, since it takes
    a second of CPU time."""
    made_by = hashlib.sha256(repr((str(programs), _NEW, os.geteuid())).encode()).hexdigest()[:16]
    place = Path(tempfile.gettempdir()) / f"fabric-initdb-{made_by}"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # suites run side by side
        ready, data = place / "ready", place / "data"
        if not ready.exists():
            _give_away(place)
            shutil.rmtree(data, ignore_errors=True)  # half of it, of tests that were killed
            _run([str(programs / "initdb"), "-D", str(data), *_NEW], place)
            ready.touch()
    return data


def _run(command: list[str], folder: Path) -> None:
    assert _start(command, folder).wait(START_TIMEOUT_S) == 0, (folder / "log").read_text()


@contextmanager
def run_pgbouncer(cluster: Cluster, *, size: int = 3) -> Iterator[int]:
    """Put pgbouncer with transaction pooling before a server; gives its port."""
    program = need_program("pgbouncer", "pgbouncer")
    with tempfile.TemporaryDirectory(prefix="fabric-pgbouncer-", dir="/tmp") as name:
        folder, port = Path(name), free_port()
        (folder / "users").write_text('"fabric" ""\n')
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={cluster.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\n"
            f"pool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 500\nserver_reset_query =\n"
        )
        _give_away(folder)
        process = _start([program, str(folder / "pgbouncer.ini")], folder)
        try:
            _wait_for(port, process, folder)
            yield port
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)


def _give_away(folder: Path) -> None:
    """Neither program runs as root."""
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    other = NOBODY if os.geteuid() == 0 else None
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            user=other,
            group=other,
            extra_groups=None if other is None else [],
            start_new_session=True,
        )


def _wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"It did not start: {(folder / 'log').read_text()}")
