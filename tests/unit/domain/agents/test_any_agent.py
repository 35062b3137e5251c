"""Whatever stands in a file: it is explained, or it is an agent that can be made ready."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.domain.agents.check import AGENT, KnownToAgents, problems_in_agent
from agent_fabric.domain.agents.definition import agent_from
from agent_fabric.domain.errors import InvalidInputs
from effort import examples

WORDS = st.sampled_from(
    [
        *(
            "string",
            "integer",
            "any",
            "worker",
            "file-read",
            "mcp:x",
            "mcp:",
            "pack:",
            "tool:shell",
            "1.0.0",
            "a-b",
            "",
        ),
        *(
            "{{ inputs.a }}",
            "{{ inputs.a | default('x') }}",
            "{{",
            "{% for x in inputs.a %}{{ x }}{% endfor %}",
            "type",
        ),
        *(
            "default",
            "required",
            "enum",
            "system",
            "user",
            "examples",
            "input",
            "output",
            "retries",
            "name",
            "optional",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.floats(allow_nan=False) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KNOWN = [KnownToAgents(), KnownToAgents(packs=frozenset({"p"}), models=frozenset(), servers=frozenset({"x"}))]


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(st.sampled_from([*AGENT.fields]), VALUES), st.sampled_from(KNOWN), st.dictionaries(WORDS, VALUES)
)
def test_any_definition_is_explained_or_works(
    plain: dict[str, Any], known: KnownToAgents, inputs: dict[str, Any]
) -> None:
    sound = {"name": "a", "prompts": {"system": "x"}}
    for each in (plain, {**plain, **sound}, {**sound, **plain}):
        if problems_in_agent(each, known):
            continue
        try:
            brief = brief_for(agent_from(each), inputs)
        except InvalidInputs as problem:
            assert problem.hint
        else:
            assert brief.prompt


@settings(max_examples=examples(100), deadline=None)
@given(VALUES)
def test_anything_else_is_explained(value: Any) -> None:
    assert problems_in_agent(value, KnownToAgents())
