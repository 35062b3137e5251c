"""Tells webhooks of users about the questions that they may answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import field

from agent_fabric.application.attempts import lead
from agent_fabric.application.channels.manage_people import principal_of
from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalRepository
from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.domain.channels.notices import Notice, NoticeKind, NotifyPreference
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ApprovalNotFound, FabricError
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Scope

LOOK_EVERY_S = 2.0
LOCK = "channel webhooks"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class PostApprovals:
    """Use case: one message for every question and webhook, at least once; one process of all does it.

    The message tells who is asked for what, and no arguments: a webhook is no place to answer.
    """

    notify: NotifyUser
    approvals: ApprovalRepository
    locks: NamedLocks
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits until the next look."""
    _told: set[tuple[str, str]] = field(default_factory=set)

    async def __call__(self) -> None:
        def tell(problem: FabricError) -> None:
            _log.warning("Webhooks were not told of approvals: %s", problem.message)

        await lead(self.locks, LOCK, self.step, lambda: self.pause(LOOK_EVERY_S), tell)

    async def step(self) -> None:
        """Tell what was not told yet.

        Raises:
            FabricError: the rest is told later.
        """
        wanting = [each for each in await self.notify.store.notify.list() if each.webhooks(NoticeKind.APPROVAL)]
        if not wanting:
            return
        pending = [each for each in await self.approvals.list(pending_only=True) if not each.damage]
        self._told &= {(card.approval_id, each.user) for card in pending for each in wanting}
        for card in pending:
            for each in wanting:
                if (card.approval_id, each.user) not in self._told:
                    await self._tell(card, each)
                    self._told.add((card.approval_id, each.user))

    async def _tell(self, card: ApprovalCard, wanted: NotifyPreference) -> None:
        user = await self.notify.users.find(wanted.user)
        if user is None or user.disabled:
            return
        by = principal_of(user)
        try:
            await self.approvals.find(card.approval_id, viewer=Viewer.of(by))
        except ApprovalNotFound:
            return
        if not by.may(Scope.APPROVALS):
            return
        facts = {"approval_id": card.approval_id, "run_id": card.run_id, "tool": card.tool, "target": card.target}
        notice = Notice(
            source=f"approval:{card.approval_id}:{wanted.user}",
            kind=NoticeKind.APPROVAL,
            text=f"{card.agent} asks: may {card.tool} run on {card.target}?",
            facts={**facts, "expires_at": card.expires_at},
        )
        await self.notify.post(notice, wanted)
