"""The audit tells for every call who wanted it, what allowed it and what came of it."""

import pytest

from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.audit.chain import AuditStatus, audit_of
from agent_fabric.domain.events import RunCancelled, ToolCalled
from agent_fabric.domain.ids import RunId
from agent_fabric.testing.fakes import PermissivePolicy
from agent_fabric.testing.workbench import workbench
from unit.application.approvals.test_asking_a_person import DONE, RUN, Outside, answer, crashed_while_sending, sending
from unit.application.test_engine_on_stand_ins import answers


@pytest.mark.proves("FC-062", "C41")
@pytest.mark.parametrize(
    ("decision", "status", "approver"),
    [(Decision.APPROVE, AuditStatus.SUCCESS, "ada"), (Decision.DENY, AuditStatus.DENIED, "ada")],
)
async def test_a_call_that_a_person_decided_names_the_person(
    decision: Decision, status: AuditStatus, approver: str
) -> None:
    bench = sending(Outside(), "hi")
    await bench.run()
    await answer(bench, decision)
    (entry,) = audit_of(RUN, bench.runs.logs[RUN])
    assert (entry.tool, entry.status, entry.approver, entry.rule) == ("send", status, approver, "ask_send")
    assert len(entry.args_hash) == 64
    assert entry.ended_at is not None


async def test_a_blocked_call_names_the_rule() -> None:
    bench = sending(Outside(), "hi", policy=PermissivePolicy(blocks=frozenset({"send"})))
    await bench.run()
    (entry,) = audit_of(RUN, bench.runs.logs[RUN])
    assert (entry.status, entry.rule, entry.approver) == (AuditStatus.BLOCKED, "block_send", "")


async def test_an_expired_question_is_told_from_a_denied_one() -> None:
    bench = sending(Outside(), "hi")
    await bench.run()
    bench.clock.time += 25 * 3600
    await bench.resume_run(RUN)
    (entry,) = audit_of(RUN, bench.runs.logs[RUN])
    assert entry.status is AuditStatus.EXPIRED


async def test_a_call_under_way_is_pending_and_cancelled_with_its_run() -> None:
    bench = workbench(Outside().pack, answers(("send", '{"text": "hi"}'), DONE))
    await bench.run()
    log = bench.runs.logs[RUN]
    begun = log[: next(n for n, event in enumerate(log) if isinstance(event.body, ToolCalled)) + 1]
    assert [entry.status for entry in audit_of(RUN, begun)] == [AuditStatus.PENDING]
    ended = begun[-1]._replace(seq=begun[-1].seq + 1, lane=None, body=RunCancelled(by="ada", reason=""))
    assert [entry.status for entry in audit_of(RunId("run-0"), [*begun, ended])] == [AuditStatus.CANCELLED]


async def test_an_attempt_that_a_crash_ended_is_not_pending_for_ever() -> None:
    bench = await crashed_while_sending(Outside())
    await bench.resume_run(RUN)
    await answer(bench, Decision.APPROVE)
    first, second = audit_of(RUN, bench.runs.logs[RUN])
    assert (first.status, second.status) == (AuditStatus.ERROR, AuditStatus.SUCCESS)
    assert first.ended_at is not None
