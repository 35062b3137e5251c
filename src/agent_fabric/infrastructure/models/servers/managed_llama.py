"""A llama-server of this process that is switched only when no one is in the middle of an answer."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.application.ports.models import ManagedStatus, Stage
from agent_fabric.config.schema.models import ManagedLlamaConfig
from agent_fabric.config.variable_names import without_own_secrets
from agent_fabric.domain.errors import ConfigError, FabricError, ModelBusy, ModelError
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.models.servers.failures import Failures
from agent_fabric.infrastructure.models.servers.folder import prepare_folder, servers_folder
from agent_fabric.infrastructure.models.servers.leases import Leases
from agent_fabric.infrastructure.models.servers.llama_server import Launch, LlamaServer
from agent_fabric.infrastructure.models.servers.llama_servers import quiet
from agent_fabric.infrastructure.models.servers.locks import FileLock
from agent_fabric.infrastructure.models.servers.loopback import answers_health, slots_of
from agent_fabric.infrastructure.models.servers.processes import memory_of
from agent_fabric.infrastructure.models.servers.server_files import MANAGED, Endpoint, ServerFiles
from agent_fabric.infrastructure.threads import on_own_thread


def llama_arguments(config: ManagedLlamaConfig) -> list[str]:
    """Return the arguments of llama-server, without its address and its key, which each start chooses anew."""
    return [
        *("--model", str(config.model)),
        *("--parallel", str(config.parallel)),
        *("--ctx-size", str(config.context_window * config.parallel)),  # llama.cpp divides it among the conversations
        *("--flash-attn", config.flash_attention),
        *("--cache-type-k", config.cache_type_k, "--cache-type-v", config.cache_type_v),
        *_gpu_layers(config.gpu_layers),
        *(("--threads", str(config.threads)) if config.threads else ()),
        *("--slots", "--jinja", "--no-webui"),
        *config.extra_args,
    ]


def _gpu_layers(layers: int | str) -> tuple[str, ...]:
    # Left out when llama.cpp shall decide: older ones know numbers only, and decide anyway.
    return () if layers == "auto" else ("--n-gpu-layers", "999" if layers == "all" else str(layers))


_SUPERVISOR = (sys.executable, "-P", "-m", "agent_fabric.infrastructure.models.servers.supervisor")
_NAME = "default"
_FOREVER = float("inf")
_LEFT_BEHIND_GRACE_S = 1.0
_LOOK_S = 0.1
_SLOTS_TIMEOUT_S = 5.0
_DYING_S = 5.0
"""How long a server that no longer answers may take to be gone."""


class ManagedLlama:
    """One llama-server with the options of its configuration. It ends with the process, however that ends."""

    def __init__(
        self,
        config: ManagedLlamaConfig,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._environ = os.environ if environ is None else environ
        files = ServerFiles(folder or servers_folder(self._environ), MANAGED + _NAME)
        # It is asked for its health only after a request that failed: in the middle of a prompt it does not answer.
        self._server = LlamaServer(files, health_every_s=_FOREVER, hung_s=_FOREVER)
        self._owner: FileLock | None = None
        self._leases = Leases(None)
        """Held while a request is being answered: an idle server ends by itself."""
        self._stage: Stage = "stopped"
        self._running = 0
        self._waiting = 0
        self._doubted = False
        """A request failed: before the next one we look whether the server still answers."""
        self._changing = asyncio.Lock()
        """Held while the server is started, stopped or switched."""
        self._open = asyncio.Event()
        """Not set: new requests wait for a switch."""
        self._open.set()
        self._drained = asyncio.Event()
        """Set: no request is being answered."""
        self._drained.set()

    @property
    def config(self) -> ManagedLlamaConfig:
        """How the server is started now."""
        return self._config

    @property
    def lives(self) -> bool:
        """Whether there is a process, which may still be loading."""
        return self._server.pid is not None

    @property
    def is_changing(self) -> bool:
        """Whether requests wait because it is being switched or started again."""
        return not self._open.is_set()

    def status(self) -> ManagedStatus:
        """Return how the server is."""
        problem, endpoint, pid = self._server.failures.problem, self._server.endpoint, self._server.pid
        return ManagedStatus(
            stage="stopped" if self._stage == "ready" and endpoint is None else self._stage,
            model=str(self._config.model),
            running=self._running,
            waiting=self._waiting,
            pid=pid,
            slots=endpoint.slots if endpoint else self._config.parallel,
            context_window=endpoint.context_window if endpoint else self._config.context_window,
            memory_bytes=None if pid is None else memory_of(pid),
            problem=problem.message if problem else "",
        )

    async def start(self, notice: Notice = quiet) -> Endpoint:
        """Start the server if it does not run, and return where it can be asked.

        Raises:
            ModelError: it does not start; message and hint say why.
            ConfigError: another process manages it, or its folder cannot be used.
        """
        async with self._changing:
            if (endpoint := self._server.endpoint) is not None:
                return endpoint
            self._stage = "starting"
            return await self._bring_up(self._config, notice)

    @asynccontextmanager
    async def request(self, notice: Notice = quiet) -> AsyncIterator[Endpoint]:
        """Use the server for one request: until this ends, it is not switched.

        Waits for a switch that goes on; starts the server when it does not run.

        Raises:
            ModelError: as of `start`.
            ConfigError: as of `start`.
        """
        endpoint = await self._admit(notice)
        try:
            yield endpoint
        except BaseException:
            self._doubted = True
            raise
        finally:
            self._running -= 1
            if self._running == 0:
                self._leases.release(self._server.files.key)
                self._drained.set()

    async def switch(self, config: ManagedLlamaConfig, notice: Notice = quiet) -> Endpoint:
        """Serve another model, or the same with other options, as soon as no answer is being written.

        New requests wait meanwhile. When the new one does not start, the old one is started again.

        Raises:
            ModelBusy: answers were still being written after `drain_timeout_s`; nothing was switched.
            ModelError: the new one does not start; the message says whether the old one runs again.
            ConfigError: as of `start`.
        """
        async with self._changing:
            if config == self._config and (endpoint := self._server.endpoint) is not None:
                return endpoint
            async with self._quiet(config.drain_timeout_s, notice):
                return await self._replace(config, notice)

    async def restart(self, notice: Notice = quiet) -> Endpoint:
        """End the server and start it as it was, as soon as no answer is being written; new requests wait meanwhile.

        Raises:
            ModelBusy: answers were still being written after `drain_timeout_s`; it goes on as it was.
            ModelError: it does not start again.
            ConfigError: as of `start`.
        """
        async with self._changing, self._quiet(self._config.drain_timeout_s, notice):
            await self._end()
            self._stage, self._server.failures = "starting", Failures()
            return await self._bring_up(self._config, notice)

    async def stop(self) -> None:
        """End the server, answers or not; the next request starts it again."""
        async with self._changing:
            if self._owner is not None:
                await self._end()

    async def aclose(self) -> None:
        """End the server and let another process manage it."""
        async with self._changing:
            self._leases.release_all()
            if self._owner is not None:
                await self._end()
                self._owner.release()
                self._owner = None

    async def _admit(self, notice: Notice) -> Endpoint:
        self._waiting += 1
        try:
            while True:
                await self._open.wait()
                if self._doubted:
                    await self._look()
                if self._owner is None:
                    await self.start(notice)
                await self._leases.renew(self._server.files)  # first: from here on it does not end for lack of requests
                endpoint = self._server.endpoint or await self.start(notice)
                if self._open.is_set():  # else a switch has begun while we waited
                    self._server.failures.note_well()
                    self._running += 1
                    self._drained.clear()
                    return endpoint
        finally:
            self._waiting -= 1
            if self._running == 0:  # it failed, or was cancelled
                self._leases.release(self._server.files.key)

    async def _look(self) -> None:
        """After a request that failed: a server that is ending is not taken for one that lives."""
        self._doubted = False
        endpoint = self._server.endpoint
        if endpoint is not None and not await on_own_thread(lambda: answers_health(endpoint.port, endpoint.api_key)):
            await self._server.wait_until_gone(_DYING_S)

    @asynccontextmanager
    async def _quiet(self, drain_timeout_s: float, notice: Notice) -> AsyncIterator[None]:
        """Wait until no answer is being written; until this ends, none is begun."""
        self._open.clear()
        try:
            await self._drain(drain_timeout_s, notice)
            yield
        finally:
            self._open.set()

    async def _drain(self, timeout_s: float, notice: Notice) -> None:
        """Wait until no answer is being written: none of ours, and none of someone who asks the server directly."""
        before, self._stage = self._stage, "draining"
        if self._running:
            notice(ProgressText(f"waiting for {count_of(self._running, 'answer')} before the switch"))
        try:
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()
                while await self._at_work():  # noqa: ASYNC110 - another process: no one tells us
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise ModelBusy(
                f"{self._config.model.stem} was still writing answers after {timeout_s:.0f} s; nothing was switched",
                hint="Try again when the running requests have ended, or cancel them.",
            ) from None
        finally:
            self._stage = before

    async def _at_work(self) -> bool:
        endpoint = self._server.endpoint
        if endpoint is None:
            return False
        try:
            slots = await on_own_thread(
                lambda: slots_of(endpoint.port, api_key=endpoint.api_key, timeout_s=_SLOTS_TIMEOUT_S)
            )
        except OSError:
            return self.lives  # in the middle of a prompt it does not answer
        return slots is not None and slots.busy > 0

    async def _replace(self, config: ManagedLlamaConfig, notice: Notice) -> Endpoint:
        old = self._config if self._server.endpoint is not None else None
        await self._end()
        self._stage, self._server.failures = "switching", Failures()
        try:
            endpoint = await self._bring_up(config, notice)
        except FabricError as problem:
            raise await self._back_to(old, problem, notice) from None
        self._config = config
        return endpoint

    async def _back_to(self, old: ManagedLlamaConfig | None, problem: FabricError, notice: Notice) -> FabricError:
        if old is None:
            return problem
        notice(f"{problem.message.splitlines()[0]}; going back to {old.model.stem}")
        self._stage = "switching"
        try:
            await self._bring_up(old, notice)
        except FabricError as second:
            return ModelError(
                f"{problem.message}\n{old.model.stem} does not start again either: {second.message}", hint=problem.hint
            )
        return ModelError(f"{problem.message}\n{old.model.stem} serves again, as before.", hint=problem.hint)

    async def _bring_up(self, config: ManagedLlamaConfig, notice: Notice) -> Endpoint:
        try:
            await self._own()
            endpoint = await self._server.ensure(self._launch(config), notice)
        except FabricError:
            self._stage = "failed"
            raise
        except BaseException:
            self._stage = "stopped"
            raise
        self._stage = "ready"
        self._doubted = False
        return endpoint

    async def _own(self) -> None:
        """Become the one process that uses this name; end the server that a killed process may have left.

        Raises:
            ConfigError: another process uses it, or the folder cannot be used.
        """
        if self._owner is not None:
            return
        folder = prepare_folder(self._server.files.folder)
        self._owner = FileLock.take(folder / f"{self._server.files.key}.owner")
        if self._owner is None:
            raise ConfigError(
                f"Another process manages the llama-server {_NAME!r} already",
                hint="Give the task to that `fabric serve` (POST /run), or stop it.",
            )
        await self._server.end(grace_s=_LEFT_BEHIND_GRACE_S)

    def _launch(self, config: ManagedLlamaConfig) -> Launch:
        if not config.model.is_file():
            raise self._server.failures.note(
                ModelError(
                    f"The model file {config.model} is not there",
                    hint="Check the path, or download the model: fabric models pull",
                )
            )
        return Launch(
            name=config.model.stem,
            model=config.model,
            command=_SUPERVISOR,
            settings={
                "program": config.command,
                "arguments": llama_arguments(config),
                "slots": config.parallel,
                "context_window": config.context_window,
                "idle_s": config.idle_s,
            },
            # The program is the user's own, from their configuration: it gets their environment, but no secret of ours.
            environment={"GOMP_SPINCOUNT": "0"} | without_own_secrets(self._environ),
            load_timeout_s=config.load_timeout_s,
            owned=True,
        )

    async def _end(self) -> None:
        self._stage = "stopped"
        await self._server.end()
