"""One llama-server process that ends with us, however we end."""

import asyncio
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.application.ports.llm import Notice
from agent_fabric.config.own_secrets import without_own_secrets
from agent_fabric.config.schema.managed_llama import ManagedLlamaConfig
from agent_fabric.domain.errors import ConfigError, ModelError
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.llm.servers.folder import prepare_folder, servers_folder
from agent_fabric.infrastructure.llm.servers.llama_arguments import llama_command
from agent_fabric.infrastructure.llm.servers.locks import FileLock, is_held
from agent_fabric.infrastructure.llm.servers.loopback import slots_of
from agent_fabric.infrastructure.llm.servers.processes import StartedServer, end_server, is_healthy, start_server
from agent_fabric.infrastructure.llm.servers.server_files import MANAGED, Listening, ServerFiles
from agent_fabric.infrastructure.llm.servers.spec import Endpoint, endpoint_of
from agent_fabric.infrastructure.llm.servers.start_errors import start_failure
from agent_fabric.infrastructure.llm.servers.supervisor import EXIT_NO_PROGRAM
from agent_fabric.infrastructure.threads import on_own_thread

_SUPERVISOR = (sys.executable, "-P", "-m", "agent_fabric.infrastructure.llm.servers.supervisor")
_LOOK_S = 0.05
_NOTICE_EVERY_S = 5.0
_PORT_TRIES = 3
_GONE_S = 2.0
_LEFT_BEHIND_GRACE_S = 1.0


class OwnedServer:
    """Starts and ends llama-server under one name that only one process at a time may use."""

    def __init__(self, name: str, folder: Path | None, environ: Mapping[str, str] | None) -> None:
        self._name = name
        self._environ = os.environ if environ is None else environ
        self.files = ServerFiles(folder or servers_folder(self._environ), MANAGED + name)
        self._key_file = self.files.folder / f"{self.files.key}.key"
        self._owner: FileLock | None = None
        self._process: StartedServer | None = None

    @property
    def pid(self) -> int | None:
        """Which process it is; None: it does not live."""
        return self._process.pid if self._process is not None and self._process.exit_code is None else None

    @property
    def lives(self) -> bool:
        return self.pid is not None

    async def start(self, config: ManagedLlamaConfig, notice: Notice) -> Endpoint:
        """Start it and wait until it can be asked.

        Raises:
            ModelError: it does not start; message and hint say why.
            ConfigError: another process uses this name, or the folder cannot be used.
        """
        await self._own()
        await self.end()  # what is left of one that has ended by itself
        if not config.model.is_file():
            raise ModelError(
                f"The model file {config.model} is not there",
                hint="Check the path, or download the model: fabric models pull",
            )
        for _ in range(_PORT_TRIES):
            try:
                return await self._try_start(config, notice)
            except _PortTaken:
                continue
        raise ModelError(f"{config.model.stem} did not start: its port was taken {_PORT_TRIES} times in a row")

    async def gone_within(self, timeout_s: float) -> None:
        """Wait until it has ended by itself, but no longer than this."""
        process = self._process
        if process is not None:
            await on_own_thread(lambda: process.ended(timeout_s))

    async def end(self) -> None:
        """End it and wait until it is gone."""
        if self._process is not None:
            self._process.close_stdin()
            await end_server(self.files)
            await self.gone_within(_GONE_S)  # its lock is free: it is a matter of moments
            self._process = None

    async def give_up(self) -> None:
        """End it and let another process use the name."""
        await self.end()
        if self._owner is not None:
            self._key_file.unlink(missing_ok=True)
            self._owner.release()
            self._owner = None

    def last_words(self) -> str:
        """Return the end of its log, to be put behind a sentence."""
        said = "\n  ".join(self.files.log_tail(3))
        return f". Its last words:\n  {said}" if said else ""

    async def _own(self) -> None:
        """Become the one process that uses this name; end what a process that was killed may have left."""
        if self._owner is not None:
            return
        prepare_folder(self.files.folder)
        owner = FileLock.take(self.files.folder / f"{self.files.key}.owner")
        if owner is None:
            raise ConfigError(
                f"Another process manages the llama-server {self._name!r} already",
                hint="Give the task to that `fabric serve` (POST /run), or stop it.",
            )
        self._owner = owner
        if is_held(self.files.lock):
            await end_server(self.files, grace_s=_LEFT_BEHIND_GRACE_S)

    async def _try_start(self, config: ManagedLlamaConfig, notice: Notice) -> Endpoint:
        lock = FileLock.take(self.files.lock)
        if lock is None:
            raise ModelError("The llama-server that ran before does not end", hint="End it by hand, then try again.")
        port, api_key = _free_port(), secrets.token_urlsafe(32)
        write_atomically(self._key_file, f"{api_key}\n".encode(), durable=False)
        settings = {
            "folder": str(self.files.folder),
            "key": self.files.key,
            "name": config.model.stem,
            "model": str(config.model),
            "command": llama_command(config, port=port, key_file=self._key_file),
            "lock": lock.fileno(),
        }
        # The program is the user's own, from their configuration: it gets their environment, but not what opens us.
        environment = {"GOMP_SPINCOUNT": "0"} | without_own_secrets(self._environ)

        starting = asyncio.ensure_future(
            on_own_thread(
                lambda: start_server(self.files, lock, _SUPERVISOR, settings, environment=environment, keep_stdin=True)
            )
        )
        try:
            self._process = await asyncio.shield(starting)
            return await self._until_ready(self._process, config, port, api_key, notice)
        except OSError as problem:
            await self.end()
            raise ModelError(f"{config.model.stem} did not start: {problem}") from None
        except BaseException:
            # Also when we are cancelled in the middle: nothing may be left behind.
            self._process = await starting
            await self.end()
            raise

    async def _until_ready(
        self, process: StartedServer, config: ManagedLlamaConfig, port: int, api_key: str, notice: Notice
    ) -> Endpoint:
        name, begun = config.model.stem, time.monotonic()
        told = begun - _NOTICE_EVERY_S
        while not (await is_healthy(port, api_key) and is_held(self.files.lock)):
            if process.exit_code is not None:
                raise self._why(config, process.exit_code)
            now = time.monotonic()
            if now - begun > config.load_timeout_s:
                raise start_failure(name, config.model, None, self.files.log_tail(40))
            if now - told >= _NOTICE_EVERY_S:
                told = now
                notice(f"loading {name} …" + (f" {now - begun:.0f} s" if now - begun > 1 else ""))
            await asyncio.sleep(_LOOK_S)
        slots = await on_own_thread(lambda: slots_of(port, api_key=api_key, timeout_s=10.0))
        total, window = (slots.total, slots.context_window) if slots else (config.parallel, config.context_window)
        listening = Listening(process.pid, port, api_key, total, window, None)
        self.files.announce(listening)
        return endpoint_of(listening)

    def _why(self, config: ManagedLlamaConfig, code: int) -> Exception:
        log = self.files.log_tail(40)
        if code > 0 and any("couldn't bind" in line or "already in use" in line for line in log):
            return _PortTaken()
        if code == EXIT_NO_PROGRAM:
            return ModelError(
                f"{config.command[0]} cannot be started{self.last_words()}",
                hint="Install llama.cpp's llama-server, or name the program with its path in `command`.",
            )
        return start_failure(config.model.stem, config.model, code, log)


class _PortTaken(Exception):
    """Somebody else took the port between our look and the server's start."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
