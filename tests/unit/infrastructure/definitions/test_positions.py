"""Reading YAML and JSON with places: values are those of JSON, places are right, and nothing hostile gets through."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.infrastructure.definitions.positions import parse_with_spots
from effort import examples

# Without digits: this writer follows version 1.1 and leaves out the quotes around 1e3.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Nd"]), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("on: yes", {"on": "yes"}),
        ("1: 22:30", {"1": "22:30"}),
        ("a: 2026-12-24", {"a": "2026-12-24"}),
        ("a: 010", {"a": 10}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: +5", {"a": 5}),
        ("a: .5", {"a": 0.5}),
        ("a: ~\nb:\nc: null", {"a": None, "b": None, "c": None}),
        ("a: 'true'", {"a": "true"}),
        ("a: True", {"a": True}),
        ("a: |\n  5\n", {"a": "5\n"}),
        ("a: 1.0.0", {"a": "1.0.0"}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("&name a: 1", {"a": 1}),
    ],
)
def test_yaml_has_the_values_of_json(text: str, value: object) -> None:
    assert parse_with_spots(text, ".yaml").value == value


@given(VALUES)
@settings(max_examples=examples(200), deadline=None)
def test_what_is_written_as_yaml_is_read_back(value: Any) -> None:
    text = yaml.safe_dump(json.loads(json.dumps(value)), allow_unicode=True)
    try:
        read = parse_with_spots(text, ".yaml").value
    except SyntaxProblem as problem:  # such as characters that YAML does not take
        assert problem.message
        return
    assert json.dumps(read, sort_keys=True) == json.dumps(value, sort_keys=True)


@given(VALUES, st.sampled_from([None, 0, 2]), st.sampled_from([".json", ".yaml"]))
@settings(max_examples=examples(200), deadline=None)
def test_every_value_stands_where_its_place_says(value: Any, indent: int | None, suffix: str) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        parsed = parse_with_spots(text, suffix)
    except SyntaxProblem:
        assert suffix == ".yaml"  # which takes fewer characters, and shorter keys
        return
    lines = text.split("\n")
    spots = parsed.spots()
    ahead: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while ahead:
        path, each = ahead.pop()
        spot = spots.find(path)
        wanted = json.dumps(path[-1] if path and isinstance(path[-1], str) else each, ensure_ascii=False)
        assert lines[spot.line - 1][spot.column - 1 :].startswith(wanted[:1])
        if isinstance(each, dict):
            ahead.extend(((*path, key), item) for key, item in each.items())
        elif isinstance(each, list):
            ahead.extend(((*path, index), item) for index, item in enumerate(each))


@given(st.text(max_size=60) | st.text("{}[]:,-\"'#&*!|>%@` \n\tab1", max_size=60), st.sampled_from([".json", ".yaml"]))
@settings(max_examples=examples(500), deadline=None)
def test_whatever_the_text_only_our_own_error_comes(text: str, suffix: str) -> None:
    try:
        parsed = parse_with_spots(text, suffix)
    except SyntaxProblem as problem:
        assert problem.message
    else:
        assert parsed.spots().find(("steps", 0)).line >= 1


BOMB = "a: &a [x, x]\n" + "".join(
    f"{after}: &{after} [*{before}, *{before}]\n" for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "aliases are not supported"),
        ("a: !!python/object/apply:os.system [ls]", "tags are not supported"),
        ("a: !x 1", "tags are not supported"),
        ("[" * 100_000, "it is nested too deeply"),
        ("- " * 10_000 + "x", "it is nested too deeply"),
        ("a: 1\na: 2", "the key 'a' appears twice"),
        ("a: {b: 1, b: 2}", "the key 'b' appears twice"),
        ("? [a]\n: 1", "a mapping or list cannot be a key"),
        ("a: {{ b }}", "a mapping or list cannot be a key"),
        ("a: .inf", ".inf is not a number that can be used"),
        ("a: \x07", "it contains the character"),
        ("a: 1\n--- \nb: 2", "there is more than one document"),
    ],
)
def test_what_could_hurt_is_refused(text: str, told: str) -> None:
    with pytest.raises(SyntaxProblem, match=told.replace("[", r"\[")):
        parse_with_spots(text, ".yaml")


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 100_000, '{"a": NaN}', '{"a": 1, "a": 2}', "{'a': 1}", ""])
def test_json_that_could_hurt_is_refused(text: str) -> None:
    with pytest.raises(SyntaxProblem):
        parse_with_spots(text, ".json")
