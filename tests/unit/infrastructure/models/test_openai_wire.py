"""OpenAI's chat format: what we send, what we understand, and that no answer whatever can do harm."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from inline_snapshot import snapshot

from agent_fabric.application.ports.runs import InboxRow, NewRun
from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.event_versions import version_of
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.models.openai_wire import StreamedAnswer, encode_request, error_text, parse_response
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def
from agent_fabric.infrastructure.persistence.runs.codec import decode, encode
from agent_fabric.testing.fakes import MemoryRuns
from agent_fabric.testing.scripted_answers import Call, Calls, Empty, Finish, Reply, Say
from agent_fabric.testing.scripted_wire import ChatCompletion
from agent_fabric.testing.workbench import workbench
from agent_fabric.wire.event_lines import encoded_line
from effort import effort

SEEDS = range(10)
"""Each gives a thousand mutants; a failure names its seed and number."""
MUTANTS_PER_SEED = 1_000
ENGINE_RUNS = effort(100, 3_000)

LOOK = ToolSpec(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}},
    effect=Effect.READS,
)


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────────────────────────


def request_of(messages: Sequence[Message], *, must_call: str | None = None, stream: bool = False) -> bytes:
    shaped = ShapedRequest(messages=messages, tools=[LOOK], must_call=must_call)
    return encode_request(shaped, "m", temperature=0.1, top_p=0.9, max_tokens=64, stream=stream)


CONVERSATION = (
    Message(Role.SYSTEM, "You look."),
    Message(Role.USER, "look é"),
    Message(Role.ASSISTANT, "", (ToolCallRequest(CallId("c1"), "look", '{"at":  "x"}'),)),
    Message(Role.TOOL, '{"error": "nothing there"}', call_id=CallId("c1")),
)


@pytest.mark.proves("AF-074", "C03", "FC-025")
def test_request_names_model_and_settings_and_tells_observations_as_tool_messages() -> None:
    assert json.loads(request_of(CONVERSATION)) == snapshot(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "You look."},
                {"role": "user", "content": "look é"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":  "x"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": '{"error": "nothing there"}'},
            ],
            "temperature": 0.1,
            "top_p": 0.9,
            "max_tokens": 64,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "look",
                        "description": "Look.",
                        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
                    },
                }
            ],
            "tool_choice": "auto",
        }
    )


def test_a_forced_tool_and_streaming_are_asked_for_as_openai_documents_them() -> None:
    body = json.loads(request_of(CONVERSATION, must_call="finish_task", stream=True))
    assert body["tool_choice"] == {"type": "function", "function": {"name": "finish_task"}}
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_text_that_has_no_utf8_is_escaped_and_still_arrives() -> None:
    body = json.loads(request_of([*CONVERSATION, Message(Role.USER, "half \ud800 pair")]))
    assert body["messages"][-1]["content"] == "half \ud800 pair"


# ── what is understood ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_encoded_once_also_behind_a_summary_that_took_the_place_of_others() -> None:
    first, old, newest = (Message(Role.USER, text) for text in ("first", "old", "newest"))
    request_of([first, old, newest])
    before = (first.encoded, newest.encoded)
    summary = Message(Role.USER, "what was old")
    request_of([first, summary, newest])
    once = summary.encoded
    body = json.loads(request_of([first, summary, newest]))
    assert [each["content"] for each in body["messages"]] == ["first", "what was old", "newest"]
    assert summary.encoded is once
    assert (first.encoded, newest.encoded) == before


def completion(reply: Reply) -> ChatCompletion:
    request: dict[str, Any] = {"stream_options": {"include_usage": True}}
    return ChatCompletion(reply=reply, request=request, name="n", model="m", prompt_size=400, created=0)


def streamed(stream: bytes) -> LLMResponse:
    answer = StreamedAnswer()
    for line in stream.split(b"\n"):
        answer.feed(line)
        if answer.done:
            break
    return answer.answer()


REPLIES: tuple[Reply, ...] = (
    Say("Hello there, ünïcode included."),
    Call("look", {"at": "x", "deep": {"a": [1, 2.5, None, True]}}),
    Calls((Call("look", {"at": "a"}), Call("look", {"at": "b"}), Finish(summary="done")), text="Two things."),
    Finish(summary="done", artifacts=["a.py"], notes="n" * 300),
    Empty(),
)


@pytest.mark.proves("AF-007", "A33-032")
@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_an_answer_is_the_same_streamed_or_whole(reply: Reply) -> None:
    whole = parse_response(completion(reply).whole())
    assert whole == streamed(b"".join(completion(reply).events()))
    assert whole.model == "m"
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 100


def test_missing_and_repeated_call_ids_are_replaced_so_that_each_result_finds_its_call() -> None:
    calls = [{"id": given, "function": {"name": "look", "arguments": "{}"}} for given in (None, "a", "a", "")]
    answer = parse_response(json.dumps({"choices": [{"message": {"tool_calls": calls}}]}).encode())
    ids = [call.call_id for call in answer.tool_calls]
    assert all(ids)
    assert len(set(ids)) == 4


def test_arguments_as_an_object_and_content_in_parts_are_understood() -> None:
    message = {
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "tool_calls": [{"function": {"name": "look", "arguments": {"at": "x"}}}],
    }
    answer = parse_response(json.dumps({"choices": [{"message": message}]}).encode())
    assert (answer.content, answer.tool_calls[0].arguments) == ("ab", '{"at": "x"}')


@pytest.mark.proves("CP-13")
@pytest.mark.parametrize(
    "message",
    [
        {"content": "Yes.", "reasoning_content": "Hm."},
        {"content": "Yes.", "reasoning": "Hm."},
        {"content": "Yes.", "reasoning_content": "Hm.", "reasoning": "Hm."},
        {"content": "<think>Hm.</think>\n\nYes."},
    ],
)
def test_thoughts_are_no_part_of_the_answer_streamed_or_whole(message: dict[str, str]) -> None:
    whole = parse_response(json.dumps({"choices": [{"message": message}]}).encode())
    assert (whole.content, whole.thoughts) == ("Yes.", "Hm.")
    answer, shown = StreamedAnswer(), ""
    for key in sorted(message, reverse=True):
        for piece in message[key]:
            shown += answer.feed(b"data: " + json.dumps({"choices": [{"delta": {key: piece}}]}).encode())
    answer.feed(b"data: [DONE]")
    told = answer.answer()
    assert (told.content, shown, len(told.thoughts)) == ("Yes.", "Yes.", 3 if len(message) < 3 else 6)


@pytest.mark.parametrize(
    "usage",
    [None, 7, {"prompt_tokens": -1, "completion_tokens": 1}, {"prompt_tokens": 10**300}, {"prompt_tokens": "9"}],
)
def test_nonsense_about_usage_counts_as_none(usage: object) -> None:
    body = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    assert parse_response(json.dumps(body).encode()).usage is None


# ── what is no answer ─────────────────────────────────────────────────────────────────────────────────────────────────


OBJECT = '{"a": '


def nested(opening: str, closing: str, depth: int, core: str = "1") -> str:
    return opening * depth + core + closing * depth


def with_message(message: str) -> bytes:
    return f'{{"choices": [{{"message": {message}}}]}}'.encode()


def chunk(delta: str) -> bytes:
    return f'data: {{"choices": [{{"delta": {delta}}}]}}'.encode()


@pytest.mark.parametrize("value", ["5", "1.5", "true", '"text"', '{"a": 1}', "[5]", "[null]", "[[]]"])
def test_streamed_tool_calls_that_are_no_list_of_objects_are_no_answer(value: str) -> None:
    with pytest.raises(ModelAnswerUnusable):
        StreamedAnswer().feed(chunk(f'{{"tool_calls": {value}}}'))


def test_error_in_place_of_an_answer_is_told_in_the_servers_words() -> None:
    with pytest.raises(ModelAnswerUnusable, match="model is overloaded"):
        parse_response(b'{"error": {"message": "the model is overloaded", "code": 502}}')


def test_text_parts_nested_five_hundred_deep_are_no_answer() -> None:
    content = nested('[{"text": ', "}]", 500, "null")
    with pytest.raises(ModelAnswerUnusable):
        parse_response(with_message(f'{{"content": {content}}}'))


def test_an_argument_object_nested_a_thousand_deep_is_an_answer_or_none() -> None:
    call = f'{{"function": {{"name": "look", "arguments": {nested(OBJECT, "}", 1_000)}}}}}'
    require_harmless(lambda: parse_response(with_message(f'{{"tool_calls": [{call}]}}')))


def test_a_streamed_error_nested_a_thousand_deep_is_no_answer() -> None:
    with pytest.raises(ModelAnswerUnusable):
        StreamedAnswer().feed(f'data: {{"error": {nested("[", "]", 1_000)}}}'.encode())


def test_an_error_body_nested_a_thousand_deep_still_gives_some_text() -> None:
    assert len(error_text(nested("[", "]", 1_000).encode())) <= 500


# ── fuzz ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

WHOLES = tuple(completion(reply).whole() for reply in REPLIES)
STREAMS = tuple(b"".join(completion(reply).events()) for reply in REPLIES)
NASTY_VALUES = (
    "null", "true", "false", "0", "-1", "5", "1.5", "1e400", "-0", "9" * 30, "9" * 400, '""', '"x"', '"\\ud800"',
    '"\\u0000"', '"{\\"a\\": \\"\\\\ud800\\"}"', '"' + "x" * 5_000 + '"', "[]", "[[]]", "[null]", "{}", '{"a": 1}',
    '{"a": 1, "a": 2}', "[1, [2, [3]]]", '"<html></html>"', "NaN", "Infinity", nested("[", "]", 200),
    nested(OBJECT, "}", 900), nested("[", "]", 1_100), nested("[" + OBJECT, "}]", 400),
    '[{"type": "text", "text": [{"text": ["x"]}]}]', json.dumps(json.dumps(json.dumps({"a": ["b"]}))),
    '"' + nested("{\\\"a\\\": ", "}", 400) + '"', '"' + nested("[", "]", 2_000) + '"',
)  # fmt: skip
STRANGE_BODIES = (
    b"", b" ", b"null", b"[]", b"{}", b'"text"', b"\xff\xfe", b"\x00" * 50, b"<html>502 Bad Gateway</html>",
    b'{"error": {"message": "no", "type": "server_error"}}', b'{"choices": []}', b'{"choices": [{}]}', b"data: [DONE]",
    b'{"choices": [{"message": null}]}', nested("[", "]", 5_000).encode(), nested(OBJECT, "}", 5_000).encode(),
    b"data: " + b"x" * 5_000, b'data: {"choices": null}\n\ndata: [DONE]\n\n', b"\n\n\n:", b"event: error\ndata: {}\n\n",
)  # fmt: skip


def mutants(rng: random.Random, count: int) -> Iterator[bytes]:
    """Yield answers that went wrong in one or several ways."""
    for _ in range(count):
        data = rng.choice(WHOLES if rng.random() < 0.5 else STREAMS)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            data = rng.choice(MUTATIONS)(rng, data)
        yield data


def _flip_bits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop_middle(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randrange(40) :]


def _repeat_part(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    part = data[start : start + rng.randrange(80)]
    return data[:start] + part * rng.randint(1, 3) + data[start:]


def _insert_noise(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randint(1, 12)) + data[at:]


def _replace_value(rng: random.Random, data: bytes) -> bytes:
    """Put something of the wrong type where a value stood; keys and punctuation stay."""
    text = data.decode("utf-8", "surrogateescape")
    places = [at for at, character in enumerate(text) if character == ":" and text[at - 1 : at] == '"']
    if not places:
        return data
    at = rng.choice(places) + 1
    end = _end_of_value(text, at)
    return (text[:at] + rng.choice(NASTY_VALUES) + text[end:]).encode("utf-8", "surrogateescape")


def _end_of_value(text: str, at: int) -> int:
    try:
        _, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return at
    return end


def _double_key(rng: random.Random, data: bytes) -> bytes:
    key = rng.choice(
        (b'"choices"', b'"message"', b'"delta"', b'"content"', b'"tool_calls"', b'"arguments"', b'"index"')
    )
    return data.replace(key + b":", key + b":" + rng.choice(NASTY_VALUES).encode() + b"," + key + b":", 1)


def _strange(rng: random.Random, data: bytes) -> bytes:
    strange = rng.choice(STRANGE_BODIES)
    return rng.choice((strange, strange + data, data + strange))


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flip_bits,
    _cut,
    _drop_middle,
    _repeat_part,
    _insert_noise,
    _replace_value,
    _replace_value,
    _replace_value,
    _double_key,
    _strange,
)


def require_harmless(parse: Callable[[], LLMResponse]) -> str:
    """Whatever was sent, an answer of the right shape comes out, or ModelAnswerUnusable."""
    try:
        answer = parse()
    except ModelAnswerUnusable:
        return "unusable"
    assert isinstance(answer.content, str)
    assert all(type(part) is str for call in answer.tool_calls for part in (call.call_id, call.tool, call.arguments))
    assert all(call.tool for call in answer.tool_calls)
    assert len({call.call_id for call in answer.tool_calls}) == len(answer.tool_calls)
    assert answer.usage is None or isinstance(answer.usage.prompt_tokens, int)
    assert (type(answer.model), type(answer.finish_reason)) == (str, str)
    return "answer"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_thousand_mutated_answers_give_an_answer_or_are_unusable(seed: int) -> None:
    seen: Counter[str] = Counter()
    for number, data in enumerate(mutants(random.Random(seed), MUTANTS_PER_SEED)):
        try:
            seen[require_harmless(lambda data=data: parse_response(data))] += 1  # type: ignore[misc]  # bound now
            seen[require_harmless(lambda data=data: streamed(data))] += 1  # type: ignore[misc]  # bound now
            assert len(error_text(data)) <= 500
        except BaseException as problem:
            problem.add_note(f"seed {seed}, mutant {number}: {data[:2_000]!r}")
            raise
    assert min(seen["answer"], seen["unusable"]) > MUTANTS_PER_SEED // 20, "the mutants are too tame, or too wild"


class StoredRuns(MemoryRuns):
    """Runs in memory whose events take the way through the store's and the run log's encoding."""

    def append(
        self, run_id: RunId, events: Sequence[Event], consumed: Sequence[InboxRow], children: Sequence[NewRun] = ()
    ) -> None:
        for event in events:
            payload, blobs = encode(event.body)
            encoded_line(run_id, event, payload)
            decode(event.body.kind, version_of(event.body.kind), payload, blobs.__getitem__)
        super().append(run_id, events, consumed, children)


def small_pack(_: str) -> BaseSpecialistPack:
    async def look(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(output={"seen": dict(args)})

    return BaseSpecialistPack(
        system_prompt="You are fuzzed.",
        tools=[(make_tool_def("look", "Look.", {"at": {"type": "string"}}, effect=Effect.READS), look)],
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )


async def settle(data: Sequence[bytes], parse: Callable[[bytes], LLMResponse]) -> RunStatus:
    """Let the engine meet these answers, one after the other, and then only finish_task."""
    left = list(data)

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        if left:
            return parse(left.pop(0))
        call = ToolCallRequest(CallId("end"), "finish_task", '{"summary": "done"}')
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(1, 1))

    runs = StoredRuns()
    result = await workbench(small_pack, answer, runs=runs).run(max_steps=8)
    assert result.status.settled
    assert result.error is None or result.error.code != "internal_error", result.error
    assert fold(result.run_id, runs.logs[result.run_id]).status is result.status
    return result.status


async def test_every_run_settles_whatever_its_model_answers() -> None:
    ends: Counter[RunStatus] = Counter()
    for number in range(ENGINE_RUNS):
        rng = random.Random(f"engine {number}")
        data = list(mutants(rng, 3))
        try:
            ends[await settle(data, rng.choice((parse_response, streamed)))] += 1
        except BaseException as problem:
            problem.add_note(f"run {number}: {[item[:1_000] for item in data]!r}")
            raise
    assert min(ends[RunStatus.COMPLETED], ends[RunStatus.FAILED]) > ENGINE_RUNS // 20, ends


@pytest.mark.parametrize("depth", [100, 300, 600, 900, 5_000])
async def test_arguments_nested_deep_are_told_to_the_model_and_the_run_goes_on(depth: int) -> None:
    arguments = json.dumps(nested(OBJECT, "}", depth))
    call = f'{{"function": {{"name": "look", "arguments": {arguments}}}}}'
    data = with_message(f'{{"tool_calls": [{call}]}}')
    assert await settle([data], parse_response) is RunStatus.COMPLETED


def test_half_a_character_does_not_spoil_an_answer() -> None:
    answer = parse_response(b'{"choices": [{"message": {"content": "so \\ud83d good"}}]}')
    assert answer.content == "so ? good"
