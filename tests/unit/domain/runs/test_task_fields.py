"""What was asked for stands in the first event of a run, field by field."""

from typing import get_type_hints

from agent_fabric.domain.events import TASK_FIELDS, RunCreated
from agent_fabric.domain.runs.task import Task


def test_a_field_of_a_task_has_the_same_type_in_the_first_event() -> None:
    asked, recorded = get_type_hints(Task), get_type_hints(RunCreated)
    other = {name for name in TASK_FIELDS if asked[name] != recorded[name]}
    assert "prompt" in TASK_FIELDS
    assert other == {"visibility"}, "a task may leave it open; it is settled when the run begins"
    assert asked["visibility"] == recorded["visibility"] | None
