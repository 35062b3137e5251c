"""A call that needs a person's agreement waits for it outside memory, and is bound to what was agreed to."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.ports.runs import APPROVAL
from agent_fabric.domain.approvals.answers import Decision, OnDoubt, Question, Reach
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import Body, RunCreated, RunWaited, ToolCalled, ToolErred
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.models.messages import Role
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import RunResult, RunStatus, TaskForceMode
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def
from agent_fabric.testing.fakes import MemoryRuns, PermissivePolicy
from agent_fabric.testing.workbench import BuildPack, Workbench, workbench
from unit.application.test_engine_on_stand_ins import answers

RUN = RunId("run-0")
FINISH = make_finish_tool_def({"summary": {"type": "string"}})
DONE = ("finish_task", '{"summary": "done"}')


class Outside:
    """The world that `send` changes."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def pack(self, _: str) -> BaseSpecialistPack:
        async def send(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
            self.sent.append(str(args["text"]))
            return ToolResult(output={"sent": args["text"]})

        spec = make_tool_def("send", "Send.", {"text": {"type": "string"}}, effect=Effect.LEAVES_SANDBOX)
        return BaseSpecialistPack(system_prompt="Send.", tools=[(spec, send)], finish=FINISH)


def sending(outside: Outside, *texts: str, policy: PermissivePolicy | None = None) -> Workbench:
    turns = [("send", f'{{"text": "{text}"}}') for text in texts]
    return workbench(outside.pack, answers(*turns, DONE), policy=policy or PermissivePolicy(frozenset({"send"})))


def last(bench: Workbench, kind: type[Body]) -> Any:
    return next(event.body for event in reversed(bench.runs.logs[RUN]) if isinstance(event.body, kind))


async def answer(bench: Workbench, decision: Decision, **more: Any) -> RunResult:
    asked = last(bench, ApprovalRequested)
    payload = {"approval_id": asked.approval_id, "decision": decision, "by": "ada", **more}
    await bench.runs.post(RUN, APPROVAL, payload)
    return await bench.resume_run(RUN)


@pytest.mark.proves("C17", "AF-125", "FC-034")
async def test_a_call_that_asks_makes_the_run_wait_outside_memory() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    result = await bench.run()
    asked = last(bench, ApprovalRequested)
    assert result.status is RunStatus.WAITING
    assert result.waiting_for == (asked.approval_id,)
    assert (asked.tool, asked.args, asked.rule, asked.agent) == ("send", {"text": "hi"}, "ask_send", "testing")
    assert outside.sent == []
    assert bench.kinds()[-2:] == ["approval_requested", "run_waiting"]
    assert RUN not in bench.runs.held


async def test_an_approved_call_runs_once_and_the_log_says_who_agreed() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    result = await answer(bench, Decision.APPROVE, reason="go on")
    assert result.status is RunStatus.COMPLETED
    assert outside.sent == ["hi"]
    called = next(e.body for e in bench.runs.logs[RUN] if isinstance(e.body, ToolCalled) and e.body.tool == "send")
    assert (called.approved_by, called.rule) == ("ada", "ask_send")
    assert called.approval_id == last(bench, ApprovalRequested).approval_id
    assert len(called.args_hash) == 64


async def test_a_denied_call_does_not_run_and_the_model_is_told_why() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    result = await answer(bench, Decision.DENY, reason="not on a Sunday")
    assert result.status is RunStatus.COMPLETED
    assert outside.sent == []
    erred = last(bench, ToolErred)
    assert erred.error_type == "Denied"
    assert "not on a Sunday" in erred.error_message
    told = fold(RUN, bench.runs.logs[RUN]).lanes[next(iter(fold(RUN, bench.runs.logs[RUN]).lanes))].messages
    assert any(message.role is Role.TOOL and "not on a Sunday" in message.content for message in told)


async def test_edited_arguments_are_what_runs_what_is_logged_and_what_the_model_learns() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    await answer(bench, Decision.APPROVE, args={"text": "good day"})
    assert outside.sent == ["good day"]
    log = bench.runs.logs[RUN]
    called = next(e.body for e in log if isinstance(e.body, ToolCalled) and e.body.tool == "send")
    assert called.args == {"text": "good day"}
    lane = next(iter(fold(RUN, log).lanes.values()))
    assert any("A person changed the arguments" in message.content for message in lane.messages)


async def test_edited_arguments_pass_the_policy_again() -> None:
    outside = Outside()

    class NoShouting(PermissivePolicy):
        def judge(self, call: Any) -> Any:
            if str(call.args.get("text", "")).isupper():
                return PermissivePolicy(blocks=frozenset({"send"})).judge(call)
            return super().judge(call)

    bench = sending(outside, "hi", policy=NoShouting(frozenset({"send"})))
    await bench.run()
    result = await answer(bench, Decision.APPROVE, args={"text": "HEY"})
    assert outside.sent == []
    assert result.status is RunStatus.COMPLETED
    assert last(bench, ToolErred).error_type == "PermissionError"


async def test_an_agreement_for_the_run_covers_calls_of_the_same_kind() -> None:
    outside = Outside()
    bench = sending(outside, "one", "two", "three")
    await bench.run()
    result = await answer(bench, Decision.APPROVE, reach=Reach.RUN)
    assert result.status is RunStatus.COMPLETED
    assert outside.sent == ["one", "two", "three"]


async def test_an_agreement_to_one_call_covers_no_other() -> None:
    outside = Outside()
    bench = sending(outside, "one", "two")
    await bench.run()
    result = await answer(bench, Decision.APPROVE)
    assert result.status is RunStatus.WAITING
    assert outside.sent == ["one"]


async def test_another_policy_makes_an_answer_worthless() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    first = last(bench, ApprovalRequested)
    changed = sending_with(bench.runs, outside, PermissivePolicy(frozenset({"send"}), version="another"))
    await changed.runs.post(RUN, APPROVAL, {"approval_id": first.approval_id, "decision": "approve", "by": "ada"})
    result = await changed.resume_run(RUN)
    assert result.status is RunStatus.WAITING
    assert outside.sent == []
    assert last(changed, ApprovalRequested).approval_id != first.approval_id


def sending_with(runs: MemoryRuns, outside: Outside, policy: PermissivePolicy) -> Workbench:
    return workbench(outside.pack, answers(("send", '{"text": "hi"}'), DONE), runs=runs, policy=policy)


async def test_a_question_that_nobody_answers_expires_and_the_run_goes_on() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    assert (await bench.resume_run(RUN)).status is RunStatus.WAITING  # nothing has happened yet
    bench.clock.time += 25 * 3600
    result = await bench.resume_run(RUN)
    assert result.status is RunStatus.COMPLETED
    assert outside.sent == []
    assert last(bench, ApprovalDecided).decision is Decision.EXPIRED
    assert last(bench, ToolErred).error_type == "ApprovalExpired"


@pytest.mark.proves("WA-6")
async def test_what_was_agreed_to_in_time_does_not_run_once_that_time_is_over() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    asked = last(bench, ApprovalRequested)
    await bench.runs.post(RUN, APPROVAL, {"approval_id": asked.approval_id, "decision": "approve", "by": "ada"})
    bench.clock.time += 25 * 3600
    await bench.resume_run(RUN)
    assert outside.sent == []
    assert last(bench, ApprovalDecided).decision is Decision.EXPIRED


async def test_answers_to_nothing_change_nothing_and_do_not_stay() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    await bench.runs.post(RUN, APPROVAL, {"approval_id": "0" * 12, "decision": "approve", "by": "mallory"})
    assert (await bench.resume_run(RUN)).status is RunStatus.WAITING
    assert outside.sent == []
    held, _, _ = await bench.runs.take(RUN)
    assert await held.unread() == []


async def test_the_second_answer_to_a_question_is_too_late() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    asked = last(bench, ApprovalRequested)
    for decision in ("deny", "approve"):
        await bench.runs.post(RUN, APPROVAL, {"approval_id": asked.approval_id, "decision": decision, "by": "ada"})
    await bench.resume_run(RUN)
    assert outside.sent == []
    decided = [event.body for event in bench.runs.logs[RUN] if isinstance(event.body, ApprovalDecided)]
    assert [each.decision for each in decided] == [Decision.DENY]


async def test_while_one_lane_waits_for_a_person_the_others_go_on() -> None:
    outside, done = Outside(), Counter[str]()

    def quick(_: str) -> BaseSpecialistPack:
        async def look(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
            done["looked"] += 1
            return ToolResult(output={})

        return BaseSpecialistPack(
            system_prompt="Look.", tools=[(make_tool_def("look", "Look.", {}), look)], finish=FINISH
        )

    async def both(messages: Any) -> Any:
        name, turn = ("send", '{"text": "hi"}') if messages[0].content == "Send." else ("look", "{}")
        return await answers((name, turn), DONE)(messages)

    packs: dict[str, BuildPack] = {"sender": outside.pack, "looker": quick}
    bench = workbench(packs, both, policy=PermissivePolicy(frozenset({"send"})))
    result = await bench.run(packs=("sender", "looker"), mode=TaskForceMode.PARALLEL)
    state = fold(RUN, bench.runs.logs[RUN])
    assert result.status is RunStatus.WAITING
    assert done["looked"] == 1
    assert state.lanes[LaneId("looker")].payload is not None
    assert sum(isinstance(event.body, RunWaited) for event in bench.runs.logs[RUN]) == 1


class Killed(BaseException):
    """The process is gone."""


async def crashed_while_sending(outside: Outside, policy: PermissivePolicy | None = None, **said: Any) -> Workbench:
    """Return a run that died after something may have been sent; `said` is what a person answered before."""

    class Crashing(Outside):
        def pack(self, _: str) -> BaseSpecialistPack:
            async def send(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
                outside.sent.append(str(args["text"]))
                raise Killed

            spec = make_tool_def("send", "Send.", {"text": {"type": "string"}}, effect=Effect.LEAVES_SANDBOX)
            return BaseSpecialistPack(system_prompt="Send.", tools=[(spec, send)], finish=FINISH)

    dying = workbench(Crashing().pack, answers(("send", '{"text": "hi"}'), DONE), policy=policy)
    if said:
        await dying.run()
    with pytest.raises(Killed):
        await (answer(dying, Decision.APPROVE, **said) if said else dying.run())
    dying.runs.kill_driver(RUN)
    return workbench(outside.pack, answers(("send", '{"text": "hi"}'), DONE), runs=dying.runs, policy=policy)


@pytest.mark.parametrize(
    ("decision", "sent"), [(Decision.APPROVE, ["hi", "hi"]), (Decision.DONE, ["hi"]), (Decision.DENY, ["hi"])]
)
async def test_what_may_have_left_the_box_before_a_crash_is_for_a_person_to_judge(
    decision: Decision, sent: list[str]
) -> None:
    outside = Outside()
    bench = await crashed_while_sending(outside)
    waiting = await bench.resume_run(RUN)
    assert waiting.status is RunStatus.WAITING
    assert last(bench, ApprovalRequested).question is Question.DID_IT_HAPPEN
    assert outside.sent == ["hi"]
    result = await answer(bench, decision)
    assert result.status is RunStatus.COMPLETED
    assert outside.sent == sent


@pytest.mark.proves("WB-12")
async def test_what_may_have_left_the_box_before_a_crash_is_left_as_it_is_if_the_task_says_so() -> None:
    outside = Outside()
    bench = await crashed_while_sending(outside)
    created = bench.runs.logs[RUN][0]
    assert isinstance(created.body, RunCreated)
    bench.runs.logs[RUN][0] = created._replace(body=replace(created.body, on_doubt=OnDoubt.SKIP))
    result = await bench.resume_run(RUN)
    assert (result.status, outside.sent) == (RunStatus.COMPLETED, ["hi"])
    assert "may have happened" in last(bench, ToolErred).error_message


async def test_after_a_crash_the_question_is_about_what_a_person_had_changed_and_so_is_the_second_attempt() -> None:
    outside = Outside()
    bench = await crashed_while_sending(outside, PermissivePolicy(frozenset({"send"})), args={"text": "good day"})
    assert outside.sent == ["good day"]
    await bench.resume_run(RUN)
    asked = last(bench, ApprovalRequested)
    assert (asked.question, asked.args) == (Question.DID_IT_HAPPEN, {"text": "good day"})
    assert (await answer(bench, Decision.APPROVE)).status is RunStatus.COMPLETED
    assert outside.sent == ["good day", "good day"]


async def test_changed_arguments_stay_changed_when_other_rules_make_the_person_answer_again() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()
    changed = sending_with(bench.runs, outside, PermissivePolicy(frozenset({"send"}), version="another"))
    assert (await answer(changed, Decision.APPROVE, args={"text": "good day"})).status is RunStatus.WAITING
    assert last(changed, ApprovalRequested).args == {"text": "good day"}
    assert (await answer(changed, Decision.APPROVE)).status is RunStatus.COMPLETED
    assert outside.sent == ["good day"]


async def test_what_was_agreed_to_in_one_box_is_asked_again_in_another() -> None:
    outside = Outside()
    bench = sending(outside, "hi")
    await bench.run()

    def unboxed(_: str) -> BaseSpecialistPack:
        pack = outside.pack("")
        pack.sandbox_level = "none at all"
        return pack

    policy = PermissivePolicy(frozenset({"send"}))
    moved = workbench(unboxed, answers(("send", '{"text": "hi"}'), DONE), runs=bench.runs, policy=policy)
    assert (await answer(moved, Decision.APPROVE)).status is RunStatus.WAITING
    assert outside.sent == []
    assert last(moved, ApprovalRequested).sandbox == "none at all"


async def test_a_secret_in_a_task_does_not_stand_in_the_log() -> None:
    secret = "sk-very-secret-123"
    bench = sending(Outside(), "hi", policy=PermissivePolicy())
    drive = replace(bench.execute_task.drive, secrets=KnownSecrets([secret]))
    bench = replace(bench, execute_task=replace(bench.execute_task, drive=drive))
    assert (await bench.run(f"log in with {secret}")).status is RunStatus.COMPLETED
    assert secret not in repr(bench.runs.logs[RUN])
