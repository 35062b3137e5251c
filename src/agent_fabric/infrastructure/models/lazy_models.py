"""Joins what asks models: backends, their queues, and what wraps them.

They are joined when the first model is asked: a run that resumes a settled one never needs them.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.application.ports.llm import ChatClient, ChosenModel, Notice
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.domain.runs.task import Priority

if TYPE_CHECKING:
    from agent_fabric.infrastructure.models.stack import ModelStack


class LazyModels:
    """ChatClients and ModelChooser that stand in until they are used."""

    def __init__(self, config: FabricConfig, resolve: Resolve, root: Path | None = None) -> None:
        self._config = config
        self._root = root
        self._resolve = resolve
        self._stack: ModelStack | None = None

    @property
    def stack(self) -> "ModelStack":
        """The real ones."""
        if self._stack is None:
            from agent_fabric.infrastructure.models.stack import build_model_stack  # noqa: PLC0415 - see the module's docstring

            self._stack = build_model_stack(self._config, self._resolve, self._root)
        return self._stack

    def turn(
        self, settings: ModelSettings, *, priority: Priority, notice: Notice
    ) -> AbstractAsyncContextManager[ChatClient]:
        stack = self._stack or self.stack
        return stack.clients.turn(settings, priority=priority, notice=notice)

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
        return await self.stack.choices.choose(key, notice)

    def is_free(self, key: str) -> bool:
        """Tell whether a request to a model would be served at once by its server, as far as this process knows."""
        model = self._config.models.get(key)
        if self._stack is None or model is None or model.base_url is None:
            return True  # nothing was asked yet, or its server is found only when it is
        return self._stack.queues.for_server(model.base_url, model.slots).is_free

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._stack is not None:
            await self._stack.aclose()
