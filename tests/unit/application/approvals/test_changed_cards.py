"""A card that was changed in its table is not what runs, so it cannot be answered."""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.errors import ApprovalRefused
from agent_fabric.domain.policy.calls import Policy
from agent_fabric.testing.fakes import FrozenClock
from contract.storage_contract import APPROVE, START, waiting
from memory_storage import MemoryStorage

ID = "abcd1234"


def no_policy() -> Policy:
    raise AssertionError("nothing was changed by the person")


@pytest.mark.proves("WA-6")
@pytest.mark.parametrize(
    "changed",
    [{"tool": "read_file"}, {"args": {"command": "ls"}}, {"reason": "It lists."}, {"alike": "*"}, {"target": "/tmp"}],
    ids=lambda changed: next(iter(changed)),
)
async def test_a_changed_card_is_refused_and_the_true_one_is_answered(changed: Mapping[str, Any]) -> None:
    storage = MemoryStorage(FrozenClock(START))
    await waiting(storage, asks=ID)
    decide = DecideApproval(storage.approvals, storage.runs, no_policy)
    true = await storage.approvals.find(ID)
    storage.change_card(ID, **changed)
    with pytest.raises(ApprovalRefused, match="not what the log"):
        await decide(ID, APPROVE, by=owner_here())
    storage.change_card(ID, **{name: getattr(true, name) for name in changed})
    assert (await decide(ID, APPROVE, by=owner_here())).approval_id == ID
