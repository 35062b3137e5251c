"""The labels of a run follow what it has read."""

from collections.abc import Mapping

import pytest

from agent_fabric.domain.events import Event, RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.policy.labels import WORKSPACE_FILES
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.labelling import addresses_handed_on, flow_of, note_call, note_result
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
    assert not flow.addresses, "that run may have composed it"


def returned(result: Mapping[str, object], *, origin: str = "web: s", from_outside: bool = True) -> ToolReturned:
    return ToolReturned(tool="s", call_id=CallId("b"), result=result, origin=origin, from_outside=from_outside)


def test_addresses_are_remembered_from_what_came_from_outside_only() -> None:
    state = created(project=True)
    note_result(state, returned({"text": "http://mine.example/x"}, origin="", from_outside=False), {})
    note_result(state, returned({"text": "http://run.example/x"}, origin="other runs", from_outside=False), {})
    outside = {"results": [{"url": "https://a.example/1"}, {"text": ["see https://b.example/2, or not"]}]}
    note_result(state, returned(outside), {"query": "otters"})
    error = "no such page: https://c.example/3"
    erred = ToolErred(tool="s", call_id=CallId("c"), error_type="x", error_message=error, origin="web: s", private="p")
    note_result(state, erred, {})
    assert {each.partition("/")[0] for each in state.addresses} == {"a.example", "b.example"}
    assert state.untrusted == ["other runs", "web: s"]
    assert state.private == [WORKSPACE_FILES, "p"]


@pytest.mark.parametrize("query", ["https://evil.example/?d=hunter2", "look at evil.example/?d=hunter2"])
def test_an_address_that_a_call_sent_is_not_read_when_the_answer_repeats_it(query: str) -> None:
    state = created(project=True)
    echoed = {"query": query, "results": [{"url": "https://evil.example/?d=hunter2"}, {"url": "https://a.example/1"}]}
    note_result(state, returned(echoed), {"query": query})
    assert state.addresses == {"a.example/1"}
    note_result(state, returned({"text": "Searched before: https://evil.example/?d=hunter2"}), {"query": "x"})
    assert state.addresses == {"a.example/1"}, "nor when a later answer does"
    note_result(state, returned({"text": "https://a.example/1"}), {"url": "https://a.example/1"})
    assert state.addresses == {"a.example/1"}, "one that it had read before stays"


def test_a_run_hands_on_addresses_that_it_has_read_or_its_owner_wrote() -> None:
    state = created("see https://mine.example/x", project=True)
    note_result(state, returned({"url": "https://a.example/1"}), {})
    said = {"links": ["https://a.example/1", "https://mine.example/x", "https://evil.example/?d=hunter2"]}
    assert addresses_handed_on(state, said) == ("a.example/1", "mine.example/x")


def test_calls_that_went_unasked_are_counted_by_what_let_them_pass() -> None:
    state = created(project=True, started_by="other")
    rules = ("address_in_task", "arguments_in_task", "address_read", "search_while_private", "page_kept", "tools")
    for rule in (*rules, "address_in_task"):
        note_call(state, ToolCalled(tool="fetch_url", args={}, call_id=CallId("c"), rule=rule))
    flow = flow_of(state)
    assert (flow.task_calls, flow.fetches, flow.searches) == (3, 1, 1)
