"""Models, seen from the engine."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_fabric.domain.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.tools import ToolSpec

OnDelta = Callable[[str], None]
"""Gets pieces of the answer's text as they come. For the eye only: nothing follows from them."""


class ChatClient(Protocol):
    """Asks one model server.

    One call is one attempt: the engine decides whether to try again, so that every attempt is in the log. Time-outs are
    the caller's, except for connecting. Cancelling the call closes its connection.
    """

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        tools: Sequence[ToolSpec],
        temperature: float,
        top_p: float,
        max_tokens: int,
        must_call: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        """Return the model's answer; `must_call` names the one tool that it should choose.

        Raises:
            ModelError: there is no usable answer; the subclass says why.
        """
        ...


class ChatClients(Protocol):
    """Gives the client for a model; the same server always gets the same one."""

    def client_for(self, settings: ModelSettings) -> ChatClient:
        """Return the client.

        Raises:
            ConfigError: the settings name a backend or a key that does not exist.
        """
        ...
