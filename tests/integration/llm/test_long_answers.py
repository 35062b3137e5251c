"""Models that do not stop: what is taken of their answers, over both wires and real sockets."""

import asyncio
import sys
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product

import pytest

from agent_fabric.application.ports.llm import ChatClient
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, Role
from agent_fabric.domain.tools.specs import FINISH_TASK
from agent_fabric.infrastructure.models.answer_reader import BYTES_PER_CHAR, LINES_AT_ONCE, ROOM
from agent_fabric.infrastructure.models.model_http import HttpSession, ModelHttp, ServerAddress
from agent_fabric.infrastructure.models.ollama.backend import OllamaChatClient
from agent_fabric.infrastructure.models.openai_compatible import OpenAICompatibleClient
from agent_fabric.infrastructure.packs.base import make_tool_def
from agent_fabric.testing.workbench import SETTINGS
from standins import long_answers
from standins.long_answers import PIECE, LongAnswers

pytestmark = pytest.mark.proves("WB-3")

MOST = 20_000
IN_BUFFERS = 24_000_000
"""Bytes that may be under way between two processes whose sockets are full, at most."""
FINISH = make_tool_def(FINISH_TASK, "End the task.", {"summary": {"type": "string"}})
WIRES = ("openai", "ollama")
FORMS = ("text", "arguments", "reasoning", "word")


@pytest.fixture
async def model() -> AsyncIterator[LongAnswers]:
    model = LongAnswers()
    async with await model.serve():
        yield model


async def ask(
    model: LongAnswers, wire: str, task: str, pieces: list[str] | None = None, most: int | None = MOST
) -> LLMResponse:
    settings = replace(SETTINGS, base_url=f"http://127.0.0.1:{model.port}/v1", max_answer_chars=most)
    async with asyncio.timeout(60), HttpSession() as session:
        return await client(session, wire, settings).chat(
            [Message(Role.SYSTEM, "You work."), Message(Role.USER, task)],
            "long",
            tools=[FINISH],
            temperature=0.0,
            top_p=1.0,
            max_tokens=512,
            on_delta=None if pieces is None else pieces.append,
        )


def client(session: HttpSession, wire: str, settings: ModelSettings) -> ChatClient:
    http = ModelHttp(session, ServerAddress.of(settings))
    if wire == "ollama":
        return OllamaChatClient(http, settings)
    return OpenAICompatibleClient(http, settings.dialect, answer_chars=settings.answer_chars)


@pytest.mark.parametrize(("wire", "form"), [*product(WIRES, FORMS)])
async def test_streamed_answer_of_30_mb_is_cut_and_its_connection_closed(
    model: LongAnswers, wire: str, form: str
) -> None:
    pieces: list[str] = []
    answer = await ask(model, wire, f"[long=30000] [as={form}]", pieces)
    await model.idle()
    assert (answer.cut, answer.finish_reason, answer.tool_calls) == (MOST, "length", ())
    assert len(answer.content) == (MOST if form in ("text", "word") else 0)
    assert "".join(pieces) == answer.content
    assert "cut after 20,000 characters" in answer.problem
    assert "at most 20,000" in answer.problem
    assert model.cut == 1  # the server was not left to write on
    assert model.sent < IN_BUFFERS


@pytest.mark.parametrize(("wire", "form"), [*product(WIRES, ("text", "arguments"))])
async def test_answer_of_30_mb_in_one_piece_is_not_read_to_its_end(model: LongAnswers, wire: str, form: str) -> None:
    answer = await ask(model, wire, f"[long=30000] [as={form}]")
    await model.idle()
    assert (answer.content, answer.tool_calls, answer.cut) == ("", (), MOST)
    assert (model.cut, model.sent < IN_BUFFERS) == (1, True)


@pytest.mark.parametrize(("wire", "form"), [*product(WIRES, ("text", "arguments"))])
async def test_answer_in_one_piece_that_is_a_little_too_long_keeps_its_beginning(
    model: LongAnswers, wire: str, form: str
) -> None:
    answer = await ask(model, wire, f"[long=30] [as={form}]")
    assert (len(answer.content), answer.tool_calls, answer.cut) == (MOST if form == "text" else 0, (), MOST)


@pytest.mark.parametrize(("wire", "form", "streamed"), [*product(WIRES, ("text", "arguments"), (True, False))])
async def test_answer_within_the_limit_is_whole(model: LongAnswers, wire: str, form: str, streamed: bool) -> None:
    answer = await ask(model, wire, f"[long=19] [as={form}]", [] if streamed else None)
    assert answer.cut == 0
    assert not answer.problem
    if form == "arguments":
        (call,) = answer.tool_calls
        assert (call.tool, len(call.arguments) > 19_000) == (FINISH_TASK, True)
    else:
        assert len(answer.content) >= 19_000


async def test_limit_follows_the_tokens_that_a_model_may_write() -> None:
    assert replace(SETTINGS, max_tokens=2_048).answer_chars == 128_000
    assert replace(SETTINGS, max_tokens=64_000).answer_chars == 512_000
    assert replace(SETTINGS, max_tokens=64_000, max_answer_chars=9_000).answer_chars == 9_000


@pytest.fixture
async def far_model() -> AsyncIterator[LongAnswers]:
    """The same as a process of its own, whose memory is not ours."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, long_answers.__file__), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    model = LongAnswers()
    model.port = int((await process.stdout.readline()).rsplit(b":", 1)[1])
    yield model
    process.terminate()
    await process.wait()


@pytest.mark.parametrize("streamed", [True, False])
async def test_memory_that_endless_answers_take_is_bounded(far_model: LongAnswers, streamed: bool) -> None:
    everything = [*product(WIRES, ("text", "arguments"))]
    for wire, form in everything:  # what is loaded and kept for all answers
        await ask(far_model, wire, f"[long=30] [as={form}]", [] if streamed else None)
    peaks = {}
    tracemalloc.start()
    try:
        for wire, form in everything:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            await ask(far_model, wire, f"[long=30000] [as={form}]", [] if streamed else None)
            peaks[wire, form] = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    # The bytes, the text that they are and a copy of both, and what lies in the buffers of one connection.
    assert max(peaks.values()) < 3 * (BYTES_PER_CHAR * MOST + ROOM) + 2_000_000, peaks


async def test_others_get_their_turn_while_an_answer_is_read(model: LongAnswers) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    pieces: list[str] = []
    await ask(model, "openai", "[long=30000]", pieces, most=200_000)
    counting.cancel()
    lines = 2 * 200_000 // PIECE  # one of data, one that is empty
    assert turns >= lines // LINES_AT_ONCE
    assert len(pieces) <= lines // LINES_AT_ONCE + 50  # joined: a fast server costs readers no more than a slow one
