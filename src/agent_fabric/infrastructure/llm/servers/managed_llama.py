"""A llama-server of this process that is switched only when nobody is in the middle of an answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from agent_fabric.application.ports.llm import Notice
from agent_fabric.config.schema.managed_llama import ManagedLlamaConfig
from agent_fabric.domain.errors import FabricError, ModelBusy, ModelError
from agent_fabric.infrastructure.llm.servers.failures import Failures
from agent_fabric.infrastructure.llm.servers.loopback import slots_of
from agent_fabric.infrastructure.llm.servers.owned_server import OwnedServer
from agent_fabric.infrastructure.llm.servers.processes import is_healthy, memory_of
from agent_fabric.infrastructure.llm.servers.spec import Endpoint, quiet
from agent_fabric.infrastructure.threads import on_own_thread

_LOOK_S = 0.1
_SLOTS_TIMEOUT_S = 5.0
_DYING_S = 5.0
"""How long a server that no longer answers may take to be gone."""

Stage: TypeAlias = Literal["stopped", "starting", "ready", "draining", "switching", "failed"]
"""`draining`: a switch waits for answers that are being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedStatus:
    """How the server is; asking for it never waits."""

    stage: Stage
    model: str
    running: int
    """Requests that are being answered."""
    waiting: int
    """Requests that wait for a start or a switch."""
    pid: int | None
    slots: int
    """How many requests it answers at once."""
    context_window: int
    """Tokens that fit into each of them."""
    memory_bytes: int | None
    """Memory it occupies now, its model included; not set when it does not run or the system does not tell."""
    problem: str
    """Why the last start or switch failed; empty when all is well."""


class ManagedLlama:
    """One llama-server with the options of its configuration. It ends with the process, however that ends."""

    def __init__(
        self,
        config: ManagedLlamaConfig,
        *,
        name: str = "default",
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._server = OwnedServer(name, folder, environ)
        self._endpoint: Endpoint | None = None
        self._stage: Stage = "stopped"
        self._failures = Failures()
        self._running = 0
        self._waiting = 0
        self._doubted = False
        """A request failed: before the next one we look whether the server still answers."""
        self._last_used = time.monotonic()
        self._changing = asyncio.Lock()
        """Held by whoever starts, stops or switches the server."""
        self._open = asyncio.Event()
        """Not set: new requests wait for a switch."""
        self._open.set()
        self._nobody = asyncio.Event()
        """Set: no request is being answered."""
        self._nobody.set()
        self._idle_watch: asyncio.Task[None] | None = None

    @property
    def config(self) -> ManagedLlamaConfig:
        """How the server is started now."""
        return self._config

    @property
    def lives(self) -> bool:
        """Whether there is a process, which may still be loading."""
        return self._server.lives

    @property
    def is_changing(self) -> bool:
        """Whether requests wait because it is being switched or started again."""
        return not self._open.is_set()

    def status(self) -> ManagedStatus:
        """Return how the server is."""
        problem, endpoint, pid = self._failures.problem, self._endpoint, self._server.pid
        return ManagedStatus(
            stage="stopped" if self._stage == "ready" and not self._server.lives else self._stage,
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
            if self._endpoint is not None and self._server.lives:
                return self._endpoint
            if self._endpoint is not None:  # it was ready, and is gone
                gone = ModelError(f"{self._config.model.stem} ended unexpectedly{self._server.last_words()}")
                self._note_failure(gone)
                notice(f"{self._config.model.stem} has ended unexpectedly; starting it again")
            self._failures.refuse_storm(self._config.model.stem, self._server.files.log)
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
        endpoint = await self._admitted(notice)
        try:
            yield endpoint
        except BaseException:
            self._doubted = True
            raise
        finally:
            self._running -= 1
            self._last_used = time.monotonic()
            if self._running == 0:
                self._nobody.set()

    async def switch(self, config: ManagedLlamaConfig, notice: Notice = quiet) -> Endpoint:
        """Serve another model, or the same with other options, as soon as no answer is being written.

        New requests wait meanwhile. When the new one does not start, the old one is started again.

        Raises:
            ModelBusy: answers were still being written after `drain_timeout_s`; nothing was switched.
            ModelError: the new one does not start; the message says whether the old one runs again.
            ConfigError: as of `start`.
        """
        async with self._changing:
            if config == self._config and self._endpoint is not None and self._server.lives:
                return self._endpoint
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
            self._stage, self._failures = "starting", Failures()
            return await self._bring_up(self._config, notice)

    async def stop(self) -> None:
        """End the server, answers or not; the next request starts it again."""
        async with self._changing:
            await self._end()

    async def aclose(self) -> None:
        """End the server and let another process manage it."""
        self._watch_idle(None)
        async with self._changing:
            await self._end()
            await self._server.give_up()

    async def _admitted(self, notice: Notice) -> Endpoint:
        self._waiting += 1
        try:
            while True:
                await self._open.wait()
                if self._doubted:
                    await self._look()
                endpoint = self._endpoint
                if endpoint is None or not self._server.lives:
                    endpoint = await self.start(notice)
                if self._open.is_set():  # else a switch has begun while we waited
                    self._failures.note_well()
                    self._running += 1
                    self._nobody.clear()
                    return endpoint
        finally:
            self._waiting -= 1

    async def _look(self) -> None:
        """After a request that failed: a server that is ending is not taken for one that lives."""
        self._doubted = False
        endpoint = self._endpoint
        if endpoint is None or await is_healthy(_port(endpoint), endpoint.api_key):
            return
        await self._server.gone_within(_DYING_S)

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
        """Wait until no answer is being written: none of ours, and none of somebody who asks the server directly."""
        before, self._stage = self._stage, "draining"
        if self._running:
            notice(f"waiting for {self._running} running answer(s) before the switch")
        try:
            async with asyncio.timeout(timeout_s):
                await self._nobody.wait()
                while await self._at_work():  # noqa: ASYNC110 - another process: nobody tells us
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise ModelBusy(
                f"{self._config.model.stem} was still writing answers after {timeout_s:.0f} s; nothing was switched",
                hint="Try again when the running requests have ended, or cancel them.",
            ) from None
        finally:
            self._stage = before

    async def _at_work(self) -> bool:
        endpoint = self._endpoint
        if endpoint is None or not self._server.lives:
            return False
        try:
            slots = await on_own_thread(
                lambda: slots_of(_port(endpoint), api_key=endpoint.api_key, timeout_s=_SLOTS_TIMEOUT_S)
            )
        except OSError:
            return self._server.lives  # in the middle of a prompt it does not answer
        return slots is not None and slots.busy > 0

    async def _replace(self, config: ManagedLlamaConfig, notice: Notice) -> Endpoint:
        old = self._config if self._endpoint is not None else None
        await self._end()
        self._stage = "switching"
        try:
            endpoint = await self._bring_up(config, notice)
        except FabricError as problem:
            raise await self._back_to(old, problem, notice) from None
        self._config = config
        self._failures = Failures()
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
            self._endpoint = await self._server.start(config, notice)
        except FabricError as problem:
            raise self._note_failure(problem) from None
        except BaseException:
            self._stage = "stopped"
            raise
        self._stage = "ready"
        self._doubted = False
        self._failures.note_ready()
        self._last_used = time.monotonic()
        self._watch_idle(config.idle_s)
        return self._endpoint

    def _note_failure(self, problem: FabricError) -> FabricError:
        self._endpoint, self._stage = None, "failed"
        return self._failures.note(problem)

    async def _end(self) -> None:
        self._endpoint, self._stage = None, "stopped"
        await self._server.end()

    def _watch_idle(self, idle_s: float | None) -> None:
        if self._idle_watch is not None:
            self._idle_watch.cancel()
            self._idle_watch = None
        if idle_s is not None:
            self._idle_watch = asyncio.create_task(self._end_when_idle(idle_s), name="managed-llama-idle")

    async def _end_when_idle(self, idle_s: float) -> None:
        while True:
            await self._nobody.wait()
            left_s = self._last_used + idle_s - time.monotonic()
            if left_s > 0:
                await asyncio.sleep(left_s)
                continue
            async with self._changing:
                if self._running == 0 and not await self._at_work():
                    await self._end()
                    return
                self._last_used = time.monotonic()


def _port(endpoint: Endpoint) -> int:
    return urlsplit(endpoint.base_url).port or 0
