"""Servers of models get names that they take; the run keeps its own."""

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.tools.specs import Effect, ToolSpec, object_schema


def tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters=object_schema({}), effect=Effect.READS)


NAMES = ["read_file", "web-1.disks.usage", "web-1_disks_usage", f"{'x' * 40}.{'y' * 40}.z"]
TOOLS = [tool(name) for name in NAMES]


def test_dots_and_long_names_are_translated_there_and_back() -> None:
    said = [
        Message(Role.USER, "look"),
        Message(Role.ASSISTANT, "", tuple(ToolCallRequest(CallId(name), name, "{}") for name in NAMES)),
    ]
    shaped = shape_request(ToolDialect.NATIVE, said, TOOLS, must_call="web-1.disks.usage")
    wire = [each.name for each in shaped.tools]
    assert (wire[0], wire[2]) == ("read_file", "web-1_disks_usage")
    assert len(set(wire)) == len(wire), "two tools never get one name"
    assert all(len(name) <= 64 and "." not in name for name in wire)
    assert [call.tool for call in shaped.messages[1].tool_calls] == wire
    assert shaped.must_call == wire[1]
    answer = LLMResponse(content="", tool_calls=shaped.messages[1].tool_calls)
    assert [call.tool for call in parse_answer(ToolDialect.NATIVE, answer, TOOLS).tool_calls] == NAMES


def test_plain_names_change_nothing() -> None:
    said = [Message(Role.USER, "look")]
    shaped = shape_request(ToolDialect.NATIVE, said, TOOLS[:1])
    assert shaped.messages is said
    assert shaped.tools == TOOLS[:1]


def test_a_model_without_tool_calls_of_its_own_reads_the_true_names() -> None:
    shaped = shape_request(ToolDialect.TEXT, [Message(Role.SYSTEM, "You."), Message(Role.USER, "look")], TOOLS)
    assert "web-1.disks.usage" in shaped.messages[0].content
