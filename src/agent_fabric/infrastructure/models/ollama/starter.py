"""Starts Ollama when no one answers at its address, as a person would: it stays when we are gone."""

import asyncio
import errno
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.config.variable_names import without_own_secrets
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.ollama.server import OllamaServer
from agent_fabric.infrastructure.models.servers.folder import prepare_folder
from agent_fabric.infrastructure.models.servers.locks import FileLock
from agent_fabric.infrastructure.models.servers.processes import StartedServer, start_process
from agent_fabric.infrastructure.models.servers.server_files import ServerFiles
from agent_fabric.infrastructure.own_path import own_path
from agent_fabric.infrastructure.secrets.redaction import Redactor

DEFAULT_WAIT_S = 30.0
"""How long a server may take to answer after it was started."""
_PAUSE_S = 60.0
"""No second attempt before this time: a server that cannot be started is not tried at every turn of every run."""
_LOOK_S = 0.1
_TELL_S = 3.0
"""How often a person who waits is told so."""


class Started(NamedTuple):
    """What came of an attempt to start a server."""

    running: bool
    reason: str = ""
    """Why it does not run, for a person."""


class OllamaStarter:
    """Starts servers with the user's own command; one attempt a minute for each, however many ask."""

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], wait_s: float = DEFAULT_WAIT_S) -> None:
        self._command = tuple(command)
        self._environ = {**without_own_secrets(environ), "PATH": own_path(environ.get("PATH"))}
        self._wait_s = wait_s
        self._attempts: dict[str, tuple[float, Started]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def command(self) -> str:
        """The command as one would type it."""
        return shlex.join(self._command)

    async def start(self, server: OllamaServer, notice: Notice) -> Started:
        """Start the server unless it answers already, and wait until it does. Never raises because it does not."""
        if not server.is_here:
            return Started(False, "it is on another machine")
        async with self._locks.setdefault(server.root, asyncio.Lock()):
            if await server.reachable():
                return Started(True)
            tried_at, outcome = self._attempts.get(server.root, (float("-inf"), Started(False)))
            if time.monotonic() - tried_at < _PAUSE_S and not outcome.running:
                return outcome
            outcome = await self._attempt(server, notice)
            self._attempts[server.root] = (time.monotonic(), outcome)
            return outcome

    async def _attempt(self, server: OllamaServer, notice: Notice) -> Started:
        try:
            if self._command and shutil.which(self._command[0], path=self._environ.get("PATH")) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            folder = await asyncio.to_thread(prepare_folder, log_folder(self._environ))
            files = ServerFiles(folder, f"ollama-{urlsplit(server.root).port or 'default'}")
            return await self._alone(server, files, notice)
        except ConfigError as problem:
            return Started(False, problem.message)
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else None
            return Started(False, f"`{self.command}` cannot be started: {reason or problem}")

    async def _alone(self, server: OllamaServer, files: ServerFiles, notice: Notice) -> Started:
        """Start the server, or wait for the process that is about to do so."""
        deadline = time.monotonic() + self._wait_s
        waiting = _Patience(notice, f"Waiting for Ollama at {server.root}")
        lock = FileLock.take(files.lock)
        while lock is None:
            if await server.reachable():
                return Started(True)
            if time.monotonic() > deadline:
                return Started(False, "another process tries to start it, too, and it does not answer")
            await waiting.a_moment()
            lock = FileLock.take(files.lock)
        try:
            if await server.reachable():
                return Started(True)
            notice(ProgressText(f"Starting Ollama: {self.command}"))
            child = start_process(files, self._command, self._environment(server))
            return await self._answering(server, child, files, deadline, waiting)
        finally:
            lock.release()

    async def _answering(
        self, server: OllamaServer, child: StartedServer, files: ServerFiles, deadline: float, waiting: "_Patience"
    ) -> Started:
        while not await server.reachable():
            code = child.exit_code
            if code:  # a command that ends well may have started a service elsewhere
                said = " | ".join(line.strip() for line in files.log_tail(4) if line.strip())
                about = f"`{self.command}` ended at once with code {code}"
                # It goes into the run's log, which others may read; the server's own log is the user's alone.
                return Started(False, f"{about}: {Redactor().text(said)[-600:]}" if said else about)
            if time.monotonic() > deadline:
                about = f"`{self.command}` was started, but does not answer after {self._wait_s:g} seconds"
                return Started(False, f"{about}; its log is {files.log}")
            await waiting.a_moment()
        return Started(True)

    def _environment(self, server: OllamaServer) -> dict[str, str]:
        """Return the user's environment, without our own secrets; Ollama listens where we will ask."""
        parts = urlsplit(server.root)
        host = parts.hostname or "127.0.0.1"
        address = f"[{host}]" if ":" in host else host
        return {**self._environ, "OLLAMA_HOST": f"{address}:{parts.port or 80}"}


class _Patience:
    """Waits a little, again and again, and says so now and then."""

    def __init__(self, notice: Notice, text: str) -> None:
        self._notice = notice
        self._text = text
        self._begun = self._said_at = time.monotonic()

    async def a_moment(self) -> None:
        now = time.monotonic()
        if now - self._said_at >= _TELL_S:
            self._said_at = now
            self._notice(ProgressText(f"{self._text}: {now - self._begun:.0f} s"))
        await asyncio.sleep(_LOOK_S)


def log_folder(environ: Mapping[str, str]) -> Path:
    """Return where the output of a server that we started is kept."""
    return (base_folder(environ, "XDG_STATE_HOME", ".local", "state") or temporary_folder()) / "ollama"
