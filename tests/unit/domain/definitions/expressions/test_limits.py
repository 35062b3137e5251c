"""Nothing that an expression can say costs much."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from agent_fabric.domain.definitions.expressions import limits
from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import evaluate, render, resolve

BIG = "x" * 1_000_000
DEEP: list[Any] = []
for _ in range(20_000):
    DEEP = [DEEP]
DEEP2: list[Any] = []
for _ in range(20_000):
    DEEP2 = [DEEP2]
NESTED: list[Any] = list(range(50_000))
for _ in range(80):
    NESTED = [NESTED]
SCOPE: dict[str, Any] = {
    "big": BIG,
    "many": list(range(100_000)),
    "words": ["word" * 5] * 50_000,
    "deep": DEEP,
    "nested": NESTED,
    "deep2": DEEP2,
    "a": {"b": {"c": 1}},
    "text": "a,b c\nd",
    "xs": [3, 1, 2],
    "rows": [{"id": 1, "who": "x"}, {"id": 2}],
    "huge": 10**5000,
    "nan": float("nan"),
}
MAX_SECONDS = 10
"""Far more than any takes on an idle machine; what would hang takes far longer."""
MAX_MEMORY = 200_000_000


def doubled(times: int) -> str:
    """Return a template that makes lists of lists, each holding the one before twice: small, but endless as text."""
    opening = "".join(f"{{% for v{n + 1} in [[v{n}, v{n}]] %}}" for n in range(times))
    return "{% for v0 in [['x', 'x']] %}" + opening + f"{{{{ v{times} }}}}" + "{% endfor %}" * (times + 1)


BOMBS: list[tuple[Callable[[Any, Any], Any], Any, str]] = [
    (evaluate, "'a' * 50000000", "4,000,000 characters"),
    (evaluate, "'a' * 9000000000000000000", "4,000,000 characters"),
    (evaluate, "[0] * 50000000", "operations"),
    (evaluate, "9 ** 9 ** 9", "too large"),
    (evaluate, "9.5 ** 9999", "the exponent"),
    (evaluate, "2 ** 63", "too large"),
    (evaluate, "9223372036854775807 + 1", "too large"),
    (evaluate, "9223372036854775807 * 9223372036854775807", "too large"),
    (evaluate, "huge * huge", "too large"),
    (evaluate, "huge ~ ''", "too large"),
    (evaluate, "huge + 0.5", "no number"),
    (evaluate, "[huge] | json", "cannot be written as JSON"),
    (evaluate, "big ~ big ~ big ~ big ~ big", "4,000,000 characters"),
    (evaluate, "big | replace('x', 'yyyyyyyyyy')", "4,000,000 characters"),
    (evaluate, "big | replace('x', big)", "4,000,000 characters"),
    (evaluate, "many | join(big)", "4,000,000 characters"),
    (evaluate, "many | map('string') | map('replace', '1', big) | join", "operations"),
    (evaluate, "big | list", "operations"),
    (evaluate, "big | split('x')", "operations"),
    (evaluate, "big | replace('x', 'x ') | split", "operations"),
    (evaluate, "big | replace('x', '\n') | indent(200)", "operations"),
    (evaluate, "big | replace('x', '[') | from_json", "operations"),
    (evaluate, "('[' * 90000) | from_json", "not JSON"),
    (evaluate, "('[' * 90 ~ ']' * 90) | from_json", "nests deeper than 64"),
    (evaluate, "big | matches('*x*x*x*x*x*x*y')", "operations"),
    (evaluate, "([words] * 400) | map('sort')", "operations"),
    (evaluate, "[" + ",".join(["big"] * 30) + "]", "16,000,000 characters"),
    (evaluate, "deep", "deeper than 100 levels"),
    (evaluate, "deep | json", "deeper than 100 levels"),
    (evaluate, "deep2 == deep", "deeper than 100 levels"),
    (evaluate, "[deep2] in [deep]", "deeper than 100 levels"),
    (evaluate, "many | map('string') | json(indent=8) | json(indent=9)", "'indent' is a number"),
    (evaluate, "nested | json(indent=8)", "4,000,000 characters"),
    (evaluate, "big | trim(big)", "the characters to leave out"),
    (evaluate, "[a] | map(attribute=big)", "'attribute' is the name"),
    (evaluate, "[a] | map(big)", "there is no filter"),
    (evaluate, "[a] | select(big)", "there is no test"),
    (evaluate, "many in [many] * 1000", "operations"),
    (evaluate, "(" * 500 + "1" + ")" * 500, "deeper than 32 levels"),
    (evaluate, "[" * 5000, "deeper than 32 levels"),
    (evaluate, "-" * 5000 + "1", "deeper than 32 levels"),
    (evaluate, "not " * 2000 + "1", "deeper than 32 levels"),
    (evaluate, "2 ** " * 1000 + "2", "deeper than 32 levels"),
    (evaluate, "1 if 1 else " * 700 + "1", "deeper than 32 levels"),
    (evaluate, "1 is eq " * 1000 + "1", ""),
    (evaluate, "a" * 20_000, "10,000 characters"),
    (evaluate, "'" + "a" * 20_000 + "'", "10,000 characters"),
    (render, "{{ 1 }}" * 50_000, "20,000 tokens"),
    (render, "x" * 1_000_001 + "{{ 1 }}", "1,000,000 characters"),
    (render, "{% if 1 %}" * 100, "blocks nest deeper than 32"),
    (render, "{% for a in many %}{% for b in many %}{{ a * b }}{% endfor %}{% endfor %}", "operations"),
    (render, "{% for a in many %}{% for b in many %}{% endfor %}{% endfor %}", "operations"),
    (render, "{% for a in xs %}{{ big }}{% for b in xs %}{{ big }}{% endfor %}{% endfor %}", "4,000,000 characters"),
    (render, "{% for a in many %}{% if big | upper %}{% endif %}{% endfor %}", "operations"),
    (render, "{% for a in many %}{% if 'y' in big %}{% endif %}{% endfor %}", "operations"),
    (render, "{% for a in many %}{% if big < big ~ a %}{% endif %}{% endfor %}", "operations"),
    (render, "{% for a in many %}{% if a in many %}{% endif %}{% endfor %}", "operations"),
    (render, doubled(30), "characters"),
    (resolve, ["{{ big }}"] * 5_000, "operations"),
    (resolve, [["{{ many }}"]] * 5_000, "operations"),
    (resolve, DEEP, "deeper than 100 levels"),
]


@pytest.mark.parametrize(("use", "text", "limit"), BOMBS, ids=[f"{n}" for n in range(len(BOMBS))])
def test_what_would_need_too_much_is_refused_at_little_cost(
    use: Callable[[Any, Any], Any], text: Any, limit: str
) -> None:
    if use is evaluate:  # following memory makes loops ten times slower; what templates make is made by expressions
        tracemalloc.start()
    started = time.process_time()
    try:
        if limit:
            with pytest.raises(ExpressionError) as caught:
                use(text, SCOPE)
            assert limit in caught.value.message
        else:
            use(text, SCOPE)
        spent = time.process_time() - started
        peak = tracemalloc.get_traced_memory()[1]  # 0 if nobody followed
    finally:
        tracemalloc.stop()
    assert spent < MAX_SECONDS
    assert peak < MAX_MEMORY


def test_what_people_do_with_large_values_is_allowed() -> None:
    assert evaluate("many | length", SCOPE) == 100_000
    assert resolve("{{ many }}", SCOPE) is SCOPE["many"]
    assert evaluate("many | map('string') | join(',')", SCOPE).endswith("99999")
    assert len(evaluate("words | sort | unique", SCOPE)) == 1
    assert evaluate("big | upper | length", SCOPE) == 1_000_000
    assert len(render("{% for n in many[:10000] %}{{ n }}: {{ n * 2 }}\n{% endfor %}", SCOPE).splitlines()) == 10_000
    assert evaluate(" + ".join(["1"] * 2_000), {}) == 2_000
    assert evaluate("'x'" + " | upper" * 500, {}) == "X"


def test_reading_and_evaluating_needs_little_stack() -> None:
    """Each level uses as many parts of the grammar as it can."""
    level = "1 if not 1 == 1 ~ 1 + 1 * -("
    depth = (limits.MAX_DEPTH - 1) // 3
    text = level * depth + "1" + ")" * depth

    def below(frames: int) -> Any:
        return evaluate(text, {}) if not frames else below(frames - 1)

    assert below(400) == 1
