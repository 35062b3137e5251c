"""A schema that somebody relies on: every word in it is checked, or is said to be not."""

from typing import Any

import pytest

from agent_fabric.domain.tools.json_schema import faults_in_schema

SOUND = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": ["object", "null"],
    "required": ["a"],
    "properties": {"a": {"type": "integer", "minimum": 1, "x-unit": "m"}, "b": {"enum": [1, "{{ x }}"]}},
    "additionalProperties": {"items": {"anyOf": [{"type": "string"}, {"not": {"const": 3}}]}, "uniqueItems": True},
}


def test_a_schema_of_known_words_has_no_faults() -> None:
    assert faults_in_schema(SOUND) == []


@pytest.mark.parametrize(
    ("schema", "path", "told"),
    [
        ({"pattern": "^v"}, ("pattern",), "is no word of JSON Schema that is checked here; write a rule"),
        ({"properties": {"a": {"$ref": "#/x"}}}, ("properties", "a", "$ref"), "write the schema out"),
        ({"propertys": {}}, ("propertys",), "is no word of JSON Schema"),
        ({"type": "strng"}, ("type",), "must be one of object, array"),
        ({"type": 5}, ("type",), "not 5"),
        ({"required": "count"}, ("required",), "must be a list of names"),
        ({"required": True}, ("required",), "must be a list of names"),
        ({"enum": 5}, ("enum",), "must be a list"),
        ({"minimum": "5"}, ("minimum",), "must be a number"),
        ({"multipleOf": 0}, ("multipleOf",), "must be a number"),
        ({"minLength": -1}, ("minLength",), "must be a whole number"),
        ({"properties": ["a"]}, ("properties",), "must be a mapping"),
        ({"properties": {"a": "string"}}, ("properties", "a"), "not the text 'string'"),
        ({"items": [{"type": "string"}]}, ("items",), "must be a JSON Schema, such as {type: string}, not a list"),
        ({"anyOf": {"type": "string"}}, ("anyOf",), "must be a list of schemas"),
        ({"anyOf": [{}, True]}, ("anyOf", 1), "not True"),
        ("text", (), "must be a JSON Schema"),
    ],
)
def test_what_would_be_passed_over_or_cannot_be_read_is_named(schema: Any, path: tuple[Any, ...], told: str) -> None:
    [(at, wrong)] = faults_in_schema(schema)
    assert at == path
    assert told in wrong


def test_expressions_may_stand_for_values_that_are_not_known_yet() -> None:
    schema = {"type": "{{ inputs.kind }}", "minimum": "{{ inputs.least }}", "items": "{{ inputs.items }}"}
    assert faults_in_schema(schema, expressions=True) == []
    assert len(faults_in_schema(schema)) == 3


def test_a_schema_that_never_ends_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"items": deep}
    assert [wrong for _, wrong in faults_in_schema(deep)] == ["nests too deep"]
