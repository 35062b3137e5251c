"""Asks our own llama.cpp: says how far an answer is, and lets a new process begin where another one ended."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final, Self, Unpack

from agent_fabric.application.ports.llm import ChatOptions, Notice, ProgressText
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest
from agent_fabric.domain.models.messages import DEFAULT_ANSWER_CHARS, LLMResponse, Message, Role
from agent_fabric.infrastructure.models.answer_reader import read_stream
from agent_fabric.infrastructure.models.http_answer import HttpAnswer
from agent_fabric.infrastructure.models.model_http import ModelHttp
from agent_fabric.infrastructure.models.openai_compatible import AnswerInProgress, OpenAICompatibleClient, to_no_one
from agent_fabric.infrastructure.models.openai_wire import encode_request
from agent_fabric.infrastructure.models.prompt_cache import PromptCache
from agent_fabric.infrastructure.models.servers.llama_servers import ServerSpec
from agent_fabric.infrastructure.models.servers.server_files import Endpoint

TELL_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class EmbeddedClient:
    """ChatClient of one server for one answer."""

    client: OpenAICompatibleClient
    server: Endpoint
    spec: ServerSpec
    prompt_cache: PromptCache | None
    """None: nothing is kept on disk."""
    notice: Notice

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        with Progress(self) as progress:
            return await self.client.heard_by(progress).chat(messages, model, **options)


class Progress:
    """Listens to one answer: says once a second what the model does, if it takes that long."""

    def __init__(self, asked: EmbeddedClient) -> None:
        self._asked = asked
        self._doing = "is reading"
        self._tokens = 0

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        self._next = asyncio.get_running_loop().call_later(TELL_EVERY_S, self._tell)
        return self

    def __exit__(self, *_: object) -> None:
        self._next.cancel()

    async def prepare(self, http: ModelHttp, shaped: ShapedRequest) -> None:
        """Let a server that has just started begin with what it once made of the instructions."""
        prompt_cache, server = self._asked.prompt_cache, self._asked.server
        if prompt_cache is None or not shaped.messages or shaped.messages[0].role is not Role.SYSTEM:
            return
        alone = ShapedRequest(messages=shaped.messages[:1], tools=shaped.tools, must_call=None)
        data = encode_request(alone, "", temperature=0, top_p=1, max_tokens=0, stream=True, progress=True)

        async def follow(answer: HttpAnswer) -> None:
            await read_stream(answer, AnswerInProgress(self), to_no_one, DEFAULT_ANSWER_CHARS)

        async def read() -> None:
            await http.post(f"{server.base_url}/chat/completions", data, follow, model="")

        await prompt_cache.prepare(http, server, data + self._asked.spec.key().encode(), read)

    def reading(self, done: int, total: int) -> None:
        self._doing = f"is reading, {done} of {total} tokens"

    def writing(self) -> None:
        self._tokens += 1
        self._doing = f"is writing, {self._tokens} tokens"

    def _tell(self) -> None:
        took = time.monotonic() - self._begun
        self._asked.notice(ProgressText(f"{self._asked.spec.name} {self._doing} … {took:.0f} s"))
        self._next = asyncio.get_running_loop().call_later(TELL_EVERY_S, self._tell)
