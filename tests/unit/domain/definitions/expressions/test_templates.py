"""What templates make of texts."""

from typing import Any

import pytest

from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import render

SCOPE: dict[str, Any] = {"xs": ["a", "b", "c"], "m": {"k": 1, "l": 2}, "n": 3, "empty": []}


@pytest.mark.proves("A33-024")
@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("{ } {a} 100%", "{ } {a} 100%"),
        ("Hello {{ n }}!", "Hello 3!"),
        ("{{ n }}", "3"),
        ("{% if n > 2 %}big{% elif n > 1 %}mid{% else %}small{% endif %}", "big"),
        ("{% if n > 5 %}big{% elif n > 1 %}mid{% else %}small{% endif %}", "mid"),
        ("{% if n > 5 %}big{% elif n > 4 %}mid{% else %}small{% endif %}", "small"),
        ("{% if empty %}x{% endif %}", ""),
        ("{% for x in xs %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "a, b, c"),
        ("{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }} {% endfor %}", "10true 21false 32false "),
        ("{% for k, v in m | items %}{{ k }}={{ v }};{% endfor %}", "k=1;l=2;"),
        ("{% for k in m %}{{ k }}{% endfor %}", "kl"),
        ("{% for x in empty %}x{% else %}nothing{% endfor %}", "nothing"),
        (
            "{% for x in xs %}{% for y in m %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}{{ loop.index }}|{% endfor %}",
            "ak1 al2 1|bk1 bl2 2|ck1 cl2 3|",
        ),
        ("{% for x in xs %}{% endfor %}{{ x is defined }}", "false"),
        ("a {# not this {{ nor this }} #}b", "a b"),
        ("a {#- -#} b", "ab"),
        ("a\n{%- if true %}\n b\n{%- endif -%}\n c", "a\n bc"),
        ("a {{- n -}} b", "a3b"),
        ("{% raw %}{{ n }}{% if %}{% endraw %}{{ n }}", "{{ n }}{% if %}3"),
        ("a {%- raw -%} {{ x }} {%- endraw -%} b", "a{{ x }}b"),
        ("{{ '{{' }} {{ '}}' }} {{ '%}' }}", "{{ }} %}"),
        ("{% if '%}' == '%}' %}y{% endif %}", "y"),
        ("${#xs} {{ n }}", "${#xs} 3"),
        ("{{ {'a': {'b': {}}}}}", '{"a": {"b": {}}}'),
    ],
)
def test_a_template_is_filled_in(template: str, text: str) -> None:
    assert render(template, SCOPE) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a\n{% if n %}b", "line 2, column 1: {% if %} is never closed"),
        ("{% for x in xs %}{% endif %}", "column 18: {% endif %} does not fit here: {% for %} is still open"),
        ("{% endfor %}", "column 1: {% endfor %} does not fit here: nothing is open"),
        ("{% else %}", "column 1: {% else %} belongs to no {% if %}"),
        ("{% if n %}{% else %}{% else %}{% endif %}", "column 21: {% else %} belongs to no {% if %}"),
        ("{% for x in xs %}{% elif n %}{% endfor %}", "column 18: {% elif %} does not fit here"),
        ("{% set x = 1 %}", "column 1: there is no block 'set'"),
        ("{% fro x in xs %}", "column 1: there is no block 'fro'; did you mean 'for'?"),
        ("{% for x of xs %}{% endfor %}", "column 10: 'in' is expected here"),
        ("{% for x in xs if x %}{% endfor %}", "column 13: a loop has no 'if'"),
        ("{% for secrets in xs %}{% endfor %}", "column 16: 'secrets' has a meaning of its own"),
        ("{% if %}{% endif %}", "column 7: a value is expected here, but the expression ends"),
        ("{# open", "column 1: '{#' is never closed"),
        ("{% raw %} open", "column 1: {% raw %} is never closed"),
        ("{{ n", "column 1: '{{' is never closed"),
        ("{{ n %}", "column 7: '{{' is closed with a single '}'"),
        ("{% if n }}{% endif %}", "column 9: '}' closes nothing"),
        ("{% for x in n %}{% endfor %}", "needs a list, not a number"),
        ("{% for x in 'text' %}{% endfor %}", "needs a list, not text"),
        ("{% for a, b in xs %}{% endfor %}", "each item must be a list of 2 for a, b, not text"),
    ],
)
def test_a_template_that_cannot_be_filled_in_says_where_and_why(template: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        render(template, SCOPE)
    assert caught.value.message.startswith(message)
