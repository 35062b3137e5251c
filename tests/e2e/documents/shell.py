"""Types the commands of a document into a shell, as a reader does: in order, in one folder, with one home."""

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, Self

from e2e.forked_command import forked_command
from free_ports import free_port

PATIENCE_S = 60.0
_KEEP_STATE = 'code=$?; export -p > "$STATE"; pwd > "$STATE.cwd"; exit $code'
_CLOCK_NUMBER = re.compile(r"\d[\d,.:]*")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DAY = re.compile(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day")


_NEWEST = {
    "run": "SELECT run_id FROM runs ORDER BY number DESC LIMIT 1",
    "approval": "SELECT id FROM pending_approvals WHERE status = 'pending' ORDER BY created_at DESC LIMIT 1",
    "session": "SELECT id FROM chat_sessions ORDER BY created_at DESC LIMIT 1",
}


class Typed(NamedTuple):
    """What came of a command."""

    code: int
    out: str


@dataclass
class Shell:
    """A shell in a folder of its own; variables and the current folder carry over from one command to the next."""

    folder: Path
    configured: Mapping[str, object] | None
    """The user's configuration; None: there is no file."""
    fresh: bool = False
    """Whether each `fabric` is a fresh interpreter instead of a fork of a warm one."""
    _servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folders, and choose the ports in place of 8787 and 8123."""
        self.home = self.folder / "home"
        self.home.mkdir(parents=True)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.port, self.model_port = free_port(), free_port()
        config = self.home / ".config/agent-fabric/config.json"
        if self.configured is not None:
            config.parent.mkdir(parents=True)
            config.write_text(json.dumps({"server": {"port": self.port}, **self.configured}))
        self._state = self.folder / "state"
        self._state.write_text("")
        Path(f"{self._state}.cwd").write_text(str(self.work))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(PATIENCE_S)

    async def type(self, text: str, answers: Sequence[str] = ()) -> Typed:
        """Run a line until it ends; give these answers to what it asks at the terminal."""
        return await asyncio.to_thread(self._type, text, answers)

    async def serve(self, text: str, port: int | None = None) -> None:
        """Start a server with this line, and wait until it listens."""
        process = await asyncio.to_thread(self._start, text.rstrip(" &"))
        for _ in range(int(PATIENCE_S * 10)):
            assert process.poll() is None, (self.folder / "server.err").read_text()
            with contextlib.suppress(ConnectionError):
                socket.create_connection(("127.0.0.1", port or self.port)).close()
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the server does not answer")

    def newest(self, what: str) -> str:
        """Return the beginning of the id of the newest run, or of the newest question that is open."""
        root = next(folder for folder in (Path(self._cwd()), self.work) if (folder / ".fabric").exists())
        with contextlib.closing(sqlite3.connect(root / ".fabric/fabric.db")) as store:
            row = store.execute(_NEWEST[what]).fetchone()
            assert row, f"there is no {what}"
            return str(row[0])

    def _start(self, text: str) -> subprocess.Popen[bytes]:
        with (self.folder / "server.err").open("wb") as err:
            process = subprocess.Popen(
                ["bash", "-c", f"cd {self._cwd()}; {self._restored(text)}"],
                env=self._environment(),
                stdout=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
            )
        self._servers.append(process)
        return process

    def _cwd(self) -> str:
        return Path(f"{self._state}.cwd").read_text().strip()

    def _restored(self, text: str) -> str:
        return f'source "$STATE"; set -a; {text}\n'

    def _environment(self) -> dict[str, str]:
        is_fresh = self.fresh or os.environ.get("FABRIC_TEST_PROCESSES") == "fresh"
        forked = () if is_fresh else (str(forked_command()),)
        return {
            "PATH": os.pathsep.join((*forked, str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
            "STATE": str(self._state),
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
        }

    def _type(self, text: str, answers: Sequence[str]) -> Typed:
        primary, secondary = os.openpty() if answers else (-1, -1)
        program = ("setsid", "--ctty", "bash") if answers else ("bash",)
        with (self.folder / "out").open("wb+") as out:
            process = subprocess.Popen(
                [*program, "-c", f"cd {self._cwd()}; {self._restored(text)}{_KEEP_STATE}"],
                env=self._environment(),
                stdin=secondary if answers else subprocess.DEVNULL,
                stdout=out,
                stderr=secondary if answers else out,
                start_new_session=not answers,
            )
            try:
                if answers:
                    os.close(secondary)
                    with os.fdopen(primary, "r+b", buffering=0) as terminal:
                        out.write(_answer(terminal, answers))
                code = process.wait(PATIENCE_S)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)  # which a `fabric` passes on to its fork
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(1)
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            out.seek(0)
            return Typed(code, out.read().decode(errors="replace"))


def _answer(terminal: IO[bytes], answers: Sequence[str]) -> bytes:
    """Wait for each question, then type; what is typed before it is asked for is lost. Return all that was shown."""
    waiting, shown, asked = list(answers), b"", b""
    while True:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, f"nothing more happens: {shown!r}"
        try:
            piece = terminal.read(1)
        except OSError:  # the other side is closed
            piece = b""
        if not piece:
            assert not waiting, f"it asked less than it should: {shown!r}"
            return shown
        shown, asked = shown + piece, asked + piece
        if waiting and asked.endswith((b": ", b"] ", b"\n> ", b"\x1b[0m> ")):
            terminal.write(waiting.pop(0).encode() + b"\n")
            asked = b""


def unlike(shown: Sequence[str], out: str) -> list[str]:
    """Return the lines that a document shows and the output does not have.

    Ids, numbers, days, paths of a home folder and what `…` stands for may differ. Lines may be missing in the document.
    """
    printed = [_comparable(line) for line in out.splitlines()]
    missing, at = [], 0
    for line in shown:
        if line.strip() in {"", "…"}:
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in _comparable(line).split("…")))
        here = next((number for number in range(at, len(printed)) if pattern.fullmatch(printed[number])), None)
        if here is None:
            missing.append(line)
        else:
            at = here + 1
    return missing


def _comparable(line: str) -> str:
    line = _UUID.sub("ID", line)
    line = re.sub(r"(?<![\w.:/])(?:…|~)?/[\w./-]*", "PATH", line)
    line = re.sub(r"· sandbox .*", "· sandbox", line)
    line = re.sub(r"[\w.:-]+ at http\S+", "MODEL", line)
    return " ".join(_CLOCK_NUMBER.sub("N", _DAY.sub("DAY", line)).split())
