"""What is asked of a small model that calls a task done: what helps it, and no more."""

import json
from dataclasses import replace

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
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.finish import Doubts, doubts_about
from agent_fabric.domain.runs.state import FinishedCall
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.testing.workbench import SETTINGS

WHO = SpecialistId("engineering")
LANE = LaneId(WHO)


def doubts(
    *work: ToolReturned,
    compact: bool = True,
    prompt: str = "p",
    compared: WorkspaceCompared | None = None,
    last: FinishedCall | None = None,
) -> Doubts:
    bodies: list[Body] = [
        RunCreated(
            prompt=prompt,
            specialist_id=WHO,
            model_key="quality",
            network_allowed=False,
            profile=Profile.TASK,
            budget=Budget.of(Profile.TASK),
            workspace="/w",
            sandbox="C",
            policy_version="p",
            fabric_version="v",
        ),
        SpecialistsRecruited(
            specialist_id=WHO,
            specialist_ids=(WHO,),
            required_capabilities=(),
            routing_method="explicit",
            is_task_force=False,
        ),
        PackStarted(
            specialist_id=WHO,
            pack_index=0,
            system_prompt="p",
            opening="o",
            tools=(),
            finish=FinishSpec(parameters={}, needs_proof=True),
            model=replace(SETTINGS, compact=compact),
        ),
    ]
    for each in work:
        bodies += [ToolCalled(tool=each.tool, args={}, call_id=each.call_id), each]
    events = [
        Event(seq, 1.0, None if isinstance(body, RunCreated | SpecialistsRecruited | PackStarted) else LANE, "", body)
        for seq, body in enumerate(bodies)
    ]
    state = fold(RunId("run"), events)
    lane = state.lanes[LANE]
    lane.compared, lane.last_call = compared or lane.compared, last or lane.last_call
    return doubts_about(state, state.lanes[LANE], {"summary": "done"})


def did(tool: str, *, wrote: str = "", changed: bool = False, proved: str = "") -> ToolReturned:
    files = (wrote,) if wrote else ()
    return ToolReturned(tool=tool, call_id=CallId("c"), result={}, wrote=files, changed=changed, proved=proved)


def test_a_text_that_nothing_can_run_is_not_asked_to_be_proved_but_is_marked() -> None:
    found = doubts(did("write_file", wrote="notes.md", changed=True))
    assert found.unproven
    assert not found.ask_for
    large = doubts(did("write_file", wrote="notes.md", changed=True), compact=False)
    assert large.unproven
    assert not large.ask_for
    assert doubts(did("write_file", wrote="settings.toml", changed=True), compact=False).ask_for


@pytest.mark.proves("AF-124")
def test_a_program_must_be_run_whatever_the_model() -> None:
    for compact in (True, False):
        wrote = did("write_file", wrote="app.py", changed=True)
        assert doubts(wrote, compact=compact).ask_for
        assert doubts(wrote, did("shell", proved="python3 app.py"), compact=compact) == Doubts()


def test_a_small_model_is_told_what_to_run() -> None:
    wrote = did("shell", wrote="my app.py", changed=True)
    assert "Run it with shell: python3 'my app.py'. " in doubts(wrote).ask_for
    assert "Run it with shell" not in doubts(wrote, compact=False).ask_for
    assert "Run the tests, the build or the program" in doubts(did("write_file", wrote="a.c", changed=True)).ask_for


def test_a_small_model_that_has_only_looked_is_asked_once_whether_that_is_all() -> None:
    found = doubts(did("look"))
    assert "changed nothing" in found.ask_for
    assert not found.unproven
    assert doubts(did("look"), compact=False) == Doubts()


COUNT = "How many users are in users.csv? Write just the number to count.txt."
MADE = WorkspaceCompared(created=("count.txt",))


def ran(result: object, command: str = "x") -> FinishedCall:
    return FinishedCall("shell", json.dumps({"command": command}), json.dumps(result))


def test_a_file_that_the_task_names_and_that_was_left_out_is_asked_for() -> None:
    other = WorkspaceCompared(created=("other.txt",))
    found = doubts(did("shell"), prompt=COUNT, compared=other)
    assert found.ask_for.startswith("count.txt: named in the task, but neither made nor changed.")
    assert "count.txt" in "".join(found.unproven)
    assert not doubts(did("shell"), prompt=COUNT, compared=MADE).ask_for
    assert not doubts(did("shell"), prompt=COUNT, compared=other, compact=False).ask_for


def test_a_file_that_is_still_broken_is_to_be_mended() -> None:
    broke = ToolReturned(
        tool="write_file", call_id=CallId("c"), result={"path": "a.json", "broken": {"a.json": "not valid JSON, x"}}
    )
    made = WorkspaceCompared(created=("a.json",))
    found = doubts(broke, did("shell"), compared=made)
    assert found.ask_for.startswith("a.json is not valid JSON, x. Mend it")
    assert "a.json is not valid JSON, x" in found.unproven
    mended = ToolReturned(tool="shell", call_id=CallId("c"), result={"exit_code": 0, "changed_files": {"a.json": "[]"}})
    assert not doubts(broke, mended, compared=made).ask_for


def test_an_answer_that_is_said_is_to_be_written() -> None:
    found = doubts(did("look"), prompt="Which port is it? Write it to answer.txt.", compared=WorkspaceCompared())
    assert found.ask_for.startswith("You say 'done', but nothing was changed: answer.txt is as it was.")
    assert found.unproven == ("nothing was changed",)


def test_half_of_a_move_is_not_the_whole() -> None:
    prompt = "Make a folder texts and move a.txt and b.txt into it."
    half = WorkspaceCompared(created=("texts/", "texts/a.txt"), deleted=("a.txt",))
    assert doubts(did("shell"), prompt=prompt, compared=half).ask_for.startswith("b.txt: ")
    whole = WorkspaceCompared(created=("texts/", "texts/a.txt", "texts/b.txt"), deleted=("a.txt", "b.txt"))
    assert not doubts(did("shell"), prompt=prompt, compared=whole).ask_for


@pytest.mark.parametrize(
    ("last", "wrong"),
    [
        (ran({"exit_code": 0, "changed_files": {"count.txt": "18 users.csv\n"}}), True),
        (ran({"exit_code": 0, "changed_files": {"count.txt": "17\n"}}), False),
        (ran({"exit_code": 0, "changed_files": {"count.txt": "-18 users.csv\n+17"}}), False),
        (ran({"exit_code": 0, "changed_files": {"count.txt": "-17\n+18 users.csv"}}), True),
        (FinishedCall("write_file", '{"path": "count.txt", "content": "17 users"}', '{"bytes": 8}'), True),
        (FinishedCall("write_file", '{"path": "count.txt", "content": "17"}', '{"bytes": 2}'), False),
        (FinishedCall("write_file", '{"path": "count.txt", "content": "17 users"}', '{"error": "no"}'), False),
        (FinishedCall("write_file", "not JSON", "{}"), False),
        (ran([]), False),
    ],
)
def test_more_than_the_task_wants_in_a_file_is_sent_back(last: FinishedCall, wrong: bool) -> None:
    found = doubts(did("shell"), prompt=COUNT, compared=MADE, last=last)
    assert ("must hold only the number" in found.ask_for) is wrong


def test_a_command_that_was_advised_and_not_run_is_said_again() -> None:
    off = "18 in count.txt counts line 1, too. Unless the task counts lines, run: echo 17 > count.txt"
    last = ran({"exit_code": 0, "changed_files": {"count.txt": "18\n"}, "hint": off})
    assert doubts(did("shell"), prompt=COUNT, compared=MADE, last=last).ask_for.startswith(off)
    lines = COUNT.replace("users are", "lines are")
    assert not doubts(did("shell"), prompt=lines, compared=MADE, last=last).ask_for
    left = ran({"exit_code": 0, "hint": "'Usr' is still there. To replace it, run: sed -i 's/Usr/User/g' \"b.py\""})
    changed = WorkspaceCompared(modified=("a.md",))
    everywhere = "Call Usr User in all files."
    assert '"b.py"' in doubts(did("shell"), prompt=everywhere, compared=changed, last=left).ask_for
    assert not doubts(did("shell"), prompt="Call Usr User in a.md.", compared=changed, last=left).ask_for
