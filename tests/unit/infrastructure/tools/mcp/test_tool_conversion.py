"""What a server says about its tools, as the engine gets it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import Effect, Trust
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool, clean_schema, tool_name, tool_spec


def listed(name: str = "search", schema: dict[str, Any] | None = None) -> ListedTool:
    return ListedTool(name=name, description="Searches.", schema=schema or {"type": "object"})


def server(**settings: Any) -> MCPServerConfig:
    return MCPServerConfig.model_validate({"name": "docs", "command": ["docs"], **settings})


@pytest.mark.proves("AF-091")
def test_names_are_namespaced_and_as_models_take_them() -> None:
    assert tool_name("docs", "search") == "mcp__docs__search"
    assert tool_name("docs", "öl/fass nr.1") == "mcp__docs___l_fass_nr_1"
    long = [tool_name("docs", "x" * 80 + end) for end in "ab"]
    assert all(len(name) == 64 for name in long)
    assert long[0] != long[1]


@pytest.mark.proves("AF-092")
def test_a_schema_becomes_the_parameters_of_a_function() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"query": {"type": "string", "pattern": "(a+)+$"}, "filter": {"$ref": "#/$defs/filter"}},
        "required": ["query", "ghost"],
        "$defs": {"filter": {"type": "object", "properties": {"year": {"type": "integer"}}}},
        "additionalProperties": False,
    }
    spec = tool_spec(server(), listed(schema=schema))
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "filter": {"type": "object", "properties": {"year": {"type": "integer"}}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert spec.trust is Trust.MCP
    assert spec.description == "Searches."


def test_what_a_tool_does_is_for_the_configuration_to_say() -> None:
    config = server(read_only_tools=["look"], effects={"tidy": "idempotent"})
    effects = {name: tool_spec(config, listed(name)).effect for name in ("look", "tidy", "send")}
    assert effects == {"look": Effect.READS, "tidy": Effect.IDEMPOTENT, "send": Effect.LEAVES_SANDBOX}


def test_a_reference_to_elsewhere_is_never_followed() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "https://evil.example/x"}, "b": {"$ref": "#/nowhere"}}}
    assert clean_schema(schema)["properties"] == {"a": {}, "b": {}}


def test_references_cannot_multiply_without_end() -> None:
    definitions = {
        f"n{level}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/n{level + 1}"} for key in "abcdefgh"}}
        for level in range(9)
    }
    schema = {"type": "object", "properties": {"top": {"$ref": "#/$defs/n0"}}, "$defs": definitions}
    assert len(json.dumps(clean_schema(schema))) < 25_000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("type", "properties", "required", "items", "enum", "anyOf", "$ref", "minLength", "minimum", "allOf")
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(("type", "properties", "required", "items", "$ref", "x")), _JSON), _JSON)
def test_any_schema_can_be_used_to_check_any_arguments(schema: dict[str, Any], value: Any) -> None:
    cleaned = clean_schema(schema)
    assert cleaned["type"] == "object"
    problems_with({"x": value}, cleaned)
    json.dumps(cleaned)
