"""What is wrong with an agent's definition is said in plain words, all at once."""

from typing import Any

import pytest

from agent_fabric.domain.agents.check import AGENT, KnownToAgents, agent_schema, problems_in_agent
from agent_fabric.domain.agents.definition import AgentDefinition, AgentRole, Dependency, DependencyKind, agent_from
from agent_fabric.domain.definitions.problems import MAX_PROBLEMS
from agent_fabric.domain.tools.capabilities import CAPABILITIES
from agent_fabric.domain.tools.json_schema import problems_with

KNOWN = KnownToAgents(
    packs=frozenset({"engineering", "research"}),
    models=frozenset({"fast", "quality"}),
    servers=frozenset({"github"}),
    agents=frozenset({"greeter", "reviewer"}),
)
WHOLE: dict[str, Any] = {
    "name": "greeter",
    "version": "1.2.3-beta.1",
    "role": "reviewer",
    "description": "Greets people.",
    "capabilities": ["file-read", "mcp:github"],
    "inputs": {"name": "string", "times": {"type": "integer", "default": 1, "description": "How often."}},
    "outputs": {"greeting": "string", "notes": {"type": "string", "required": False}},
    "dependencies": ["reviewer", "pack:engineering", {"agent": "absent", "optional": True, "purpose": "praise"}],
    "prompts": {
        "system": "You greet {{ inputs.name }}.",
        "user": "Greet {{ inputs.name }} {{ inputs.times }} times.",
        "examples": [{"input": {"name": "Ada"}, "output": {"greeting": "Hello, Ada!"}}],
    },
    "constraints": {"max_tokens": 1000, "timeout": 30, "retries": 2, "parallel_allowed": False},
    "metadata": {"author": "me", "created": "2026-01-01", "updated": "2026-02-01", "tags": ["a"], "team": "ours"},
    "pack": "engineering",
    "model": "fast",
}


def said(change: dict[str, Any], known: KnownToAgents = KNOWN) -> str:
    """Return what is said about a definition that is sound but for a change."""
    return "\n".join(map(str, problems_in_agent({**WHOLE, **change}, known)))


@pytest.mark.proves("A33-020", "A33-021")
def test_a_definition_with_every_field_is_an_agent() -> None:
    assert problems_in_agent(WHOLE, KNOWN) == []
    agent = agent_from(WHOLE)
    assert (agent.name, agent.version, agent.role) == ("greeter", "1.2.3-beta.1", AgentRole.REVIEWER)
    assert agent.dependencies[1:] == (
        Dependency(name="engineering", kind=DependencyKind.PACK),
        Dependency(name="absent", optional=True, purpose="praise"),
    )
    assert agent.outputs["greeting"].required
    assert not agent.outputs["notes"].required
    assert agent.inputs["times"].default == 1
    assert (agent.constraints.retries, agent.constraints.parallel_allowed) == (2, False)


def test_a_name_and_a_prompt_are_enough() -> None:
    plain = {"name": "a", "prompts": {"system": "You help."}}
    assert problems_in_agent(plain, KNOWN) == []
    assert agent_from(plain) == AgentDefinition(name="a", prompts=agent_from(plain).prompts)


@pytest.mark.proves("A33-020", "A33-021", "A33-022")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"promts": {}}, "'promts' is not known here\n    Did you mean 'prompts'?"),
        ({"name": None}, "name is empty"),
        (
            {"name": "My Agent"},
            "not the text 'My Agent'\n    Write 'my-agent'",
        ),
        ({"name": "a" * 65}, "name must be a name of small letters"),
        ({"system": "You help."}, "'system' is not known here\n    It belongs under `prompts`."),
        ({"name": "research"}, "name: 'research' is the name of a pack"),
        (
            {"version": 1.0},
            "version must be a version like 1.0.0, not the number 1.0\n    Write it as text with three parts",
        ),
        ({"version": "v1"}, "version must be a version like 1.0.0, not the text 'v1'\n    Write '1.0.0'"),
        ({"role": "reviewr"}, "not the text 'reviewr'\n    Did you mean 'reviewer'?"),
        ({"role": ["worker"]}, "role must be one of orchestrator, director, worker"),
        ({"capabilities": "file-read"}, "capabilities must be a list of capabilities"),
        ({"capabilities": ["file-reed"]}, "Did you mean 'file-read'? Capabilities: file-read, file-write,"),
        ({"capabilities": ["mcp:gitlab"]}, "capabilities[0]: there is no tool server 'gitlab'"),
        ({"capabilities": [3]}, "capabilities[0] must be a capability, not the number 3"),
        ({"inputs": ["name"]}, "inputs must be a mapping, not a list\n    Write `name: string`"),
        ({"inputs": {"a b": "string"}}, "inputs: the name 'a b' must be an identifier"),
        ({"inputs": {"name": "str"}}, "not the text 'str'\n    Did you mean 'string'?"),
        ({"inputs": {"name": {"type": "string", "default": 3}}}, "inputs.name.default must be string"),
        ({"inputs": {"name": {"type": "integer", "enum": [1, "b"]}}}, "inputs.name.enum[1] must be integer"),
        ({"inputs": {"name": {"typ": "string"}}}, "'inputs.name.typ' is not known here\n    Did you mean 'type'?"),
        ({"outputs": {"greeting": 3}}, "outputs.greeting must be one of string, integer"),
        ({"dependencies": ["absent"]}, "dependencies[0]: there is no agent 'absent'"),
        ({"dependencies": ["tool:shel"]}, "there is no tool 'shel'\n    Did you mean 'shell'?"),
        ({"dependencies": ["greeter"]}, "an agent cannot need itself"),
        ({"dependencies": [{"agent": "reviewer", "pack": "research"}]}, "must name one thing"),
        ({"dependencies": [3]}, "dependencies[0] must be something that can be needed"),
        ({"prompts": {"system": "{{ inputs.nme }}"}}, "prompts.system: there is no input 'nme'"),
        ({"prompts": {"system": "{{ name }}"}}, "Did you mean `inputs.name`?"),
        ({"prompts": {"system": "{{ inputs.name"}}, "prompts.system: "),
        ({"prompts": {"system": ["a"]}}, "prompts.system must be text"),
        ({"prompts": {"system": "x", "examples": [{"input": 1}]}}, "'output' is missing in prompts.examples[0]"),
        ({"prompts": {}, "pack": ""}, "prompts.system: the system prompt is missing"),
        ({"constraints": {"retries": 11}}, "constraints.retries must be a whole number from 0 to 10"),
        ({"constraints": {"timeout": 0}}, "constraints.timeout must be a number of seconds, above 0"),
        ({"constraints": {"max_tokens": True}}, "constraints.max_tokens must be a whole number of at least 1"),
        ({"constraints": {"parallel": True}}, "'constraints.parallel' is not known here"),
        ({"metadata": {"tags": "a"}}, "metadata.tags must be a list of words"),
        ({"pack": "enginering"}, "there is no pack 'enginering'\n    Did you mean 'engineering'?"),
        ({"model": "qality"}, "there is no model 'qality'\n    Did you mean 'quality'?"),
    ],
)
def test_each_mistake_is_named_with_what_to_do_about_it(change: dict[str, Any], message: str) -> None:
    assert message in said(change)


def test_a_prompt_may_be_long() -> None:
    assert said({"prompts": {"system": "x" * 900_000}}) == ""


def test_several_mistakes_are_named_at_once() -> None:
    assert len(problems_in_agent({"name": "A", "role": "x", "capabilities": ["y"]}, KNOWN)) == 4


@pytest.mark.parametrize("plain", [None, [], "text", 3])
def test_what_is_no_mapping_is_no_agent(plain: object) -> None:
    (problem,) = problems_in_agent(plain, KNOWN)
    assert "mapping" in problem.message


def test_what_nobody_knows_is_not_checked() -> None:
    assert (
        said({"pack": "other", "model": "other", "capabilities": ["mcp:x"], "dependencies": ["y"]}, KnownToAgents())
        == ""
    )


def test_the_schema_for_editors_takes_what_the_check_takes() -> None:
    schema = agent_schema()
    assert set(schema["properties"]) == set(AGENT.fields)
    assert problems_with(WHOLE, schema) == []
    assert problems_with({**WHOLE, "promts": {}}, schema)
    names = [each["const"] for each in schema["properties"]["capabilities"]["anyOf"][0]["items"]["anyOf"][0]["oneOf"]]
    assert names == list(CAPABILITIES)


@pytest.mark.parametrize(
    ("change", "rest"),
    [
        ({f"k{nth}": 1 for nth in range(80)}, "and 30 more"),
        ({"capabilities": ["nothing"] * 1_050}, "and 1000 more"),
        ({"inputs": {f"k{nth}": "wrong" for nth in range(100_000)}}, "and 99953 more"),
        ({"inputs": {"a": {f"k{nth}": 1 for nth in range(100_000)}}}, "and 99953 more"),
    ],
)
def test_of_very_many_problems_the_first_are_named_and_the_others_counted(change: dict[str, Any], rest: str) -> None:
    found = problems_in_agent({**WHOLE, **change}, KNOWN)
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1].message == rest
