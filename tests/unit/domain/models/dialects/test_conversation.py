"""A small model in a conversation: free to speak, made to look, and brought to an end."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.conversation import needs_a_look, reply_so_far, speech_listener
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest, shape_request
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import Effect, ToolSpec, object_schema

SCHEMA = ToolDialect.SCHEMA
LOOK = ToolSpec(
    name="look",
    description="Show files.",
    parameters=object_schema({"path": {"type": "string"}}),
    effect=Effect.READS,
)
WRITE = replace(
    LOOK,
    name="write_file",
    parameters=object_schema({"path": {"type": "string"}, "content": {"type": "string"}}, ("path", "content")),
    effect=Effect.CHANGES_WORKSPACE,
)
TALK = (LOOK, WRITE)
FINISH = FinishSpec(parameters=object_schema({"summary": {"type": "string"}}, ("summary",))).as_tool()
SYSTEM = Message(Role.SYSTEM, "You talk.")
FAILED, AGAIN = '{"error": "no such file"}', '{"note": "You made exactly this call just now", "result": "{}"}'


def said(text: str) -> list[Message]:
    return [SYSTEM, Message(Role.USER, text)]


def called(number: int, result: str) -> list[Message]:
    call = ToolCallRequest(CallId(f"call_{number}"), "look", json.dumps({"path": str(number)}))
    return [Message(Role.ASSISTANT, "", tool_calls=(call,)), Message(Role.TOOL, result, call_id=call.call_id)]


def asked(messages: list[Message]) -> ShapedRequest:
    return shape_request(SCHEMA, messages, TALK)


def reply(text: str) -> str:
    return json.dumps({"name": "reply", "arguments": {"text": text}})


def parsed(text: str, finish_reason: str = "stop") -> LLMResponse:
    return parse_answer(SCHEMA, LLMResponse(content=text, model="m", finish_reason=finish_reason), TALK)


def test_words_are_free_where_nothing_can_be_looked_up() -> None:
    request = asked(said("hello"))
    assert request.talks
    assert request.answer_schema is None
    assert "plain words" in request.messages[0].content
    assert parsed("Hello! What can I do?").content == "Hello! What can I do?"
    assert not parsed("Hello! What can I do?").problem


def test_a_task_and_a_question_to_one_tool_are_no_conversation() -> None:
    assert not shape_request(SCHEMA, said("hello"), (*TALK, FINISH)).talks
    assert not shape_request(SCHEMA, said("hello"), TALK, must_call="look").talks
    assert not shape_request(ToolDialect.NATIVE, said("hello"), TALK).talks
    assert parse_answer(SCHEMA, LLMResponse(content="Hello!", model="m"), (*TALK, FINISH)).problem


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("Which files are there?", True),
        ("What does notes.txt say?", True),
        ("What is 17 * 23?", True),
        ("How much disk space is free?", True),
        ("Rename app.py to main.py", True),
        ("hello", False),
        ("What is the capital of France?", False),
        ("How do I run a program in Python?", False),
        ("Explain what a file system is", False),
        ("Write to me at ada@example.com", False),
        ("Thanks. That was all.", False),
    ],
)
def test_what_is_about_files_commands_or_numbers_begins_with_a_call(text: str, looks: bool) -> None:
    assert needs_a_look(text) is looks
    schema = asked(said(text)).answer_schema
    assert (schema is not None) is looks
    assert "reply" not in json.dumps(schema)


@pytest.mark.parametrize(
    "text", ["-" * 1_000_000, "a-" * 500_000, "1 " * 500_000, " " * 1_000_000, "1" + " " * 1_000_000]
)
def test_a_long_message_takes_no_time_to_look_through(text: str) -> None:
    began = time.process_time()
    assert not needs_a_look(text)
    assert time.process_time() - began < 1.0  # it was minutes


def test_after_a_result_words_are_free_and_the_model_is_told_what_was_said_last() -> None:
    before = [*said("hello"), Message(Role.ASSISTANT, "Hi."), Message(Role.USER, "Which files are there?")]
    request = asked([*before, *called(0, '{"files": ["a.txt"]}')])
    assert request.answer_schema is None
    told = request.messages[-1].content
    assert "Which files are there?" in told
    assert "finish_task" not in told
    assert request.messages[2].content == "Hi."


def test_what_was_told_from_memory_is_no_look_at_files() -> None:
    call = ToolCallRequest(CallId("recall_1"), "memory_search", "{}")
    told = [Message(Role.ASSISTANT, "", tool_calls=(call,)), Message(Role.TOOL, "{}", call_id=call.call_id)]
    assert asked([*said("Which files are there?"), *told]).answer_schema is not None


@pytest.mark.parametrize("misses", [[AGAIN], [FAILED, FAILED]])
def test_calls_that_lead_nowhere_leave_only_words(misses: list[str]) -> None:
    messages = said("Which files are there?")
    for number, result in enumerate(misses):
        messages += called(number, result)
    assert asked(messages[:-2]).answer_schema != asked(messages).answer_schema
    assert "reply" in json.dumps(asked(messages).answer_schema)
    assert parsed(reply("None.")).content == "None."
    later = [*messages, Message(Role.ASSISTANT, "None."), Message(Role.USER, "And now?")]
    assert asked(later).answer_schema is None


def test_a_call_is_made_and_long_texts_come_as_lines() -> None:
    call = {"name": "write_file", "arguments": {"path": "a", "content": ["one", "two"]}}
    answer = parsed(json.dumps(call))
    assert json.loads(answer.tool_calls[0].arguments)["content"] == "one\ntwo"
    assert parsed('{"name": "nothing", "arguments": {}}').problem


def test_a_reply_that_was_cut_off_is_kept_as_far_as_it_came() -> None:
    answer = parsed(reply("The answer is long and")[:-3], "length")
    assert answer.content == "The answer is long and"
    assert not answer.problem


@given(st.text(), st.lists(st.integers(min_value=1, max_value=7), max_size=60), st.booleans())
def test_pieces_of_a_reply_add_up_to_its_text(text: str, sizes: list[int], escaped: bool) -> None:
    written = json.dumps({"name": "reply", "arguments": {"text": text}}, ensure_ascii=escaped)
    assert "".join(heard(written, sizes)) == text
    assert reply_so_far(written) == text


@given(st.text(), st.lists(st.integers(min_value=1, max_value=7), max_size=60))
def test_pieces_of_plain_words_are_passed_on(text: str, sizes: list[int]) -> None:
    words = f"So: {text}"
    assert "".join(heard(words, sizes)) == words


@pytest.mark.parametrize("call", ['{"name": "look", "arguments": {}}', "```json\n{}\n```", "<tool_call>{}</tool_call>"])
def test_nothing_is_said_of_a_call(call: str) -> None:
    assert heard(call, [1] * len(call)) == []


def heard(written: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    hear = speech_listener(pieces.append)
    at = 0
    for size in [*sizes, len(written)]:
        hear(written[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("text", ["", "{", '{"name": "reply"', '{"name": "reply", "arguments": {', "hello"])
def test_what_is_no_reply_yet_says_nothing(text: str) -> None:
    assert reply_so_far(text) is None


@pytest.mark.parametrize("dialect", list(ToolDialect))
def test_a_search_that_was_made_for_the_model_is_not_made_again(dialect: ToolDialect) -> None:
    again = LLMResponse(content='{"name": "memory_search", "arguments": {"query": "pool"}}', finish_reason="stop")
    answer = parse_answer(dialect, again, TALK)
    assert (answer.tool_calls, answer.problem.split(",")[0]) == ((), "Memory was searched for you already")
    own = replace(LOOK, name="memory_search", parameters=object_schema({"query": {"type": "string"}}))
    assert "searched for you" not in parse_answer(dialect, again, (*TALK, own)).problem


def test_after_what_memory_knows_the_model_is_told_to_quote_it() -> None:
    told = json.dumps({"note": "Quoted data", "passages": [{"text": "The pool opens at nine."}], "facts": []})
    shaped = asked([*said("When does the pool open?"), *called(1, told)])
    assert "quote the sentence above that answers" in shaped.messages[-1].content


def test_what_memory_has_need_not_be_looked_for_with_a_tool() -> None:
    question = said("Which files are in the folder?")
    assert asked(question).answer_schema is not None
    call = ToolCallRequest(CallId("recall_1"), "memory_search", "{}")
    for passages, is_held in (([], True), ([{"text": "It has two files."}], False)):
        told = json.dumps({"passages": passages, "facts": []})
        recalled = [Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, told, call_id=call.call_id)]
        assert (asked([*question, *recalled]).answer_schema is not None) is is_held
