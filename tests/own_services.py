"""Real NATS and Redis of the tests' own: on free ports of this machine, in temporary folders."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from free_ports import free_port
from services import need, need_program

START_TIMEOUT_S = 60.0


@dataclass(slots=True)
class OwnService:
    """A server that can be stopped, killed, paused and started again on the same port."""

    scheme: str
    command: list[str]
    folder: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise AssertionError(f"It did not start: {(self.folder / 'log').read_text()}")

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(START_TIMEOUT_S)

    def pause(self) -> None:
        """Let it hang: connections stay open, and nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


def need_nats() -> str:
    """Return the path of nats-server; without it the test is skipped, or failed in CI."""
    program = Path(sys.executable).with_name("nats-server")
    return str(program) if program.exists() else need_program("nats-server", "nats-server")


@contextmanager
def run_redis(*options: str) -> Iterator[OwnService]:
    """Start Redis without a file, and end it."""
    program = need_program("redis-server", "redis-server")
    with _service(
        "redis", lambda folder, port: [program, *_REDIS, "--port", str(port), "--dir", folder, *options]
    ) as it:
        yield it


@contextmanager
def run_nats(*options: str) -> Iterator[OwnService]:
    """Start NATS with JetStream, and end it."""
    need(sys.platform != "win32", "needs signals")
    program = need_nats()
    with _service("nats", lambda folder, port: [program, *_NATS, "-p", str(port), "-sd", folder, *options]) as it:
        yield it


_REDIS = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
_NATS = ("-js", "-a", "127.0.0.1")


@contextmanager
def _service(scheme: str, command: Callable[[str, int], list[str]]) -> Iterator[OwnService]:
    with tempfile.TemporaryDirectory(prefix=f"fabric-{scheme}-", dir="/tmp") as name:
        port = free_port()
        service = OwnService(scheme, command(name, port), Path(name), port)
        service.start()
        try:
            yield service
        finally:
            if service.process.poll() is None:
                service.kill()
