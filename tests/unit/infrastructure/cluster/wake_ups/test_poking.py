"""Who is told when a row is put into an inbox, or a log grows."""

import pytest

from agent_fabric.application.ports.approvals import Answer
from agent_fabric.application.ports.runs import CANCEL
from agent_fabric.application.ports.wake_ups import INBOX, log_topic
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.errors import ApprovalNotFound, RunNotFound
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.cluster.wake_ups.pokes import LogPokes, PokingApprovals, PokingRuns
from contract.run_repository_contract import CREATED, NEXT, NOBODY, RUN
from contract.wake_ups_contract import Ear
from memory_storage import MemoryStorage


async def test_a_row_in_an_inbox_is_hinted_at_once_it_is_there() -> None:
    storage, wake_ups, ear = MemoryStorage(), InProcessWakeUps(), Ear()
    wake_ups.listen(INBOX, ear)
    runs = PokingRuns(storage.runs, wake_ups)
    held = await runs.create(RUN, CREATED)
    assert ear.heard == []
    await runs.post(RUN, CANCEL, {"by": "ada", "reason": ""})
    assert ear.heard == [{"run": RUN}]
    assert len(await held.unread()) == 1


async def test_nothing_is_hinted_at_that_was_refused() -> None:
    storage, wake_ups, ear = MemoryStorage(), InProcessWakeUps(), Ear()
    wake_ups.listen(INBOX, ear)
    with pytest.raises(RunNotFound):
        await PokingRuns(storage.runs, wake_ups).post(NOBODY, CANCEL, {"by": "ada", "reason": ""})
    answer = Answer(decision=Decision.APPROVE, by="ada", via="test")
    with pytest.raises(ApprovalNotFound):
        await PokingApprovals(storage.approvals, wake_ups).answer("nobody", answer)
    assert ear.heard == []


async def test_followers_of_a_log_are_told_how_far_it_has_grown_and_nothing_else() -> None:
    wake_ups, ear = InProcessWakeUps(), Ear()
    wake_ups.listen(log_topic(RUN), ear)
    LogPokes(wake_ups).publish(RUN, NEXT)
    assert ear.heard == [{"seq": NEXT[-1].seq}]
