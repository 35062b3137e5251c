import time
from typing import Any

import pytest

from agent_fabric.domain.tools.json_schema import problems_with
from effort import SOAK

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 5},
        "count": {"type": "integer", "minimum": 1, "maximum": 3},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "mode": {"enum": ["a", "b"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "deep": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "many": {"type": ["string", "integer"]},
        "fixed": {"const": 7},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a"},
        {"path": "a", "count": 2, "tags": ["x"], "mode": "b", "either": None, "deep": {"x": 1.5, "y": 0}, "many": 1},
        {"path": "a", "count": 2.0, "fixed": 7},
    ],
)
def test_what_fits_has_no_problems(value: object) -> None:
    assert problems_with(value, SCHEMA) == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "the arguments must be object, not array"),
        ({}, "path is missing"),
        ({"path": 1}, "path must be string, not integer"),
        ({"path": ""}, "path is too short: at least 1 characters"),
        ({"path": "abcdef"}, "path is too long: at most 5 characters"),
        ({"path": "a", "count": True}, "count must be integer, not boolean"),
        ({"path": "a", "count": 0}, "count must be at least 1"),
        ({"path": "a", "count": 9}, "count must be at most 3"),
        ({"path": "a", "tags": []}, "tags needs at least 1 items"),
        ({"path": "a", "tags": ["x", 1]}, "tags[1] must be string, not integer"),
        ({"path": "a", "tags": ["x", "y", "z"]}, "tags may have at most 2 items"),
        ({"path": "a", "mode": "c"}, "mode must be one of a, b"),
        ({"path": "a", "either": 1}, "either fits none of the allowed forms"),
        ({"path": "a", "deep": {}}, "deep.x is missing"),
        ({"path": "a", "many": None}, "many must be string or integer, not null"),
        ({"path": "a", "fixed": 8}, "fixed must be 7"),
    ],
)
def test_what_does_not_fit_is_said_in_plain_words(value: object, problem: str) -> None:
    assert problems_with(value, SCHEMA) == [problem]


def test_an_unknown_argument_names_the_known_ones() -> None:
    (problem,) = problems_with({"path": "a", "pth": "b"}, SCHEMA)
    assert problem.startswith("pth is not known (known: path, count,")


def test_at_most_five_problems_are_told() -> None:
    assert len(problems_with([1] * 100, {"type": "array", "items": {"type": "string"}})) == 5


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"properties": 5},
        {"properties": {"a": 5}},
        {"properties": {"a": {"minLength": "z"}}},
        {"properties": {"n": {"minimum": "1"}}},
        {"properties": {"l": {"items": {"enum": 7}}}},
        {"required": 5},
        {"enum": 5},
        {"anyOf": 5},
    ],
)
def test_a_schema_that_makes_no_sense_fits_nothing_and_raises_nothing(schema: dict[str, Any]) -> None:
    (problem,) = problems_with({"a": "x", "n": 3, "l": [1]}, schema)
    assert "schema is not sound" in problem


def test_a_problem_is_told_in_few_words_whatever_the_schema_lists() -> None:
    (problem,) = problems_with("x", {"enum": [str(number) for number in range(100_000)]})
    assert len(problem) < 1_100


@pytest.mark.parametrize(
    ("value", "schema", "problem"),
    [
        (5, {"exclusiveMinimum": 5}, "x must be more than 5"),
        (5, {"exclusiveMaximum": 5}, "x must be less than 5"),
        (7, {"multipleOf": 2}, "x must be a multiple of 2"),
        (0.35, {"multipleOf": 0.1}, "x must be a multiple of 0.1"),
        ([1, {"a": 1}, {"a": 1}], {"uniqueItems": True}, "x must not hold the same item twice"),
        ({}, {"minProperties": 1}, "x needs at least 1 fields"),
        ({"a": 1, "b": 2}, {"maxProperties": 1}, "x may have at most 1 fields"),
        (5, {"allOf": [{"type": "integer"}, {"maximum": 4}]}, "x must be at most 4"),
        (5, {"not": {"type": "integer"}}, "x has a form that is not allowed"),
        (5, {"oneOf": [{"type": "integer"}, {"minimum": 1}]}, "x fits more than one of the allowed forms"),
        (True, {"const": 1}, "x must be 1"),
        (1, {"enum": [True, "a"]}, "x must be one of True, a"),
    ],
)
def test_every_word_that_is_known_is_checked(value: object, schema: dict[str, Any], problem: str) -> None:
    assert problems_with({"x": value}, {"properties": {"x": schema}}) == [problem]


def test_what_is_not_understood_is_left_to_whoever_wrote_it() -> None:
    overlapping = {"oneOf": [{"type": "string"}, {"type": "string", "pattern": "^v"}], "not": {"pattern": "^x"}}
    assert problems_with({"x": "v1"}, {"properties": {"x": overlapping}}) == []
    assert problems_with({"x": 0.3}, {"properties": {"x": {"multipleOf": 0.1}}}) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"anyOf": [{"type": "string"}, *[{"minimum": -1}] * 20_000]}},
        {"items": {"enum": [*range(100_000)]}},
        {"items": {"allOf": [{"oneOf": [{"const": "x"}] * 200}] * 200}},
        # Like the first one, it takes seconds until all checks are spent.
        *([{"items": {"not": {"anyOf": [{"const": "x"}] * 5_000}}}] if SOAK else []),
    ],
)
def test_no_schema_takes_for_ever(schema: dict[str, Any]) -> None:
    begun = time.process_time()
    assert problems_with(list(range(20_000)), schema)
    assert time.process_time() - begun < 20


def test_a_large_value_is_checked_whole() -> None:
    rows = [{"name": str(number), "n": number} for number in range(20_000)]
    schema = {"items": {"properties": {"name": {"type": "string"}, "n": {"anyOf": [{"type": "null"}, {"minimum": 0}]}}}}
    assert problems_with(rows, schema) == []
    assert problems_with([*rows, {"n": -1}], schema) == ["[20000].n fits none of the allowed forms"]
