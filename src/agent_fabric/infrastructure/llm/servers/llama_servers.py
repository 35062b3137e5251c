"""llama.cpp servers that all processes of a user share."""

import asyncio
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent_fabric.application.ports.llm import Notice
from agent_fabric.domain.errors import ConfigError, FabricError, ModelError, ModelRefused
from agent_fabric.infrastructure.llm.servers.failures import Failures
from agent_fabric.infrastructure.llm.servers.folder import prepare_folder, servers_folder
from agent_fabric.infrastructure.llm.servers.leases import Leases
from agent_fabric.infrastructure.llm.servers.locks import FileLock, is_free, is_held
from agent_fabric.infrastructure.llm.servers.processes import (
    EMBEDDED,
    StartedServer,
    end_server,
    is_healthy,
    memory_of,
    server_environment,
    start_server,
)
from agent_fabric.infrastructure.llm.servers.server_files import MANAGED, Holder, ServerFiles
from agent_fabric.infrastructure.llm.servers.spec import Endpoint, RunningServer, ServerSpec, endpoint_of, quiet
from agent_fabric.infrastructure.llm.servers.start_errors import start_failure
from agent_fabric.infrastructure.threads import on_own_thread

_LOOK_S = 0.05
_NOTICE_EVERY_S = 5.0
_GONE_S = 2.0


@dataclass(slots=True)
class _Known:
    """What this process remembers of one server."""

    endpoint: Endpoint | None = None
    """Set: it was ready when we last looked."""
    stamp: tuple[int, int] | None = None
    """Of its announcement."""
    looked_at: float = 0.0
    """When it last said that it is well."""
    failures: Failures = field(default_factory=Failures)


class LlamaServers:
    """Finds or starts the server for a model; one server for all processes of the user that want the same.

    A server that nobody has used for a while ends by itself, also when those who used it were killed.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        command: Sequence[str] = EMBEDDED,
        environ: Mapping[str, str] | None = None,
        load_timeout_s: float = 300.0,
        lease_s: float = 600.0,
        health_every_s: float = 5.0,
        hung_s: float = 60.0,
    ) -> None:
        """Nothing happens yet.

        Args:
            folder: where servers are found again; by default the user's runtime or state folder.
            command: the program to start; it reads its settings from stdin.
            environ: our own environment; the server gets a part of it.
            load_timeout_s: how long a model may take to load.
            lease_s: how long this process counts as a user after its last `ensure`.
            health_every_s: a server that runs is asked not more often than this whether it is well.
            hung_s: a server that runs but has not answered for so long is ended and started again.
        """
        self._environ = os.environ if environ is None else environ
        self._folder = folder or servers_folder(self._environ)
        self._command = tuple(command)
        self._load_timeout_s = load_timeout_s
        self._health_every_s = health_every_s
        self._hung_s = hung_s
        self._leases = Leases(lease_s)
        self._known: dict[str, _Known] = {}
        self._starting: dict[str, asyncio.Lock] = {}

    async def ensure(self, spec: ServerSpec, notice: Notice = quiet) -> Endpoint:
        """Return a server that is ready, and count as its user for a while.

        Call it before every request, and again after a connection that failed: when all is well it costs
        microseconds, when the server died another one is started.

        Raises:
            ModelRefused: the model file is not there.
            MissingExtra: llama.cpp is not installed.
            ModelError: the server does not start; message and hint say why.
            ConfigError: the folder for servers cannot be used.
        """
        files = ServerFiles(self._folder, spec.key())
        known = self._known.setdefault(files.key, _Known())
        try:
            if not self._leases.holds(files):
                prepare_folder(self._folder)
            await self._leases.renew(files)  # first: from here on the server does not end for lack of users
            if known.endpoint is not None and self._is_well(files, known):
                return known.endpoint
            # One at a time for this server, and not in the way of those who ask for another one.
            async with self._starting.setdefault(files.key, asyncio.Lock()):
                if known.endpoint is not None and self._is_well(files, known):
                    return known.endpoint
                return await self._look_or_start(spec, files, known, notice)
        except OSError as problem:
            raise ConfigError(
                f"The folder for model servers, {self._folder}, cannot be used: {problem}",
                hint="Set XDG_STATE_HOME (or XDG_RUNTIME_DIR) to a folder of your own on a local disk.",
            ) from None

    def release(self, spec: ServerSpec) -> None:
        """No longer count as a user of this server; it ends when it has no other for a while."""
        with suppress(ModelRefused):  # a file that is gone has no server that could be found
            self._leases.release(spec.key())

    async def stop(self, server: ServerSpec | str) -> bool:
        """End a server, given as what it serves or by its key, whoever started or uses it; return whether it ran."""
        return await self._stop(server if isinstance(server, str) else server.key())

    async def stop_all(self) -> int:
        """End every shared server of this user; return how many there were."""
        stopped = [await self._stop(key) for key in self._keys() if not key.startswith(MANAGED)]
        return sum(stopped)

    async def stop_idle(self) -> int:
        """End the shared servers of this user that nobody uses now; return how many there were."""
        idle = [server.key for server in self.running() if not server.in_use]
        return sum([await self._stop(key) for key in idle])

    def running(self) -> list[RunningServer]:
        """Return the servers of this user that run or load now, those of other processes too."""
        return [found for key in self._keys() if (found := _running(ServerFiles(self._folder, key))) is not None]

    async def aclose(self) -> None:
        """No longer count as a user of anything. Servers live on until they are idle, for the next process."""
        self._leases.release_all()

    async def _stop(self, key: str) -> bool:
        self._leases.release(key)
        self._known.pop(key, None)
        return await end_server(ServerFiles(self._folder, key))

    def _keys(self) -> list[str]:
        return sorted(lock.stem for lock in self._folder.glob("*.lock"))

    def _is_well(self, files: ServerFiles, known: _Known) -> bool:
        return _is_the_same(files, known) and time.monotonic() - known.looked_at < self._health_every_s

    async def _look_or_start(self, spec: ServerSpec, files: ServerFiles, known: _Known, notice: Notice) -> Endpoint:
        if known.endpoint is not None and not _is_the_same(files, known):
            self._note_end(spec, files, known, notice)
        begun = time.monotonic()
        told = begun - _NOTICE_EVERY_S + _LOOK_S
        started: StartedServer | None = None
        while True:
            stamp = files.stamp()
            endpoint = await self._ready(files)
            if endpoint is not None:
                return self._note_ready(endpoint, stamp, known)
            now = time.monotonic()
            if is_held(files.lock):
                if known.endpoint is not None:  # it was ready, and runs, but does not answer
                    if now - begun > self._hung_s:
                        await self._end_hung(spec, files, known, notice)
                elif now - begun > self._load_timeout_s:
                    raise await self._too_slow(spec, files, known, ours=started is not None)
                elif now - told > _NOTICE_EVERY_S:
                    told = now
                    notice(f"loading {spec.name} …" + (f" {now - begun:.0f} s" if now - begun > 1 else ""))
            elif started is not None:
                raise self._note_failure(known, await _why(spec, files, started))
            else:
                known.failures.refuse_storm(spec.name, files.log)
                started = await self._start(spec, files, known)
                begun = now
            await asyncio.sleep(_LOOK_S)

    async def _start(self, spec: ServerSpec, files: ServerFiles, known: _Known) -> StartedServer | None:
        lock = FileLock.take(files.lock)
        if lock is None:
            return None  # somebody else was faster
        settings = {
            "folder": str(files.folder),
            "key": files.key,
            "name": spec.name,
            "model": str(spec.model.resolve()),
            "context_window": spec.context_window,
            "slots": spec.slots,
            "threads": spec.threads,
            "idle_s": spec.idle_s,
            "api_key": secrets.token_urlsafe(32),
        }
        environment = server_environment(self._environ)

        try:
            return await on_own_thread(
                lambda: start_server(files, lock, self._command, settings, environment=environment)
            )
        except OSError as problem:
            failure = ModelError(
                f"{spec.name} did not start: {problem}",
                hint="Check that the disk is not full and the program is there.",
            )
            raise self._note_failure(known, failure) from None

    async def _ready(self, files: ServerFiles) -> Endpoint | None:
        listening = files.listening()
        if listening is None or not is_held(files.lock):
            return None
        holder = files.holder()
        if holder is None or holder.pid != listening.pid or not await is_healthy(listening.port, listening.api_key):
            return None
        return endpoint_of(listening)

    def _note_ready(self, endpoint: Endpoint, stamp: tuple[int, int] | None, known: _Known) -> Endpoint:
        known.stamp = stamp
        if known.endpoint != endpoint:
            known.endpoint = endpoint
            known.failures.note_ready()
        known.failures.note_well()
        known.looked_at = time.monotonic()
        return endpoint

    def _note_failure(self, known: _Known, problem: FabricError) -> FabricError:
        known.endpoint = None
        return known.failures.note(problem)

    def _note_end(self, spec: ServerSpec, files: ServerFiles, known: _Known, notice: Notice) -> None:
        """A server that we knew is gone. One that ended in good order had withdrawn before."""
        listening = files.listening()
        known_pid = known.endpoint.pid if known.endpoint is not None else None
        known.endpoint = None
        if listening is None or listening.pid != known_pid:
            return
        said = "\n  ".join(files.log_tail(3))
        self._note_failure(known, ModelError(f"{spec.name} ended unexpectedly. Its last words:\n  {said}"))
        notice(f"{spec.name} has ended unexpectedly; starting it again")

    async def _end_hung(self, spec: ServerSpec, files: ServerFiles, known: _Known, notice: Notice) -> None:
        notice(f"{spec.name} no longer answers; starting it again")
        await end_server(files)
        self._note_failure(known, ModelError(f"{spec.name} did not answer for {self._hung_s:.0f} s"))

    async def _too_slow(self, spec: ServerSpec, files: ServerFiles, known: _Known, *, ours: bool) -> FabricError:
        if ours:
            await end_server(files)
        failure = start_failure(spec.name, spec.model, None, await asyncio.to_thread(files.log_tail))
        return self._note_failure(known, failure)


def _is_the_same(files: ServerFiles, known: _Known) -> bool:
    """Whether the server that we know still lives. One that ends withdraws first, and frees its lock last."""
    return known.stamp is not None and known.stamp == files.stamp() and is_held(files.lock)


async def _why(spec: ServerSpec, files: ServerFiles, started: StartedServer) -> FabricError:
    code = await on_own_thread(lambda: started.ended(_GONE_S))  # its lock is free, so it is as good as gone
    return start_failure(spec.name, spec.model, code, files.log_tail(40))


def _running(files: ServerFiles) -> RunningServer | None:
    holder: Holder | None = files.holder() if is_held(files.lock) else None
    if holder is None:
        return None
    listening = files.listening()
    in_use = files.key.startswith(MANAGED) or not is_free(files.lease)
    return RunningServer(
        key=files.key,
        name=holder.name,
        model=holder.model,
        pid=holder.pid,
        port=listening.port if listening else None,
        slots=listening.slots if listening else 0,
        context_window=listening.context_window if listening else 0,
        in_use=in_use,
        idle_for_s=0.0 if in_use else _age(files.lease),
        idle_s=listening.idle_s if listening else None,
        memory_bytes=memory_of(holder.pid),
    )


def _age(path: Path) -> float:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return 0.0
