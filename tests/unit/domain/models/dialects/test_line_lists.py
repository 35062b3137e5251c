"""Long texts are lists of lines for a model that is held to a schema, and whole texts for everybody else."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.answer_schema import as_lines, join_lines
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.infrastructure.tools.files import WRITE_FILE
from agent_fabric.infrastructure.tools.shell import SHELL

TOOLS = (WRITE_FILE, SHELL)
SCHEMA = ToolDialect.SCHEMA


@given(st.text())
def test_a_text_in_lines_is_the_same_text_when_it_is_put_together(text: str) -> None:
    lines = as_lines(WRITE_FILE, {"path": "a", "content": text})
    assert join_lines(WRITE_FILE, lines) == {"path": "a", "content": text}


def test_a_model_that_answers_line_by_line_makes_the_call_that_the_tool_knows() -> None:
    call = {"name": "write_file", "arguments": {"path": "a.py", "content": ["x = 1", 'print("x")', ""]}}
    answer = parse_answer(SCHEMA, LLMResponse(content=json.dumps(call)), TOOLS)
    assert json.loads(answer.tool_calls[0].arguments) == {"path": "a.py", "content": 'x = 1\nprint("x")\n'}


def test_a_model_that_answers_with_one_text_is_understood_as_well() -> None:
    call = {"name": "write_file", "arguments": {"path": "a", "content": "one\ntwo"}}
    answer = parse_answer(SCHEMA, LLMResponse(content=json.dumps(call)), TOOLS)
    assert json.loads(answer.tool_calls[0].arguments) == call["arguments"]


def test_lines_that_are_none_are_a_problem_not_a_file() -> None:
    call = {"name": "write_file", "arguments": {"path": "a", "content": [1, None]}}
    answer = parse_answer(SCHEMA, LLMResponse(content=json.dumps(call)), TOOLS)
    assert answer.tool_calls == ()
    assert "content" in answer.problem


def test_the_model_sees_its_earlier_calls_the_way_it_made_them_and_short_arguments_stay_texts() -> None:
    written = ToolCallRequest(CallId("1"), "write_file", '{"path": "a", "content": "one\\ntwo"}')
    run = ToolCallRequest(CallId("2"), "shell", '{"command": "cat a\\ncat b"}')
    messages = [Message(Role.SYSTEM, "s"), Message(Role.USER, "t"), Message(Role.ASSISTANT, "", (written, run))]
    shaped = shape_request(SCHEMA, messages, TOOLS)
    shown = [json.loads(line)["arguments"] for line in shaped.messages[-1].content.splitlines()]
    assert shown == [{"path": "a", "content": ["one", "two"]}, {"command": "cat a\ncat b"}]
    assert "content: [line, …]" in shaped.messages[0].content
    assert shape_request(ToolDialect.NATIVE, messages, TOOLS).messages == messages
