"""The rows behind a run: its number, its events and blobs, and who drives it."""

import hashlib
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from struct import pack as pack_fields

import apsw

from agent_fabric.application.ports.runs import CANCEL, CHILD
from agent_fabric.domain.errors import DriverConflict, RunNotFound, StoreUnavailable
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.codec import decode, dump_json, unpack


def chained(
    before: bytes, seq: int, ts: float, kind: str, version: int, lane: str | None, step: str, payload: bytes
) -> bytes:
    """Return the hash of an event, which covers everything before it as well."""
    place = pack_fields("<qdq", seq, ts, version) + f"\0{kind}\0{lane or ''}\0{step}\0".encode()
    return hashlib.sha256(before + place + payload).digest()


def number_of(connection: apsw.Connection, run_id: RunId) -> int:
    """Return the number under which a run's events are kept.

    Raises:
        RunNotFound: there is no such run.
    """
    row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise RunNotFound(f"There is no run {run_id!r}", hint="See all runs with `fabric logs list`.")
    return int(row[0])


def add_run(connection: apsw.Connection, run_id: RunId, created_at: float, *, parent: int | None = None) -> int:
    """Make room for a run and return its number; `parent` is the number of the run that it works for.

    Raises:
        DriverConflict: there is one with this id.
    """
    try:
        query = "INSERT INTO runs (run_id, status, created_at, parent) VALUES (?, ?, ?, ?)"
        connection.execute(query, (run_id, RunStatus.RUNNING, created_at, parent))
    except apsw.ConstraintError:
        raise DriverConflict(f"There is a run {run_id} already") from None
    return connection.last_insert_rowid()


def tell_parent(connection: apsw.Connection, number: int, run_id: RunId, ended_at: float) -> None:
    """Let the run that a settled one works for know."""
    query = (
        "INSERT INTO inbox (run, kind, payload, created_at) SELECT parent.number, ?, ?, ? FROM runs AS child"
        " JOIN runs AS parent ON parent.number = child.parent"
        " WHERE child.number = ? AND parent.status IN ('running', 'waiting', 'interrupted')"
    )
    connection.execute(query, (CHILD, dump_json({"run_id": run_id}), ended_at, number))


def end_children(
    connection: apsw.Connection, number: int, run_id: RunId, ended_at: float, *, only: RunId | None = None
) -> None:
    """Ask the runs that work for one to end, or `only` one of them, as far as they have not."""
    reason = "the workflow has ended" if only is None else "its step has ended"
    query = (
        "INSERT INTO inbox (run, kind, payload, created_at) SELECT number, ?, ?, ? FROM runs"
        " WHERE parent = ? AND status IN ('running', 'waiting', 'interrupted') AND (?5 IS NULL OR run_id = ?5)"
    )
    payload = dump_json({"by": f"run {run_id}", "reason": reason})
    connection.execute(query, (CANCEL, payload, ended_at, number, only))


def empty_inbox(connection: apsw.Connection, number: int) -> None:
    """Take away what a run that has ended will never read."""
    connection.execute("DELETE FROM inbox WHERE run = ?", (number,))


def holder_of(connection: apsw.Connection, number: int) -> str:
    """Say who drives a run."""
    row = connection.execute("SELECT holder, since FROM drivers WHERE run = ?", (number,)).fetchone()
    if row is None:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(row[1]))
    return f"{row[0]} since {since}"


def load_events(connection: apsw.Connection, number: int, *, after: int = -1) -> list[Event]:
    """Return a run's events, whole: long texts are read back from their blobs."""
    query = "SELECT seq, ts, kind, version, lane, step, payload FROM events WHERE run = ? AND seq > ? ORDER BY seq"
    with damage_explained():
        return [
            Event(
                seq,
                ts,
                LaneId(lane) if lane is not None else None,
                step,
                decode(kind, version, payload, blob_from(connection)),
            )
            for seq, ts, kind, version, lane, step, payload in connection.execute(query, (number, after))
        ]


def blob_from(connection: apsw.Connection) -> Callable[[bytes], bytes]:
    """Return the function that gives a blob's content; it fails for one that is missing or not what it was."""

    def blob(digest: bytes) -> bytes:
        row = connection.execute("SELECT data FROM blobs WHERE hash = ?", (digest,)).fetchone()
        content = b"" if row is None else unpack(row[0])
        if hashlib.sha256(content).digest() != digest:
            raise ValueError(f"blob {digest.hex()} is missing or not what it was")
        return content

    return blob


@contextmanager
def damage_explained() -> Iterator[None]:
    """Turn what damaged rows give into an error of ours."""
    try:
        yield
    except (ValueError, zlib.error) as problem:
        raise StoreUnavailable(
            f"The store is damaged: {problem}", hint="Restore it from a backup; runlog.jsonl files keep what happened."
        ) from problem


def this_process() -> str:
    """Name this process, for people."""
    return f"process {os.getpid()} on {_host()}"


@cache
def _host() -> str:
    return socket.gethostname()


def head_of(connection: apsw.Connection, number: int) -> bytes:
    """Return the hash of a run's last event."""
    # There is always a row: a run is created together with its first event.
    query = "SELECT hash FROM events WHERE run = ? ORDER BY seq DESC LIMIT 1"
    ((head,),) = connection.execute(query, (number,)).fetchall()
    assert isinstance(head, bytes)
    return head


def note_driver(connection: apsw.Connection, number: int, since: float) -> None:
    """Write down that this process drives a run."""
    connection.execute(
        "INSERT OR REPLACE INTO drivers (run, holder, since) VALUES (?, ?, ?)", (number, this_process(), since)
    )


def forget_driver(connection: apsw.Connection, number: int, since: float) -> None:
    """Write down that we do not drive a run any more, and that its mirrors are whole."""
    query = "DELETE FROM drivers WHERE run = ? AND holder = ? AND since = ?"
    connection.execute(query, (number, this_process(), since))


def driven_runs(connection: apsw.Connection) -> list[tuple[int, RunId]]:
    """Return the runs that a process drives, or drove when it died."""
    query = "SELECT drivers.run, runs.run_id FROM drivers JOIN runs ON runs.number = drivers.run"
    return [(int(number), RunId(str(run_id))) for number, run_id in connection.execute(query)]
