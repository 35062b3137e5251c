"""The log on real files, pipes and processes."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.infrastructure.observability.operations_log import (
    MAX_WAITING,
    FileTarget,
    LineOutput,
    close_operations_log,
    configure_operations_log,
    operations_log,
)
from services import need

pytestmark = pytest.mark.proves("AF-149")
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_operations_log()


def events_in(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text(encoding="utf-8").splitlines()]


def say(path: Path, event: str) -> None:
    """Log and wait until it is written: `path` grows, or appears with something in it."""
    before = _identity(path)
    operations_log("test").info(event)
    until = time.monotonic() + PATIENCE_S
    while (now := _identity(path)) == before or now[1] == 0:
        assert time.monotonic() < until, f"{event} was not written"
        time.sleep(0.002)


def _identity(path: Path) -> tuple[int, int]:
    return (path.stat().st_ino, path.stat().st_size) if path.exists() else (0, 0)


def opened(path: Path, **settings: Any) -> io.StringIO:
    stream = io.StringIO()
    configure_operations_log(LogConfig(file=path, **settings), (), stream)
    return stream


def test_a_file_is_appended_to_and_nothing_goes_to_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "fabric.log"
    for event in ("one", "two"):
        stream = opened(path)
        operations_log("test").info(event)
        close_operations_log()
        assert stream.getvalue() == ""
    assert events_in(path) == ["one", "two"]
    assert path.stat().st_mode & 0o007 == 0


def test_a_file_for_people_has_no_colours(tmp_path: Path) -> None:
    opened(tmp_path / "log", format="pretty")
    operations_log("test").info("hello", n=1)
    close_operations_log()
    text = (tmp_path / "log").read_text()
    assert "[info     ] hello" in text
    assert "\x1b" not in text


def test_a_rotated_file_is_left_and_a_new_one_begun(tmp_path: Path) -> None:
    path, old = tmp_path / "fabric.log", tmp_path / "fabric.log.1"
    opened(path)
    say(path, "one")
    path.rename(old)
    say(path, "two")
    say(path, "three")
    path.rename(tmp_path / "fabric.log.2")
    path.touch()  # as logrotate's `create` does
    say(path, "four")
    assert (events_in(old), events_in(tmp_path / "fabric.log.2"), events_in(path)) == (
        ["one"],
        ["two", "three"],
        ["four"],
    )


def test_a_file_that_was_removed_or_cut_is_written_on(tmp_path: Path) -> None:
    path = tmp_path / "fabric.log"
    opened(path)
    say(path, "one")
    path.unlink()
    say(path, "two")
    os.truncate(path, 0)  # as logrotate's `copytruncate` does
    say(path, "three")
    assert events_in(path) == ["three"]


@pytest.mark.parametrize("name", ["missing/fabric.log", "folder", "/dev/full"])
def test_a_file_that_cannot_be_written_is_told_once_and_the_program_goes_on(tmp_path: Path, name: str) -> None:
    need(name != "/dev/full" or Path(name).exists(), "this system has no /dev/full")
    (tmp_path / "folder").mkdir()
    stream = opened(tmp_path / name)
    for number in range(50):
        operations_log("test").info("event", number=number)
    close_operations_log()
    (told,) = stream.getvalue().splitlines()
    assert told.startswith(f"fabric: the log file {tmp_path / name} cannot be written: ")
    assert told.endswith(" Continuing without it.")


def test_when_a_file_can_be_written_again_it_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "later" / "fabric.log"
    stream = opened(path)
    for _ in range(3):
        operations_log("test").info("lost")
    until = time.monotonic() + PATIENCE_S
    while not stream.getvalue():
        assert time.monotonic() < until
        time.sleep(0.002)
    path.parent.mkdir()
    say(path, "found")
    close_operations_log()
    first, *rest = [json.loads(line) for line in path.read_text().splitlines()]
    assert first["event"] == "log_lines_lost"
    assert first["count"] + [line["event"] for line in rest].count("lost") == 3
    assert rest[-1]["event"] == "found"


class Gate:
    """Target that waits until it may write."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.open.wait()
        self.written += text.splitlines()

    def close(self) -> None:
        pass


def test_a_reader_that_hangs_holds_nobody_up_and_the_rest_is_counted() -> None:
    gate = Gate()
    output = LineOutput(gate, lost_line=lambda count: f"lost {count}", on_problem=lambda _: None)
    for number in range(MAX_WAITING + 700):
        output.write(str(number))
    gate.open.set()
    output.close(PATIENCE_S)
    # The thread that writes may take up lines while others come, and tell twice.
    told = [int(line.removeprefix("lost ")) for line in gate.written if line.startswith("lost ")]
    assert len(gate.written) - len(told) + sum(told) == MAX_WAITING + 700
    assert 200 <= sum(told) <= 700


def test_a_pipe_that_nobody_reads_holds_nobody_up() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        configure_operations_log(LogConfig(), (), stream)
        for _ in range(2_000):
            operations_log("test").info("event", filler="x" * 500)
        received: list[bytes] = []
        thread = threading.Thread(target=lambda: received.extend(reader))
        thread.start()
        close_operations_log()
        stream.close()
        thread.join(PATIENCE_S)
    assert [json.loads(line)["event"] for line in received] == ["event"] * 2_000


def test_a_pipe_that_others_made_non_blocking_loses_nothing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        configure_operations_log(LogConfig(), (), stream)
        for _ in range(500):
            operations_log("test").info("event", filler="x" * 500)
        received: list[bytes] = []
        thread = threading.Thread(target=lambda: received.extend(reader))
        thread.start()
        close_operations_log()
        stream.close()
        thread.join(PATIENCE_S)
    assert len(received) == 500


CHATTY = """
import sys
from pathlib import Path
from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.infrastructure.observability.operations_log import configure_operations_log, operations_log
file = Path(sys.argv[1]) if len(sys.argv) > 1 else None
configure_operations_log(LogConfig(file=file), (), sys.stderr)
for number in range(1000):
    operations_log("test").info("event", number=number, filler="x" * 300)
print("done")
"""


def test_a_process_ends_in_time_and_in_peace_although_nobody_reads_its_log() -> None:
    with subprocess.Popen([sys.executable, "-c", CHATTY], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(PATIENCE_S) == 0  # its standard error is full, and nobody has read a byte of it
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"


def test_what_was_said_last_is_written_when_the_process_ends() -> None:
    done = subprocess.run([sys.executable, "-c", CHATTY], capture_output=True, timeout=PATIENCE_S, check=True)
    assert [json.loads(line)["number"] for line in done.stderr.splitlines()] == list(range(1000))


def test_processes_that_share_a_file_do_not_tear_each_other_s_lines(tmp_path: Path) -> None:
    path = tmp_path / "fabric.log"
    processes = [
        subprocess.Popen([sys.executable, "-c", CHATTY, str(path)], stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    assert [process.wait(PATIENCE_S) for process in processes] == [0, 0, 0]
    assert len(events_in(path)) == 3_000


def test_a_line_that_was_torn_by_a_full_disk_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "fabric.log"
    target = FileTarget(path)
    target.write('{"event": "one"}\n')
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, hard))
        with pytest.raises(OSError, match="File too large"):
            target.write('{"event": "torn"}\n')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    target.write('{"event": "two"}\n')
    target.close()
    assert path.read_text().splitlines() == ['{"event": "one"}', '{"eve', '{"event": "two"}']
