"""What expressions mean."""

from collections import ChainMap
from types import MappingProxyType
from typing import Any

import pytest

from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import evaluate, render, resolve
from agent_fabric.domain.definitions.expressions.operators import truth

SCOPE: dict[str, Any] = {
    "inputs": {"name": "Ada", "n": 5, "tags": ["b", "a"], "on": True, "nothing": None, "odd-key": 1, "path": "a b"},
    "fetch": {"status": 200, "body": '{"ok": true}', "rows": [{"id": 2, "who": "x"}, {"id": 1, "who": "y"}]},
}

VALUES: list[tuple[str, Any]] = [
    ("1 + 2 * 3", 7),
    ("(1 + 2) * 3", 9),
    ("7 // 2 ~ '|' ~ 7 % 2", "3|1"),
    ("7 / 2", 3.5),
    ("-2 ** 2", -4),
    ("2 ** -1", 0.5),
    ("2 ** 3 ** 2", 512),
    ("-5 | abs", 5),
    ("1_000 + 0.5e1", 1005.0),
    ("1 < 2 < 3", True),
    ("1 < 3 < 2", False),
    ("'a' in 'cat' and 'q' not in 'cat'", True),
    ("2 in [1, 2]", True),
    ("'n' in inputs", True),
    ("[1, 2] in [[1, 2]]", True),
    ("not false or none", True),
    ("none or 'x'", "x"),
    ("0 and missing", 0),
    ("True == true and None == null and False == false", True),
    ("'yes' if inputs.n > 3 else 'no'", "yes"),
    ("'yes' if inputs.n > 9", None),
    ("'a' if false else 'b' if false else 'c'", "c"),
    ("[1, 'two', {'k': [3]}]", [1, "two", {"k": [3]}]),
    ("{'a': 1, 'b': {}}", {"a": 1, "b": {}}),
    ("'it\\'s\\n\\u00e9'", "it's\né"),
    (r"'C:\dir'", r"C:\dir"),
    ('"}}"', "}}"),
    ("inputs.tags[0] ~ inputs.tags[-1] ~ inputs.tags.1", "baa"),
    ("inputs['odd-key']", 1),
    ("inputs.name[1:]", "da"),
    ("inputs.tags[::-1]", ["a", "b"]),
    ("[1, 2, 3, 4][1:3]", [2, 3]),
    ("'-' * 3", "---"),
    ("[0] * 2 + [1]", [0, 0, 1]),
    ("'x' + 'y'", "xy"),
    ("'n=' ~ 1 + 1", "n=2"),
    ("inputs.nothing is none and inputs.n is number and inputs.name is string", True),
    ("inputs is mapping and inputs.tags is sequence and inputs.on is boolean", True),
    ("4 is even and 3 is odd and 3 is not even", True),
    ("'' is empty and [] is empty and 0 is not empty", True),
    ("inputs.n is gt 3 and inputs.n is in [5]", True),
    ("not nowhere is defined", True),
    ("nowhere.at.all is defined", False),
    ("inputs.name is defined and inputs.nme is not defined", True),
    ("nowhere.at.all | default('x')", "x"),
    ("nowhere.at.all | upper | d('x') | upper", "X"),
    ("inputs.nothing | default(7)", 7),
    ("'' | default('x')", ""),
    ("'' | default('x', true)", "x"),
    ("(nowhere + 1) | default(0)", 0),
    ("[] | first | default('none at all')", "none at all"),
    ("secrets.TOKEN", "${secret:TOKEN}"),
    ("'Bearer ' ~ secrets['api-key']", "Bearer ${secret:api-key}"),
    ("inputs.tags | length + 1", 3),
    ("inputs.tags | sort | join(', ')", "a, b"),
    ("'A b' | upper ~ 'A b' | lower", "A Ba b"),
    ("'  x ' | trim ~ '|' ~ '--x-' | strip('-')", "x|x"),
    ("'a.b.a' | replace('a', 'c')", "c.b.c"),
    ("'a,b' | split(',')", ["a", "b"]),
    ("' a  b ' | split", ["a", "b"]),
    ("'a\r\nb\n' | lines", ["a", "b"]),
    ("'' | lines", []),
    ("[3, 1, 2] | sort", [1, 2, 3]),
    ("[3, 1, 2] | sort(reverse=true)", [3, 2, 1]),
    ("fetch.rows | sort(attribute='id') | map(attribute='who') | join", "yx"),
    ("[1, 1, true, '1', [1], [1]] | unique", [1, True, "1", [1]]),
    ("fetch.rows | unique(attribute='id') | length", 2),
    ("'abc' | reverse ~ [1, 2] | reverse | first", "cba2"),
    ("2.5 | round ~ '|' ~ 2.345 | round(2)", "2|2.35"),
    ("'12' | int + '1.5' | float", 13.5),
    ("'x' | int(0)", 0),
    ("'x' | float(default=none)", None),
    ("3.9 | int", 3),
    ("5 | string ~ true ~ none ~ [1, none]", "5true[1, null]"),
    ("'no' | bool or 'Yes' | bool", True),
    ("{'a': [1]} | json", '{"a": [1]}'),
    ("{'a': 1} | tojson(indent=2)", '{\n  "a": 1\n}'),
    ("(fetch.body | from_json).ok", True),
    ("{'a': 1} | keys ~ {'a': 1} | values ~ {'a': 1} | items", '["a"][1][["a", 1]]'),
    ("['a', 'b'] | map('upper') | list", ["A", "B"]),
    ("['a-b'] | map('replace', '-', '+') | first", "a+b"),
    ("fetch.rows | map(attribute='none', default='?') | join", "??"),
    ("fetch.rows | map(attribute='none', default=none)", [None, None]),
    ("[0, 1, '', 'x'] | select", [1, "x"]),
    ("[0, 1, 2] | reject('odd')", [0, 2]),
    ("[0, 1, 2] | select('>', 0)", [1, 2]),
    ("fetch.rows | selectattr('id', '==', 1) | map(attribute='who') | first", "y"),
    ("fetch.rows | rejectattr('id', 'gt', 1) | length", 1),
    ("fetch.rows | selectattr('nope', 'defined') | length", 0),
    ("fetch.rows | selectattr('nope') | length", 0),
    ("fetch.rows | sum(attribute='id')", 3),
    ("[1, 2.5] | sum", 3.5),
    ("[3, 1] | min ~ ['a', 'b'] | max", "1b"),
    ("inputs.path | quote", "'a b'"),
    ("'ada lovelace' | title ~ '|' ~ 'aDA' | capitalize", "Ada Lovelace|Ada"),
    ("'abcdefgh' | truncate(6)", "abc..."),
    ("'abcdefgh' | truncate(6, '…')", "abcde…"),
    ("'abc' | truncate(6)", "abc"),
    ("'a\nb' | indent(2)", "a\n  b"),
    ("'a\nb' | indent(2, true)", "  a\n  b"),
    ("'abcd' | slice(1, 3) ~ [1, 2, 3] | slice(none, 1)", "bc[1]"),
    ("'src/main.py' | matches('*.py') and not 'a' | matches('b*')", True),
    ("'abcabd' | matches('*ab?')", True),
    ("'é' | length", 1),
]


@pytest.mark.proves("A33-051")
@pytest.mark.parametrize(("text", "value"), VALUES)
def test_an_expression_has_its_value_bare_and_in_braces(text: str, value: Any) -> None:
    found = evaluate(text, SCOPE)
    assert found == value
    assert type(found) is type(value)
    assert resolve(f"{{{{ {text} }}}}", SCOPE) == value


@pytest.mark.proves("A33-051")
def test_a_text_that_is_one_expression_keeps_the_type_of_its_value() -> None:
    given = {
        "list": "{{ inputs.tags }}",
        "n": "{{inputs.n}}",
        "block": "{{ inputs.on }}\n",
        "deep": [{"x": "{{ none }}"}],
    }
    assert resolve(given, SCOPE) == {"list": ["b", "a"], "n": 5, "block": True, "deep": [{"x": None}]}


def test_text_around_an_expression_makes_a_text_of_it() -> None:
    assert resolve("{{ inputs.n }}{{ inputs.n }}", SCOPE) == "55"
    assert resolve("tags: {{ inputs.tags }}, on: {{ inputs.on }}", SCOPE) == 'tags: ["b", "a"], on: true'
    assert resolve("[{{ inputs.nothing }}]", SCOPE) == "[]"
    assert resolve("{{ {'a': {'b': 1.0}} }}!", SCOPE) == '{"a": {"b": 1.0}}!'


def test_what_is_no_expression_stays_the_same() -> None:
    plain = {"a": [1, 2.5, None, True, "text", "${#list[@]} { } %}"], "${x}": {}}
    assert resolve(plain, {}) == plain
    assert resolve("echo ${#a} {{ inputs.n }}", SCOPE) == "echo ${#a} 5"
    assert resolve("{% raw %}{{ .Names }}{% endraw %}", SCOPE) == "{{ .Names }}"


def test_keys_of_mappings_are_filled_in_as_text() -> None:
    assert resolve({"x-{{ inputs.n }}": 1}, SCOPE) == {"x-5": 1}


def test_any_mapping_can_be_looked_into() -> None:
    scope = ChainMap({}, {"a": MappingProxyType({"b": (1, 2)})})
    assert evaluate("a.b[1] ~ a | keys | first", scope) == "2b"
    assert evaluate("a is mapping and 'b' in a", scope) is True


@pytest.mark.parametrize(
    ("text", "message", "missing"),
    [
        ("fetch.bdoy", "'fetch' has no field 'bdoy' (it has: status, body, rows)", ("fetch", "bdoy")),
        ("other.body", "there is no 'other' here: it has not run", ("other",)),
        ("item.x", "there is no 'item' here: it exists only inside a for-each", ("item",)),
        ("fetch.rows[7].id", "'fetch.rows' has no item 7: it has 2 items", ("fetch", "rows", "7")),
        ("fetch.rows.9", "'fetch.rows' has no item 9: it has 2 items", ("fetch", "rows", "9")),
        ("fetch.status.code", "'fetch.status' is a number, so it has no field 'code'", ("fetch", "status", "code")),
        ("inputs.nothing.x", "'inputs.nothing' is none, so it has no field 'x'", ("inputs", "nothing", "x")),
        ("fetch.rows.id", "'fetch.rows' is a list, so it has no field 'id'; write [0] for", ("fetch", "rows", "id")),
        ("(fetch.body | from_json).no", "the value has no field 'no' (it has: ok)", ("no",)),
        ("fetch.rows | map(attribute='x')", "an item has no field 'x' (it has: id, who)", ("x",)),
    ],
)
def test_a_missing_field_is_named_with_what_is_there(text: str, message: str, missing: tuple[str, ...]) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, SCOPE)
    assert caught.value.message.startswith(message)
    assert caught.value.missing == missing
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 + 'a'", "'+' does not work with a number and text"),
        ("true + 1", "'+' does not work with a boolean and a number"),
        ("'%s' % 1", "'%' does not work with text and a number"),
        ("1 / 0", "'/' by zero"),
        ("1 % 0.0", "'%' by zero"),
        ("0 ** -1", "'**' gives no number"),
        ("(-8) ** 0.5", "'**' gives no number"),
        ("1e308 * 10", "'*' gives no number"),
        ("1 < 'a'", "'<' does not work with a number and text"),
        ("[1] < [2]", "'<' does not work with a list and a list"),
        ("-'a'", "'-' needs a number"),
        ("1 in 2", "'in' needs a list"),
        ("1 in 'a'", "'in' looks for text"),
        ("{1: 2}", "the keys of a mapping are text"),
        ("[1][0.5]", "an index is a whole number"),
        ("[1][::0]", "the ends of [a:b]"),
        ("5[1:]", "only lists and texts have parts"),
        ("'x' | int", "'int': 'x' is not a whole number"),
        ("'nan' | float", "'float': 'nan' is not a number"),
        ("'maybe' | bool", "'bool': 'maybe' is neither"),
        ("'{' | from_json", "'from_json': not JSON"),
        ("'[NaN]' | from_json", "'from_json': not JSON"),
        ("'99999999999999999999' | from_json", "'from_json': the number is too large"),
        ("'\"\\\\ud800\"' | from_json", "'from_json': not JSON: it holds half"),
        ("5 | length", "'length': a number has no length"),
        ("'abc' | map('upper')", "'map': needs a list, not text"),
        ("[1] | map('first')", "'map': 'first': needs a list"),
        ("['a', 1] | sort", "'sort': text and a number have no order"),
        ("[{}, {}] | sort", "'sort': a mapping has no order"),
        ("['a'] | sum", "'sum': adds numbers"),
        ("[] | max", "there is no largest item"),
        ("none | upper", "'upper': works on text, not on none"),
        ("'a' | replace('', 'b')", "'replace': there must be something"),
        ("'a' | split('')", "'split': the separator"),
        ("'x' is even", "only whole numbers"),
        ("[1] | select('nope')", "'select': there is no test 'nope'"),
        ("[1] | select('>')", "'select': the test '>' needs 1"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, SCOPE)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("name", ["__class__", "__dict__", "__init__", "format", "keys", "_private"])
def test_attributes_of_python_are_just_missing_keys(name: str) -> None:
    for subject in ("inputs", "inputs.name", "inputs.tags", "inputs.n", "secrets.X"):
        assert evaluate(f"{subject}.{name} is defined", SCOPE) is False
        assert evaluate(f"{subject}['{name}'] | default(1)", SCOPE) == 1


def test_a_secret_is_its_place_whatever_the_surroundings_hold() -> None:
    scope = {"secrets": {"TOKEN": "plain"}, "inputs": {"name": "TOKEN"}}
    assert resolve("{{ secrets.TOKEN }}", scope) == "${secret:TOKEN}"
    assert render("a {{ secrets.TOKEN }} {% for x in [1] %}{{ secrets.TOKEN }}{% endfor %}", scope).count("plain") == 0
    for text in ("secrets", "secrets | json", "secrets[inputs.name]", "secrets['a}b']", "secrets | keys"):
        with pytest.raises(ExpressionError, match="a secret is named where it is used"):
            evaluate(text, scope)


def test_a_condition_that_is_only_partly_in_braces_is_refused() -> None:
    with pytest.raises(ExpressionError, match="text outside the braces"):
        evaluate("{{ inputs.n }} > 3", SCOPE)
    assert evaluate("  {{ inputs.n > 3 }}\n", SCOPE) is True


def test_false_none_zero_and_everything_empty_are_false() -> None:
    empty: list[Any] = [False, None, 0, 0.0, "", [], {}]
    assert not any(truth(value) for value in empty)
    assert all(truth(value) for value in (True, 1, "false", [0], {"a": None}))
