"""The examples of the reference page are true."""

import json
import re
from pathlib import Path

import pytest

from agent_fabric.domain.definitions.expressions import limits
from agent_fabric.domain.definitions.expressions.evaluation import evaluate, render, resolve
from agent_fabric.domain.definitions.expressions.filters import FILTERS
from agent_fabric.domain.definitions.expressions.value_tests import CHECKS

PAGE = (Path(__file__).parents[5] / "docs/reference/expressions.md").read_text(encoding="utf-8")
SCOPE = json.loads(PAGE.split("```json\n")[1].split("```")[0])
EXAMPLES = [line.split("→") for line in PAGE.splitlines() if "→" in line]


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_every_example_gives_what_the_page_says(text: str, value: str) -> None:
    assert evaluate(text.strip(), SCOPE) == json.loads(value)
    assert resolve("{{ " + text.strip() + " }}", SCOPE) == json.loads(value)


def test_the_template_becomes_what_the_page_says() -> None:
    template = PAGE.split("```jinja\n")[1].split("```")[0]
    text = PAGE.split("```text\n")[1].split("```")[0]
    assert render(template, SCOPE) == text


def test_every_filter_and_every_test_is_on_the_page() -> None:
    words = set(re.findall(r"\w+", PAGE))
    assert [name for name in FILTERS if name not in words] == []
    assert [name for name in CHECKS if name.isidentifier() and name not in words | {"null", "equalto"}] == []


def test_the_limits_are_those_of_the_page() -> None:
    numbers = {int(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", PAGE.split("## Limits")[1])}
    assert numbers == {
        limits.MAX_EXPRESSION_CHARS,
        limits.MAX_DEPTH,
        limits.MAX_TEMPLATE_CHARS,
        limits.MAX_TEMPLATE_TOKENS,
        limits.MAX_OPERATIONS,
        limits.MAX_VALUE_DEPTH,
        64,
        limits.MAX_CHARS,
        limits.MAX_RESULT_CHARS,
    }
