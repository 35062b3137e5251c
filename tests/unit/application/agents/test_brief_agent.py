"""An agent is made ready: inputs checked, prompts filled in."""

from typing import Any

import pytest

from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.domain.agents.definition import AgentDefinition, agent_from
from agent_fabric.domain.errors import InvalidInputs

GREETER: dict[str, Any] = {
    "name": "greeter",
    "version": "2.0.0",
    "capabilities": ["file-read"],
    "inputs": {
        "name": {"type": "string", "required": True, "description": "Whom to greet."},
        "times": {"type": "integer", "default": 1},
        "tone": {"type": "string", "enum": ["kind", "dry"]},
    },
    "outputs": {"greeting": "string", "notes": {"type": "array", "required": False}},
    "prompts": {
        "system": "You are {{ agent.name }}. Tone: {{ inputs.tone | default('kind') }}.",
        "user": "{% for n in [1, 2] %}Greet {{ inputs.name }}. {% endfor %}",
        "examples": [{"input": {"name": "Ada"}, "output": "Hello, Ada!"}],
    },
    "constraints": {"max_tokens": 500, "timeout": 9, "retries": 1, "parallel_allowed": False},
    "model": "fast",
}


def agent(**changes: Any) -> AgentDefinition:
    return agent_from({**GREETER, **changes})


@pytest.mark.proves("A33-020")
def test_a_brief_holds_all_that_a_run_needs() -> None:
    brief = brief_for(agent(), {"name": "Ada"})
    assert brief.system_prompt.startswith("You are greeter. Tone: kind.\n\nExamples of good work:")
    assert 'Input:\n{"name": "Ada"}\nOutput:\nHello, Ada!' in brief.system_prompt
    assert brief.prompt == "Greet Ada. Greet Ada."
    assert brief.finish == {
        "type": "object",
        "properties": {"greeting": {"type": "string"}, "notes": {"type": "array"}},
        "required": ["greeting"],
    }
    assert (brief.max_tokens, brief.timeout_s, brief.retries, brief.parallel_allowed) == (500, 9.0, 1, False)
    assert (brief.name, brief.version, brief.capabilities, brief.model_key) == (
        "greeter",
        "2.0.0",
        ("file-read",),
        "fast",
    )


def test_without_outputs_a_summary_is_asked_for_unless_a_pack_says_what() -> None:
    assert brief_for(agent(outputs={}), {"name": "Ada"}).finish["required"] == ["summary"]
    assert brief_for(agent(outputs={}, pack="engineering"), {"name": "Ada"}).finish == {}


def test_without_a_user_prompt_the_model_is_given_the_inputs() -> None:
    brief = brief_for(agent(prompts={"system": "x"}), {"name": "Ada", "times": 3})
    assert brief.prompt == "name: Ada\ntimes: 3"
    assert brief_for(agent(prompts={"system": "x"}, inputs={}), {}).prompt == "Begin."


def test_everything_that_is_wrong_with_inputs_is_said_at_once() -> None:
    with pytest.raises(InvalidInputs) as caught:
        brief_for(agent(), {"nme": "Ada", "times": "three", "tone": "loud"})
    message = caught.value.message
    assert "there is no input 'nme'" in message
    assert "name is missing: Whom to greet." in message
    assert "times must be integer, not string" in message
    assert "tone must be one of kind, dry" in message
    assert "'name'" in caught.value.hint


def test_an_optional_input_that_a_prompt_needs_is_named() -> None:
    with pytest.raises(InvalidInputs, match="its prompt needs tone, which is missing"):
        brief_for(agent(prompts={"system": "{{ inputs.tone }}"}), {"name": "Ada"})


def test_inputs_are_values_and_never_templates() -> None:
    brief = brief_for(agent(), {"name": "{{ agent.version }}{% for x in y %}"})
    assert brief.prompt.startswith("Greet {{ agent.version }}{% for x in y %}.")


def test_prompts_that_would_be_too_long_are_refused() -> None:
    with pytest.raises(InvalidInputs, match="longer than 1,000,000 characters"):
        brief_for(agent(), {"name": "x" * 600_000})


STATE = {"draft": {"text": "Dear {{ inputs.name }}"}, "workflow": {"name": "letters", "inputs": {"to": "Ada"}}}
LETTER = {"system": "Improve {{ steps.draft.text }}", "user": "{{ draft.text }} for {{ workflow.inputs.to }}"}


@pytest.mark.proves("A33-024")
def test_prompts_see_the_state_of_the_workflow_as_data() -> None:
    brief = brief_for(agent(prompts=LETTER), {"name": "Grace"}, STATE)
    assert brief.prompt == "Dear {{ inputs.name }} for Ada"
    assert brief.system_prompt == "Improve Dear {{ inputs.name }}"


def test_a_prompt_that_needs_a_workflow_says_so_without_one() -> None:
    with pytest.raises(InvalidInputs, match=r"the agent 'greeter' cannot be filled in: .*steps"):
        brief_for(agent(prompts=LETTER), {"name": "Grace"})
