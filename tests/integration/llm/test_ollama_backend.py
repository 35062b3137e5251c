"""Models of Ollama made ready and asked, over real sockets, against a stand-in for Ollama."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from agent_fabric.application.models.model_turn import ModelTurn
from agent_fabric.application.ports.llm import ChatClient, Notice
from agent_fabric.domain.errors import (
    ContextExceeded,
    ModelAnswerUnusable,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnreachable,
)
from agent_fabric.domain.events import ContextTruncated
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, Role, ToolDialect, Usage
from agent_fabric.domain.runs.task import Priority, RunStatus
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.infrastructure.models.model_http import HttpSession, ServerAddress
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.fakes import OneModel
from agent_fabric.testing.scripted_answers import Answer, Call, Cut, Finish, Hang, Raw, Reset, Say, Slow, Status
from agent_fabric.testing.scripted_model import ScriptedModel
from agent_fabric.testing.workbench import SETTINGS, Workbench, workbench
from standins.ollama_standin import OllamaStandIn, StandInModel

MODEL = StandInModel(name="qwen2.5:7b", parameter_size="7.6B")
TALKER = StandInModel(name="gemma3:4b", parameter_size="4.3B", family="gemma3", capabilities=("completion",))
LOOK = ToolSpec(
    name="look",
    description="Look at something.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    effect=Effect.READS,
)
OTHER = replace(LOOK, name="listen")
MESSAGES = (Message(Role.SYSTEM, "You look."), Message(Role.USER, "Look at the sky."))
WAYS = pytest.mark.parametrize("window", [None, 16_384], ids=["openai-route", "native-route"])


def settings(ollama: OllamaStandIn | str, *, window: int | None = None, model: str = MODEL.name) -> ModelSettings:
    base_url = ollama if isinstance(ollama, str) else ollama.base_url
    chosen = replace(SETTINGS, backend="ollama", base_url=base_url, model=model)
    return chosen if window is None else replace(chosen, context_window=window, sets_window=True)


@asynccontextmanager
async def backend(*, ensure: bool = False, auto_pull: bool = False) -> AsyncIterator[OllamaBackend]:
    session = HttpSession()
    try:
        yield OllamaBackend(session, ensure=ensure, start_cmd=("no-such-ollama", "serve"), auto_pull=auto_pull)
    finally:
        await session.aclose()


async def ask(
    client: ChatClient,
    model: str = MODEL.name,
    *,
    messages: Sequence[Message] = MESSAGES,
    tools: Sequence[ToolSpec] = (LOOK,),
    must_call: str | None = None,
    pieces: list[str] | None = None,
) -> LLMResponse:
    async with asyncio.timeout(60):
        return await client.chat(
            messages,
            model,
            tools=tools,
            temperature=0.1,
            top_p=0.9,
            max_tokens=64,
            must_call=must_call,
            on_delta=None if pieces is None else pieces.append,
        )


def quiet(_: str) -> None:
    pass


# ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("AF-071")
@WAYS
@pytest.mark.parametrize("stream", [False, True])
async def test_model_answers_with_text_calls_and_tokens_by_either_route(window: int | None, stream: bool) -> None:
    script: list[Answer] = [Call("look", {"at": "the sky"}, usage=(40, 9)), Say("It is blue today.")]
    async with OllamaStandIn(script, models=[MODEL]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=window), quiet)
        pieces: list[str] | None = [] if stream else None
        first = await ask(client, pieces=pieces)
        (call,) = first.tool_calls
        seen = [*MESSAGES, Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, "blue", call_id=call.call_id)]
        second = await ask(client, messages=seen, pieces=pieces)
    assert (call.tool, call.arguments) == ("look", '{"at": "the sky"}')
    assert first.usage == Usage(40, 9)
    assert first.dialect is ToolDialect.NATIVE
    assert second.content == "It is blue today."
    if pieces is not None:
        assert "".join(pieces) == second.content
    assert len(ollama.asked("/v1/chat/completions" if window is None else "/api/chat")) == 2


async def test_window_is_set_by_the_native_route_and_only_there() -> None:
    async with OllamaStandIn([Say("hi")], models=[MODEL]) as ollama, backend() as ready:
        await ask(await ready.ready(settings(ollama), quiet))
        assert ollama.windows == {MODEL.name: 4_096}
        await ask(await ready.ready(settings(ollama, window=16_384), quiet))
        assert ollama.windows == {MODEL.name: 16_384}
        (chat,) = ollama.asked("/api/chat")
        assert chat.body["options"] == {"temperature": 0.1, "top_p": 0.9, "num_predict": 64, "num_ctx": 16_384}


@WAYS
@pytest.mark.proves("C09")
async def test_a_model_stays_loaded_as_long_as_it_is_told_to(window: int | None) -> None:
    async with OllamaStandIn([Say("yes"), Say("no")], models=[MODEL]) as ollama, backend() as ready:
        told = replace(settings(ollama, window=window), keep_alive_s=0)
        await ask(await ready.ready(told, quiet))
        await ask(await ready.ready(settings(ollama, window=window), quiet))
    first, second = [each for each in ollama.requests if "messages" in each.body]
    assert (first.path, first.body["keep_alive"]) == ("/api/chat", 0)
    assert ("num_ctx" in first.body["options"]) is (window is not None)
    assert "keep_alive" not in second.body


@WAYS
async def test_schema_dialect_makes_a_model_without_tools_call_them(window: int | None) -> None:
    text = '{"name": "look", "arguments": {"at": "the sky"}}'
    async with OllamaStandIn([Say(text)], models=[TALKER]) as ollama, backend() as ready:
        chosen = replace(settings(ollama, window=window, model=TALKER.name), dialect="schema")
        answer = await ask(await ready.ready(chosen, quiet), TALKER.name)
    (call,) = answer.tool_calls
    assert (call.tool, answer.dialect) == ("look", ToolDialect.SCHEMA)
    assert "tools" not in ollama.requests[-1].body


async def test_model_that_must_call_one_tool_is_offered_no_other_since_ollama_has_no_tool_choice() -> None:
    async with OllamaStandIn([Call("look", {"at": "x"})], models=[MODEL]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama), quiet)
        await ask(client, tools=(OTHER, LOOK), must_call="look")
        await ask(client, tools=(OTHER, LOOK))
    offered = [[tool["function"]["name"] for tool in asked.body["tools"]] for asked in ollama.requests[-2:]]
    assert offered == [["look"], ["listen", "look"]]


@WAYS
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Status(500), ModelBusy),
        (Status(503), ModelBusy),
        (Status(400, "bad"), ModelRefused),
        (Raw("garbage"), ModelAnswerUnusable),
        (Raw("{}"), ModelAnswerUnusable),
        (Cut(Say("a long answer that breaks off"), after_bytes=30), ModelAnswerUnusable),
        (Reset(), ModelAnswerUnusable),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_broken_server_is_a_clear_error(
    window: int | None, fault: Answer, error: type[ModelError], stream: bool
) -> None:
    async with OllamaStandIn(lambda _request, _attempt: fault, models=[MODEL]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=window), quiet)
        with pytest.raises(error):
            await ask(client, pieces=[] if stream else None)


@WAYS
async def test_busy_server_says_when_to_come_back_and_slow_one_is_waited_for(window: int | None) -> None:
    script: list[Answer] = [Status(429, retry_after=7), Slow(Say("late"), 0.1)]
    async with OllamaStandIn(script, models=[MODEL]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=window), quiet)
        with pytest.raises(ModelBusy) as caught:
            await ask(client)
        assert caught.value.retry_after_s == 7
        assert (await ask(client)).content == "late"


@WAYS
async def test_cancelling_ends_the_wait_at_once(window: int | None) -> None:
    async with OllamaStandIn(lambda _request, _attempt: Hang(), models=[MODEL]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=window), quiet)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ask(client)


# ── being ready ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_model_that_is_there_costs_no_question_after_the_first_time() -> None:
    async with OllamaStandIn([Say("hi")], models=[MODEL]) as ollama, backend() as ready:
        first = await ready.ready(settings(ollama), quiet)
        asked = len(ollama.requests)
        assert await ready.ready(settings(ollama), quiet) is first
        assert len(ollama.requests) == asked <= 2


@pytest.mark.proves("AF-082")
async def test_missing_model_is_pulled_once_however_many_ask() -> None:
    told: list[str] = []
    async with OllamaStandIn([Say("hi")], models=[], pullable=[MODEL]) as ollama, backend(auto_pull=True) as ready:
        clients = await asyncio.gather(*(ready.ready(settings(ollama), told.append) for _ in range(5)))
        assert (await ask(clients[0])).content == "hi"
        assert len(ollama.asked("/api/pull")) == 1
    assert any("100 %, 986 of 986 MB" in text for text in told)


@pytest.mark.proves("AF-082")
async def test_missing_model_that_may_not_be_pulled_is_an_error_that_says_what_is_there() -> None:
    async with OllamaStandIn(models=[TALKER]) as ollama, backend(auto_pull=False) as ready:
        with pytest.raises(ModelRefused, match=r"does not have the model 'qwen2\.5:7b'") as caught:
            await ready.ready(settings(ollama), quiet)
        assert ollama.asked("/api/pull") == []
    assert "gemma3:4b" in caught.value.hint
    assert "ollama pull qwen2.5:7b" in caught.value.hint


async def test_pull_that_fails_is_an_error_and_is_tried_again_the_next_time() -> None:
    async with OllamaStandIn([Say("hi")], models=[]) as ollama, backend(auto_pull=True) as ready:
        with pytest.raises(ModelRefused, match="could not pull"):
            await ready.ready(settings(ollama), quiet)
        ollama.pullable[MODEL.name] = MODEL
        assert (await ask(await ready.ready(settings(ollama), quiet))).content == "hi"


@WAYS
async def test_model_removed_behind_our_back_is_explained_and_looked_for_again(window: int | None) -> None:
    async with OllamaStandIn([Say("hi")], models=[MODEL], pullable=[MODEL]) as ollama, backend(auto_pull=True) as ready:
        client = await ready.ready(settings(ollama, window=window), quiet)
        del ollama.models[MODEL.name]
        with pytest.raises(ModelRefused) as caught:
            await ask(client)
        assert caught.value.hint == "Get it with: ollama pull qwen2.5:7b"
        assert (await ask(await ready.ready(settings(ollama, window=window), quiet))).content == "hi"


@pytest.mark.proves("AF-071", "AF-075")
@WAYS
async def test_model_without_tools_is_an_error_that_names_those_at_hand_that_have_them(window: int | None) -> None:
    small = StandInModel(name="qwen3:4b", parameter_size="4.0B")
    async with OllamaStandIn(models=[TALKER, MODEL, small]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=window, model=TALKER.name), quiet)
        with pytest.raises(ModelRefused, match="does not support tools") as caught:
            await ask(client, TALKER.name)
        assert (await ready.find_models(ollama.base_url, quiet) or [])[0].dialect is ToolDialect.SCHEMA
    assert "qwen3:4b, qwen2.5:7b" in caught.value.hint
    assert "`models.quality.model: qwen3:4b`" in caught.value.hint
    assert "`models.quality.dialect: schema`" in caught.value.hint


async def test_with_no_able_model_at_hand_the_error_says_how_to_get_one() -> None:
    async with OllamaStandIn(models=[TALKER]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, model=TALKER.name), quiet)
        with pytest.raises(ModelRefused) as caught:
            await ask(client, TALKER.name)
    assert "ollama pull" in caught.value.hint


async def test_unreachable_server_fails_when_it_is_asked_and_says_what_was_tried(unused_tcp_port: int) -> None:
    nobody = settings(f"http://127.0.0.1:{unused_tcp_port}/v1")
    async with backend(ensure=True) as ready:
        client = await ready.ready(nobody, quiet)
        with pytest.raises(ModelUnreachable) as caught:
            await ask(client)
        assert await ready.find_models(nobody.base_url, quiet) is None
    assert "`no-such-ollama serve` cannot be started" in caught.value.hint


@pytest.mark.proves("AF-081")
async def test_nothing_is_started_when_that_is_switched_off(unused_tcp_port: int) -> None:
    async with backend(ensure=False) as ready:
        client = await ready.ready(settings(f"http://127.0.0.1:{unused_tcp_port}/v1"), quiet)
        with pytest.raises(ModelUnreachable) as caught:
            await ask(client)
    assert caught.value.hint == "Start it with `no-such-ollama serve`; nothing was to be started here."


@pytest.mark.proves("AF-084")
async def test_server_that_only_speaks_openais_format_is_used_all_the_same() -> None:
    async with ScriptedModel([Say("hi")]) as model, backend(auto_pull=True) as ready:
        assert (await ask(await ready.ready(settings(model.base_url), quiet))).content == "hi"
        assert await ready.find_models(model.base_url, quiet) is None


async def test_key_of_a_server_is_sent_with_every_question_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_OLLAMA_KEY", "sk-lab")
    async with OllamaStandIn([Say("hi")], models=[MODEL]) as ollama, backend() as ready:
        address = ServerAddress(base_url=ollama.base_url, api_key="env:LAB_OLLAMA_KEY")
        assert await ready.find_models(ollama.base_url, quiet, address)
        await ask(await ready.ready(replace(settings(ollama), api_key="env:LAB_OLLAMA_KEY"), quiet))
    assert {asked.headers.get("authorization") for asked in ollama.requests} == {"Bearer sk-lab"}


# ── the window ────────────────────────────────────────────────────────────────────────────────────────────────────────

WORK = [Call("echo", {"text": "hi"}), Finish(summary="done")]
LONG = [Message(Role.SYSTEM, "You look."), Message(Role.USER, "word after word " * 3_000)]


async def test_conversation_beyond_the_window_is_an_error_where_the_server_can_be_told_so() -> None:
    async with OllamaStandIn([Say("hi")], models=[MODEL]) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=8_192), quiet)
        with pytest.raises(ContextExceeded):
            await ask(client, messages=LONG)


@WAYS
async def test_older_server_drops_it_silently(window: int | None) -> None:
    async with OllamaStandIn([Say("hi")], models=[MODEL], knows_truncate=False) as ollama, backend() as ready:
        client = await ready.ready(settings(ollama, window=window and 8_192), quiet)
        answer = await ask(client, messages=LONG)
        assert ollama.requests[-1].truncated
    assert answer.usage is not None
    assert answer.usage.prompt_tokens <= 8_192


@dataclass(frozen=True, slots=True)
class OneBackend:
    """ChatClients over one backend, without a queue."""

    backend: OllamaBackend

    @asynccontextmanager
    async def turn(self, settings: ModelSettings, *, priority: Priority, notice: Notice) -> AsyncIterator[ChatClient]:
        yield await self.backend.ready(settings, notice)


def echo_pack(_: str) -> BaseSpecialistPack:
    echo = make_tool_def("echo", "Say it back.", {"text": {"type": "string"}})
    finish = make_finish_tool_def({"summary": {"type": "string"}})
    return BaseSpecialistPack(
        system_prompt="Echo.", tools=[(echo, tool_from(lambda text: {"said": text}))], finish=finish
    )


def bench_on(ready: OllamaBackend, chosen: ModelSettings) -> Workbench:
    """Return the workbench whose engine asks a real server instead of a function."""

    async def never(_: Sequence[Message]) -> LLMResponse:
        raise AssertionError("the server is asked")

    bench = workbench(echo_pack, never, settings=chosen)
    perform = replace(
        bench.execute_task.drive.perform,
        models=OneModel(chosen),
        model_turn=ModelTurn(OneBackend(ready), bench.clock),
    )
    drive = replace(bench.execute_task.drive, perform=perform)
    return replace(bench, execute_task=replace(bench.execute_task, drive=drive))


async def test_run_whose_task_the_server_drops_silently_is_told_so_with_a_hint() -> None:
    async with OllamaStandIn(WORK, models=[MODEL]) as ollama, backend() as ready:
        bench = bench_on(ready, settings(ollama))
        result = await bench.run("Read this carefully: " + "word after word " * 3_000)
    assert result.status is RunStatus.COMPLETED
    log = next(iter(bench.runs.logs.values()))
    truncated, *_ = [event.body for event in log if isinstance(event.body, ContextTruncated)]
    assert truncated.read_tokens <= 4_096 < truncated.sent_tokens
    assert "context_window" in truncated.hint


async def test_run_that_fits_is_left_alone() -> None:
    async with OllamaStandIn(WORK, models=[MODEL]) as ollama, backend() as ready:
        bench = bench_on(ready, settings(ollama, window=8_192))
        await bench.run("Say hello.")
    assert "context_truncated" not in bench.kinds()
