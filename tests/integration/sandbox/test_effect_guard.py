"""The guard ends what runs have started when no new deadline comes, and nothing else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_fabric.infrastructure.sandbox import effect_guard_process
from agent_fabric.infrastructure.sandbox.bubblewrap_build import BOX_OF
from agent_fabric.infrastructure.sandbox.effect_guard import EffectGuard
from agent_fabric.infrastructure.sandbox.effect_guard_process import boot_time
from agent_fabric.infrastructure.sandbox.podman_engine import CONTAINER, SEPARATOR
from agent_fabric.infrastructure.sandbox.process_environments import RUN
from agent_fabric.infrastructure.sandbox.run_processes import MARK, mark_process

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc, which is Linux's")


def start(**environ: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(SLEEP, env={**os.environ, **environ})


@pytest.mark.proves("SC-6")
def test_what_a_run_has_started_ends_at_the_deadline_and_nothing_else() -> None:
    guard = EffectGuard()
    boxed, command, server, other = start(**{BOX_OF: "r"}), start(**{RUN: "r"}), start(), start()
    mark_process(server.pid)
    try:
        guard.renew(boot_time() + 30.0)
        guard.renew(boot_time() + 3.0)
        time.sleep(0.5)
        assert all(each.poll() is None for each in (boxed, command, server, other))
        for each in (boxed, command, server):
            assert each.wait(PATIENCE_S) == -9
        time.sleep(0.2)
        assert other.poll() is None
        guard.renew(boot_time() + 30.0)
        late = start(**{RUN: "r"})  # under a new lease
        time.sleep(0.3)
        assert late.poll() is None
        late.kill()
        late.wait()
    finally:
        other.kill()
        other.wait()
        guard.close()


def test_it_ends_with_the_process_that_it_guards() -> None:
    guard = EffectGuard()
    guard.renew(boot_time() + 30.0)
    process = guard._process
    assert process is not None
    guard.close()
    assert process.returncode == 0


@pytest.mark.proves("SC-6")
def test_what_is_started_too_late_ends_at_once() -> None:
    guard = EffectGuard()
    try:
        guard.renew(boot_time())
        time.sleep(0.3)  # as if it had been frozen just before it started something
        began = boot_time()
        assert start(**{RUN: "r"}).wait(PATIENCE_S) == -9
        assert boot_time() - began < 30.0
    finally:
        guard.close()


def test_it_knows_the_marks_of_runs() -> None:
    marks = tuple(f"{name}=".encode() for name in (RUN, BOX_OF, CONTAINER))
    assert (marks, marks[-1], SEPARATOR.encode()) == (
        effect_guard_process.VARIABLES,
        effect_guard_process.CONTAINER,
        effect_guard_process.SEPARATOR,
    )
    assert str(MARK).encode() == effect_guard_process.LIMIT
