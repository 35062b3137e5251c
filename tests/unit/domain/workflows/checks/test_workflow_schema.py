"""The JSON Schema for editors."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it brings no types

from agent_fabric.domain.workflows.checks.shape import workflow_schema

STEP = {"id": "a", "action": "transform", "inputs": {"n": 1}}


def test_it_is_a_schema_that_json_can_hold() -> None:
    schema = json.loads(json.dumps(workflow_schema()))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def properties(schema: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(schema, dict):
        return
    for name, each in schema.get("properties", {}).items():
        yield f"{at}.{name}", each
        yield from properties(each, f"{at}.{name}")
    for name, each in (*schema.get("$defs", {}).items(), *enumerate(schema.get("anyOf", ()))):
        yield from properties(each, f"{at}/{name}")
    yield from properties(schema.get("additionalProperties"), f"{at}.*")


def test_every_field_is_described() -> None:
    described = dict(properties(workflow_schema()))
    assert len(described) > 40
    assert [name for name, each in described.items() if not each.get("description")] == []


@pytest.mark.parametrize(
    "broken",
    [
        {"steps": [STEP]},
        {"name": "demo", "steps": []},
        {"name": "My Demo", "steps": [STEP]},
        {"name": "demo", "version": "1.0", "steps": [STEP]},
        {"name": "demo", "stepz": [], "steps": [STEP]},
        {"name": "demo", "steps": [{"id": "a"}]},
        {"name": "demo", "steps": [{**STEP, "id": "a-b"}]},
        {"name": "demo", "steps": [{**STEP, "depends_on": "b"}]},
        {"name": "demo", "steps": [{**STEP, "timeout": 0}]},
        {"name": "demo", "steps": [{**STEP, "retry": {"max_attempts": 0}}]},
        {"name": "demo", "steps": [{"id": "a", "action": "run-command"}]},
        {"name": "demo", "steps": [{"id": "a", "action": "wait"}]},
        {"name": "demo", "steps": [{"id": "a", "action": "wait", "inputs": {"seconds": 1, "event": "x"}}]},
        {"name": "demo", "steps": [{"id": "a", "action": "for-each", "inputs": {}, "steps": [STEP]}]},
        {"name": "demo", "steps": [{"id": "a", "action": "parallel-group", "steps": [{"id": "b"}]}]},
        {"name": "demo", "steps": [{"id": "a", "action": "conditional", "condition": "true"}]},
        {"name": "demo", "steps": [STEP], "execution": {"parallel_limit": 33}},
        {"name": "demo", "steps": [STEP], "inputs": {"a": "int"}},
        {"name": "demo", "steps": [STEP], "inputs": {"a-b": "string"}},
    ],
)
def test_editors_mark_what_the_check_refuses(broken: object) -> None:
    assert not Draft202012Validator(workflow_schema()).is_valid(broken)
