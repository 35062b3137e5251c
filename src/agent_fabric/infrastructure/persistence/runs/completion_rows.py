"""Runs and approvals for shell completion: two queries that import little and never write."""

import json
import os
import stat
import time

import apsw

from agent_fabric.infrastructure.persistence.schema import FORMAT

_QUERY_TIMEOUT_S = 0.05
"""A query that takes longer is interrupted: no one waits for a completion."""
_STEPS = 1_000
"""The clock is looked at after so many steps of a query."""
_RUNS = """
    SELECT run_id, status, CASE WHEN run_keys.run IS NULL THEN
        (SELECT payload FROM events WHERE events.run = number ORDER BY seq LIMIT 1) END
    FROM runs LEFT JOIN run_keys ON run_keys.run = number
    WHERE substr(run_id, 1, length(?)) = ? ORDER BY number DESC LIMIT 50"""
_APPROVALS = """
    SELECT id, tool_name FROM pending_approvals WHERE status = 'pending' AND expires_at > ?
    AND substr(id, 1, length(?)) = ? ORDER BY created_at DESC LIMIT 50"""

_EVALS = """
    SELECT eval_id, name FROM evals WHERE substr(eval_id, 1, length(?)) = ? ORDER BY number DESC LIMIT 50"""
_USERS = "SELECT name, role FROM users WHERE substr(name, 1, length(?)) = ? ORDER BY name LIMIT 50"
_KEYS = """
    SELECT name, id FROM api_keys WHERE revoked_at IS NULL AND coalesce(expires_at, ?) >= ?
    AND substr(name, 1, length(?)) = ? ORDER BY name LIMIT 50"""


def newest_runs(path: str, prefix: str) -> list[tuple[str, str]]:
    """Return the ids of the newest runs with status and task, the newest first; an encrypted task is left out.

    Raises:
        apsw.Error, OSError: the store cannot be read now.
    """
    rows = _query(path, _RUNS, (prefix, prefix))
    return [(str(run_id), f"{status} {_task(payload)}".rstrip()) for run_id, status, payload in rows]


def pending_approvals(path: str, prefix: str) -> list[tuple[str, str]]:
    """Return the ids of the pending approvals with their tools, the newest first; for errors see `newest_runs`."""
    return [(str(row[0]), str(row[1])) for row in _query(path, _APPROVALS, (time.time(), prefix, prefix))]


def newest_evals(path: str, prefix: str) -> list[tuple[str, str]]:
    """Return the ids of the newest evaluations with their names, the newest first; for errors see `newest_runs`."""
    return [(str(row[0]), str(row[1])) for row in _query(path, _EVALS, (prefix, prefix))]


def users(path: str, prefix: str) -> list[tuple[str, str]]:
    """Return the names of users with their roles; for errors see `newest_runs`."""
    return [(str(row[0]), str(row[1])) for row in _query(path, _USERS, (prefix, prefix))]


def live_keys(path: str, prefix: str) -> list[tuple[str, str]]:
    """Return the names of keys that count, with their ids; for errors see `newest_runs`."""
    now = time.time()
    return [(str(row[0]), str(row[1])) for row in _query(path, _KEYS, (now, now, prefix, prefix))]


def _query(path: str, query: str, values: tuple[str | float, ...]) -> list[tuple[object, ...]]:
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - pathlib takes its time; a named pipe would block
        return []
    # To read a database that no one has open, SQLite would make files beside it.
    is_open = os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")  # noqa: PTH110 - as above
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = apsw.Connection(
        f"file:{escaped}?mode=ro" if is_open else f"file:{escaped}?immutable=1",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )
    try:
        end = time.monotonic() + _QUERY_TIMEOUT_S
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        connection.execute("PRAGMA trusted_schema = OFF")
        version = connection.execute("PRAGMA user_version").get
        return list(connection.execute(query, values)) if isinstance(version, int) and version <= FORMAT else []
    finally:
        connection.close()


def _task(payload: object) -> str:
    try:
        prompt = json.loads(payload)["prompt"] if isinstance(payload, bytes) else ""
    except (ValueError, TypeError, KeyError):
        return ""
    return prompt if isinstance(prompt, str) else ""
