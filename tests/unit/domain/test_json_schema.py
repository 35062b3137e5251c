import pytest

from agent_fabric.domain.json_schema import problems_with

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
