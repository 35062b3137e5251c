import os
import sys

import pytest

from agent_fabric.infrastructure.sandbox import resource_use
from agent_fabric.infrastructure.sandbox.resource_use import parent_of, tasks_of_user, use_more_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
MEGABYTE = 1 << 20


def test_memory_of_processes_is_counted() -> None:
    assert use_more_memory([os.getpid()], MEGABYTE)
    assert not use_more_memory([os.getpid()], 100_000 * MEGABYTE)
    assert not use_more_memory([], 0)


def test_a_process_that_hides_its_pages_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """prctl(PR_SET_DUMPABLE, 0) takes smaps_rollup from everybody but root."""
    read = resource_use.read_bytes

    def refused(path: str) -> bytes:
        if path.endswith("smaps_rollup"):
            raise PermissionError(path)
        return read(path)

    monkeypatch.setattr(resource_use, "read_bytes", refused)
    assert use_more_memory([os.getpid()], MEGABYTE)


def test_a_process_that_is_gone_uses_nothing() -> None:
    gone = 2**22 + 1  # above the highest number that Linux gives
    assert not use_more_memory([gone], 0)
    with pytest.raises(FileNotFoundError):
        parent_of(gone)


def test_parents_and_tasks_are_read() -> None:
    assert parent_of(os.getpid()) == os.getppid()
    assert tasks_of_user() >= 1
