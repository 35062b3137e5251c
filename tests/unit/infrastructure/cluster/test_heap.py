"""A process that serves has one heap, however many threads it has."""

import platform
import subprocess
import sys

import pytest

THREADS = """
import ctypes, os, threading
from agent_fabric.infrastructure.cluster.heap import share_heap
if {shares}:
    share_heap()
meeting = threading.Barrier(5)
def take():
    taken = [bytes(2_000) for _ in range(100)]  # too large for Python's own arenas
    meeting.wait()
threads = [threading.Thread(target=take) for _ in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(os.dup(1), b"w"))
libc.malloc_info(0, out)
libc.fclose(out)
"""


def heaps(*, shares: bool) -> int:
    program = [sys.executable, "-c", THREADS.format(shares=shares)]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has several heaps")
@pytest.mark.proves("SP-11")
def test_threads_share_one_heap() -> None:
    assert (heaps(shares=True), heaps(shares=False) > 1) == (1, True)
