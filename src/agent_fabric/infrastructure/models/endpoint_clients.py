"""Clients of llama.cpp servers that we started; each start has an address and a key of its own."""

from typing import Final

from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.infrastructure.models.model_http import ModelHttp, ServerAddress
from agent_fabric.infrastructure.models.openai_compatible import HttpSession, OpenAICompatibleClient
from agent_fabric.infrastructure.models.servers.server_files import Endpoint

_CONNECT_TIMEOUT_S: Final = 10.0
"""A machine that is busy computing answers late, but the server is on it."""


class EndpointClients:
    """One client for each server and dialect."""

    def __init__(self, session: HttpSession) -> None:
        self._session = session
        self._clients: dict[tuple[Endpoint, str, bool, int], OpenAICompatibleClient] = {}

    def at(self, endpoint: Endpoint, settings: ModelSettings) -> OpenAICompatibleClient:
        """Return the client of a server that runs."""
        key = (endpoint, str(settings.dialect), settings.strict_native, settings.answer_chars)
        if key not in self._clients:
            address = ServerAddress(
                base_url=endpoint.base_url, secret=endpoint.api_key, connect_timeout_s=_CONNECT_TIMEOUT_S
            )
            self._clients[key] = OpenAICompatibleClient(ModelHttp(self._session(), address), *key[1:])
        return self._clients[key]
