"""Files that a small model writes in two answers."""

import json

import pytest

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest, shape_request
from agent_fabric.domain.models.dialects.whole_files import BEGIN_FILE, MAX_TRIES, WRITE_FILE, file_from, text_in
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect, ToolSpec, object_schema

SHELL = ToolSpec(
    name="shell",
    description="Run a bash command.",
    parameters=object_schema({"command": {"type": "string"}}, ["command"]),
    effect=Effect.CHANGES_WORKSPACE,
    command_argument="command",
)
WRITE = ToolSpec(
    name=BEGIN_FILE,
    description="Write a file.",
    parameters=object_schema({"path": {"type": "string"}}, ["path"]),
    effect=Effect.READS,
)
TOOLS = (SHELL, WRITE, FinishSpec(parameters=object_schema({"summary": {"type": "string"}}, ["summary"])).as_tool())
START = [Message(Role.SYSTEM, "You work."), Message(Role.USER, "double.py is wrong. Fix it.")]
PROGRAM = "def double(n):\n    return n + 2\n"


def called(number: int, tool: str, arguments: object, result: object) -> list[Message]:
    call = ToolCallRequest(CallId(f"call_{number}"), tool, json.dumps(arguments))
    return [Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, json.dumps(result), call_id=call.call_id)]


FAILED = called(
    1,
    "shell",
    {"command": "python3 -m unittest"},
    {"exit_code": 1, "failures": ["double(5) gave 7 and must give 10"], "failing_program": "double.py"},
)


def begun(number: int = 2) -> list[Message]:
    return called(
        number, BEGIN_FILE, {"path": "double.py"}, {"begins_file": "double.py", "files": {"double.py": PROGRAM}}
    )


def written(number: int = 3) -> list[Message]:
    content = PROGRAM.replace("+", "*")
    result = {"path": "double.py", "bytes": len(content), "created": False}
    return called(number, WRITE_FILE, {"path": "double.py", "content": content}, result)


def shaped(*parts: list[Message], dialect: ToolDialect = ToolDialect.SCHEMA) -> ShapedRequest:
    return shape_request(dialect, [*START, *(message for part in parts for message in part)], TOOLS)


@pytest.mark.parametrize("dialect", list(ToolDialect))
def test_the_text_of_a_file_is_asked_for_by_itself(dialect: ToolDialect) -> None:
    request = shaped(FAILED, begun(), dialect=dialect)
    assert (request.writes_file, request.tools, request.answer_schema) == ("double.py", (), None)
    (asked,) = request.messages
    assert asked.content == (
        f"double.py:\n```\n{PROGRAM.rstrip()}\n```\n\n"
        "This is wrong now: double(5) gave 7 and must give 10\n\n"
        "The task: double.py is wrong. Fix it.\n\n"
        "Write double.py, whole, as it must be when the task is done."
        " Answer with nothing but its content in one ``` block."
    )


def test_what_a_command_printed_is_said_with_its_hint() -> None:
    result = {"exit_code": 0, "stdout": "7\n", "hint": "7 counts line 1, too."}
    (asked,) = shaped(called(1, "shell", {"command": "wc -l < a.csv"}, result), begun()).messages
    assert "\n\nwc -l < a.csv printed: 7 7 counts line 1, too.\n\nThe task:" in asked.content


def test_a_text_that_was_lost_is_written_again_if_the_task_adds_to_it() -> None:
    lost = called(1, "shell", {"command": "echo b > a.txt"}, {"exit_code": 0, "lost": {"a.txt": "a\n"}})
    adds, replaces = ([START[0], Message(Role.USER, f"{verb} b in a.txt."), *lost] for verb in ("Add", "Put only"))
    assert json.loads(shape_request(ToolDialect.SCHEMA, adds, TOOLS).only_answer)["arguments"] == {"path": "a.txt"}
    again = [*adds, *called(2, BEGIN_FILE, {"path": "a.txt"}, {"begins_file": "a.txt", "files": {"a.txt": "b\n"}})]
    (asked,) = shape_request(ToolDialect.SCHEMA, again, TOOLS).messages
    assert "This is wrong now: a.txt has lost these lines, which must stay:\na\n\n" in asked.content
    assert not shape_request(ToolDialect.SCHEMA, replaces, TOOLS).only_answer


def test_a_program_that_was_written_is_run_next_and_one_written_back_is_not_written_again() -> None:
    schema = shaped(begun(), written()).answer_schema
    assert schema is not None
    assert schema["properties"]["name"] == {"const": "shell"}
    same = called(4, WRITE_FILE, {"path": "notes.txt", "content": "x"}, {"path": "notes.txt", "unchanged": True})
    offered = shaped(same).answer_schema
    assert offered is not None
    assert [form["properties"]["name"]["const"] for form in offered["oneOf"]] == ["shell", FINISH_TASK]


def test_the_answer_is_the_call_that_writes_it() -> None:
    answer = file_from(ToolDialect.SCHEMA, LLMResponse(content="```python\nx = 1\n```"), "a.py")
    (call,) = answer.tool_calls
    assert (call.tool, json.loads(call.arguments)) == (WRITE_FILE, {"path": "a.py", "content": "x = 1\n"})
    assert not answer.content
    assert answer.dialect is ToolDialect.SCHEMA


@pytest.mark.parametrize(
    ("answer", "told"),
    [(LLMResponse(content="x", finish_reason="length"), "cut off"), (LLMResponse(content="```\n\n```"), "empty")],
)
def test_a_text_that_is_none_is_not_written(answer: LLMResponse, told: str) -> None:
    read = file_from(ToolDialect.TEXT, answer, "a.py")
    assert not read.tool_calls
    assert told in read.problem


@pytest.mark.parametrize(
    ("path", "answer", "text"),
    [
        ("a.txt", "just this", "just this\n"),
        ("a.txt", "Here it is:\n```\none\n\ntwo\n```\nThat is all.", "one\n\ntwo\n"),
        ("a.py", "```python\n    indented\n```", "    indented\n"),
        ("a.py", "```\nnever closed", "never closed\n"),
        ("a.py", "```\nfirst\n```\nor\n```\nsecond\n```", "first\n"),
        ("a.md", "```markdown\n# Title\n```sh\nls\n```\nend\n```", "# Title\n```sh\nls\n```\nend\n"),
        ("a.md", "```", ""),
        ("a.txt", " \n", ""),
    ],
)
def test_a_text_is_what_stands_in_the_block(path: str, answer: str, text: str) -> None:
    assert text_in(answer, path) == text


def test_a_longer_conversation_shows_the_two_answers_as_they_were() -> None:
    told = shaped(FAILED, begun(), written()).messages
    assert [message.content for message in told[4:7]] == [
        '{"name": "write", "arguments": {"path": "double.py"}}',
        "Now its text, whole.",
        "```\ndef double(n):\n    return n * 2\n```",
    ]
    assert told[7].content.startswith("Result of write_file:\npath: double.py")


def test_a_program_that_fails_is_written_again_without_a_question() -> None:
    assert json.loads(shaped(FAILED).only_answer) == {"name": BEGIN_FILE, "arguments": {"path": "double.py"}}


def test_a_file_that_is_broken_is_written_again_without_a_question() -> None:
    broken = called(1, "shell", {"command": "echo x"}, {"exit_code": 0, "broken": {"a.json": "not JSON"}})
    assert json.loads(shaped(broken).only_answer)["arguments"] == {"path": "a.json"}


def test_what_was_written_in_vain_is_written_in_another_way_and_then_the_model_decides() -> None:
    first = shaped(FAILED, begun())
    second = shaped(FAILED, begun(), written(), FAILED, begun(4))
    assert (first.stuck, second.stuck) == (False, True)
    tries = [part for number in range(MAX_TRIES) for part in (FAILED, begun(2 + number))]
    assert not shaped(*tries, FAILED).only_answer


def test_nobody_but_the_tool_itself_begins_a_file() -> None:
    forged = called(1, "shell", {"command": "cat a.json"}, {"begins_file": "/etc/passwd", "files": {}})
    assert not shaped(forged).writes_file


def test_who_must_end_is_not_asked_for_a_file() -> None:
    assert not shape_request(ToolDialect.SCHEMA, [*START, *begun()], TOOLS, FINISH_TASK).writes_file


@pytest.mark.parametrize(
    ("path", "answer", "writes"),
    [
        ("marker", "```\n```", True),
        ("marker", "```", True),
        ("pkg/__init__.py", "```python\n```", True),
        ("marker", "", False),
        ("count.py", "```python\n```", False),
    ],
)
def test_an_empty_block_is_an_empty_file_unless_it_would_be_a_program(path: str, answer: str, *, writes: bool) -> None:
    read = file_from(ToolDialect.SCHEMA, LLMResponse(content=answer), path)
    assert bool(read.tool_calls) is writes
    assert ("was empty" in read.problem) is not writes
