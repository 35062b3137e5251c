"""A mark in the environment of another process is found at any moment of its life."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent_fabric.infrastructure.process_environments import environment_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is /proc on Linux only")

REPLACED_AGAIN = 'exec /bin/sh -c "$0" "$0"'


@contextmanager
def started(*words: str, **environment: str) -> Iterator[int]:
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
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


def test_whoever_has_no_environment_or_has_ended_has_none() -> None:
    with started("/bin/sh", "-c", "exec /usr/bin/env -i /bin/sh -c 'echo ready; read _'") as pid:
        assert {each for each in environment_of(pid) if b"MARK" in each} == set()
    assert environment_of(pid) == set()
