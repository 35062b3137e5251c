"""Plain text as a call, for models that a schema holds to calls."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.dialects.answer_parser import parse_answer
from agent_fabric.domain.dialects.offered_tools import MAX_MISSES, offered_tools
from agent_fabric.domain.dialects.replies import REPLY, as_reply, reply_so_far, spoken, with_reply
from agent_fabric.domain.dialects.request_shape import shape_request
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.tools import Effect, ToolSpec, object_schema

SCHEMA = ToolDialect.SCHEMA
SEARCH = ToolSpec(
    name="search",
    description="Find pages.",
    parameters=object_schema({"query": {"type": "string"}}, ("query",)),
    effect=Effect.READS,
)
SHELL = replace(SEARCH, name="shell", effect=Effect.CHANGES_WORKSPACE)
TALK = (SEARCH, SHELL)
FINISH = FinishSpec(parameters=object_schema({"summary": {"type": "string"}}, ("summary",))).as_tool()
SYSTEM, HELLO = Message(Role.SYSTEM, "You talk."), Message(Role.USER, "Hello")


def called(number: int, tool: str, query: str, result: str) -> list[Message]:
    call = ToolCallRequest(CallId(f"call_{number}"), tool, json.dumps({"query": query}))
    return [Message(Role.ASSISTANT, "", tool_calls=(call,)), Message(Role.TOOL, result, call_id=call.call_id)]


def names(tools: object) -> list[str]:
    assert isinstance(tools, list | tuple)
    return [tool.name for tool in tools]


def test_a_reply_is_offered_in_a_conversation_and_not_in_a_task() -> None:
    assert with_reply(TALK)[0] is REPLY
    assert REPLY not in with_reply((*TALK, FINISH))
    assert with_reply(()) == ()
    asked = shape_request(SCHEMA, [SYSTEM, HELLO], TALK)
    assert asked.replies
    assert "- reply(answer)" in asked.messages[0].content
    assert asked.answer_schema is not None
    assert REPLY.name in json.dumps(asked.answer_schema)
    assert not shape_request(SCHEMA, [SYSTEM, HELLO], (*TALK, FINISH)).replies
    assert not shape_request(SCHEMA, [SYSTEM, HELLO], TALK, must_call="search").replies
    assert not shape_request(ToolDialect.NATIVE, [SYSTEM, HELLO], TALK).replies


def test_a_reply_becomes_plain_text_and_what_was_said_before_is_shown_as_one() -> None:
    answer = parse_answer(SCHEMA, LLMResponse(content=as_reply('Two "lines"\nof text'), model="m"), TALK)
    assert answer.content == 'Two "lines"\nof text'
    assert answer.tool_calls == ()
    assert not answer.problem
    shown = shape_request(SCHEMA, [SYSTEM, HELLO, Message(Role.ASSISTANT, "Hi."), HELLO], TALK).messages
    assert shown[2].content == as_reply("Hi.")


def test_a_reply_that_was_cut_off_is_kept_as_far_as_it_came() -> None:
    half = as_reply("The answer is long and")[:-3]
    answer = parse_answer(SCHEMA, LLMResponse(content=half, model="m", finish_reason="length"), TALK)
    assert answer.content == "The answer is long and"
    assert not answer.problem


def test_a_call_is_still_a_call() -> None:
    text = json.dumps({"name": "search", "arguments": {"query": "reply"}})
    answer = parse_answer(SCHEMA, LLMResponse(content=text, model="m"), TALK)
    assert [call.tool for call in answer.tool_calls] == ["search"]
    assert reply_so_far(text) is None


def test_a_reply_in_a_task_is_no_answer() -> None:
    answer = parse_answer(SCHEMA, LLMResponse(content=as_reply("done"), model="m"), (*TALK, FINISH))
    assert answer.problem


@given(st.text(), st.lists(st.integers(min_value=1, max_value=7), max_size=60), st.booleans())
def test_pieces_of_a_reply_add_up_to_its_text(text: str, sizes: list[int], escaped: bool) -> None:
    written = json.dumps({"name": "reply", "arguments": {"answer": text}}, ensure_ascii=escaped)
    heard: list[str] = []
    hear = spoken(heard.append)
    at = 0
    for size in [*sizes, len(written)]:
        hear(written[at : at + size])
        at += size
    assert "".join(heard) == text
    assert reply_so_far(written) == text


def test_a_thought_before_a_reply_is_not_said() -> None:
    heard: list[str] = []
    hear = spoken(heard.append)
    for letter in '{"thought": "it \\"failed\\"", "name": "reply", "arguments": {"answer": "No."}}':
        hear(letter)
    assert "".join(heard) == "No."


def test_nothing_is_said_of_a_call() -> None:
    heard: list[str] = []
    spoken(heard.append)('{"name": "search", "arguments": {"query": "x"}}')
    assert heard == []


def test_after_a_failure_another_tool_or_a_reply_is_next_and_after_a_second_one_only_a_reply() -> None:
    failed = '{"error": "no network"}'
    once = [SYSTEM, HELLO, *called(0, "search", "a", failed)]
    assert names(offered_tools(once, with_reply(TALK))) == ["reply", "shell"]
    twice = [*once, *called(1, "shell", "b", failed)]
    assert MAX_MISSES == 2
    assert names(offered_tools(twice, with_reply(TALK))) == ["reply"]


def test_a_new_turn_begins_afresh() -> None:
    failed = '{"error": "no network"}'
    turn = [SYSTEM, HELLO, *called(0, "search", "a", failed), *called(1, "search", "b", failed)]
    later = [*turn, Message(Role.ASSISTANT, "It failed."), Message(Role.USER, "And now?")]
    assert names(offered_tools(later, with_reply(TALK))) == ["reply", "search", "shell"]


def test_after_a_result_the_model_is_told_to_reply_to_what_was_said_last() -> None:
    before = [SYSTEM, HELLO, Message(Role.ASSISTANT, "Hi."), Message(Role.USER, "Is it warm?")]
    told = shape_request(SCHEMA, [*before, *called(0, "search", "a", '{"found": []}')], TALK).messages[-1].content
    assert "reply now" in told
    assert "Is it warm?" in told
    assert "finish_task" not in told
    assert (
        "That failed"
        in shape_request(SCHEMA, [*before, *called(0, "search", "a", '{"error": "x"}')], TALK).messages[-1].content
    )


@pytest.mark.parametrize("text", ["", "{", '{"name": "reply"', '{"name": "reply", "arguments": {', "hello"])
def test_what_is_no_reply_yet_says_nothing(text: str) -> None:
    assert reply_so_far(text) is None
