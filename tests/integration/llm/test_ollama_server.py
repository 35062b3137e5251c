"""Discovery and pulls over real sockets, against a stand-in for Ollama."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_fabric.domain.errors import ModelAnswerUnusable, ModelError, ModelRefused, ModelUnreachable
from agent_fabric.domain.models.found_models import select_model
from agent_fabric.infrastructure.models.model_http import HttpSession, ServerAddress
from agent_fabric.infrastructure.models.ollama.server import OllamaServer, native_root
from agent_fabric.testing.scripted_answers import Answer, Hang, Raw, Reset, Status
from standins.ollama_standin import OllamaStandIn, StandInModel

SMALL = StandInModel(name="qwen2.5:1.5b", parameter_size="1.5B")
LARGE = StandInModel(name="llama3.1:latest", parameter_size="8.0B", family="llama", context_length=131_072)
TALKER = StandInModel(name="gemma3:270m", parameter_size="268.10M", family="gemma3", capabilities=("completion",))
EMBEDDER = StandInModel(
    name="nomic-embed-text:latest", parameter_size="137M", family="nomic-bert", capabilities=("embedding",)
)


@pytest.fixture
async def session() -> AsyncIterator[HttpSession]:
    async with HttpSession() as opened:
        yield opened


def server(session: HttpSession, base_url: str) -> OllamaServer:
    return OllamaServer(session, ServerAddress(base_url=base_url))


def test_native_routes_are_beside_v1() -> None:
    for address in ("http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"):
        assert native_root(address) == "http://h:1"
    assert native_root("https://h/ollama/v1") == "https://h/ollama"


@pytest.mark.proves("AF-078", "AF-079", "AF-080", "AF-083")
async def test_smallest_model_that_calls_tools_is_found_among_all_there_are(session: HttpSession) -> None:
    async with OllamaStandIn(models=[LARGE, TALKER, EMBEDDER, SMALL]) as ollama:
        there = server(session, ollama.base_url)
        cards = await there.cards()
    assert [card.name for card in cards] == [LARGE.name, TALKER.name, EMBEDDER.name, SMALL.name]
    chosen = select_model(cards, None)
    assert chosen is not None
    assert (chosen.name, chosen.parameters_b) == ("qwen2.5:1.5b", 1.5)
    assert select_model(cards, "llama3.1") == cards[0]
    assert cards[0].parameters_b == 8.0


async def test_each_model_is_looked_up_once_for_as_long_as_it_stays_the_same(session: HttpSession) -> None:
    async with OllamaStandIn(models=[SMALL, LARGE]) as ollama:
        there = server(session, ollama.base_url)
        await there.cards()
        await there.cards()
        assert len(ollama.asked("/api/show")) == 2
        ollama.models[SMALL.name] = StandInModel(name=SMALL.name, num_ctx=8_192)
        assert (await there.cards())[0].served_window == 8_192
        assert len(ollama.asked("/api/show")) == 3


async def test_window_of_a_loaded_model_is_the_one_it_really_has(session: HttpSession) -> None:
    async with OllamaStandIn(models=[SMALL]) as ollama:
        there = server(session, ollama.base_url)
        card = await there.card("qwen2.5:1.5b")
        assert card is not None
        assert (card.context_window, card.served_window) == (32_768, 4_096)
        ollama.windows[SMALL.name] = 16_384
        card = await there.card("qwen2.5:1.5b")
        assert card is not None
        assert card.served_window == 16_384
        assert await there.running() == {SMALL.name: 16_384}
        assert await there.card("not-here") is None


async def test_one_broken_model_does_not_hide_the_others(session: HttpSession) -> None:
    async with OllamaStandIn(models=[SMALL, LARGE]) as ollama:
        ollama.faults["/api/show"] = Status(500)
        ollama.faults["/api/ps"] = Raw("nonsense")
        cards = await server(session, ollama.base_url).cards()
    assert [(card.name, card.calls_tools) for card in cards] == [(SMALL.name, True), (LARGE.name, True)]


async def test_hundred_models_are_looked_up_a_few_at_a_time(session: HttpSession) -> None:
    models = [StandInModel(name=f"m{number}:latest") for number in range(100)]
    async with OllamaStandIn(models=models) as ollama, asyncio.timeout(20):
        assert len(await server(session, ollama.base_url).cards()) == 100


async def test_models_that_are_not_told_about_in_time_are_known_by_their_names(session: HttpSession) -> None:
    models = [StandInModel(name=f"qwen2.5:{number}b", parameter_size=f"{number}B") for number in range(1, 41)]
    async with OllamaStandIn(models=models) as ollama, asyncio.timeout(60):
        ollama.faults["/api/show"] = Hang()
        cards = await OllamaServer(session, ServerAddress(base_url=ollama.base_url), look_up_s=0.5).cards()
    assert len(cards) == 40
    chosen = select_model(cards, None)
    assert chosen is not None
    assert chosen.name == "qwen2.5:1b"


async def test_version_and_reach_tell_ollama_from_others_and_from_nobody(
    session: HttpSession, unused_tcp_port: int
) -> None:
    async with OllamaStandIn() as ollama:
        there = server(session, ollama.base_url)
        assert (await there.reachable(), await there.version()) == (True, "0.13.0")
        ollama.faults["/api/version"] = Status(404)
        assert (await there.reachable(), await there.version()) == (True, None)
    nobody = server(session, f"http://127.0.0.1:{unused_tcp_port}/v1")
    assert (await nobody.reachable(), await nobody.version()) == (False, None)
    with pytest.raises(ModelUnreachable):
        await nobody.cards()


@pytest.mark.parametrize("fault", [Status(500), Status(401), Raw("<html>"), Raw("[]"), Raw("{}"), Reset()])
async def test_list_that_cannot_be_had_is_a_clear_error(session: HttpSession, fault: Answer) -> None:
    async with OllamaStandIn() as ollama:
        ollama.faults["/api/tags"] = fault
        with pytest.raises(ModelError):
            await server(session, ollama.base_url).cards()


async def test_pull_tells_how_far_it_is(session: HttpSession) -> None:
    told: list[str] = []
    async with OllamaStandIn(models=[], pullable=[SMALL]) as ollama:
        there = server(session, ollama.base_url)
        await there.pull(SMALL.name, told.append)
        assert await there.names() == [SMALL.name]
    assert told[0] == "Pulling qwen2.5:1.5b: pulling manifest"
    assert "Pulling qwen2.5:1.5b: 100 %, 986 of 986 MB" in told
    assert told[-1] == "qwen2.5:1.5b is there"


async def test_model_that_nobody_knows_is_a_clear_error_although_the_stream_began_well(
    session: HttpSession,
) -> None:
    async with OllamaStandIn() as ollama:
        with pytest.raises(ModelRefused, match="file does not exist") as caught:
            await server(session, ollama.base_url).pull("qwen9:1t", lambda _: None)
    assert "ollama pull qwen9:1t" in caught.value.hint


@pytest.mark.parametrize("body", ['{"status":"pulling manifest"}\n', "", '{"status":"pulling manifest"}\n{"sta'])
async def test_pull_that_breaks_off_is_no_success(session: HttpSession, body: str) -> None:
    async with OllamaStandIn() as ollama:
        ollama.faults["/api/pull"] = Raw(body, content_type="application/x-ndjson")
        with pytest.raises(ModelAnswerUnusable):
            await server(session, ollama.base_url).pull("m", lambda _: None)


async def test_cancelled_pull_hangs_up(session: HttpSession) -> None:
    async with OllamaStandIn() as ollama:
        ollama.faults["/api/pull"] = Hang()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await server(session, ollama.base_url).pull("m", lambda _: None)
