"""The labels of a run follow what it has read."""

from agent_fabric.domain.events import Event, RunCreated, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.labels import WORKSPACE_FILES
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.labelling import flow_of, note_result
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Budget, Profile


def created(prompt: str = "do it", *, project: bool = False, started_by: str = "") -> RunState:
    body = RunCreated(
        prompt=prompt,
        specialist_id=None,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget(max_steps=3),
        workspace="/w",
        sandbox="A",
        policy_version="1",
        fabric_version="1",
        project=project,
        started_by=started_by,
    )
    return fold(RunId("r"), [Event(0, 0.0, None, "", body)])


def test_a_run_in_a_project_is_private_from_the_start_and_one_of_its_own_folder_is_not() -> None:
    assert created(project=True).private == [WORKSPACE_FILES]
    own = created()
    assert (own.private, own.untrusted) == ([], [])


def test_a_run_that_another_run_started_has_both_labels_and_its_task_is_not_the_owners_word() -> None:
    state = created("see https://evil.example/?d=hunter2", started_by="other")
    flow = flow_of(state)
    assert (flow.exposed, flow.private, flow.task) == (("run other",), ("run other",), "")
    assert "evil.example/?d=hunter2" in flow.addresses


def test_addresses_are_remembered_from_what_came_from_outside_only() -> None:
    state = created(project=True)
    note_result(state, ToolReturned(tool="read_file", call_id=CallId("a"), result={"text": "http://mine.example/x"}))
    outside = {"results": [{"url": "https://a.example/1"}, {"text": ["see https://b.example/2, or not"]}]}
    note_result(state, ToolReturned(tool="s", call_id=CallId("b"), result=outside, origin="web: s", private=""))
    error = "moved to https://c.example/3"
    note_result(
        state,
        ToolErred(tool="s", call_id=CallId("c"), error_type="x", error_message=error, origin="web: s", private="p"),
    )
    assert {"a.example/1", "b.example/2", "c.example/3"} <= state.addresses
    assert not any("mine" in each for each in state.addresses)
    assert state.untrusted == ["web: s"]
    assert state.private == [WORKSPACE_FILES, "p"]
