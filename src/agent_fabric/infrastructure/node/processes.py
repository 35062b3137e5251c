"""Commands on a node: a process group of their own, a time limit for the whole tree, and what they printed."""

import asyncio
import ctypes
import json
import math
import os
import pwd
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.protocol import MAX_INLINE_BYTES
from agent_fabric.infrastructure.sandbox.process_environments import environment_of, lowest_pid_of

MARK: Final = "FABRIC_NODE_EXECUTION"
"""Variable of every process that a node has started: by it the whole tree is found, whatever its parents did."""
TERM_GRACE_S: Final = 5.0
HANGUP_GRACE_S: Final = 1.0
DRAIN_S: Final = 0.5
"""How long output is waited for that someone in the background might still write."""
MAX_SPOOLED_BYTES: Final = 64 * 1024 * 1024
HALF: Final = MAX_INLINE_BYTES // 4
"""Of each of the two outputs, this much from the beginning and as much from the end."""
_MAX_ENCODED_BYTES: Final = 400_000
_SHELL: Final = "/bin/sh"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RunAs(NamedTuple):
    """The user that commands run as."""

    uid: int
    gid: int
    home: str
    name: str
    drops: bool
    """Whether that is another user than the node's own."""


def run_as(name: str, *, allow_root: bool) -> RunAs:
    """Return the user for commands: the node's own, unless that is root and the node's file does not allow it.

    Raises:
        KeyError: there is no such user.
    """
    own = os.geteuid()
    if own != 0 or allow_root:
        entry = _entry(own)
        return RunAs(own, os.getegid(), _home(entry), entry.pw_name if entry else str(own), drops=False)
    entry = pwd.getpwnam(name)
    return RunAs(entry.pw_uid, entry.pw_gid, _home(entry), entry.pw_name, drops=True)


def _home(entry: pwd.struct_passwd | None) -> str:
    return entry.pw_dir if entry is not None and Path(entry.pw_dir).is_dir() else "/"


def _entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


class _Output:
    """What one of the outputs has brought: beginning and end at hand, all of it in a file once it is long."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._start = bytearray()
        self._end = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = 2 * HALF - len(self._start)
        if self._file is None and len(data) <= room:
            self._start += data
            return
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            os.write(self._file, self._start)
            self._end = self._start[HALF:]
            del self._start[HALF:]
        if self.size <= MAX_SPOOLED_BYTES:
            with suppress(OSError):  # a full disk costs the middle of an output, not the command
                os.write(self._file, data)
        self._end = (self._end + data)[-HALF:]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)

    @property
    def truncated(self) -> bool:
        return self._file is not None

    def text(self) -> str:
        cut = self.size - len(self._start) - len(self._end)
        return shorten(bytes(self._start), bytes(self._end), cut if self._file is not None else 0)


def shorten(first: bytes, last: bytes, cut: int) -> str:
    """Return the beginning and the end of an output, between which so many bytes are left out, as a result has it."""
    between = f"\n[… {cut:,} bytes are left out …]\n" if cut > 0 else ""
    start, end = first.decode(errors="replace"), last.decode(errors="replace")
    while len(json.dumps(start + end, ensure_ascii=False).encode("utf-8", "replace")) > _MAX_ENCODED_BYTES:
        start, end = start[: len(start) // 2], end[len(end) // 2 :]
        between = "\n[… a part is left out: it has characters that take much room …]\n"
    return f"{start}{between}{end}"


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs command lines for a node."""

    user: RunAs
    instance: str
    """Marks the processes of this start of the node."""
    outputs: Path
    """Folder for long outputs."""

    async def run(
        self, execution_id: str, command: str, *, cwd: str, environment: Mapping[str, str], timeout_s: float
    ) -> dict[str, Any]:
        """Run a command line; cancelling it ends all its processes."""
        mark = self.mark(execution_id)
        started = time.monotonic()
        folder = cwd or self.user.home
        try:
            process = await asyncio.create_subprocess_exec(
                _SHELL,
                "-c",
                command,
                cwd=folder,
                env={**self._usual(), **environment, MARK: mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                **self._drop(),
            )
        except OSError as problem:
            return {"status": "error", "error": f"it could not be started in {folder}: {problem}"}
        out, err = _Output(self.outputs / f"{execution_id}.out"), _Output(self.outputs / f"{execution_id}.err")
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [asyncio.create_task(_drain(process.stdout, out)), asyncio.create_task(_drain(process.stderr, err))]
        timed_out = False
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    await process.wait()
            except TimeoutError:
                timed_out = True
                await self._terminate(process, mark)
            await asyncio.wait(readers, timeout=DRAIN_S)
        finally:
            kill_tree(process.pid, mark, began=started)
            for reader in readers:
                reader.cancel()
            with suppress(asyncio.CancelledError):
                await process.wait()
            out.close()
            err.close()
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        return {
            "status": "success" if code == 0 and not timed_out else "error",
            "exit_code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "stdout": out.text(),
            "stderr": err.text(),
            "truncated": out.truncated or err.truncated,
            "bytes": {"stdout": out.size, "stderr": err.size},
            "duration_ms": round((time.monotonic() - started) * 1000, 3),
            **({"error": f"it took longer than {timeout_s:g} s and was ended"} if timed_out else {}),
        }

    async def start_at_terminal(
        self, execution_id: str, terminal: str, *, cwd: str, term: str
    ) -> asyncio.subprocess.Process:
        """Start a shell whose controlling terminal is the one with this path; its processes are those of the call.

        Raises:
            OSError: it cannot be started.
        """
        program = shutil.which("bash", path=_PATH) or _SHELL
        # The leader of a session gets the first terminal that it opens as its controlling one.
        attach = 'T="$FABRIC_TTY"; unset FABRIC_TTY; exec "$0" -i <>"$T" >&0 2>&0'
        return await asyncio.create_subprocess_exec(
            *(_SHELL, "-c", attach, program),
            cwd=cwd or self.user.home,
            env={**self._usual(), "TERM": term, "FABRIC_TTY": terminal, MARK: self.mark(execution_id)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            **self._drop(),
        )

    def mark(self, execution_id: str) -> str:
        """Return what the processes of a call are found by."""
        return f"{self.instance}/{execution_id}"

    async def end(self, process: asyncio.subprocess.Process, execution_id: str) -> None:
        """End all processes at a terminal: as if it was closed, which they can heed, and then as they cannot."""
        mark = self.mark(execution_id)
        if process.returncode is None:
            await self._terminate(process, mark, signal.SIGHUP, HANGUP_GRACE_S)
        kill_tree(process.pid, mark)
        with suppress(asyncio.CancelledError):
            await process.wait()

    async def start_server(
        self, words: Sequence[str], environment: Mapping[str, str], max_line_bytes: int
    ) -> asyncio.subprocess.Process:
        """Start a program that is talked to, in a session of its own. Its errors are not read.

        Raises:
            OSError: it cannot be started.
        """
        return await asyncio.create_subprocess_exec(
            *words,
            cwd=self.user.home,
            env={**self._usual(), **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=max_line_bytes,
            start_new_session=True,
            **self._drop(),
        )

    def _drop(self) -> dict[str, Any]:
        return {"user": self.user.uid, "group": self.user.gid, "extra_groups": []} if self.user.drops else {}

    def _usual(self) -> dict[str, str]:
        return {
            "PATH": _PATH,
            "HOME": self.user.home,
            "USER": self.user.name,
            "LOGNAME": self.user.name,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "SHELL": _SHELL,
        }

    async def _terminate(
        self,
        process: asyncio.subprocess.Process,
        mark: str,
        number: signal.Signals = signal.SIGTERM,
        grace_s: float = TERM_GRACE_S,
    ) -> None:
        for pid in tree_of(process.pid, mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await process.wait()


async def _drain(stream: asyncio.StreamReader, output: _Output) -> None:
    while data := await stream.read(65_536):
        output.add(data)


def tree_of(leader: int, mark: str, *, began: float = -math.inf) -> Iterator[int]:
    """Yield the processes of a command: those of its session, and those that carry its mark.

    To open the environment of every process takes long on a busy machine, and nothing else happens meanwhile. It is
    not opened if the process cannot be one of the command: it was there before, or its session was begun by no one
    who has a number here, as that of the kernel's threads.
    """
    wanted, lowest = f"{MARK}={mark}".encode(), lowest_pid_of(leader, began)
    for pid in _pids():
        if pid < lowest:
            continue
        session = _session(pid)
        if session == leader or (session != 0 and wanted in environment_of(pid)):
            yield pid


def kill_tree(leader: int, mark: str, *, began: float = -math.inf) -> None:
    """Kill whatever is left of a command; a few rounds, since what dies may just have started something.

    `began` is a moment of `time.monotonic` before it was started, if it is known.
    """
    for _ in range(5):
        found = [pid for pid in tree_of(leader, mark, began=began) if _is_alive(pid)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def kill_marked(instance: str) -> int:
    """Kill all processes that one start of a node has left behind; return how many there were."""
    wanted, killed = f"{MARK}={instance}/".encode(), 0
    for _ in range(10):
        found = [
            pid
            for pid in _pids()
            if pid != os.getpid() and any(each.startswith(wanted) for each in environment_of(pid))
        ]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        if not found:
            break
        time.sleep(0.01)
    return killed


def _pids() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - a path for each costs


def _session(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return -1


def _is_alive(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def start_guard(instance: str) -> int:
    """Fork the guard of this start of the node; call it before there are threads. Return what keeps it waiting."""
    waits, holds = os.pipe()
    if os.fork():
        os.close(waits)
        return holds
    os.close(holds)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    with suppress(OSError):
        while os.read(waits, 64):
            pass
    kill_marked(instance)
    os._exit(0)


def give_back_memory() -> None:
    """Return to the system what starting, or a long output, has left: glibc would keep it for later."""
    with suppress(OSError, AttributeError):  # other C libraries have no such function, and need none
        ctypes.CDLL(None).malloc_trim(0)
