"""llama.cpp servers that all processes of a user share."""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_fabric.application.ports.llm import Notice
from agent_fabric.application.ports.models import LoadedModel
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, ModelRefused
from agent_fabric.infrastructure.models.servers.folder import prepare_folder, servers_folder
from agent_fabric.infrastructure.models.servers.leases import Leases
from agent_fabric.infrastructure.models.servers.llama_server import Launch, LlamaServer
from agent_fabric.infrastructure.models.servers.locks import is_free, is_held
from agent_fabric.infrastructure.models.servers.processes import EMBEDDED, memory_of, server_environment
from agent_fabric.infrastructure.models.servers.server_files import MANAGED, Endpoint, ServerFiles

DEFAULT_CONTEXT_WINDOW = 8192
DEFAULT_IDLE_S = 300.0


def quiet(_: str) -> None:
    """Notice that tells no one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One model file, served in one way. Callers that ask for the same share one server."""

    model: Path
    """The GGUF file."""
    adapter: Path | None = None
    """The GGUF file of a LoRA adapter that is loaded beside it."""
    label: str = ""
    """What people call the model; by default its file's name."""
    context_window: int = DEFAULT_CONTEXT_WINDOW
    """Tokens that fit into one conversation, prompt and answer together."""
    slots: int = 1
    """How many conversations are answered at once; each has a context window of its own."""
    threads: int | None = None
    """Threads that compute; by default one for each core at our disposal. The first who asks decides."""
    idle_s: float = DEFAULT_IDLE_S
    """How long the server waits for its next user before it ends. The first who asks decides."""

    @property
    def name(self) -> str:
        """Return what people call it."""
        return self.label or self.model.stem

    def key(self) -> str:
        """Return what tells this server from all others; a model file that was replaced has another key.

        Raises:
            ModelRefused: there is no such file.
        """
        identity = f"{state_of(self.model)}|{self.context_window}|{self.slots}"
        if self.adapter is not None:
            identity += f"|{state_of(self.adapter)}"
        return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def state_of(file: Path) -> str:
    """Return what tells a file from any other, and from what is written in its place later.

    Raises:
        ModelRefused: there is no such file.
    """
    try:
        path = file.resolve(strict=True)
        about = path.stat()
    except OSError as problem:
        raise ModelRefused(
            f"The model file {file} cannot be read: {problem.strerror or problem}",
            hint="Check `model` and `adapter`, or download the model: fabric models pull",
        ) from None
    return f"{path}|{about.st_size}|{about.st_mtime_ns}"


class LlamaServers:
    """Finds or starts the server for a model; one server for all processes of the user that want the same.

    An idle server ends by itself, also when the processes that used it were killed.
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
        prompt_cache: Path | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            folder: where servers are found again; by default the user's runtime or state folder.
            command: the program to start; it reads its settings from stdin.
            environ: our own environment; the server gets a part of it.
            load_timeout_s: how long a model may take to load.
            lease_s: how long this process counts as a user after its last `ensure`.
            health_every_s: a running server is asked for its health not more often than this.
            hung_s: a running server that has not answered for so long is restarted.
            prompt_cache: where a server may keep what it has read of a prompt; None: nowhere.
        """
        self._environ = os.environ if environ is None else environ
        self._folder = folder or servers_folder(self._environ)
        self._command = tuple(command)
        self._load_timeout_s = load_timeout_s
        self._health_every_s = health_every_s
        self._hung_s = hung_s
        self._prompt_cache = prompt_cache
        self._leases = Leases(lease_s)
        self._servers: dict[str, LlamaServer] = {}

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
        server = self._server(spec.key())
        try:
            if not self._leases.holds(server.files):
                prepare_folder(self._folder)
            await self._leases.renew(server.files)  # first: from here on the server does not end for lack of users
            return server.healthy or await server.ensure(self._launch(spec), notice)
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
        """End a server, given by its spec or its key, no matter which process uses it; return whether it ran."""
        key = server if isinstance(server, str) else server.key()
        self._leases.release(key)
        return await self._server(key).end()

    async def stop_all(self) -> int:
        """End every shared server of this user; return how many there were."""
        return sum([await self.stop(key) for key in self._keys() if not key.startswith(MANAGED)])

    async def stop_idle(self) -> int:
        """End the shared servers of this user that no process uses now; return how many there were."""
        return sum([await self.stop(server.key) for server in self.running() if not server.in_use])

    def running(self) -> list[LoadedModel]:
        """Return the servers of this user that run or load now, those of other processes too."""
        return [found for key in self._keys() if (found := _running(ServerFiles(self._folder, key))) is not None]

    async def aclose(self) -> None:
        """No longer count as a user of anything. Servers live on until they are idle, for the next process."""
        self._leases.release_all()

    def _server(self, key: str) -> LlamaServer:
        if key not in self._servers:
            files = ServerFiles(self._folder, key)
            self._servers[key] = LlamaServer(files, health_every_s=self._health_every_s, hung_s=self._hung_s)
        return self._servers[key]

    def _launch(self, spec: ServerSpec) -> Launch:
        return Launch(
            name=spec.name,
            model=spec.model,
            command=self._command,
            settings={
                "adapter": None if spec.adapter is None else str(spec.adapter),
                "context_window": spec.context_window,
                "slots": spec.slots,
                "threads": spec.threads,
                "idle_s": spec.idle_s,
                "prompt_cache": None if self._prompt_cache is None else str(self._prompt_cache),
            },
            environment=server_environment(self._environ),
            load_timeout_s=self._load_timeout_s,
        )

    def _keys(self) -> list[str]:
        return sorted(lock.stem for lock in self._folder.glob("*.lock"))


def _running(files: ServerFiles) -> LoadedModel | None:
    holder = files.holder() if is_held(files.lock) else None
    if holder is None:
        return None
    listening = files.listening()
    in_use = files.key.startswith(MANAGED) or not is_free(files.lease)
    return LoadedModel(
        key=files.key,
        name=holder.name,
        path=holder.model,
        pid=holder.pid,
        loading=listening is None,
        slots=listening.slots if listening else 0,
        context_window=listening.context_window if listening else 0,
        in_use=in_use,
        idle_for_s=0.0 if in_use else round(_age(files.lease), 1),
        idle_s=listening.idle_s if listening else None,
        memory_bytes=memory_of(holder.pid),
    )


def _age(path: Path) -> float:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return 0.0
