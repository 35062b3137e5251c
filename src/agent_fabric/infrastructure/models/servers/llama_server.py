"""One llama.cpp server process: found when it runs, else started; restarted when it died or hangs."""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ModelError
from agent_fabric.infrastructure.models.servers.failures import Failures, start_failure
from agent_fabric.infrastructure.models.servers.locks import FileLock, is_held
from agent_fabric.infrastructure.models.servers.loopback import answers_health
from agent_fabric.infrastructure.models.servers.processes import StartedServer, end_server, start_server
from agent_fabric.infrastructure.models.servers.server_files import Endpoint, ServerFiles
from agent_fabric.infrastructure.threads import on_own_thread

_LOOK_S = 0.05
_NOTICE_EVERY_S = 5.0
_GONE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a server process."""

    name: str
    model: Path
    command: Sequence[str]
    """A program that reads its settings from stdin, announces itself when ready, and ends by itself."""
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    load_timeout_s: float
    owned: bool = False
    """It ends with this process, and no other process uses it."""


class LlamaServer:
    """The server under one key."""

    def __init__(self, files: ServerFiles, *, health_every_s: float, hung_s: float) -> None:
        """Start nothing yet.

        Args:
            files: where the server is found.
            health_every_s: a running server is asked for its health not more often than this.
            hung_s: a running server that has not answered for so long is restarted.
        """
        self.files = files
        self.failures = Failures()
        self._health_every_s = health_every_s
        self._hung_s = hung_s
        self._endpoint: Endpoint | None = None
        """Set: it was ready at the last look."""
        self._stamp: tuple[int, int] | None = None
        """Of its announcement."""
        self._looked_at = 0.0
        self._process: StartedServer | None = None
        self._starting = asyncio.Lock()

    @property
    def endpoint(self) -> Endpoint | None:
        """Where it can be asked; None: it is not ready, or has ended."""
        same = self._stamp is not None and self._stamp == self.files.stamp() and is_held(self.files.lock)
        return self._endpoint if same else None

    @property
    def healthy(self) -> Endpoint | None:
        """Where it can be asked without another look at its health."""
        return self.endpoint if time.monotonic() - self._looked_at < self._health_every_s else None

    @property
    def pid(self) -> int | None:
        """The process, which may still be loading; None: there is none."""
        holder = self.files.holder() if is_held(self.files.lock) else None
        return None if holder is None else holder.pid

    async def ensure(self, launch: Launch, notice: Notice) -> Endpoint:
        """Return the server when it is ready; start it when it does not run.

        Raises:
            MissingExtra: llama.cpp is not installed.
            ModelError: it does not start; message and hint say why.
            OSError: its folder cannot be used.
        """
        async with self._starting:
            if (endpoint := self.healthy) is not None:
                return endpoint
            if self._endpoint is not None and self.endpoint is None:
                self._note_end(launch, notice)
            try:
                return await self._find_or_start(launch, notice)
            except BaseException:
                if launch.owned:  # also when cancelled: nothing is left behind
                    await self.end()
                raise

    async def end(self, **grace: float) -> bool:
        """End it, no matter which process started it, and wait until it is gone; return whether it ran."""
        self._endpoint = None
        ran = await end_server(self.files, **grace)
        await self.wait_until_gone(_GONE_S)  # its lock is free: a matter of moments
        return ran

    async def wait_until_gone(self, timeout_s: float) -> int | None:
        """Wait until the process that we started has ended; return its exit code."""
        process = self._process
        return None if process is None else await on_own_thread(lambda: process.wait_for_end(timeout_s))

    async def _find_or_start(self, launch: Launch, notice: Notice) -> Endpoint:
        begun = time.monotonic()
        told = begun - _NOTICE_EVERY_S + _LOOK_S
        started = False
        while True:
            stamp = self.files.stamp()
            if (endpoint := await self._ready()) is not None:
                return self._note_ready(endpoint, stamp)
            now = time.monotonic()
            if is_held(self.files.lock):
                if self._endpoint is not None:  # it was ready, and runs, but does not answer
                    if now - begun > self._hung_s:
                        notice(f"{launch.name} no longer answers; starting it again")
                        await self.end()
                        self._note_failure(ModelError(f"{launch.name} did not answer for {self._hung_s:.0f} s"))
                elif now - begun > launch.load_timeout_s:
                    if started:
                        await self.end()
                    raise self._explain(launch, None)
                elif now - told > _NOTICE_EVERY_S:
                    told = now
                    took = f" {now - begun:.0f} s" if now - begun > 1 else ""
                    notice(ProgressText(f"loading {launch.name} …{took}"))
            elif started:
                raise self._explain(launch, await self.wait_until_gone(_GONE_S))
            else:
                self.failures.refuse_storm(launch.name, self.files.log)
                started = await self._start(launch)
                begun = now
            await asyncio.sleep(_LOOK_S)

    async def _start(self, launch: Launch) -> bool:
        lock = FileLock.take(self.files.lock)
        if lock is None:
            return False  # another process was faster
        settings = {
            "folder": str(self.files.folder),
            "key": self.files.key,
            "name": launch.name,
            "model": str(launch.model.resolve()),
            "api_key": secrets.token_urlsafe(32),
            "lock": lock.fileno(),
            **launch.settings,
        }

        def start() -> None:
            self._process = start_server(
                self.files,
                lock,
                launch.command,
                settings,
                environment=launch.environment,
                keep_stdin=launch.owned,
            )

        try:
            await on_own_thread(start)
        except OSError as problem:
            failure = ModelError(
                f"{launch.name} did not start: {problem}",
                hint="Check that the disk is not full and the program is there.",
            )
            raise self._note_failure(failure) from None
        return True

    async def _ready(self) -> Endpoint | None:
        listening = self.files.listening()
        if listening is None or self.pid != listening.pid:
            return None
        ready = await on_own_thread(lambda: answers_health(listening.port, listening.api_key))
        return listening if ready else None

    def _note_ready(self, endpoint: Endpoint, stamp: tuple[int, int] | None) -> Endpoint:
        self._stamp = stamp
        if self._endpoint != endpoint:
            self._endpoint = endpoint
            self.failures.note_ready()
        self.failures.note_well()
        self._looked_at = time.monotonic()
        return endpoint

    def _note_failure(self, problem: FabricError) -> FabricError:
        self._endpoint = None
        return self.failures.note(problem)

    def _note_end(self, launch: Launch, notice: Notice) -> None:
        """Note that the known server is gone. One that ended in good order had withdrawn before."""
        listening, before, self._endpoint = self.files.listening(), self._endpoint, None
        if listening is None or before is None or listening.pid != before.pid:
            return
        said = "\n  ".join(self.files.log_tail(3))
        self._note_failure(ModelError(f"{launch.name} ended unexpectedly. Its last output:\n  {said}"))
        notice(f"{launch.name} has ended unexpectedly; starting it again")

    def _explain(self, launch: Launch, code: int | None) -> FabricError:
        return self._note_failure(start_failure(launch.name, launch.model, code, self.files.log_tail(40)))
