"""Keeps runs on this machine."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from urllib.parse import urlsplit

from agent_fabric.application.ports.llm import ChatClient, ChatClients, Notice
from agent_fabric.domain.errors import ModelForbidden
from agent_fabric.domain.messages import ModelSettings
from agent_fabric.domain.models import is_loopback
from agent_fabric.domain.runs.task import Priority

_HOSTED = (":cloud", "-cloud")
"""How the names of models end that Ollama itself asks for elsewhere."""


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
        if not is_here(settings):
            raise ModelForbidden(
                f"The model {settings.model!r} at {settings.base_url} is not on this machine, and `offline: true` "
                "forbids asking it",
                hint="Use a model on this machine with --model-key, or set `offline: false`.",
            )
        return self.inner.turn(settings, priority=priority, notice=notice)


def is_here(settings: ModelSettings) -> bool:
    """Tell whether a model is asked without leaving this machine.

    Names are not looked up: they may mean something else a moment later. A name that is not `localhost` is elsewhere.
    """
    if settings.is_ours:
        return True
    if settings.remote or settings.model.lower().endswith(_HOSTED):
        return False
    try:
        host = urlsplit(settings.base_url).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
