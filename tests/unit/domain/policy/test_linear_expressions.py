"""Expressions that cannot hang: the same answers as `re` within the subset, and a refusal beyond it."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.policy.linear_expressions import UnknownExpression, linear_expression
from effort import examples

PATTERNS = (
    *("a+b", "^ab", "ab$", "(?:ab|c){2,3}d?", "[^a-c]x", r"\d+\.\d", "a{0,2}b", "(a*)*b", "^$", "x|", "", "[]a]"),
    *(r"[\w-]+", r"\S\s\S", "a.c", "(a|b)*c", "a{2}", "a{1,}", "[a-]", r"[\]\\]"),
)


@settings(deadline=None, max_examples=examples(1_000))
@given(st.sampled_from(PATTERNS), st.text(alphabet="abcdx1.- \\]\n", max_size=12))
def test_it_fits_what_re_fits(pattern: str, text: str) -> None:
    known, ours = re.compile(pattern.replace("$", r"\Z"), re.DOTALL), linear_expression(pattern)
    assert ours.search(text) is bool(known.search(text))
    assert ours.fullmatch(text) is bool(known.fullmatch(text))


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=a)b",
        r"(a)\1",
        "a*?",
        "a++",
        r"\bword",
        "(?i)a",
        "[[:alpha:]]",
        "a{99}",
        "a{3,1}",
        "(",
        ")",
        "[a",
        "*",
        "\\",
    ],
)
def test_what_lies_outside_is_refused_and_not_ignored(pattern: str) -> None:
    with pytest.raises(UnknownExpression):
        linear_expression(pattern)


def test_an_expression_that_would_make_others_hang_takes_milliseconds() -> None:
    expression = linear_expression("(a*)*(a|a)*(a+)+b")
    before = time.process_time()
    assert not expression.search("a" * 2_000)
    assert time.process_time() - before < 2
    with pytest.raises(UnknownExpression):
        linear_expression("(((a{64}){64}){64}){64}")
