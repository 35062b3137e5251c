"""The kernel locks of runs."""

import subprocess
import sys
from pathlib import Path

from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks

TAKE_AND_GIVE_BACK = """
import sys
from pathlib import Path
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks

locks = RunLocks(Path(sys.argv[1]))
print("ready", flush=True)
missed = 0
for _ in range(20_000):
    if locks.acquire(7):
        locks.release(7)
    else:
        missed += 1
print(missed, flush=True)
"""


def test_looking_whether_a_run_is_free_never_keeps_others_from_taking_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "locks", set[bool]()
    locks = RunLocks(path)
    with subprocess.Popen([sys.executable, "-c", TAKE_AND_GIVE_BACK, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        while other.poll() is None:
            seen.add(locks.is_free(7))
        assert int(other.stdout.read()) == 0
    assert locks.is_free(7)
    assert seen == {True, False}, "it sees the locks of others"


def test_a_run_that_this_process_drives_is_not_free(tmp_path: Path) -> None:
    locks = RunLocks(tmp_path / "locks")
    assert locks.acquire(3)
    assert not locks.is_free(3)
    assert locks.is_free(4)
    locks.release(3)
    assert locks.is_free(3)
