"""Whatever somebody writes, nothing but a value or an ExpressionError comes out; and laws that hold for all values."""

import time
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_fabric.domain.definitions.expressions import limits
from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import evaluate, render, resolve
from agent_fabric.domain.definitions.expressions.references import check_syntax, references
from effort import examples

BIG = "x" * 1_000_000
DEEP: list[Any] = []
for _ in range(20_000):
    DEEP = [DEEP]
SCOPE: dict[str, Any] = {
    "big": BIG,
    "many": list(range(100_000)),
    "deep": DEEP,
    "a": {"b": {"c": 1}},
    "text": "a,b c\nd",
    "xs": [3, 1, 2],
    "rows": [{"id": 1, "who": "x"}, {"id": 2}],
    "huge": 10**5000,
    "nan": float("nan"),
}
MAX_SECONDS = 5

ATOMS = st.sampled_from(
    [
        "1", "0", "-1", "2.5", "'a'", "''", '"b"', "none", "true", "big", "many", "xs", "rows", "text", "a.b.c", "a.b",
        "nowhere", "deep", "huge", "nan", "xs[0]", "[]", "{}", "[1,'x']", "{'k':xs}", "secrets.A", "rows[0].who",
        "xs[-1:]", "a[text]", "loop", "99999999999", "1e300", "f'x'", "a()", "'{{'", "'%}'",
    ]
)  # fmt: skip
OPERATORS = st.sampled_from(
    [*"+-*/%~<>|.,:=()[]{}", "//", "**", "==", "!=", "<=", ">=", "and", "or", "in", "is", "not in"]
)
FILTERS = st.sampled_from(
    [
        "default(1)", "length", "join(text)", "join(',', attribute='id')", "upper", "title", "trim",
        "replace('a', big)", "replace(1, 2)", "split", "split(',')", "lines", "first", "last", "sort",
        "sort(attribute='id')", "unique", "reverse", "round(2)", "abs", "int", "int(xs)", "float", "string",
        "bool", "json", "json(indent=8)", "from_json", "keys", "values", "items", "map('upper')", "map('map', 'first')",
        "map(attribute='id')",
        "map(xs)", "select", "select('odd')", "select(xs)", "select('in', xs)", "reject('>', 1)", "selectattr('id')",
        "selectattr(1, 2)", "sum", "sum(start='x')", "min", "max", "list", "slice(0, 9)", "slice(big, none)", "quote",
        "truncate(5, big)", "indent(200)", "matches('*x*')", "matches(1)", "trim(5)",
    ]
)  # fmt: skip
TESTS = st.sampled_from(["is defined", "is not defined", "is even", "is string", "is in xs", "is gt 1", "is none"])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} {} {}".format, inner, OPERATORS, inner),
        st.builds("({}) | {}".format, inner, FILTERS),
        st.builds("{} | {} | {}".format, inner, FILTERS, FILTERS),
        st.builds("({}) {}".format, inner, TESTS),
        st.builds("{} if {} else {}".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}.k".format, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("not -({})".format, inner),
    )


GUARDED = st.recursive(
    st.sampled_from(["1", "false", "a", "a.b", "b.c", "here.x", "here.x.y.z", "here.q", "xs[4]"]),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("({} is defined)".format, inner),
        st.builds("({} is not defined)".format, inner),
        st.builds("({} | default({}))".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
    ),
    max_leaves=10,
)
EXPRESSIONS = st.recursive(ATOMS, combined, max_leaves=12)
PIECES = st.one_of(
    EXPRESSIONS.map("{{{{ {} }}}}".format),
    st.builds("{{% for x in {} %}}{{{{ {} }}}}{{% endfor %}}".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("{{% if {} %}}{{{{ {} }}}}{{% else %}}y{{% endif %}}".format, EXPRESSIONS, EXPRESSIONS),
    st.sampled_from(["{{", "}}", "{%", "%}", "{#", "#}", "{% raw %}", "{% endraw %}", "-", "text\n", "{% endif %}"]),
    st.text(max_size=20),
)


def only_expression_errors(use: Callable[[], Any]) -> Any:
    try:
        return use()
    except ExpressionError as error:
        assert error.message
        return error


@settings(max_examples=examples(300), deadline=None)
@given(EXPRESSIONS)
def test_whatever_is_written_gives_a_value_or_an_expression_error(text: str) -> None:
    started = time.process_time()
    result = only_expression_errors(lambda: evaluate(text, SCOPE))
    assert time.process_time() - started < MAX_SECONDS
    if isinstance(result, str) and "big" not in text:
        assert len(result) <= limits.MAX_CHARS
    if type(result) is int and "huge" not in text:
        assert abs(result) <= limits.MAX_INTEGER
    again = only_expression_errors(lambda: evaluate(text, SCOPE))
    assert type(again) is type(result)


@settings(max_examples=examples(200), deadline=None)
@given(GUARDED)
def test_only_a_name_that_is_used_without_a_guard_can_be_missing(text: str) -> None:
    """So a definition that refers only to what is surely there cannot fail for want of it."""
    scope = {"here": {"x": {"y": 1}}, "xs": [1]}
    needed = {each.path for each in references(text, bare=True) if not each.guarded}
    try:
        evaluate(text, scope)
    except ExpressionError as error:
        if error.missing is not None and error.missing[0] not in scope:
            assert error.missing[0] in {path[0] for path in needed}


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(PIECES, max_size=6).map("".join))
@example("{{ 1 }}{#")
@example("{% raw %}{% endraw -%} {#-#}")
def test_whatever_a_template_holds_gives_a_text_or_an_expression_error(template: str) -> None:
    result = only_expression_errors(lambda: render(template, SCOPE))
    if isinstance(result, str):
        assert len(result) <= max(limits.MAX_CHARS, len(template))
    assert isinstance(references(template), tuple)
    assert isinstance(check_syntax({"k": [template]}), list)
    only_expression_errors(lambda: resolve({"k": [template]}, SCOPE))


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet=st.sampled_from("ab1'\"\\.|(){}[]%#-+*/~<>=!&, \n:isdefnortx_é"), max_size=60))
def test_noise_never_breaks_the_reader(text: str) -> None:
    for use in (evaluate, render, resolve):
        only_expression_errors(lambda use=use: use(text, SCOPE))  # type: ignore[misc]
    assert isinstance(check_syntax(text, bare=True), list)
    assert isinstance(references(text, bare=True), tuple)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_values_pass_through_unchanged_and_survive_json(value: Any) -> None:
    scope = {"v": value}
    assert resolve({"x": "{{ v }}"}, scope) == {"x": value}
    assert evaluate("v | json | from_json == v", scope) is True
    assert evaluate("v in [v] and v == v", scope) is True


@given(st.dictionaries(st.text(max_size=8), st.integers(), max_size=5), st.text(max_size=8))
def test_a_key_is_found_if_and_only_if_it_is_there(mapping: dict[str, int], key: str) -> None:
    scope = {"m": mapping, "k": key}
    assert evaluate("m[k] is defined", scope) is (key in mapping)
    assert evaluate("m[k] | default('no')", scope) == mapping.get(key, "no")


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=10))
def test_matches_agrees_with_a_simple_matcher(pattern: str, text: str) -> None:
    def fits(p: str, t: str) -> bool:
        if not p:
            return not t
        if p[0] == "*":
            return fits(p[1:], t) or (bool(t) and fits(p, t[1:]))
        return bool(t) and p[0] in ("?", t[0]) and fits(p[1:], t[1:])

    assert evaluate("t | matches(p)", {"t": text, "p": pattern}) is fits(pattern, text)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 9))
def test_arithmetic_agrees_with_python(a: int, b: int, c: int) -> None:
    for text in ("a + b * c", "(a - b) // c", "a % c - -b", "a < b <= c", "a == b or not b > c", "-a ** 2 + c"):
        assert evaluate(text, {"a": a, "b": b, "c": c}) == eval(text, {"a": a, "b": b, "c": c})
