"""Repositories that wake the driver of a run, as soon as there is something in its inbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalRepository
from agent_fabric.application.ports.runs import HeldLog, HeldRun, RunRepository
from agent_fabric.application.ports.wake_ups import INBOX, WakeUps
from agent_fabric.domain.events import Event
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus


@dataclass(frozen=True, slots=True)
class PokingRuns:
    """RunRepository that pokes after each row that it puts into an inbox."""

    inner: RunRepository
    wake_ups: WakeUps

    async def create(self, run_id: RunId, events: Sequence[Event]) -> HeldRun:
        return await self.inner.create(run_id, events)

    async def take(self, run_id: RunId) -> HeldLog:
        return await self.inner.take(run_id)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return await self.inner.read(run_id, after=after)

    async def status(self, run_id: RunId) -> RunStatus:
        return await self.inner.status(run_id)

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        await self.inner.post(run_id, kind, payload)
        self.wake_ups.poke(INBOX, {"run": run_id})


@dataclass(frozen=True, slots=True)
class PokingApprovals:
    """ApprovalRepository that pokes after each answer, which is a row of an inbox, too."""

    inner: ApprovalRepository
    wake_ups: WakeUps

    async def list(
        self, *, run_id: RunId | None = None, pending_only: bool = True, viewer: Viewer = EVERYTHING
    ) -> Sequence[ApprovalCard]:
        return await self.inner.list(run_id=run_id, pending_only=pending_only, viewer=viewer)

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> ApprovalCard:
        return await self.inner.find(prefix, viewer=viewer)

    async def agreed_before(self, card: ApprovalCard, *, viewer: Viewer = EVERYTHING) -> int:
        return await self.inner.agreed_before(card, viewer=viewer)

    async def answer(self, approval_id: str, answer: Answer) -> None:
        await self.inner.answer(approval_id, answer)
        self.wake_ups.poke(INBOX, {"approval": approval_id})
