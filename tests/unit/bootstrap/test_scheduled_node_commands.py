"""Schedules for machines: which command they run there, and who may have one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.automation.make_tasks import ScheduledTasks
from agent_fabric.application.automation.manage_schedules import require_scope_for_target
from agent_fabric.application.fleet.remote_tools import execution_id_of_call
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.defaults import default_config
from agent_fabric.domain.automation.schedule import Rule, Schedule, TargetKind
from agent_fabric.domain.errors import ConfigError, Forbidden
from agent_fabric.domain.identity.principals import Kind, Principal, Scope
from agent_fabric.domain.ids import CallId, RunId

SCHEDULE = Schedule(
    id="s1",
    name="disks",
    rule=Rule(every_s=60.0),
    target_kind=TargetKind.NODE_COMMAND,
    target="web-1",
    task_instruction="df -h",
    owner="local",
    created_at=1.0,
)


def asked_of(folder: Path, schedule: Schedule) -> Any:
    """Return what the workflow of a schedule is asked for."""
    task = ScheduledTasks(open_workflows(folder / ".fabric", default_config()), folder)._task(schedule)
    assert task.workflow is not None
    return task.workflow.inputs


def test_the_instruction_is_the_command_and_inputs_are_its_further_arguments(tmp_path: Path) -> None:
    call = {"node": "web-1", "tool_name": "run_command"}
    assert asked_of(tmp_path, SCHEDULE) == {"call": {**call, "arguments": {"command": "df -h"}}}
    more = replace(SCHEDULE, inputs={"timeout_s": 5})
    assert asked_of(tmp_path, more) == {"call": {**call, "arguments": {"command": "df -h", "timeout_s": 5}}}


def test_a_schedule_without_a_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no command"):
        asked_of(tmp_path, replace(SCHEDULE, task_instruction=""))


def test_only_those_who_operate_machines_have_schedules_for_them() -> None:
    someone = Principal("eve", Kind.USER, frozenset({Scope.RUNS}))
    with pytest.raises(Forbidden, match="nodes"):
        require_scope_for_target(SCHEDULE, someone)
    require_scope_for_target(replace(SCHEDULE, target_kind=TargetKind.AGENT), someone)
    require_scope_for_target(SCHEDULE, replace(someone, scopes=frozenset({Scope.NODES})))


def test_a_call_of_a_run_is_one_command_however_often_it_is_taken_up() -> None:
    first = execution_id_of_call(RunId("r1"), CallId("c1"))
    assert first == execution_id_of_call(RunId("r1"), CallId("c1"))
    assert first != execution_id_of_call(RunId("r1"), CallId("c2"))
