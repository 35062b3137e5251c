"""Ollama's own chat format: what we send, what we understand, and that no answer whatever can do harm."""

import json
import random
from typing import Any

import pytest
from inline_snapshot import snapshot

from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.messages import Message, Role, ToolCallRequest, ToolDialect, Usage
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.infrastructure.models.ollama.chat_wire import StreamedChat, encode_chat, parse_chat
from agent_fabric.testing.scripted_answers import Call, Calls, Empty, Say
from standins.ollama_wire import native_lines

LOOK = ToolSpec(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}},
    effect=Effect.READS,
)
OPTIONS: dict[str, Any] = {"temperature": 0.1, "top_p": 0.9, "max_tokens": 64, "window": 8192}
CONVERSATION = (
    Message(Role.SYSTEM, "You look."),
    Message(Role.USER, "Look at it."),
    Message(Role.ASSISTANT, "", (ToolCallRequest(CallId("c1"), "look", '{"at": "it"}'),)),
    Message(Role.TOOL, "a thing", call_id=CallId("c1")),
)


def sent(dialect: ToolDialect = ToolDialect.NATIVE, options: dict[str, Any] = OPTIONS) -> dict[str, object]:
    body: dict[str, object] = json.loads(
        encode_chat(shape_request(dialect, CONVERSATION, [LOOK]), "m", **options, stream=False)
    )
    return body


@pytest.mark.proves("AF-071")
def test_request_sets_the_window_and_gives_arguments_as_objects() -> None:
    assert sent() == snapshot(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "You look."},
                {"role": "user", "content": "Look at it."},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {"at": "it"}}}],
                },
                {"role": "tool", "content": "a thing", "tool_name": "look", "tool_call_id": "c1"},
            ],
            "stream": False,
            "options": {"temperature": 0.1, "top_p": 0.9, "num_predict": 64, "num_ctx": 8192},
            "truncate": False,
            "shift": False,
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
        }
    )


def test_schema_dialect_holds_the_answer_to_a_schema() -> None:
    shaped = shape_request(ToolDialect.SCHEMA, CONVERSATION, [LOOK], must_call="look")
    body = json.loads(encode_chat(shaped, "m", **OPTIONS, stream=False))
    assert shaped.answer_schema is not None
    assert body["format"] == shaped.answer_schema
    assert "tools" not in body


def test_window_and_loading_time_are_left_to_the_server_unless_they_are_set() -> None:
    body = sent(options={"temperature": 0, "top_p": 1, "max_tokens": 1, "window": None})
    assert body["options"] == {"temperature": 0, "top_p": 1, "num_predict": 1}
    assert "keep_alive" not in body
    for seconds in (-1, 0, 90):
        assert sent(options={**OPTIONS, "keep_alive_s": seconds})["keep_alive"] == seconds


def test_arguments_that_are_no_object_are_kept_where_the_model_sees_them() -> None:
    call = Message(Role.ASSISTANT, "", (ToolCallRequest(CallId("c"), "look", '{"at": '),))
    body = json.loads(encode_chat(shape_request(ToolDialect.NATIVE, [call], []), "m", **OPTIONS, stream=True))
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == {"unreadable": '{"at": '}


def test_half_a_character_can_be_sent() -> None:
    data = encode_chat(
        shape_request(ToolDialect.NATIVE, [Message(Role.USER, "\ud83d")], []), "m", **OPTIONS, stream=True
    )
    assert b"\\ud83d" in data


@pytest.mark.proves("AF-071")
@pytest.mark.parametrize("stream", [False, True])
def test_answer_with_text_and_calls_is_read_whole_or_in_pieces(stream: bool) -> None:
    reply = Calls((Call("look", {"at": "é"}), Call("look", {})), text="I look twice.", usage=(30, 7))
    answer = StreamedChat()
    texts = [answer.feed(line) for line in native_lines(reply, "m", 0, stream=stream)]
    whole = answer.answer()
    assert "".join(texts) == whole.content == "I look twice."
    assert [(call.tool, call.arguments) for call in whole.tool_calls] == [("look", '{"at": "é"}'), ("look", "{}")]
    assert len({call.call_id for call in whole.tool_calls}) == 2, "Ollama gives no ids, so we do"
    assert whole.usage == Usage(30, 7)
    assert (whole.model, whole.finish_reason) == ("m", "tool_calls")


def test_counts_that_are_left_out_are_zero_or_unknown() -> None:
    end = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "length"}
    assert parse_chat(json.dumps(end).encode()).usage is None
    only_prompt = parse_chat(json.dumps(end | {"prompt_eval_count": 9}).encode())
    assert only_prompt.usage == Usage(9, 0)
    assert only_prompt.finish_reason == "length"


def test_half_a_character_in_an_answer_does_not_spoil_it() -> None:
    assert parse_chat(b'{"message": {"content": "ok \\ud83d"}, "done": true}').content == "ok ?"


def test_thinking_is_no_part_of_the_answer() -> None:
    body = {"message": {"role": "assistant", "content": "Yes.", "thinking": "Hm."}, "done": True}
    answer = parse_chat(json.dumps(body).encode())
    assert (answer.content, answer.thoughts) == ("Yes.", "Hm.")
    body["message"] = {"content": "<think>Hm.</think>Yes."}
    answer = parse_chat(json.dumps(body).encode())
    assert (answer.content, answer.thoughts) == ("Yes.", "Hm.")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Ollama is running",
        b"[]",
        b"{}",
        b'{"error": "model runner has unexpectedly stopped"}',
        b'{"message": {"content": "hi"}, "done": false}',
        b'{"message": [], "done": true}x',
        b'{"message": {"content": 3}, "done": true}',
        b'{"message": {"tool_calls": {"a": 1}}, "done": true}',
        b'{"message": {"tool_calls": [3]}, "done": true}',
        b'{"message": {"tool_calls": [{"function": {"arguments": {}}}]}, "done": true}',
        b'{"message": {"tool_calls": [{"function": {"name": "f", "arguments": 3}}]}, "done": true}',
        b'{"message": {"content": "\xff"}, "done": true}',
        b'{"done": true, "x": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ModelAnswerUnusable):
        parse_chat(data)


@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_mutants_of_an_answer_do_no_harm(seed: int) -> None:
    dice = random.Random(seed)
    replies = (
        Say("hello you"),
        Call("look", {"at": ["x", {"y": None}]}),
        Calls((Call("a"), Call("b")), text="t"),
        Empty(),
    )
    for _ in range(1_000):
        data = bytearray(b"".join(native_lines(dice.choice(replies), "m", 5, stream=True)))
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(data))
            data[at : at + dice.randint(0, 5)] = dice.randbytes(dice.randint(0, 3))
        answer = StreamedChat()
        try:
            for line in bytes(data).split(b"\n"):
                answer.feed(line)
            whole = answer.answer()
        except ModelAnswerUnusable:
            continue
        assert all(call.tool and call.call_id for call in whole.tool_calls)
