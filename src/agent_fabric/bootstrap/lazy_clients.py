"""Model clients that are imported when the first model is asked.

Importing aiohttp costs more than everything else that `fabric run` does before its first event, and a run that resumes
a settled one never needs it.
"""

from typing import TYPE_CHECKING

from agent_fabric.application.ports.llm import ChatClient
from agent_fabric.domain.messages import ModelSettings

if TYPE_CHECKING:
    from agent_fabric.infrastructure.llm.openai_compatible import OpenAICompatibleClients


class LazyChatClients:
    """ChatClients that stands in until it is used."""

    def __init__(self) -> None:
        self._clients: OpenAICompatibleClients | None = None

    def client_for(self, settings: ModelSettings) -> ChatClient:
        if self._clients is None:
            from agent_fabric.infrastructure.llm.openai_compatible import (  # noqa: PLC0415 - see the module's docstring
                OpenAICompatibleClients,
            )

            self._clients = OpenAICompatibleClients()
        return self._clients.client_for(settings)

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._clients is not None:
            await self._clients.aclose()
