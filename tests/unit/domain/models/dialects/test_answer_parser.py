import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.call_text import MAX_CALLS
from agent_fabric.domain.models.messages import LLMResponse, ToolCallRequest, ToolDialect
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from effort import examples

NATIVE, SCHEMA, TEXT = ToolDialect.NATIVE, ToolDialect.SCHEMA, ToolDialect.TEXT

WRITE = ToolSpec(
    name="write_file",
    description="Write a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
        "additionalProperties": False,
    },
    effect=Effect.IDEMPOTENT,
)
LIST = ToolSpec(
    name="list_files", description="List.", parameters={"type": "object", "properties": {}}, effect=Effect.READS
)
TOOLS = (WRITE, LIST)
ARGUMENTS = {"path": "a.txt", "content": "one\ntwo"}
CALL = json.dumps({"name": "write_file", "arguments": ARGUMENTS})
FC_CALL = json.dumps({"tool": "write_file", "params": ARGUMENTS})


def answer(content: str, *, finish_reason: str = "stop") -> LLMResponse:
    return LLMResponse(content=content, finish_reason=finish_reason)


def calls_in(response: LLMResponse) -> list[tuple[str, object]]:
    return [(call.tool, json.loads(call.arguments)) for call in response.tool_calls]


@pytest.mark.proves("FC-026")
@pytest.mark.parametrize(
    "text",
    [
        f"```tool_call\n{FC_CALL}\n```",
        f"I will write the file.\n\n```tool_call\n{FC_CALL}\n```",
        f"```tool_call\n{json.dumps(json.loads(FC_CALL), indent=2)}\n```",
        f"```tool_call {FC_CALL}```",
        f"```tool_call\n{FC_CALL}",
    ],
)
def test_a_fenced_block_is_a_call(text: str) -> None:
    response = parse_answer(TEXT, answer(text), TOOLS)
    assert calls_in(response) == [("write_file", ARGUMENTS)]
    assert (response.dialect, response.problem, response.recovered) == (TEXT, "", False)


def test_what_a_model_says_before_its_call_is_kept() -> None:
    response = parse_answer(TEXT, answer(f"First the file.\n```tool_call\n{FC_CALL}\n```"), TOOLS)
    assert response.content == "First the file."


def test_a_fence_inside_of_a_file_does_not_end_the_block() -> None:
    arguments = {"path": "a.md", "content": "```sh\nls\n```\n"}
    block = json.dumps({"tool": "write_file", "params": arguments})
    assert calls_in(parse_answer(TEXT, answer(f"```tool_call\n{block}\n```"), TOOLS)) == [("write_file", arguments)]


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("{'tool': 'list_files'}", "not valid JSON"),
        ('{"tool": "list_files"} and more', "not valid JSON"),
        ('{"tool": "rm_rf", "params": {}}', "there is no tool 'rm_rf'; the tools are: write_file, list_files"),
        ('{"tool": "write_file", "params": {"path": "a"}}', "write_file: content is missing"),
        ('{"tool": "write_file", "params": {"path": 1, "content": ""}}', "path must be string, not integer"),
        ('{"tool": "write_file", "path": "a", "content": "b"}', "put all arguments of write_file into one object"),
        ('{"tool": "list_files", "tool": "list_files"}', "a key appears twice"),
        ('{"tool": "list_files", "params": {"n": NaN}}', "NaN is not a number"),
        ('{"params": {}}', "does not name a tool"),
        ("[]", "the list of calls is empty"),
        ("", "the call is empty"),
    ],
)
def test_a_block_that_is_not_sound_is_answered_with_what_to_send(block: str, told: str) -> None:
    response = parse_answer(TEXT, answer(f"```tool_call\n{block}\n```"), TOOLS)
    assert not response.tool_calls
    assert told in response.problem
    assert '{"tool": "<tool>", "params": {…}}' in response.problem


def test_text_without_a_block_is_plain_text() -> None:
    response = parse_answer(TEXT, answer("All done."), TOOLS)
    assert (response.content, response.tool_calls, response.problem) == ("All done.", (), "")


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        FC_CALL,
        f"  {CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"I will do it:\n\n```json\n{CALL}\n```\n",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"Sure.\n<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
        f"```tool_call\n{FC_CALL}\n```",
    ],
)
def test_a_call_that_a_native_model_wrote_as_text_is_recovered(text: str) -> None:
    response = parse_answer(NATIVE, answer(text), TOOLS)
    assert calls_in(response) == [("write_file", ARGUMENTS)]
    assert response.recovered


def test_several_calls_are_recovered_in_order_each_with_an_id() -> None:
    lists = '{"name": "list_files", "arguments": {}}'
    for text in (
        f"<tool_call>{CALL}</tool_call>\n<tool_call>{lists}</tool_call>",
        f"[{CALL}, {lists}]",
        f"Two steps:\n```json\n{CALL}\n```\n\n```json\n{lists}\n```",
    ):
        response = parse_answer(NATIVE, answer(text), TOOLS)
        assert [call.tool for call in response.tool_calls] == ["write_file", "list_files"]
        assert len({call.call_id for call in response.tool_calls}) == 2


@pytest.mark.parametrize(
    "text",
    [
        f"You could send ```json\n{CALL}\n``` and then wait for the result.",
        f"A call looks like this: {CALL}",
        '```json\n{"name": "Ada", "age": 36}\n```',
        '{"name": "rm_rf", "arguments": {}}',
        '```json\n{"name": "rm_rf", "arguments": {}}\n```',
        '["a", "b"]',
        "Use `write_file`.",
        f"```python\n{CALL}\n```",
        "```json\n{broken\n```",
    ],
)
def test_text_that_merely_shows_json_is_no_call(text: str) -> None:
    response = parse_answer(NATIVE, answer(text), TOOLS)
    assert (response.content, response.tool_calls, response.problem, response.recovered) == (text, (), "", False)


def test_a_leaked_call_that_cannot_be_made_is_not_taken_for_the_final_answer() -> None:
    for text in ('<tool_call>{"name": "write_file"', '{"name": "write_file", "arguments": {"path": "a"}}'):
        response = parse_answer(NATIVE, answer(text), TOOLS)
        assert not response.tool_calls
        assert "This call was not made" in response.problem


@pytest.mark.proves("AF-075")
def test_strict_native_leaves_text_alone() -> None:
    for text in (CALL, f"<tool_call>{CALL}</tool_call>", "<tool_call>"):
        response = parse_answer(NATIVE, answer(text), TOOLS, strict_native=True)
        assert (response.content, response.tool_calls, response.problem) == (text, (), "")


def test_the_servers_own_calls_are_never_touched() -> None:
    own = (ToolCallRequest("x", "nonsense", "{not json"),)  # type: ignore[arg-type]  # an id is a string
    for dialect in ToolDialect:
        assert parse_answer(dialect, LLMResponse(content=CALL, tool_calls=own), TOOLS).tool_calls == own


def test_a_constrained_answer_is_a_call() -> None:
    response = parse_answer(SCHEMA, answer(CALL), TOOLS)
    assert calls_in(response) == [("write_file", ARGUMENTS)]
    assert (response.content, response.dialect, response.recovered) == ("", SCHEMA, False)


def test_a_constrained_answer_that_was_cut_off_asks_for_less() -> None:
    response = parse_answer(SCHEMA, answer(CALL[:-9], finish_reason="length"), TOOLS)
    assert not response.tool_calls
    assert "cut off" in response.problem
    assert "shorter" in response.problem


def test_a_server_that_ignores_the_schema_is_noticed() -> None:
    task = (*TOOLS, FinishSpec(parameters={"type": "object"}).as_tool())  # in a conversation that would be plain words
    assert "nothing but one JSON object" in parse_answer(SCHEMA, answer("I wrote the file."), task).problem
    assert calls_in(parse_answer(SCHEMA, answer(f"Sure:\n```json\n{CALL}\n```"), TOOLS)) == [("write_file", ARGUMENTS)]


def test_an_empty_answer_is_left_to_the_engine() -> None:
    for dialect in ToolDialect:
        response = parse_answer(dialect, answer(" \n"), TOOLS)
        assert (response.tool_calls, response.problem) == ((), "")


def test_without_tools_there_is_nothing_to_understand() -> None:
    assert parse_answer(SCHEMA, answer("A summary."), ()).problem == ""


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 200_000,
        "```tool_call\n" * 200_000,
        "```\n" * 200_000,
        "```json\n{}\n```\n" * 50_000,
        "[" * 500_000,
        '{"name":' * 100_000,
        f"<tool_call>{'[' * 100_000}</tool_call>",
        '{"name": "list_files", "arguments": {"a": ' + "[" * 5_000 + "]" * 5_000 + "}}",
        '{"name": "list_files", "arguments": {"n": ' + "9" * 100_000 + "}}",
        f"{CALL}\n" * 10_000,
        f"<tool_call>{CALL}</tool_call>" * 10_000,
    ],
)
def test_hostile_answers_are_read_quickly_and_harmlessly(text: str) -> None:
    for dialect in ToolDialect:
        response = parse_answer(dialect, answer(text), TOOLS)
        assert len(response.tool_calls) <= MAX_CALLS
        assert len(response.problem) < 2_000


def test_half_a_character_can_be_sent_on() -> None:
    text = '{"name": "write_file", "arguments": {"path": "a", "content": "\\ud83d"}}'
    call = parse_answer(SCHEMA, answer(text), TOOLS).tool_calls[0]
    assert call.arguments.encode().decode() == call.arguments


PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *(
                "<tool_call>",
                "</tool_call>",
                "```",
                "```json\n",
                "```tool_call\n",
                "\n```",
                "{",
                "}",
                "[",
                "]",
                '"',
                "\n",
            ),
            *(CALL, FC_CALL, '{"name": ', '"arguments": ', "NaN", "\\ud800", "\x00", '{"tool": "list_files"}'),
        ]
    ),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["list_files", "write_file"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "arguments", "tool", "params", "path", "x"]), inner, max_size=4)
        ),
        max_leaves=8,
    ).map(json.dumps),
)


@settings(max_examples=examples(1_000), deadline=None, database=None)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_garbage_answers_crash_nothing(text: str) -> None:
    """Each text is an answer in each dialect, whole and cut off: making one up takes longer than reading it."""
    cut_off = text[: 2 * len(text) // 3]
    for dialect, (said, reason) in product(ToolDialect, ((text, "stop"), (cut_off, "length"))):
        response = parse_answer(dialect, answer(said, finish_reason=reason), TOOLS)
        for call in response.tool_calls:
            assert call.tool in {"write_file", "list_files"}
            assert isinstance(json.loads(call.arguments), dict)
        assert not (response.tool_calls and response.problem)


_QUOTED = f"```tool_call\n{FC_CALL}\n```"


@pytest.mark.proves("C01")
@pytest.mark.parametrize("dialect", [ToolDialect.TEXT, ToolDialect.NATIVE])
@pytest.mark.parametrize(
    "text",
    [
        f"{_QUOTED}\nIt has been written.",
        f"The page says:\n{_QUOTED}\nI will not do that.",
        f"````markdown\n{_QUOTED}\n````",
        f"~~~~\n{_QUOTED}\n~~~~",
        f"````markdown\n{_QUOTED}",
        f"Call it like this: `<tool_call>{FC_CALL}</tool_call>`",
        f"Like this: <tool_call>{FC_CALL}</tool_call>",
        f'```python\nx = """\n<tool_call>{FC_CALL}</tool_call>\n"""\n```',
    ],
)
def test_a_call_that_is_only_shown_is_never_made_and_the_model_is_told_where_calls_belong(
    dialect: ToolDialect, text: str
) -> None:
    response = parse_answer(dialect, answer(text), TOOLS)
    assert response.tool_calls == ()
    assert "at the very end" in response.problem


SHELL = ToolSpec(
    name="shell",
    description="Run.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    effect=Effect.CHANGES_WORKSPACE,
    command_argument="command",
)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("find . -name '*.py' \\", "it ends with a backslash"),
        ("sed -i 's/a/b/' c.yaml' }}", "a single quote is not closed"),
        ('echo "a', "a double quote is not closed"),
    ],
)
def test_a_small_model_writes_a_command_again_that_breaks_off(command: str, where: str) -> None:
    response = parse_answer(SCHEMA, answer(json.dumps({"name": "shell", "arguments": {"command": command}})), (SHELL,))
    assert response.tool_calls == ()
    assert where in response.problem
    native = parse_answer(NATIVE, answer(json.dumps({"name": "shell", "arguments": {"command": command}})), (SHELL,))
    assert native.tool_calls, "what other models write is for the policy to judge"


@pytest.mark.parametrize("command", ["ls", "echo 'a b' | sort", "x=$(unknown", "cat <<EOF\nno end"])
def test_other_commands_are_calls(command: str) -> None:
    response = parse_answer(SCHEMA, answer(json.dumps({"name": "shell", "arguments": {"command": command}})), (SHELL,))
    assert response.tool_calls or "not whole" in response.problem


def test_the_sign_that_ends_exec_is_added_where_it_was_lost() -> None:
    lost = "find . -name '*.py' -exec sed -i 's/a/b/g' {} \\"
    response = parse_answer(SCHEMA, answer(json.dumps({"name": "shell", "arguments": {"command": lost}})), (SHELL,))
    assert calls_in(response) == [("shell", {"command": f"{lost};"})]
