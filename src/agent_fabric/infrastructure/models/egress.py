"""Keeps runs on this machine."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from agent_fabric.application.ports.llm import ChatClient, ChatClients, Notice
from agent_fabric.domain.errors import ModelForbidden
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.domain.runs.task import Priority


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
