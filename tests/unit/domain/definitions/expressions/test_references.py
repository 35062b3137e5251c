"""What expressions refer to, and what is wrong with them, before anything is run."""

from typing import Any

import pytest

from agent_fabric.domain.definitions.expressions.references import Reference, check_syntax, references


def needed(text: Any, *, bare: bool = True) -> list[str]:
    return [".".join(each.path) for each in references(text, bare=bare) if not each.guarded]


def guarded(text: Any, *, bare: bool = True) -> list[str]:
    return [".".join(each.path) for each in references(text, bare=bare) if each.guarded]


def test_every_path_is_found_once_in_the_order_of_use() -> None:
    value = {"a": "{{ fetch.body }} {{ inputs.n + fetch.status }}", "{{ key.x }}": ["{{ fetch.body }}", 5, None]}
    assert references(value) == (
        Reference(("fetch", "body"), guarded=False),
        Reference(("inputs", "n"), guarded=False),
        Reference(("fetch", "status"), guarded=False),
        Reference(("key", "x"), guarded=False),
    )


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a.b[0]['c'].d", ["a.b.0.c.d"]),
        ("a[inputs.k].b", ["a", "inputs.k"]),
        ("a[b.c:d]", ["a", "b.c", "d"]),
        ("[a.b, {'k': c.d}]", ["a.b", "c.d"]),
        ("a.b | join(c.d) | replace('x', e)", ["a.b", "c.d", "e"]),
        ("a.b | map(attribute='c', default=d.e)", ["a.b", "d.e"]),
        ("x.y if c.d else z.w", ["c.d", "x.y", "z.w"]),
        ("not a.b and -c.d ** e.f < g.h ~ i.j", ["a.b", "c.d", "e.f", "g.h", "i.j"]),
        ("secrets.TOKEN", ["secrets.TOKEN"]),
        ("(a.b | from_json).c", ["a.b"]),
        ("a.b is in c.d", ["a.b", "c.d"]),
        ("1 + 2", []),
    ],
)
def test_paths_are_found_wherever_they_stand(text: str, paths: list[str]) -> None:
    assert needed(text) == paths
    assert guarded(text) == []
    assert needed(f"{{{{ {text} }}}}", bare=False) == paths


@pytest.mark.parametrize(
    ("text", "needs", "may"),
    [
        ("a.b | default('x')", [], ["a.b"]),
        ("a.b | default(c.d)", ["c.d"], ["a.b"]),
        ("a.b | replace(e, f) | default(c.d) | upper", ["c.d"], ["a.b", "e", "f"]),
        ("a.b | default(c.d) | default(1)", [], ["a.b", "c.d"]),
        ("a.b is defined", [], ["a.b"]),
        ("a.b is not defined or a.b > 1", [], ["a.b"]),
        ("a is defined and a.b > 1 and c.d", ["c.d"], ["a", "a.b"]),
        ("a.x is defined and a.y", [], ["a.x", "a.y"]),
        ("inputs.x is defined and inputs.y", ["inputs.y"], ["inputs.x"]),
        ("a.b if a is defined else c.d", ["c.d"], ["a", "a.b"]),
        ("c.d if a is not defined else a.b", ["c.d"], ["a", "a.b"]),
        ("a.b if not (a is undefined) else a.c", ["a.c"], ["a", "a.b"]),
        ("a.b | default(false) and a.b.c", [], ["a.b", "a.b.c"]),
        ("a.b | default(true) and a.b.c", ["a.b.c"], ["a.b"]),
        ("a is defined or a.b", ["a.b"], ["a"]),
        ("a.b and a is defined", ["a.b"], ["a"]),
        ("(a.b | default(1)) + a.b", ["a.b"], []),
    ],
)
def test_what_need_not_be_there_is_guarded(text: str, needs: list[str], may: list[str]) -> None:
    assert needed(text) == needs
    assert guarded(text) == may


def test_names_of_loops_are_no_references_and_blocks_guard_what_they_test() -> None:
    template = """
    {% for x, y in rows.all %}{{ x.a }}{{ loop.index }}{{ other.b }}{% else %}{{ x.c }}{% endfor %}
    {% if a is defined %}{{ a.b }}{% elif c is not defined %}{{ c.x }}{% else %}{{ c.y }}{% endif %}{{ a.z }}
    """
    assert needed(template, bare=False) == ["rows.all", "other.b", "x.c", "c.x", "a.z"]
    assert guarded(template, bare=False) == ["a", "a.b", "c", "c.y"]


def test_texts_that_cannot_be_read_refer_to_nothing() -> None:
    assert references("{{ a. }}") == ()
    assert references("no braces: a.b") == ()
    assert references(True, bare=True) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ a.b }", "column 8: '{{' is closed with a single '}'. Write '}}'."),
        ("{{ a.b", "column 1: '{{' is never closed. Write }} behind it."),
        ("x\n{{ a b }}", "line 2, column 6: 'b' is not expected here: an operator such as ==, and, | or ~ is missing"),
        ("{{ a = 1 }}", "column 6: '=' is not known here: write == to compare"),
        ("{{ (a = 1) }}", "column 7: '=' is not known here: write == to compare"),
        ("{{ a === 1 }}", "column 6: '===' is not known here: write =="),
        ("{{ a && b }}", "column 6: '&&' is not known here: write and"),
        ("{{ a || b }}", "column 6: '||' is not known here: write or"),
        ("{{ !a }}", "column 4: '!' is not known here: write not"),
        ("{{ a ? 1 : 2 }}", "column 6: '?' is not known here: write A if CONDITION else B"),
        ("{{ $a }}", "column 4: '$' is not known here: write names without $"),
        ("{{ `a` }}", "column 4: '`' is not known here: write texts in 'single'"),
        ("{{ a | uper }}", "column 8: there is no filter 'uper'; did you mean 'upper'?"),
        ("{{ a | join(1, 2, 3) }}", "column 8: the filter 'join' takes join(separator?, attribute?)"),
        ("{{ a | replace('x') }}", "column 8: the filter 'replace' needs replace(old, new)"),
        ("{{ a | join(sep=1) }}", "column 8: the filter 'join' knows no 'sep' (it knows: separator, attribute)"),
        ("{{ a | map('uper') }}", "column 8: there is no filter 'uper'; did you mean 'upper'?"),
        ("{{ a | upper(1) }}", "column 8: the filter 'upper' takes nothing in brackets"),
        ("{{ a | default(other=1, 2) }}", "column 25: values with names come last"),
        ("{{ a is defind }}", "column 9: there is no test 'defind'; did you mean 'defined'?"),
        ("{{ a is 3 }}", "column 9: there is no test '3'"),
        ("{{ f'{a}' }}", "column 5: there is no text of the kind f'…'. Join values with ~"),
        ("{{ a.upper() }}", "column 6: 'upper' cannot be called: there are no methods. Use a filter: VALUE | upper."),
        ("{{ a.b.startswith('x') }}", "column 8: 'startswith' cannot be called. Write VALUE | matches('TEXT*')."),
        ("{{ len(a) }}", "column 4: 'len' cannot be called: there are no functions. Use a filter: VALUE | length."),
        ("{{ range(3) }}", "column 4: there is no 'range'"),
        ("{{ (a)(b) }}", "column 7: nothing can be called here"),
        ("{{ [x for x in a] }}", "column 7: 'for' is not expected here"),
        ("{{ 'a }}", "column 4: the text that begins here is never closed. Write ' behind it."),
        ("{{ (a, b) }}", "column 6: ',' is not expected here. Write a list as [a, b]."),
        ("{{ (a }}", "column 7: '(' is still open when '}' comes"),
        ("{{ [a }}", "column 7: '[' is still open when '}' comes"),
        ("{{ }}", "column 4: a value is expected here, but the expression ends"),
        ("{{ a + }}", "column 8: a value is expected here, but the expression ends"),
        ("{{ a. }}", "column 7: the name of a field is expected behind the dot"),
        ("{{ a.'b' }}", "column 6: the name of a field is expected behind the dot. Write keys that are no names as"),
        ("{{.Names}}", "column 3: a field of what?"),
        ("{{ {{ a }} }}", "column 9: "),
        ("{{ {'a'} }}", "column 8: ':' is expected behind a key"),
        ("{{ a[] }}", "column 5: write [index], ['key'] or [start:stop]"),
        ("{{ a[1:2:3:4] }}", "column 5: write [index], ['key'] or [start:stop]"),
        ("{{ 99999999999999999999 }}", "column 4: the number is too large"),
        ("{{ 1e999 }}", "column 4: the number is too large"),
        ("{{ '\\ud800' }}", "column 4: there is no character \\ud800"),
        ("{{ secrets }}", "column 4: a secret is named where it is used. Write secrets.NAME."),
        ("{{ and }}", "column 4: a value is expected here, not 'and'"),
        ("{{ a; b }}", "column 5: ';' is not known here"),
        ("{{ a ¤ b }}", "column 6: '¤' means nothing here"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_to_write(text: str, problem: str) -> None:
    (found,) = check_syntax(text)
    assert found.startswith(problem)


def test_problems_in_lists_and_mappings_say_where() -> None:
    value = {"headers": {"auth": "{{ a | b }}"}, "rows": [1, "{{ fine }}", "{{ a. }}"], "{{ k": 1}
    found = check_syntax(value)
    assert [each.split(": ")[0] for each in found] == ["headers.auth", "rows[2]", "column 1"]


def test_bare_expressions_are_checked_without_braces_or_with() -> None:
    assert check_syntax(["a > 1", "{{ a > 1 }}", True, 3], bare=True) == []
    assert check_syntax("a >", bare=True) == ["column 4: a value is expected here, but the expression ends"]
    assert check_syntax("", bare=True) == ["column 1: a value is expected here, but the expression ends"]
    assert check_syntax("{{ a }} > 1", bare=True)[0].startswith("column 1: there is text outside the braces")
