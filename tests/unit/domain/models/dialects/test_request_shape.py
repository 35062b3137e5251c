import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect, ToolSpec

NATIVE, SCHEMA, TEXT = ToolDialect.NATIVE, ToolDialect.SCHEMA, ToolDialect.TEXT

SHELL = ToolSpec(
    name="shell",
    description="Run a bash command.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
    effect=Effect.CHANGES_WORKSPACE,
)
SEARCH = ToolSpec(
    name="search",
    description="Find pages.\nSlowly.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "A few words"},
            "most": {"type": "integer"},
            "kind": {"enum": ["web", "news"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
    },
    effect=Effect.READS,
)
FINISH = FinishSpec(
    parameters={"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]}
).as_tool()
TOOLS = (SHELL, SEARCH, FINISH)


def called(tool: str, arguments: object, result: object, number: int = 0) -> list[Message]:
    call = ToolCallRequest(CallId(f"call_{number}"), tool, json.dumps(arguments))
    return [
        Message(Role.ASSISTANT, "", (call,)),
        Message(Role.TOOL, json.dumps(result), call_id=call.call_id),
    ]


WRITE = ToolSpec(
    name="write_file",
    description="Write a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    effect=Effect.IDEMPOTENT,
)
START = [Message(Role.SYSTEM, "You work."), Message(Role.USER, "Count the lines of a.txt.")]
COUNTED = called("shell", {"command": "wc -l a.txt"}, {"exit_code": 0, "stdout": "3 a.txt\n", "stderr": ""})


def test_native_conversations_are_sent_as_they_are() -> None:
    shaped = shape_request(NATIVE, [*START, *COUNTED], TOOLS, FINISH_TASK)
    assert shaped.messages == [*START, *COUNTED]
    assert (shaped.tools, shaped.must_call, shaped.answer_schema) == (TOOLS, FINISH_TASK, None)


@pytest.mark.parametrize("dialect", [SCHEMA, TEXT])
def test_other_models_read_about_their_tools_in_the_system_message(dialect: ToolDialect) -> None:
    shaped = shape_request(dialect, START, TOOLS)
    system = shaped.messages[0].content
    assert system.startswith("You work.\n")
    assert "- shell(command): Run a bash command.\n" in system
    assert (
        "- search(query (A few words), most?: integer, kind?: web|news, tags?: [string, …]): Find pages. Slowly."
        in system
    )
    assert (shaped.tools, shaped.must_call) == ((), None)
    assert {message.role for message in shaped.messages} == {Role.SYSTEM, Role.USER}


def test_a_text_model_is_shown_the_block_that_it_should_write() -> None:
    assert (
        '```tool_call\n{"tool": "<tool>", "params": {…}}\n```' in shape_request(TEXT, START, TOOLS).messages[0].content
    )
    assert shape_request(TEXT, START, TOOLS).answer_schema is None


@pytest.mark.parametrize("dialect", [SCHEMA, TEXT])
def test_calls_are_shown_as_the_model_writes_them_and_results_as_plain_lines(dialect: ToolDialect) -> None:
    asked, seen = shape_request(dialect, [*START, *COUNTED], TOOLS).messages[2:]
    understood = parse_answer(dialect, LLMResponse(content=asked.content), TOOLS)
    assert understood.tool_calls == COUNTED[0].tool_calls
    assert seen.role is Role.USER
    assert seen.content.startswith("Result of shell:\nexit_code: 0\nstdout: 3 a.txt\n\nThat worked.")


def test_a_failed_call_is_said_to_have_failed() -> None:
    for result in ({"exit_code": 1, "stdout": "", "stderr": "no"}, {"error": "no", "error_type": "OSError"}):
        seen = shape_request(SCHEMA, [*START, *called("shell", {"command": "x"}, result)], TOOLS).messages[-1]
        assert "That failed." in seen.content


def test_both_sides_speak_in_turn() -> None:
    calls = tuple(ToolCallRequest(CallId(f"c{n}"), "shell", json.dumps({"command": f"echo {n}"})) for n in range(2))
    history = [
        *START,
        Message(Role.ASSISTANT, "Two at once.", calls),
        *(Message(Role.TOOL, "{}", call_id=call.call_id) for call in calls),
        Message(Role.USER, "Go on."),
    ]
    for dialect in (SCHEMA, TEXT):
        roles = [message.role for message in shape_request(dialect, history, TOOLS).messages]
        assert roles == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER]


HISTORIES = st.lists(
    st.one_of(
        st.builds(
            called,
            st.sampled_from(["shell", "search"]),
            st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=2),
            st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(), max_size=3),
        ),
        st.builds(lambda text: [Message(Role.ASSISTANT, text), Message(Role.USER, "Use a tool.")], st.text(max_size=9)),
    ),
    max_size=5,
).map(lambda parts: [message for part in parts for message in part])


@given(HISTORIES, HISTORIES, st.sampled_from([SCHEMA, TEXT]))
def test_a_longer_conversation_begins_with_the_shorter_one(
    first: Sequence[Message], more: Sequence[Message], dialect: ToolDialect
) -> None:
    before = shape_request(dialect, [*START, *first], TOOLS).messages
    after = shape_request(dialect, [*START, *first, *more], TOOLS, FINISH_TASK).messages
    assert after[: len(before)] == before


def test_a_model_may_write_nothing_but_a_call() -> None:
    schema = shape_request(SCHEMA, START, TOOLS).answer_schema
    assert schema is not None
    assert not problems_with({"name": "shell", "arguments": {"command": "ls"}}, schema)
    for wrong in (
        {"name": "other", "arguments": {}},
        {"name": "shell", "arguments": {}},
        {"name": "shell", "arguments": {"command": "ls", "path": "x"}},
        {"name": "shell", "arguments": {"command": "l" * 100_000}},
        {"name": "search", "arguments": {"query": "a", "tags": ["t"] * 100}},
        "shell",
    ):
        assert problems_with(wrong, schema), wrong


def test_a_model_that_must_finish_can_only_finish() -> None:
    schema = shape_request(SCHEMA, START, TOOLS, FINISH_TASK).answer_schema
    assert schema is not None
    assert not problems_with({"name": FINISH_TASK, "arguments": {"summary": "done"}}, schema)
    assert problems_with({"name": "shell", "arguments": {"command": "ls"}}, schema)


def test_a_question_without_tools_is_answered_freely() -> None:
    shaped = shape_request(SCHEMA, [*START, *COUNTED], ())
    assert shaped.answer_schema is None
    assert shaped.messages[0] == START[0]


def names_open_after(*history: Message) -> set[str]:
    schema = shape_request(SCHEMA, [*START, *history], TOOLS).answer_schema
    assert schema is not None
    return {form["properties"]["name"]["const"] for form in schema.get("oneOf", [schema])}


def test_a_call_that_gave_the_same_again_is_not_the_next_choice() -> None:
    assert names_open_after(*COUNTED) == {"shell", "search", FINISH_TASK}
    assert names_open_after(*COUNTED, *COUNTED) == {"search", FINISH_TASK}
    other = called("search", {"query": "a"}, {"hits": []})
    assert names_open_after(*COUNTED, *COUNTED, *other) == {"shell", "search", FINISH_TASK}


def test_a_call_that_gives_something_else_now_is_no_repeat() -> None:
    failed = called("shell", {"command": "wc -l a.txt"}, {"exit_code": 1, "stdout": "", "stderr": "no such file"})
    assert names_open_after(*failed, *COUNTED) == {"shell", "search", FINISH_TASK}


def test_a_model_that_goes_round_in_circles_ends_with_the_finish() -> None:
    other = called("search", {"query": "a"}, {"hits": []})
    assert names_open_after(*COUNTED, *other, *COUNTED, *other, *COUNTED, *other) == {FINISH_TASK}


def test_after_a_finish_that_was_sent_back_something_else_comes_first() -> None:
    finish = called(FINISH_TASK, {"summary": "done"}, {"error": "Not accepted yet."})
    assert names_open_after(*COUNTED, *finish) == {"shell", "search"}
    other = called("search", {"query": "a"}, {"hits": []})
    assert FINISH_TASK in names_open_after(*COUNTED, *finish, *other)


def test_tools_that_no_schema_describes_well_are_still_offered() -> None:
    odd = ToolSpec(name="odd", description="", parameters={}, effect=Effect.READS)
    shaped = shape_request(SCHEMA, START, (odd, FINISH))
    assert shaped.answer_schema is not None
    assert not problems_with({"name": "odd", "arguments": {}}, shaped.answer_schema)
    assert "- odd(): " in shaped.messages[0].content


LOOK = ToolSpec(name="look", description="Look around.", parameters={"type": "object"}, effect=Effect.READS)
RUN = ToolSpec(
    name="run",
    description="Run.",
    parameters=SHELL.parameters,
    effect=Effect.CHANGES_WORKSPACE,
    command_argument="command",
)


def open_with(tools: Sequence[ToolSpec], *history: Message) -> set[str]:
    schema = shape_request(SCHEMA, [*START, *history], tools).answer_schema
    assert schema is not None
    return {form["properties"]["name"]["const"] for form in schema.get("oneOf", [schema])}


def test_the_first_call_looks_around_when_there_is_a_tool_for_it() -> None:
    tools = (*TOOLS, LOOK)
    assert open_with(tools) == {"look"}
    looked = called("look", {}, {"files": {}})
    assert open_with(tools, *looked) == {"shell", "search", FINISH_TASK}
    made = called("shell", {"command": "touch a"}, {"exit_code": 0, "changed_files": {"a": ""}})
    assert open_with(tools, *looked, *made) == {"shell", "search", "look", FINISH_TASK}
    refused = called(FINISH_TASK, {"summary": "done"}, {"error": "Nothing was changed.", "error_type": "Unproven"})
    assert open_with(tools, *looked, *refused) == {"shell", "search"}


def test_what_is_the_only_answer_left_need_not_be_asked_for() -> None:
    tools = (*TOOLS, LOOK)
    first = shape_request(SCHEMA, START, tools)
    assert json.loads(first.only_answer) == {"name": "look", "arguments": {}}
    assert not shape_request(SCHEMA, [*START, *called("look", {}, {"files": {}})], tools).only_answer
    assert not shape_request(SCHEMA, START, tools, FINISH_TASK).only_answer
    assert not shape_request(SCHEMA, START, TOOLS).only_answer
    assert not shape_request(ToolDialect.NATIVE, START, (LOOK,)).only_answer


def test_a_file_that_was_broken_is_mended_before_the_finish() -> None:
    result = {"exit_code": 0, "stdout": "", "broken": {"a.py": "not valid Python, line 1"}}
    broke = called("shell", {"command": "sed -i s/x/y/ a.py"}, result)
    assert FINISH_TASK not in names_open_after(*broke)
    assert "Mend it" in shape_request(SCHEMA, [*START, *broke], TOOLS).messages[-1].content


def test_text_that_was_written_back_is_not_said_to_have_worked() -> None:
    wrote = called("shell", {"command": "x"}, {"path": "a.txt", "created": False, "unchanged": True, "hint": "Same."})
    seen = shape_request(SCHEMA, [*START, *wrote], TOOLS).messages[-1].content
    assert "That worked" not in seen
    assert "write it in another way" in seen
    assert shape_request(SCHEMA, [*START, *wrote], TOOLS).stuck
    assert not shape_request(SCHEMA, START, TOOLS).stuck


def test_a_program_that_fails_is_to_be_written_again_and_its_frames_are_left_out() -> None:
    result = {
        "exit_code": 1,
        "failures": ["f(1) -> TypeError: no"],
        "stdout": "",
        "stderr": "frame\n" * 200 + "the end",
    }
    seen = shape_request(SCHEMA, [*START, *called("shell", {"command": "x"}, result)], TOOLS).messages[-1].content
    assert "f(1) -> TypeError: no" in seen
    assert "Say which line of the program that is wrong, not its tests, is wrong" in seen
    assert seen.count("frame") < 50
    assert "the end" in seen


def test_after_a_program_has_made_a_command_fail_something_is_written() -> None:
    failed = called("shell", {"command": "x"}, {"exit_code": 1, "failures": ["no"], "failing_program": "a.py"})
    assert open_with((*TOOLS, WRITE), *failed) == {"write_file"}
    assert open_with(TOOLS, *failed) == {"shell", "search"}  # nothing here can write
    mended = called("fix_line", {"path": "a.py"}, {"path": "a.py", "was": "x", "now": "1: y"}, 1)
    assert "Now run it" in shape_request(SCHEMA, [*START, *failed, *mended], TOOLS).messages[-1].content


def test_a_line_is_mended_by_its_number_only_where_something_is_wrong() -> None:
    fix = replace(WRITE, name="fix_line", parameters={"type": "object", "properties": {"path": {}, "line": {}}})
    tools = (*TOOLS, fix)
    assert "fix_line" not in open_with(tools, *COUNTED)
    for result in ({"exit_code": 1, "failing_program": "a.py"}, {"exit_code": 0, "broken": {"a.py": "not valid"}}):
        assert "fix_line" in open_with(tools, *called("shell", {"command": "x"}, result))


def test_an_answer_that_can_be_seen_is_to_be_written() -> None:
    looked, tools = called("look", {}, {"files": {"a.ini": "port = 1"}}), (*TOOLS, LOOK)
    for asked, said in (
        ("Which port is it? Write it to b.txt.", True),
        ("How many are there? Write it to b.txt.", False),
    ):
        seen = shape_request(SCHEMA, [START[0], Message(Role.USER, asked), *looked], tools).messages[-1].content
        assert ("If the answer stands above" in seen) is said


def test_a_hint_with_a_command_is_to_be_run() -> None:
    result = {"exit_code": 0, "stdout": "", "hint": "3 is one too many, run: echo 2 > a"}
    counted = called("shell", {"command": "wc -l a.csv > a"}, result)
    assert "Do what the hint says" in shape_request(SCHEMA, [*START, *counted], TOOLS).messages[-1].content


def test_a_hint_is_pointed_at() -> None:
    counted = called(
        "shell", {"command": "wc -l a.csv"}, {"exit_code": 0, "stdout": "3\n", "hint": "a.csv is a table."}
    )
    assert "Mind the hint" in shape_request(SCHEMA, [*START, *counted], TOOLS).messages[-1].content


def test_after_a_failure_the_task_cannot_be_called_done() -> None:
    failed = called("shell", {"command": "x"}, {"exit_code": 1, "stdout": "", "stderr": "no"})
    assert names_open_after(*failed) == {"shell", "search"}
    repeated = called("shell", {"command": "x"}, {"note": "You made this call.", "result": failed[1].content})
    assert names_open_after(*failed, *repeated) == {"search"}


def test_a_call_that_worked_and_is_made_again_at_once_leads_to_the_finish() -> None:
    made = called("shell", {"command": "mkdir a"}, {"exit_code": 0, "stdout": "", "changed_files": {"a/": "(folder)"}})
    again = called("shell", {"command": "mkdir a"}, {"note": "You made this call.", "result": made[1].content})
    assert names_open_after(*made, *again) == {FINISH_TASK}
    found = called("search", {"query": "a"}, {"pages": ["b"]})
    searched = called("search", {"query": "a"}, {"note": "You made this call.", "result": found[1].content})
    assert names_open_after(*found, *searched) == {"shell", FINISH_TASK}


def test_a_program_that_was_written_is_run_before_the_finish() -> None:
    tools = (WRITE, RUN, FINISH)
    wrote = called("write_file", {"path": "a.py", "content": "print(1)"}, {"path": "a.py", "created": True})
    assert open_with(tools, *wrote) == {"write_file", "run"}
    ran = called("run", {"command": "python3 a.py"}, {"exit_code": 0, "stdout": "1\n", "stderr": ""})
    assert open_with(tools, *wrote, *ran) == {"write_file", "run", FINISH_TASK}
    text = called("write_file", {"path": "a.txt", "content": "x"}, {"path": "a.txt", "created": True})
    assert FINISH_TASK in open_with(tools, *text)


def test_a_repeat_is_shown_with_what_it_gave_the_first_time() -> None:
    repeated = called("shell", {"command": "ls"}, {"note": "You made this call.", "result": '{"stdout": "a.txt"}'})
    seen = shape_request(SCHEMA, [*START, *repeated], TOOLS).messages[-1].content
    assert seen.startswith("You made this call.\nResult of shell:\nstdout: a.txt\n")


def test_a_command_that_changed_no_content_is_neither_said_to_have_worked_nor_to_have_failed() -> None:
    """`chmod` has done its work all the same; `sed` that hit nothing has not."""
    result = {"exit_code": 0, "stdout": "", "stderr": "", "changed_files": {}}
    seen = (
        shape_request(SCHEMA, [*START, *called("shell", {"command": "chmod +x x"}, result)], TOOLS).messages[-1].content
    )
    assert "changed_files: none" in seen
    assert "That worked." not in seen
    assert "That failed." not in seen
    assert FINISH_TASK in names_open_after(*called("shell", {"command": "chmod +x x"}, result))


def test_where_the_workspace_and_programs_lie_is_not_shown() -> None:
    stderr = "/opt/py/3.11/bin/python3: can't open file '/home/me/.fabric/runs/9c2f/workspace/a.py': [Errno 2]\n"
    result = {"exit_code": 2, "stdout": "", "stderr": stderr}
    seen = (
        shape_request(SCHEMA, [*START, *called("shell", {"command": "python3 a.py"}, result)], TOOLS)
        .messages[-1]
        .content
    )
    assert "stderr: python3: can't open file 'a.py': [Errno 2]\n" in seen


@pytest.mark.parametrize("text", ["#!/usr/bin/env python3", "src/workspace/a.txt", "PATH=/usr/bin", "/etc/hosts"])
def test_other_paths_are_shown_as_they_are(text: str) -> None:
    result = {"exit_code": 0, "stdout": f"{text}\n", "stderr": ""}
    seen = shape_request(SCHEMA, [*START, *called("shell", {"command": "cat x"}, result)], TOOLS).messages[-1].content
    assert f"stdout: {text}\n" in seen


def test_changed_files_are_shown_with_their_content() -> None:
    result = {"exit_code": 0, "stdout": "", "changed_files": {"a.txt": "one\ntwo\n", "b.txt": "(deleted)"}}
    seen = shape_request(SCHEMA, [*START, *called("shell", {"command": "x"}, result)], TOOLS).messages[-1].content
    assert "changed_files:\n- a.txt:\none\ntwo\n- b.txt: (deleted)\n" in seen


def test_a_long_task_is_not_said_again() -> None:
    long = [START[0], Message(Role.USER, "word " * 500)]
    assert "word" not in shape_request(SCHEMA, [*long, *COUNTED], TOOLS).messages[-1].content
