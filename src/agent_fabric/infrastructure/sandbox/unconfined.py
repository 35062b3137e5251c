"""The box that is none: level C. Files stay in the workspace; commands run with all the rights of the caller."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.infrastructure.sandbox.beneath import Beneath

MAX_OUTPUT_BYTES = 64 * 1024
"""What is kept of each of stdout and stderr."""
TERM_GRACE_S = 1.0
"""How long a command that ran out of time may take to end by itself after SIGTERM."""
STRAGGLERS_S = 0.25
"""How long processes that still hold the output open may go on after the command itself has ended."""
SETTLE_S = 2.0
"""How long to wait for what was killed to be gone."""

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "JAVA_HOME", "GOPATH", "GOROOT"),
        *("CARGO_HOME", "RUSTUP_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("GIT_SSL_CAINFO", "PIP_CERT"),
        *_PROXIES,
        *(name.upper() for name in _PROXIES),
    )
)
"""Variables a command may see, besides LC_*. A proxy whose address holds a password is left out."""

_RUN = "FABRIC_RUN_ID"
_COMMAND = "FABRIC_COMMAND_ID"

_START = b"""
exec 3<&0 </dev/null
( trap "" HUP INT QUIT TERM; exec /bin/sh -c "$1" watcher <&3 3<&- >/dev/null 2>&1 & )
shift
exec bash --noprofile --norc -o pipefail -c "$@" 3<&-
"""
"""Start the watcher, then become the command.

The watcher is started twice removed, so that no program of the command finds a child it did not start, and by a
program of its own, so that a search by command line does not find it.
"""

_WATCH = f"""
read -r _
if read -r self _ </proc/self/stat; then
  for _ in 1 2 3; do
    for found in $(grep -lszxF "{_COMMAND}=${_COMMAND}" /proc/[0-9]*/environ); do
      found=${{found#/proc/}}
      found=${{found%/environ}}
      [ "$found" = "$self" ] || kill -KILL "$found"
    done
  done
fi
kill -KILL 0
""".encode()
"""Wait until the other end of stdin, held by the driver alone, is closed; then end every process of the command."""

_MAX_ARGUMENT_BYTES = 100_000
"""Linux takes 128 KiB per argument; a longer command is handed over in pieces."""
_JOIN_PIECES = f'printf -v {_COMMAND}_TEXT %s "$@"; set --; eval "${_COMMAND}_TEXT"'.encode()

_PIPE_BYTES = 64 * 1024
_LAST_READS = 16
_YOUNG_S = 1.0


class UnconfinedSandbox:
    """Sandbox of level C: no wall around commands, only order.

    Commands see an environment without keys or tokens, have no terminal and no input. Of each output the first and
    the last half of `max_output_bytes` are kept; the rest is read, counted and dropped.

    A command's processes are found by their process group and, on Linux, by a mark in their environment, so that those
    which left the group end too. What clears its environment and leaves the group escapes: level C is no boundary.
    """

    level = "C"

    def __init__(
        self,
        workspace: Path,
        run_id: str,
        *,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._workspace = workspace
        self._run_id = run_id
        self._max_output_bytes = max_output_bytes
        self._given_environment = environment
        self._running: set[str] = set()

    # A box is made for every run, and many runs use only a part of it: so each part when it is first needed.

    @cached_property
    def _files(self) -> Beneath:
        return Beneath(self._workspace)

    @cached_property
    def _environment(self) -> dict[str, str]:
        given = os.environ if self._given_environment is None else self._given_environment
        return _allowed(given) | {_RUN: self._run_id}

    async def run_command(self, command: str, *, timeout_s: float) -> CommandOutcome:
        """Run one bash command line with the workspace as its current folder.

        Raises:
            ValueError: the command is not valid text.
            OSError: the command could not be started.
        """
        arguments = _arguments(command)
        mark = secrets.token_hex(8)
        process: asyncio.subprocess.Process | None = None
        begun = time.monotonic()
        with ExitStack() as pipes:
            out = pipes.enter_context(_Drain(self._max_output_bytes))
            err = pipes.enter_context(_Drain(self._max_output_bytes))
            self._running.add(mark)
            try:
                process = await self._start(arguments, mark, out, err, pipes)
                timed_out = await _wait(process, out, err, timeout_s)
            finally:
                await _end(process, mark, begun)
                self._running.discard(mark)
            await _ended_within(SETTLE_S, out, err)
        return CommandOutcome(
            exit_code=-signal.SIGKILL if process.returncode is None else process.returncode,
            stdout=out.kept,
            stderr=err.kept,
            stdout_dropped=out.dropped,
            stderr_dropped=err.dropped,
            timed_out=timed_out,
        )

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        return await asyncio.to_thread(self._files.read_file, path, max_bytes)

    async def write_file(self, path: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._files.write_file, path, data)

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return await asyncio.to_thread(self._files.list_files, path, max_entries)

    async def end_leftovers(self) -> int:
        """End processes that an earlier driver of this run left behind; always 0 where there is no /proc."""
        ours = {_entry(_COMMAND, mark) for mark in self._running}
        return await asyncio.to_thread(_kill_marked, _entry(_RUN, self._run_id), spare=ours)

    async def _start(
        self, arguments: list[bytes], mark: str, out: "_Drain", err: "_Drain", pipes: ExitStack
    ) -> asyncio.subprocess.Process:
        watched, lifeline = os.pipe()
        pipes.callback(os.close, lifeline)
        try:
            return await asyncio.create_subprocess_exec(
                *(b"/bin/sh", b"-c", _START, b"sh", _WATCH, *arguments),
                cwd=self._files.root,
                env=self._environment | {_COMMAND: mark},
                stdin=watched,
                stdout=out.writer,
                stderr=err.writer,
                start_new_session=True,
            )
        except OSError as error:
            # The system's own message would name the workspace's place on this machine.
            number = error.errno or 0
            raise OSError(number, f"the command cannot be started: {os.strerror(number)}") from None
        finally:
            os.close(watched)
            out.close_writer()
            err.close_writer()


class _Drain:
    """A pipe read to its end as data comes, of which the first and the last half of a limit are kept."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self.ended = asyncio.Event()
        self._first, self._last = bytearray(), bytearray()
        self._first_size, self._last_size = limit // 2, limit - limit // 2
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._take)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close_writer()
        for _ in range(_LAST_READS):  # what is in the pipe now; whoever still writes is not ours any more
            if self.ended.is_set() or not self._take():
                break
        self._loop.remove_reader(self._reader)
        os.close(self._reader)

    @property
    def kept(self) -> bytes:
        return bytes(self._first + self._last)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _take(self) -> bool:
        try:
            chunk = os.read(self._reader, _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._reader)
            self.ended.set()
        room = self._first_size - len(self._first)
        self._first += chunk[:room]
        self._last += chunk[room:]
        surplus = max(len(self._last) - self._last_size, 0)
        del self._last[:surplus]
        self.dropped += surplus
        return True


async def _wait(process: asyncio.subprocess.Process, out: _Drain, err: _Drain, timeout_s: float) -> bool:
    """Wait for the command and, briefly, for those who still write; tell whether it ran out of time."""
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        _signal_group(process.pid, signal.SIGTERM)
        await _ended_within(TERM_GRACE_S, process, out, err)
        return True
    await _ended_within(STRAGGLERS_S, out, err)
    return False


async def _end(process: asyncio.subprocess.Process | None, mark: str, begun: float) -> None:
    """Kill whatever is left of a command. The signals are sent even if the wait for their effect is cancelled."""
    above = 0
    if process is not None:
        _signal_group(process.pid, signal.SIGKILL)
        if time.monotonic() - begun < _YOUNG_S and _newest_pid() >= process.pid:
            above = process.pid  # numbers have not begun anew since: every process of the command has a higher one
    await asyncio.to_thread(_kill_marked, _entry(_COMMAND, mark), above=above)
    if process is not None:
        await _ended_within(SETTLE_S, process)


async def _ended_within(timeout_s: float, *these: _Drain | asyncio.subprocess.Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for one in these:
                await (one.ended.wait() if isinstance(one, _Drain) else one.wait())


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_marked(entry: bytes, *, spare: set[bytes] | None = None, above: int = 0) -> int:
    """Kill every process with this entry in its environment, until there is none; return how many there were."""
    killed: set[int] = set()
    deadline = time.monotonic() + SETTLE_S
    while found := _marked(entry, spare or set(), above):
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        if time.monotonic() > deadline:
            break
        time.sleep(0.0005)
    return len(killed)


def _marked(entry: bytes, spare: set[bytes], above: int) -> list[int]:
    found = []
    for name in os.listdir("/proc") if _has_proc() else ():  # noqa: PTH208 - a path object per process costs
        if name.isdigit() and int(name) > above and int(name) != os.getpid():
            entries: set[bytes] = set()
            with suppress(OSError):  # ended meanwhile, or somebody else's
                entries.update(Path(f"/proc/{name}/environ").read_bytes().split(b"\0"))
            if entry in entries and not entries & spare:
                found.append(int(name))
    return found


def _newest_pid() -> int:
    return int(Path("/proc/loadavg").read_bytes().split()[-1]) if _has_proc() else 0


def _has_proc() -> bool:
    return Path("/proc/self/environ").exists()


def _entry(name: str, value: str) -> bytes:
    return os.fsencode(f"{name}={value}")


def _allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a command may see of an environment."""
    seen = {
        name: value
        for name, value in environment.items()
        if (name in PASSED_ON or name.startswith("LC_")) and not (name.lower() in _PROXIES and "@" in value)
    }
    return {"PATH": os.defpath} | seen | {"TERM": "dumb"}


def _arguments(command: str) -> list[bytes]:
    """Return what follows `bash -c`: the command, or a line that joins its pieces and runs them."""
    if "\0" in command:
        raise ValueError("the command contains a NUL byte")
    try:
        text = command.encode()
    except UnicodeEncodeError:
        raise ValueError("the command is not valid text") from None
    if len(text) <= _MAX_ARGUMENT_BYTES:
        return [text]
    pieces = [text[at : at + _MAX_ARGUMENT_BYTES] for at in range(0, len(text), _MAX_ARGUMENT_BYTES)]
    return [_JOIN_PIECES, b"bash", *pieces]
