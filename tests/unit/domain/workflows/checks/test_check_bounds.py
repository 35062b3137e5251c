"""However large or strange a definition is, its check ends soon and says something of use."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.workflows.checks.check import problems_in
from agent_fabric.domain.workflows.checks.shape import STEP, WORKFLOW
from agent_fabric.domain.workflows.definition import BuiltIn, definition_from
from effort import examples

MANY = 10_000
GENEROUS_S = 20.0
"""Of the processor; it takes about one."""

SHAPES: dict[str, Callable[[int], dict[str, Any]]] = {
    "a chain": lambda nth: {"inputs": {"n": f"{{{{ s{nth - 1}.n }}}}"}, "depends_on": [f"s{nth - 1}"]},
    "a fan": lambda _: {"inputs": {"n": "{{ s0.n }}"}, "depends_on": ["s0"]},
    "a ring": lambda nth: {"inputs": {"n": 1}, "depends_on": [f"s{(nth + 1) % MANY}"]},
    "unknown steps": lambda nth: {"inputs": {"n": f"{{{{ t{nth}.n }}}}"}},
    "unknown dependencies": lambda nth: {"inputs": {"n": 1}, "depends_on": [f"t{nth}"]},
    "unknown actions": lambda _: {"action": "transfrom", "inputs": {"n": 1}},
    "no dependencies": lambda nth: {"inputs": {"n": f"{{{{ s{nth - 1}.n }}}}"}},
}


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "count"), [*zip(SHAPES, (0, 0, 1, 51, 51, 51, 51), strict=True)])
def test_ten_thousand_steps_are_checked_in_bounded_time(shape: str, count: int) -> None:
    first = {"id": "s0", "action": "transform", "inputs": {"n": 1}, "depends_on": ["s1"] if shape == "a ring" else []}
    steps = [first, *({"id": f"s{nth}", "action": "transform", **SHAPES[shape](nth)} for nth in range(1, MANY))]
    start = time.process_time()
    found = problems_in({"name": "big", "steps": steps})
    assert time.process_time() - start < GENEROUS_S
    assert len(found) == count


def test_more_steps_than_that_are_refused() -> None:
    steps = [{"id": f"s{nth}", "action": "transform", "inputs": {"n": 1}} for nth in range(MANY + 1)]
    (problem,) = problems_in({"name": "big", "steps": steps})
    assert problem.message == "there are 10001 steps; a workflow may have 10000"


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"x": [[]] * 1_000_000}},
        {"steps": [{}] * 700_000},
        {"steps": [{"id": "a", "action": "run-command", "command": "{{ x " * 150_000}]},
        {"steps": [{"id": "a", "action": "run-command", "command": "{{ run.id }} " * 70_000}]},
        {"steps": [{"id": "a" * 1_000_000, "action": "b" * 1_000_000}]},
        {"steps": [{"id": "a", "action": "transform", "inputs": {"n": "{{ " + "(" * 900_000}}]},
        {"triggers": {"schedule": "1," * 40_000 + "1 * * * *"}},
    ],
    ids=["values", "steps", "braces", "expressions", "words", "brackets", "cron"],
)
def test_a_heap_of_anything_is_checked_in_bounded_time(more: dict[str, Any]) -> None:
    start = time.process_time()
    problems_in({"name": "demo", "steps": []} | more)
    assert time.process_time() - start < GENEROUS_S


def test_fifty_problems_are_named_and_the_others_counted() -> None:
    found = problems_in({"name": "demo", "steps": [{"id": "a", "action": "wait", "inputs": {"seconds": 1}}]} | _odd(80))
    assert len(found) == 51
    assert str(found[-1]) == "and 30 more\n    Correct these first."


def _odd(count: int) -> dict[str, int]:
    return {f"key{nth}": nth for nth in range(count)}


def test_a_long_cycle_is_shortened() -> None:
    steps = [
        {"id": f"s{nth}", "action": "transform", "inputs": {"n": 1}, "depends_on": [f"s{(nth + 1) % 100}"]}
        for nth in range(100)
    ]
    (problem,) = problems_in({"name": "demo", "steps": steps})
    assert problem.message == (
        "it waits for itself: s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> s6 -> s7 -> s8 -> s9 -> (89 more) -> s99 -> s0"
    )


def test_deep_nesting_is_a_problem_and_no_crash() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    (problem,) = problems_in({"name": "demo", "steps": [], "metadata": deep})
    assert problem.message == "it is nested deeper than 64 levels"
    while isinstance(deep, list):  # taking it down in one piece would overflow the stack of some versions of Python
        deep = deep.pop()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1: 2}, "the key 'int' must be text"),
        ({"a": b"x"}, "a is a bytes, which a definition cannot hold"),
        ({"a": float("inf")}, "a must be a finite number"),
        ({"a": "\ud800"}, "a contains half a character (a surrogate)"),
        ({"\ud800": 1}, "a key of the definition contains half a character (a surrogate)"),
        ({"a": {1, 2}}, "a is a set, which a definition cannot hold"),
    ],
)
def test_what_is_no_plain_data_is_refused(value: object, told: str) -> None:
    assert [problem.message for problem in problems_in(value)] == [told]


KEYS = st.sampled_from(
    [*WORKFLOW.fields, *STEP.fields, "items", "seconds", "rules", "data", "type", "value", "on", "x"]
)
WORDS = st.sampled_from(
    ["a", "b", "c", "{{ a.n }}", "{{ b", "inputs.x", "{{ item }}", "string", "sequential", "* * * * *", "", *BuiltIn]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6),
    max_leaves=30,
)
STEPS = st.recursive(
    st.fixed_dictionaries(
        {"id": WORDS, "action": WORDS},
        optional={"depends_on": st.lists(WORDS, max_size=3), "inputs": VALUES, "condition": VALUES, "command": VALUES},
    ),
    lambda inner: st.fixed_dictionaries(
        {"id": WORDS, "action": WORDS},
        optional={"steps": st.lists(inner, max_size=3), "then": st.lists(inner, max_size=3), "outputs": VALUES},
    ),
    max_leaves=8,
)


@given(
    VALUES
    | st.fixed_dictionaries(
        {"name": WORDS, "steps": st.lists(STEPS | VALUES, max_size=5)},
        optional={
            "inputs": VALUES,
            "outputs": VALUES,
            "execution": VALUES,
            "triggers": VALUES,
        },
    )
)
@settings(max_examples=examples(150), deadline=None)
def test_nothing_is_so_strange_that_the_check_fails(plain: Any) -> None:
    found = problems_in(plain)
    assert all(problem.message for problem in found)
    if not found:
        definition_from(plain)


BROKEN = [
    *(
        "{% if inputs.x %} a",
        "{% endif %}",
        "{% for a inputs.x %}{% endfor %}",
        "{% fi %}",
        "a %} {% if",
        "{% raw %} a",
    ),
    *(
        "{% if inputs.x %}{% for i in [1] %}{% endif %}{% endfor %}",
        "{% else %}",
        "{% if inputs.x %}a{% elif %}b{% endif %}",
    ),
    *("{% set a = 1 %}", "{%%}", "{% for x in %}a{% endfor %}", "{% if inputs.x %}a{% endif x %}", "{% include 'x' %}"),
]


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize(
    "step",
    [
        lambda text: {"action": "run-command", "command": f"echo {text}"},
        lambda text: {"action": "transform", "inputs": {"a": text}},
        lambda text: {"action": "transform", "inputs": {"a": [{"b": text}]}},
        lambda text: {"action": "transform", "inputs": {"a": 1}, "outputs": {"o": text}},
    ],
)
def test_a_template_whose_blocks_are_broken_is_refused(step: Callable[[str], dict[str, Any]], text: str) -> None:
    plain = {"name": "w", "inputs": {"x": {"type": "string", "required": True}}, "steps": [{"id": "one", **step(text)}]}
    found = [problem for problem in problems_in(plain) if "the expression cannot be read" in problem.message]
    assert len(found) == 1
    sound = {**plain, "steps": [{"id": "one", **step("{% if inputs.x %}a{% else %}b{% endif %}")}]}
    assert problems_in(sound) == []
