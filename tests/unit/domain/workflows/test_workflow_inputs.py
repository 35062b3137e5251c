"""What a workflow is given: every mistake at once, and values of the declared type."""

from typing import Any

import pytest

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.domain.workflows.inputs import accept_inputs, parse_values

DEMO = WorkflowDefinition(
    name="demo",
    version="1.0.0",
    steps=(),
    inputs={
        "topic": Parameter(type="string", required=True, description="What it is about"),
        "count": Parameter(type="integer", default=3, has_default=True),
        "ratio": Parameter(type="number"),
        "deep": Parameter(type="boolean"),
        "tags": Parameter(type="array"),
        "more": Parameter(type="object"),
        "extra": Parameter(),
    },
)


def test_defaults_are_filled_in_and_what_is_optional_stays_out() -> None:
    assert accept_inputs(DEMO, {"topic": "x", "extra": None}) == {"topic": "x", "count": 3, "extra": None}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "topic is missing: What it is about"),
        ({"topic": 1}, "topic must be string, not integer"),
        ({"topic": "x", "count": "3"}, "count must be integer, not string"),
        ({"topic": "x", "conut": 3}, "there is no input 'conut'"),
        ({"count": True}, "count must be integer, not boolean; topic is missing"),
        ({"topic": "x", "count": 2**63}, "count holds too large a number: whole numbers have at most 64 bits"),
        ({"topic": "x", "extra": [{"deep": -(2**63) - 1}]}, "extra holds too large a number"),
        ({"topic": "x", "ratio": float("nan")}, "ratio holds nan, which is no number that can be used"),
        ({"topic": "x", "tags": [1, float("inf")]}, "tags holds inf"),
    ],
)
def test_inputs_that_do_not_fit_are_all_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputs) as caught:
        accept_inputs(DEMO, given)
    assert all(part in caught.value.message for part in told.split("; "))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("topic=a=b c", "a=b c"),
        ("topic=", ""),
        ("topic=5", "5"),
        ("count=5", 5),
        ("count=5.0", 5),
        ("ratio=0.5", 0.5),
        ("ratio=2", 2),
        ("deep=yes", True),
        ("deep=False", False),
        ('tags=["a", 1]', ["a", 1]),
        ('more={"a": {"b": []}}', {"a": {"b": []}}),
        ("extra=5", 5),
        ("extra=null", None),
        ("extra=[broken", "[broken"),
        ("extra=word", "word"),
        ("extra=-x", "-x"),
    ],
)
def test_what_people_type_becomes_the_declared_type(text: str, value: object) -> None:
    parsed = parse_values([text], DEMO.inputs, of="The workflow 'demo'")
    assert parsed == {text.partition("=")[0]: value}
    assert type(parsed.popitem()[1]) is type(value)


@pytest.mark.parametrize(
    ("texts", "told", "hint"),
    [
        (["topic"], "'topic' has no value", "Write topic=value."),
        ([""], "'' has no value", "Write name=value."),
        (["tpic=x"], "there is no input 'tpic'", "Did you mean 'topic'?"),
        (["count=x"], "count must be integer, not the text 'x'", "Write count=3"),
        (["count=1.5"], "count must be integer, not the text '1.5'", "Write count=3"),
        (["ratio=NaN"], "ratio must be number, not the text 'NaN'", "Write ratio=0.5"),
        (["ratio=1e999"], "ratio must be number, not the text '1e999'", "Write ratio=0.5"),
        (["ratio=true"], "ratio must be number, not the text 'true'", "Write ratio=0.5"),
        (["deep=maybe"], "deep must be boolean, not the text 'maybe'", "Write deep=true"),
        (["tags=a,b"], "tags must be array, not the text 'a,b'", """Write tags='["a", "b"]'"""),
        (["more=[1]"], "more must be object, not the text '[1]'", """Write more='{"a": 1}'"""),
        (["topic=a", "topic=b"], "topic is given twice", ""),
        (["nope=1", "count=x"], "there is no input 'nope'; count must be integer", ""),
        (["tags=" + "[" * 100_000], "tags must be array", ""),
    ],
)
def test_what_cannot_be_read_is_told_with_an_example(texts: list[str], told: str, hint: str) -> None:
    with pytest.raises(InvalidInputs) as caught:
        parse_values(texts, DEMO.inputs, of="The workflow 'demo'")
    assert caught.value.message.startswith(told)
    assert hint in caught.value.hint


def test_a_workflow_without_inputs_says_so() -> None:
    with pytest.raises(InvalidInputs) as caught:
        parse_values(["a=1"], {}, of="The workflow 'plain'")
    assert caught.value.hint == "The workflow 'plain' takes no inputs."
