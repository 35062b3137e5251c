"""Only what may happen twice is done again after a crash without a person."""

from typing import Any

import pytest

from agent_fabric.application.automation.make_tasks import require_retryable
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Profile, Task

SAFE = {"id": "safe", "action": "run-command", "command": "true", "idempotent": True}
UNSAFE = {"id": "deploy", "action": "run-command", "command": "deploy"}
CALLS = {"id": "other", "action": "workflow", "workflow": "below"}
AGENT = {"id": "think", "action": "invoke-agent", "agent": "qa"}
EACH = {"id": "each", "action": "for-each", "inputs": {"items": [1]}, "steps": [UNSAFE]}
BUILT_IN = {"id": "keep", "action": "write-file", "inputs": {"path": "a", "content": "b"}}
BRANCH = {"id": "branch", "action": "conditional", "inputs": {"if": "true"}, "then": [SAFE], "else": [UNSAFE]}


def a_task(*steps: dict[str, Any], below: dict[str, Any] | None = None) -> Task:
    workflows = {} if below is None else {"below": {"name": "below", "steps": [below, CALLS]}}
    frozen = FrozenWorkflow(definition={"name": "x", "steps": [*steps]}, inputs={}, workflows=workflows)
    return Task(prompt="", model_key="m", budget=Budget.of(Profile.TASK), workflow=frozen)


@pytest.mark.proves("WB-12")
@pytest.mark.parametrize("task", [a_task(SAFE, BUILT_IN), a_task(SAFE, CALLS, below={**SAFE, "id": "inner"})])
def test_steps_that_may_happen_twice_are_done_again(task: Task) -> None:
    require_retryable(task)


@pytest.mark.proves("WB-12")
@pytest.mark.parametrize(
    ("task", "named"),
    [
        (a_task(SAFE, UNSAFE), "not: deploy$"),
        (a_task(EACH), "not: deploy$"),
        (a_task(BRANCH), "not: deploy$"),
        (a_task(CALLS, below=UNSAFE), "not: other/deploy$"),
        (a_task(CALLS), r"not: other \(a workflow\)$"),
        (a_task(AGENT), r"not: think \(an agent\)$"),
        (Task(prompt="tidy up", model_key="m", budget=Budget.of(Profile.TASK)), "an agent decides by itself"),
    ],
)
def test_other_steps_are_named_and_refused(task: Task, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as refused:
        require_retryable(task)
    assert "on_doubt" in refused.value.hint
