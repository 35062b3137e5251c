"""New stores as copies of an empty one: all steps of the format take 25 ms of CPU time, a copy takes less than one.

What a copy leaves unproven, the steps and two processes that take them at the same time, is proven in
`tests/integration/persistence`, which makes every store step by step, as do processes with `MIGRATED` in their
environment and all of `make soak`.
"""

import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import apsw

from agent_fabric.infrastructure.persistence import database
from agent_fabric.infrastructure.persistence.schema import FORMAT, read_steps

MIGRATED = {"NEW_STORES": "migrated"}
"""In the environment of a `fabric` process: it makes its store step by step."""
_keep_private = database._keep_private


def copy_new_stores() -> None:
    """From now on, let each store that this process makes be a copy."""
    database._keep_private = _put_copy


@contextmanager
def copied_stores() -> Iterator[None]:
    """Let each store that is made in this process meanwhile be a copy."""
    with mock.patch.object(database, "_keep_private", _put_copy):
        yield


@functools.cache
def empty_store() -> bytes:
    """Return the file of a store that was only made."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fabric.db"
        with mock.patch.object(database, "_keep_private", _keep_private):
            database.connect(path).close()
        return path.read_bytes()


@functools.cache
def empty_memory() -> apsw.Connection:
    """Return a database in memory that has all tables."""
    made = apsw.Connection(":memory:")
    for step in read_steps():
        made.execute(step)
    made.execute(f"PRAGMA user_version = {FORMAT}")
    return made


def _put_copy(path: Path) -> None:
    """Put a copy in place, unless there is a file; whoever looks finds none or a whole one."""
    with suppress(OSError):  # as the product: it is there already, or SQLite says better what is wrong
        if not os.path.lexists(path):
            content = empty_store()
            handle, copy = tempfile.mkstemp(prefix=".new-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.link(copy, path)
            finally:
                Path(copy).unlink()
    _keep_private(path)
