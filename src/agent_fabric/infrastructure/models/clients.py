"""ChatClients over the backends: finds the server of a model, waits until it is ready, and queues before it.

With `offline: true`, no model of another machine is given.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from agent_fabric.application.ports.llm import ChatClient, ChatClients, Notice
from agent_fabric.domain.errors import ConfigError, ModelForbidden
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.domain.runs.task import Priority
from agent_fabric.infrastructure.models.queue import Queues, ServerQueue


class Backend(Protocol):
    """One kind of model server."""

    async def ready(self, settings: ModelSettings, notice: Notice) -> ChatClient:
        """Return the client of a model; start, load or fetch what it needs. Cheap when everything is there.

        Raises:
            ModelError: the model cannot be had.
            ConfigError: the settings cannot be used.
            MissingExtra: the backend is not installed.
        """
        ...


class BackendClients:
    """ChatClients that chooses by `settings.backend`."""

    def __init__(self, backends: Mapping[str, Backend], queues: Queues) -> None:
        self._backends = backends
        self._queues = queues

    def turn(self, settings: ModelSettings, *, priority: Priority, notice: Notice) -> "_Turn":
        backend = self._backends.get(settings.backend)
        if backend is None:
            raise ConfigError(
                f"There is no backend {settings.backend!r}", hint=f"Backends: {', '.join(self._backends)}."
            )
        queue = self._queues.for_server(settings.base_url, settings.slots)
        return _Turn(backend, queue, settings, priority, notice)


@dataclass(slots=True)
class _Turn:
    """A context manager by hand: a generator would cost a fast server's run more than the rest of this module."""

    backend: Backend
    queue: ServerQueue
    settings: ModelSettings
    priority: Priority
    notice: Notice

    async def __aenter__(self) -> ChatClient:
        client = await self.backend.ready(self.settings, self.notice)
        await self.queue.enter(self.priority, self.notice)
        return client

    async def __aexit__(self, *_: object) -> None:
        self.queue.leave()


@dataclass(frozen=True, slots=True)
class OfflineChatClients:
    """ChatClients that gives no model of another machine."""

    inner: ChatClients

    def turn(
        self, settings: ModelSettings, *, priority: Priority, notice: Notice
    ) -> AbstractAsyncContextManager[ChatClient]:
        """Give a model of this machine; about others, nothing is looked up and nobody is connected to.

        Raises:
            ModelForbidden: the model is not on this machine.
        """
        if not settings.is_local:
            raise ModelForbidden(
                f"The model {settings.model!r} at {settings.base_url} is not on this machine, and `offline: true` "
                "forbids asking it",
                hint="Use a model on this machine with --model-key, or set `offline: false`.",
            )
        return self.inner.turn(settings, priority=priority, notice=notice)
