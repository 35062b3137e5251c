"""What is right is not complained about: references that are surely there, or whose absence is provided for."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it brings no types

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.workflows.checks.check import AgentShape, KnownNames, problems_in
from agent_fabric.domain.workflows.checks.shape import workflow_schema
from agent_fabric.domain.workflows.definition import definition_from


def plain(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "action": "transform", "inputs": {"n": 1}, **more}


def reading(name: str, expression: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "action": "transform", "inputs": {"n": expression}, **more}


def branches(*then: Any, otherwise: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "fork", "action": "conditional", "condition": "1 > 0", "then": list(then), "else": otherwise, **more}


def group(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"id": "group", "action": "parallel-group", "steps": list(steps), **more}


def each(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"id": "each", "action": "for-each", "inputs": {"items": [1, 2]}, "steps": list(steps), **more}


OPTIONAL = {"inputs": {"topic": "string"}}
SEQUENTIAL = {"execution": {"mode": "sequential"}}

SOUND: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "everything empty that may be": (
        [plain("a", agent=None, condition=None, depends_on=None, retry=None, timeout=None, outputs=None)],
        {"triggers": None, "inputs": None, "outputs": None, "execution": None, "metadata": None},
    ),
    "over another step": (
        [plain("a"), plain("b", depends_on=["a"]), reading("c", "{{ a.n }}", depends_on=["b"])],
        {},
    ),
    "earlier in the sequence": ([plain("a"), reading("b", "{{ a.n }}")], SEQUENTIAL),
    "in the order of a branch": ([branches(plain("a"), reading("b", "{{ a.n }}"))], {}),
    "from inside to before": ([plain("a"), group(reading("b", "{{ a.n }}"), depends_on=["a"])], {}),
    "between steps of a group": ([group(plain("a"), reading("b", "{{ a.n }}", depends_on=["a"]))], {}),
    "from outside into a group": ([group(plain("a")), reading("b", "{{ a.n }}", depends_on=["group"])], {}),
    "a group as a whole": ([group(plain("a")), reading("b", "{{ group.a.n }}", depends_on=["group"])], {}),
    "the branch taken": ([branches(plain("a")), reading("b", "{{ fork.branch }}", depends_on=["fork"])], {}),
    "into a branch, with a default": (
        [branches(plain("a")), reading("b", "{{ a.n | default(0) }}", depends_on=["fork"])],
        {},
    ),
    "into a branch, tested": (
        [branches(plain("a")), reading("b", "{{ a.n if a is defined else 0 }}", depends_on=["fork"])],
        {},
    ),
    "into a branch, tested by the condition": (
        [branches(plain("a")), reading("b", "{{ a.n }}", condition="a is defined", depends_on=["fork"])],
        {},
    ),
    "a step with the same condition": (
        [plain("a", condition="run.id == 'x'"), reading("b", "{{ a.n }}", condition="run.id == 'x'", depends_on=["a"])],
        {},
    ),
    "a step whose condition always holds": (
        [plain("a", condition=True), reading("b", "{{ a.n }}", depends_on=["a"])],
        {},
    ),
    "a step of an earlier group, with a default": (
        [plain("a"), plain("c"), reading("b", "{{ a.n | default(0) }}", depends_on=["c"])],
        {"execution": {"mode": "parallel"}},
    ),
    "an earlier step that may have failed, with a default": (
        [plain("a"), reading("b", "{{ a.n | default(0) }}")],
        {"execution": {"mode": "sequential", "continue_on_error": True}},
    ),
    "the item and its neighbours": ([each(plain("a"), reading("b", "{{ item }} {{ index }} {{ a.n }}"))], {}),
    "items within items": (
        [each({**each(reading("b", "{{ item }}")), "id": "inner", "inputs": {"items": "{{ item }}"}})],
        {},
    ),
    "the results of all items": (
        [each(plain("a")), reading("b", "{{ each.results[0].a.n }}", depends_on=["each"])],
        {},
    ),
    "the result, in outputs": (
        [{"id": "a", "action": "run-command", "command": "ls", "outputs": {"n": "{{ result.stdout }}"}}],
        {},
    ),
    "an output that a step adds": (
        [plain("a", outputs={"more": "{{ result.n }}"}), reading("b", "{{ a.more }}", depends_on=["a"])],
        {},
    ),
    "what an unknown agent gives": (
        [{"id": "a", "action": "invoke-agent", "agent": "any"}, reading("b", "{{ a.whatever }}", depends_on=["a"])],
        {},
    ),
    "what a package's action gives": (
        [{"id": "a", "action": "send-mail", "inputs": {"to": 1}}, reading("b", "{{ a.x }}", depends_on=["a"])],
        {},
    ),
    "an optional input with a default": ([reading("a", "{{ inputs.topic | default('x') }}")], OPTIONAL),
    "an optional input, tested": ([reading("a", "{{ inputs.topic }}", condition="inputs.topic is defined")], OPTIONAL),
    "secrets and names": (
        [reading("a", "{{ secrets.KEY }} {{ run.id }} {{ workflow.name }} {{ workflow.version }}")],
        {},
    ),
    "rules over the step's own inputs": (
        [{"id": "a", "action": "validate", "inputs": {"data": 1, "most": 3, "rules": ["data < most"]}}],
        {},
    ),
    "a command with spaces in its expression": (
        [{"id": "a", "action": "run-command", "command": "echo {{ run.id | default('|') }} 'a | b'"}],
        {},
    ),
    "a workflow that calls itself and can end": (
        [{"id": "a", "action": "workflow", "workflow": "demo", "condition": "run.id == 'x'"}],
        {},
    ),
    "every option": (
        [
            {
                "id": "a",
                "action": "run-command",
                "description": "Lists.",
                "command": ["ls", "-l"],
                "inputs": {"env": {"A": 1}, "cwd": "src"},
                "retry": {
                    "max_attempts": 3,
                    "delay_seconds": 0.5,
                    "backoff": 2,
                    "max_delay_seconds": 10,
                    "on": ["CommandFailed"],
                },
                "timeout": 1.5,
                "idempotent": True,
            }
        ],
        {
            "version": "1.2.3-rc.1+build.5",
            "description": "Everything.",
            "triggers": {"manual": True, "on_change": ["src/**"], "schedule": "@daily", "on_event": "x"},
            "inputs": {"a": {"type": "integer", "required": True, "enum": [1, 2], "default": 1, "description": "A."}},
            "outputs": {
                "b": {"type": "string", "description": "B.", "value": "{{ a.stdout }}"},
                "c": "{{ a.exit_code }}",
            },
            "execution": {
                "mode": "parallel",
                "parallel_limit": 32,
                "continue_on_error": False,
                "fail_fast": True,
                "timeout": 60,
                "dry_run": False,
            },
            "metadata": {"any": [1, {"thing": None}]},
        },
    ),
}


def sound(name: str) -> dict[str, Any]:
    steps, more = SOUND[name]
    return {"name": "demo", "steps": steps, **more}


@pytest.mark.proves("A33-040", "A33-043", "A33-051", "A33-055")
@pytest.mark.parametrize("name", SOUND)
def test_it_has_no_problems_and_becomes_a_workflow(name: str) -> None:
    assert list(map(str, problems_in(sound(name), KnownNames(actions=frozenset({"send-mail"}))))) == []
    assert definition_from(sound(name)).name == "demo"


@pytest.mark.parametrize("name", SOUND)
def test_editors_are_told_the_same(name: str) -> None:
    Draft202012Validator(workflow_schema()).validate(sound(name))


def test_a_known_agent_is_given_what_it_takes() -> None:
    text = Parameter(type="string", required=True)
    known = KnownNames(
        agents={"writer": AgentShape(inputs={"text": text, "size": Parameter(type="number", default=1)})}
    )
    step = {
        "id": "a",
        "action": "invoke-agent",
        "agent": "writer",
        "inputs": {"text": "{{ inputs.n }} words", "size": 2},
    }
    definition = {"name": "demo", "inputs": {"n": {"type": "integer", "default": 1}}, "steps": [step]}
    assert problems_in(definition, known) == []
