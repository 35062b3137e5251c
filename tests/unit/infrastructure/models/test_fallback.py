"""A stronger model helps when the local one does not manage, never when its server does not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_fabric.application.ports.llm import Notice, OnDelta
from agent_fabric.domain.errors import (
    ConfigError,
    ContextExceeded,
    FabricError,
    ModelAnswerUnusable,
    ModelBusy,
    ModelForbidden,
    ModelRefused,
    ModelTimedOut,
    ModelUnreachable,
)
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import (
    Fallback,
    LLMResponse,
    Message,
    ModelPrice,
    ModelSettings,
    Role,
    ToolCallRequest,
    Usage,
)
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.infrastructure.models.fallback import FallbackChatClients, FallbackPolicy
from agent_fabric.infrastructure.models.stack import OfflineChatClients
from agent_fabric.infrastructure.packs.base import make_finish_tool_def
from agent_fabric.testing.workbench import SETTINGS

NO_TOOL_CALLS, MALFORMED_ARGS, ALWAYS = FallbackPolicy
LOCAL = replace(SETTINGS, base_url="http://127.0.0.1:11434/v1", model="small")
CLOUD = replace(SETTINGS, key="cloud", base_url="https://models.example/v1", model="large", temperature=0.7)
READ = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
    effect=Effect.READS,
)
FINISH = make_finish_tool_def({"summary": {"type": "string"}}).as_tool()
TOOLS = (READ, FINISH)
ASKED = (Message(Role.SYSTEM, "Help."), Message(Role.USER, "Read notes.txt."))
WORKED = (
    *ASKED,
    Message(Role.ASSISTANT, "", (ToolCallRequest(CallId("1"), "read_file", '{"path": "notes.txt"}'),)),
    Message(Role.TOOL, "{}", call_id=CallId("1")),
)


def call(arguments: str = '{"path": "a"}', tool: str = "read_file") -> LLMResponse:
    request = ToolCallRequest(CallId("c"), tool, arguments)
    return LLMResponse(content="", tool_calls=(request,), usage=Usage(100, 10, 40), model="small-1")


GOOD = replace(call('{"path": "notes.txt"}'), usage=Usage(200, 20, 50), model="large-1")
TALK = LLMResponse(content="You could read it with cat.", usage=Usage(100, 10), model="small-1")


@dataclass
class TwoModels:
    """ChatClients of a local and a cloud model that do as they are told."""

    local: LLMResponse | FabricError
    cloud: LLMResponse | FabricError = GOOD
    hangs: bool = False
    """The cloud model never answers."""
    no_turn: FabricError | None = None
    """Why there is no turn at the cloud's."""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    """Whose turn it is."""
    turns: list[tuple[str, ...]] = field(default_factory=list)
    """Whose turn it was, whenever a model was asked."""

    @asynccontextmanager
    async def turn(self, settings: ModelSettings, *, priority: Priority, notice: Notice) -> "AsyncIterator[_Asked]":
        assert priority is Priority.BATCH
        if settings.model == "large" and self.no_turn is not None:
            raise self.no_turn
        self.open.append(settings.model)
        notice(f"turn at {settings.model}")
        try:
            yield _Asked(self)
        finally:
            self.open.remove(settings.model)


@dataclass
class _Asked:
    models: TwoModels

    async def chat(
        self, messages: Sequence[Message], model: str, *, on_delta: OnDelta | None = None, **options: Any
    ) -> LLMResponse:
        self.models.asked.append((model, options))
        self.models.turns.append(tuple(self.models.open))
        answer = self.models.cloud if model == "large" else self.models.local
        if model == "large" and self.models.hangs:
            await asyncio.Event().wait()
        if isinstance(answer, FabricError):
            raise answer
        if on_delta is not None:
            on_delta(answer.content or model)
        return answer


@dataclass
class Case:
    models: TwoModels
    policy: FallbackPolicy | str
    local: ModelSettings = LOCAL
    cloud: ModelSettings = CLOUD
    notices: list[str] = field(default_factory=list)

    async def ask(
        self,
        messages: Sequence[Message] = ASKED,
        tools: Sequence[ToolSpec] = TOOLS,
        must_call: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        clients = FallbackChatClients(self.models, self.cloud, self.policy)
        async with (
            asyncio.timeout(60),
            clients.turn(self.local, priority=Priority.BATCH, notice=self.notices.append) as client,
        ):
            try:
                return await client.chat(
                    messages,
                    self.local.model,
                    tools=tools,
                    temperature=0.1,
                    top_p=0.9,
                    max_tokens=64,
                    must_call=must_call,
                    on_delta=on_delta,
                )
            finally:
                self.leftover = list(self.models.open)

    @property
    def asked(self) -> list[str]:
        return [model for model, _ in self.models.asked]


GOOD_ENOUGH = {
    "a call": (NO_TOOL_CALLS, call(), ASKED),
    "a call that makes no sense, which is not asked about": (NO_TOOL_CALLS, call("{"), ASKED),
    "plain text after work": (NO_TOOL_CALLS, TALK, WORKED),
    "a sound call": (MALFORMED_ARGS, call(), ASKED),
    "a finish": (MALFORMED_ARGS, call('{"summary": "done"}', "finish_task"), WORKED),
    "plain text": (MALFORMED_ARGS, TALK, ASKED),
}
NOT_GOOD_ENOUGH = {
    "plain text instead of work": (NO_TOOL_CALLS, TALK, ASKED),
    "nothing": (NO_TOOL_CALLS, replace(TALK, content=" \n"), WORKED),
    "a call that could not be read": (NO_TOOL_CALLS, replace(TALK, problem="no JSON"), WORKED),
    "no JSON": (MALFORMED_ARGS, call('{"path": '), ASKED),
    "no object": (MALFORMED_ARGS, call("[1]"), ASKED),
    "a missing argument": (MALFORMED_ARGS, call("{}"), ASKED),
    "an argument of the wrong type": (MALFORMED_ARGS, call('{"path": 7}'), ASKED),
    "an unknown argument": (MALFORMED_ARGS, call('{"path": "a", "mode": "r"}'), ASKED),
    "an unknown tool": (MALFORMED_ARGS, call("{}", "fly"), ASKED),
    "the second of two calls": (
        MALFORMED_ARGS,
        replace(call(), tool_calls=(*call().tool_calls, *call("{}").tool_calls)),
        ASKED,
    ),
    "text that should have been a call": (MALFORMED_ARGS, replace(TALK, problem="no JSON"), ASKED),
}


@pytest.mark.proves("AF-076")
@pytest.mark.parametrize(("policy", "answer", "messages"), GOOD_ENOUGH.values(), ids=GOOD_ENOUGH)
async def test_answer_that_is_good_enough_stays_here(
    policy: FallbackPolicy, answer: LLMResponse, messages: Sequence[Message]
) -> None:
    case = Case(TwoModels(answer), policy)
    assert await case.ask(messages) == answer
    assert case.asked == ["small"]


@pytest.mark.proves("AF-076", "C10")
@pytest.mark.parametrize(("policy", "answer", "messages"), NOT_GOOD_ENOUGH.values(), ids=NOT_GOOD_ENOUGH)
async def test_cloud_answers_what_the_local_model_got_wrong_and_says_why(
    policy: FallbackPolicy, answer: LLMResponse, messages: Sequence[Message]
) -> None:
    case = Case(TwoModels(answer), policy)
    got = await case.ask(messages)
    assert (got.tool_calls, got.model) == (GOOD.tool_calls, "large-1")
    assert got.fallback == Fallback(
        reason=policy.value, local_model="small", cloud_model="large", base_url="https://models.example/v1"
    )
    assert case.asked == ["small", "large"]


async def test_cloud_is_asked_the_same_with_its_own_settings() -> None:
    case = Case(TwoModels(TALK), "no_tool_calls")
    texts: list[str] = []
    await case.ask(must_call="finish_task", on_delta=texts.append)
    (_, local), (_, cloud) = case.models.asked
    assert cloud["tools"] == local["tools"] == TOOLS
    assert cloud["must_call"] == local["must_call"] == "finish_task"
    assert (cloud["temperature"], cloud["max_tokens"]) == (CLOUD.temperature, CLOUD.max_tokens)
    assert (local["temperature"], local["max_tokens"]) == (0.1, 64)
    assert texts == [TALK.content, "large"]


async def test_model_that_must_finish_but_only_talks_is_helped_even_after_work() -> None:
    case = Case(TwoModels(TALK), NO_TOOL_CALLS)
    assert (await case.ask(WORKED, must_call="finish_task")).fallback is not None


async def test_local_server_is_free_for_others_while_the_cloud_thinks() -> None:
    case = Case(TwoModels(TALK), NO_TOOL_CALLS)
    await case.ask()
    assert case.models.turns == [("small",), ("large",)]
    assert (case.leftover, case.models.open) == ([], [])


@pytest.mark.proves("AF-076")
async def test_always_asks_the_cloud_at_once_and_never_the_local_model() -> None:
    case = Case(TwoModels(ModelUnreachable("nobody there")), ALWAYS)
    got = await case.ask()
    assert case.asked == ["large"]
    assert got.fallback == Fallback(
        reason="always", local_model="small", cloud_model="large", base_url="https://models.example/v1"
    )
    assert got.usage == GOOD.usage
    assert case.notices == ["turn at large"], "nobody waited for the local server"


LOCAL_TROUBLE = [
    ModelUnreachable("nobody there"),
    ModelBusy("429"),
    ModelTimedOut("too slow"),
    ModelRefused("400"),
    ContextExceeded("too long"),
    ModelAnswerUnusable("cut off"),
]


@pytest.mark.proves("AF-077", "C10")
@pytest.mark.parametrize("policy", [NO_TOOL_CALLS, MALFORMED_ARGS])
@pytest.mark.parametrize("problem", LOCAL_TROUBLE, ids=lambda problem: problem.code)
async def test_local_server_that_fails_is_never_a_reason(policy: FallbackPolicy, problem: FabricError) -> None:
    case = Case(TwoModels(problem), policy)
    with pytest.raises(type(problem)):
        await case.ask()
    assert case.asked == ["small"]
    assert case.models.open == []


@pytest.mark.parametrize("problem", [ModelUnreachable("nobody there"), ModelBusy("429"), ModelRefused("401")])
async def test_cloud_that_fails_leaves_the_local_answer_and_the_failure_is_told(problem: FabricError) -> None:
    case = Case(TwoModels(TALK, problem), NO_TOOL_CALLS)
    got = await case.ask()
    assert (got.content, got.usage, got.model) == (TALK.content, TALK.usage, "small-1")
    assert got.fallback is not None
    assert (got.fallback.error, got.fallback.base_url) == (problem.message, CLOUD.base_url)
    assert case.notices[-1] == f"the cloud model gave no answer: {problem.message}"


@pytest.mark.parametrize("problem", [ModelForbidden("offline"), ConfigError("The variable KEY is not set")])
async def test_cloud_that_was_never_sent_anything_is_not_named_as_a_place_that_was(problem: FabricError) -> None:
    case = Case(TwoModels(TALK, no_turn=problem), NO_TOOL_CALLS)
    got = await case.ask()
    assert got.content == TALK.content
    assert got.fallback is not None
    assert (got.fallback.error, got.fallback.base_url) == (problem.message, "")


async def test_cloud_that_fails_is_an_error_when_it_is_always_asked() -> None:
    case = Case(TwoModels(TALK, ModelBusy("429", retry_after_s=3)), ALWAYS)
    with pytest.raises(ModelBusy):
        await case.ask()
    assert case.asked == ["large"]


async def test_cloud_that_takes_too_long_leaves_the_local_answer_within_the_local_time_limit() -> None:
    case = Case(TwoModels(TALK, hangs=True), NO_TOOL_CALLS, local=replace(LOCAL, timeout_s=1.05))
    got = await case.ask()
    assert got.content == TALK.content
    assert got.fallback is not None
    assert got.fallback.error == "too little time was left"


@pytest.mark.parametrize("policy", [NO_TOOL_CALLS, ALWAYS])
async def test_cloud_has_a_time_limit_of_its_own(policy: FallbackPolicy) -> None:
    case = Case(TwoModels(TALK, hangs=True), policy, cloud=replace(CLOUD, timeout_s=0.05))
    if policy is ALWAYS:
        with pytest.raises(ModelTimedOut):
            await case.ask()
        return
    got = await case.ask()
    assert got.fallback is not None
    assert "did not answer within 0.05 seconds" in got.fallback.error


async def test_cancelling_gives_every_turn_back() -> None:
    case = Case(TwoModels(TALK, hangs=True), NO_TOOL_CALLS)
    asking = asyncio.create_task(case.ask())
    async with asyncio.timeout(60):
        while len(case.asked) < 2:
            await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert case.models.open == []


@pytest.mark.parametrize("policy", FallbackPolicy)
@pytest.mark.parametrize("tools", [(), (READ,)], ids=["summing up", "choosing specialists"])
async def test_only_specialists_at_work_are_helped(policy: FallbackPolicy, tools: Sequence[ToolSpec]) -> None:
    case = Case(TwoModels(replace(TALK, content="")), policy)
    assert (await case.ask(tools=tools)).fallback is None
    assert case.asked == ["small"]
    assert case.models.open == []


async def test_run_that_uses_the_cloud_model_anyway_asks_it_once() -> None:
    case = Case(TwoModels(TALK, replace(GOOD, tool_calls=())), NO_TOOL_CALLS, local=CLOUD)
    assert (await case.ask()).fallback is None
    assert case.asked == ["large"]


async def test_usage_and_cost_are_those_of_both_models() -> None:
    case = Case(
        TwoModels(call("{")),
        MALFORMED_ARGS,
        local=replace(LOCAL, price=ModelPrice(input=1, output=2)),
        cloud=replace(CLOUD, price=ModelPrice(input=10, output=20, cached_input=5)),
    )
    got = await case.ask()
    assert got.usage == Usage(300, 30, 90)
    assert got.cost == pytest.approx((100 * 1 + 10 * 2 + 150 * 10 + 50 * 5 + 20 * 20) / 1_000_000)


@pytest.mark.parametrize(
    ("local_price", "cloud_price", "cost"),
    [(None, None, None), (None, 1.0, 220e-6), (1.0, None, 110e-6)],
    ids=["none", "cloud", "local"],
)
async def test_cost_is_what_is_known_of_it(
    local_price: float | None, cloud_price: float | None, cost: float | None
) -> None:
    def price(each: float | None) -> ModelPrice | None:
        return None if each is None else ModelPrice(input=each, output=each)

    case = Case(
        TwoModels(TALK),
        NO_TOOL_CALLS,
        local=replace(LOCAL, price=price(local_price)),
        cloud=replace(CLOUD, price=price(cloud_price)),
    )
    assert (await case.ask()).cost == (None if cost is None else pytest.approx(cost))


async def test_usage_that_a_server_does_not_tell_is_estimated() -> None:
    case = Case(TwoModels(replace(TALK, usage=None)), NO_TOOL_CALLS)
    got = await case.ask()
    assert got.usage is not None
    assert GOOD.usage is not None
    assert got.usage.prompt_tokens > GOOD.usage.prompt_tokens
    assert got.usage.completion_tokens > GOOD.usage.completion_tokens


def test_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="sometimes"):
        FallbackChatClients(TwoModels(TALK), CLOUD, "sometimes")


@pytest.mark.proves("C10", "AF-077")
async def test_offline_keeps_the_fallback_here_and_the_local_answer_stands() -> None:
    models = TwoModels(TALK)
    clients = FallbackChatClients(OfflineChatClients(models), CLOUD, NO_TOOL_CALLS)
    async with clients.turn(LOCAL, priority=Priority.BATCH, notice=lambda _: None) as client:
        got = await client.chat(ASKED, "small", tools=TOOLS, temperature=0, top_p=1, max_tokens=9)
    assert got.content == TALK.content
    assert got.fallback is not None
    assert got.fallback.base_url == ""
    assert "`offline: true`" in got.fallback.error
    assert [model for model, _ in models.asked] == ["small"]
