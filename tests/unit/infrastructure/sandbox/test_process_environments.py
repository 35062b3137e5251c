"""A mark in the environment of another process is found at any moment of its life."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent_fabric.infrastructure.sandbox import process_environments
from agent_fabric.infrastructure.sandbox.process_environments import environment_of, lowest_pid_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is /proc on Linux only")

REPLACED_AGAIN = 'exec /bin/sh -c "$0" "$0"'


@contextmanager
def started(*words: str, **environment: str) -> Iterator[int]:
    process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)  # before it has printed something, it might still be a copy of us
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_becomes_another_program_all_the_time_never_loses_its_mark() -> None:
    script = f"echo ready; {REPLACED_AGAIN}"
    with started("/bin/sh", "-c", script, REPLACED_AGAIN, MARK="one") as pid:
        for _ in range(2_000):
            assert b"MARK=one" in environment_of(pid)


def test_whoever_has_no_environment_or_has_ended_has_none_and_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_environments, "_PAUSE_S", -1.0)  # of which `sleep` says that it is wrong
    with started("/bin/sh", "-c", "exec /usr/bin/env -i /bin/sh -c 'echo ready; read _'") as pid:
        assert {each for each in environment_of(pid) if b"MARK" in each} == set()
    assert environment_of(pid) == set()


def test_only_of_a_young_command_it_is_known_which_numbers_its_processes_cannot_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_environments, "newest_pid", lambda: 500)
    now = time.monotonic()
    assert lowest_pid_of(400, now) == 400
    assert lowest_pid_of(30_000, now) == 0  # numbers have begun anew since
    assert lowest_pid_of(400, now - 3_600) == 0  # they may have, all of them
