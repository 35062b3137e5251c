"""Several specialists in one workspace: whose claims are held against which changes."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent_fabric.domain.events import (
    Body,
    Event,
    PackStarted,
    RunCreated,
    SpecialistsRecruited,
    ToolCalled,
    ToolReturned,
)
from agent_fabric.domain.evidence.claims import NOTHING_CHANGED
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.finish import doubts_about
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.domain.tools.findings import ProofKind, TestCount
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.testing.workbench import SETTINGS

BUILDER, SECOND, WRITER = (SpecialistId(name) for name in ("builder", "second", "writer"))
PROVES = {BUILDER: True, SECOND: True, WRITER: False}
SHELL = ToolSpec(
    name="shell", description="", parameters={}, effect=Effect.CHANGES_WORKSPACE, command_argument="command"
)
Deed = tuple[SpecialistId, Body]


def wrote(who: SpecialistId, path: str) -> list[Deed]:
    returned = ToolReturned(tool="write_file", call_id=CallId("w"), result={}, changed=True, wrote=(f"./{path}",))
    return [(who, returned)]


def ran_tests(who: SpecialistId, command: str) -> list[Deed]:
    count = TestCount(ran=2, passed=2, failed=0)
    returned = ToolReturned(
        tool="shell",
        call_id=CallId("t"),
        result={"exit_code": 0},
        proved=command,
        proof_kind=ProofKind.TESTS,
        tests=count,
    )
    called = ToolCalled(tool="shell", call_id=CallId("t"), args={"command": command}, attempt=1)
    return [(who, called), (who, returned)]


def doubts(
    who: SpecialistId, work: Sequence[Deed], compared: WorkspaceCompared, *, prompt: str = "Fix calc.py", **payload: Any
) -> tuple[str, ...]:
    """Return what speaks against a specialist's result after all of them have worked."""
    created = RunCreated(
        prompt=prompt,
        specialist_id=BUILDER,
        model_key="quality",
        network_allowed=False,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace="/w",
        sandbox="C",
        policy_version="p",
        fabric_version="v",
    )
    recruited = SpecialistsRecruited(
        specialist_id=BUILDER,
        specialist_ids=tuple(PROVES),
        required_capabilities=(),
        routing_method="explicit",
        is_task_force=True,
    )
    packs = [
        PackStarted(
            specialist_id=each,
            pack_index=number,
            system_prompt="p",
            opening="o",
            tools=(SHELL,),
            finish=FinishSpec(parameters={}, needs_proof=PROVES[each]),
            model=SETTINGS,
        )
        for number, each in enumerate(PROVES)
    ]
    told: list[tuple[LaneId | None, Body]] = [(None, created), (None, recruited), *((None, pack) for pack in packs)]
    told += [(LaneId(each), body) for each, body in work]
    told.append((LaneId(who), compared))
    state = fold(RunId("r"), [Event(seq, 0.0, lane, "", body) for seq, (lane, body) in enumerate(told)])
    return doubts_about(state, state.lanes[LaneId(who)], {"summary": "Done.", **payload}).unproven


CALC = WorkspaceCompared(modified=("calc.py",), tests=("test_calc.py",))
NOTES = WorkspaceCompared(created=("notes.md",))


def test_the_file_of_another_specialist_is_no_work_of_a_lane_that_says_it_has_done_some() -> None:
    work = [*wrote(WRITER, "notes.md"), *ran_tests(BUILDER, "pytest test_other.py")]
    assert doubts(BUILDER, work, NOTES, summary="I fixed add().") == (NOTHING_CHANGED,)


def test_who_says_nothing_of_a_change_may_leave_it_to_the_others() -> None:
    work = [*wrote(WRITER, "notes.md"), *ran_tests(BUILDER, "pytest test_other.py")]
    looked = "The tests of other.py pass; nothing was to be changed."
    assert doubts(BUILDER, work, NOTES, prompt="Write notes.md about other.py", summary=looked) == ()
    (doubt,) = doubts(BUILDER, work, NOTES, prompt="Fix calc.py", summary=looked)
    assert doubt == "calc.py was to be changed, but it is as it was, and only texts are different"


def test_alone_it_is_not_enough_to_say_nothing() -> None:
    assert doubts(BUILDER, ran_tests(BUILDER, "pytest"), WorkspaceCompared()) == (NOTHING_CHANGED,)


def test_who_needs_proof_proves_their_own_changes_and_no_others() -> None:
    work = [*wrote(BUILDER, "calc.py"), *ran_tests(BUILDER, "pytest"), *ran_tests(SECOND, "pytest test_other.py")]
    assert doubts(BUILDER, work, CALC) == ()
    assert doubts(SECOND, work, CALC, summary="Looked at what builder did.") == ()


def test_whoever_changes_a_program_runs_its_tests_although_another_did_before() -> None:
    work = [*wrote(BUILDER, "calc.py"), *ran_tests(BUILDER, "pytest"), *wrote(SECOND, "calc.py")]
    (doubt,) = doubts(SECOND, work, CALC)
    assert doubt == "the tests of what was changed were not run: test_calc.py"


def test_tests_by_another_do_not_prove_what_a_lane_has_changed() -> None:
    work = [*wrote(BUILDER, "calc.py"), *ran_tests(SECOND, "pytest")]
    (doubt,) = doubts(BUILDER, work, CALC)
    assert doubt == "the tests of what was changed were not run: test_calc.py"


def test_a_program_by_one_who_proves_nothing_is_proven_by_who_does() -> None:
    work = [*wrote(WRITER, "calc.py"), *ran_tests(BUILDER, "pytest test_other.py")]
    (doubt,) = doubts(BUILDER, work, CALC)
    assert doubt == "the tests of what was changed were not run: test_calc.py"
    assert doubts(BUILDER, [*wrote(WRITER, "calc.py"), *ran_tests(BUILDER, "pytest")], CALC) == ()


def test_a_text_by_another_needs_no_proof() -> None:
    assert doubts(BUILDER, wrote(WRITER, "notes.md"), NOTES, prompt="Write notes.md", summary="Looked.") == ()


def test_a_file_that_nobody_is_known_to_have_written_may_be_anybodys() -> None:
    (doubt,) = doubts(SECOND, ran_tests(SECOND, "pytest test_other.py"), CALC)
    assert doubt == "the tests of what was changed were not run: test_calc.py"


@pytest.mark.parametrize("changed", ["notes.md", "calc.py"])
def test_what_is_said_of_files_may_be_about_those_of_others(changed: str) -> None:
    both = WorkspaceCompared(modified=("calc.py",), created=("notes.md",))
    work = [*wrote(WRITER, "notes.md"), *wrote(BUILDER, "calc.py"), *ran_tests(BUILDER, "pytest")]
    assert doubts(BUILDER, work, both, changed=[changed], summary=f"{changed} was updated.") == ()
    (doubt,) = doubts(BUILDER, work, both, changed=["other.py"])
    assert doubt == "other.py is said to have changed, but it is as it was"
