"""Several specialists in one run: how their results become one, and what each is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.merge import merged_payload
from agent_fabric.domain.runs.opening_messages import MAX_FORWARDED_CHARS, opening_for
from agent_fabric.domain.runs.state import Lane, LanePhase, RunState
from agent_fabric.domain.runs.task import Budget, RunError, Task, TaskForceMode
from agent_fabric.testing.workbench import SETTINGS

NAMES = ("alpha", "beta", "gamma", "delta")


def force(
    payloads: dict[str, dict[str, Any] | None],
    *,
    mode: TaskForceMode = TaskForceMode.PARALLEL,
    wrote: dict[str, set[str]] | None = None,
    finished_in: list[str] | None = None,
) -> RunState:
    """A run in which these have finished, or failed (None)."""
    state = RunState(RunId("r"))
    state.task = Task(prompt="do it", model_key="quality", task_force_mode=mode, budget=Budget(max_steps=5))
    state.task_force_mode = mode
    state.specialist_ids = tuple(map(SpecialistId, payloads))
    for name in finished_in or list(payloads):
        lane = Lane(
            lane_id=LaneId(name),
            specialist_id=SpecialistId(name),
            index=list(payloads).index(name),
            tools={},
            offered=(),
            finish=FinishSpec(parameters={}),
            model=SETTINGS,
            messages=[],
            phase=LanePhase.DONE,
            payload=payloads[name],
            wrote=(wrote or {}).get(name, set()),
        )
        state.lanes[lane.lane_id] = lane
        if payloads[name] is None:
            state.failed[lane.specialist_id] = RunError(code="c", message=f"{name} broke.", hint="h")
    return state


file_names = st.sampled_from(["a.md", "./a.md", "b/../a.md", "b.md", "c/d.txt"])
payloads = st.dictionaries(
    st.sampled_from(NAMES),
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "summary": st.text(max_size=20),
            "artifacts": st.lists(file_names, max_size=3) | st.integers(),
            "deliverables": st.lists(file_names | st.integers(), max_size=3),
            "unproven": st.just("no test"),
            "proposed_actions": st.lists(st.text(max_size=3), max_size=2),
            "other": st.integers(),
        },
    ),
    min_size=2,
)


@pytest.mark.proves("AF-052", "C43")
@given(payloads, st.sampled_from(TaskForceMode), st.randoms())
def test_the_order_of_finishing_does_not_matter(
    parts: dict[str, dict[str, Any] | None], mode: TaskForceMode, chance: Any
) -> None:
    shuffled = list(parts)
    chance.shuffle(shuffled)
    merged = merged_payload(force(parts, mode=mode, finished_in=shuffled))
    assert merged == merged_payload(force(parts, mode=mode))
    done = {name: part for name, part in parts.items() if part is not None}
    assert dict(merged["specialists"]) == done
    assert list(merged["specialists"]) == list(done), "in the order of the configuration"
    assert list(merged.get("failed_specialists", {})) == [name for name, part in parts.items() if part is None]
    assert ("unproven" in merged) == any("unproven" in part for part in done.values())
    for key in ("artifacts", "deliverables", "proposed_actions"):
        every = [item for part in done.values() if isinstance(part.get(key), list) for item in part[key]]
        if every:
            assert len(merged[key]) == len({repr(item) for item in every})


def test_files_that_two_have_made_are_reported_however_they_are_spelt() -> None:
    state = force(
        {"alpha": {"artifacts": ["./out/a.md"]}, "beta": {"deliverables": ["out/x/../a.md"]}, "gamma": {}},
        wrote={"alpha": {"log.txt"}, "gamma": {"log.txt"}},
    )
    assert merged_payload(state)["collisions"] == [
        {"file": "log.txt", "specialists": ["alpha", "gamma"]},
        {"file": "out/a.md", "specialists": ["alpha", "beta"]},
    ]


def test_of_specialists_in_turn_the_last_one_speaks() -> None:
    parts: dict[str, dict[str, Any] | None] = {"alpha": {"summary": "found", "x": 1}, "beta": {"summary": "built"}}
    merged = merged_payload(force(parts, mode=TaskForceMode.SEQUENTIAL))
    assert merged["summary"] == "built"
    assert "x" not in merged
    assert merged["specialists"] == parts


def test_of_specialists_at_once_all_speak() -> None:
    merged = merged_payload(force({"alpha": {"summary": "found"}, "beta": {"summary": "built"}}))
    assert merged["summary"] == "alpha: found\n\nbeta: built"


def test_the_payload_of_one_specialist_is_left_alone() -> None:
    assert merged_payload(force({"alpha": {"summary": "s", "x": 1}})) == {"summary": "s", "x": 1}


@pytest.mark.proves("AF-051")
def test_who_comes_later_is_told_what_was_done_and_what_failed() -> None:
    state = force(
        {"alpha": {"summary": "the answer is 42"}, "beta": None, "gamma": None}, mode=TaskForceMode.SEQUENTIAL
    )
    told = opening_for(state, SpecialistId("gamma"))
    assert told.startswith("do it\n")
    assert "the answer is 42" in told
    assert "'beta' failed: beta broke." in told
    assert "'gamma'" in opening_for(state, SpecialistId("alpha")), "who comes first knows who follows"
    assert "42" not in opening_for(state, SpecialistId("alpha"))


def test_a_long_result_is_not_forwarded_whole() -> None:
    state = force({"alpha": {"summary": "x" * 100_000}, "beta": {}}, mode=TaskForceMode.SEQUENTIAL)
    assert len(opening_for(state, SpecialistId("beta"))) < MAX_FORWARDED_CHARS + 500


def test_one_specialist_is_told_the_task_and_nothing_else() -> None:
    assert opening_for(force({"alpha": {}}), SpecialistId("alpha")) == "do it"
