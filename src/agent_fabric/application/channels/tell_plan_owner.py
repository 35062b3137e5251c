"""Tells the author of a plan that it was halted, or that it has left machines out."""

from dataclasses import dataclass

from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.domain.channels.notices import Notice, NoticeKind
from agent_fabric.domain.errors import AccountNotFound
from agent_fabric.domain.fleet.plans import Plan


@dataclass(frozen=True, slots=True)
class TellPlanOwner:
    """Use case: tell the owner of a plan how it stands, where they want to be told; the same standing once."""

    notify: NotifyUser

    async def __call__(self, plan: Plan) -> None:
        """Tell it."""
        notice = Notice(
            source=f"plan:{plan.id}:{plan.status}:{plan.updated_at:.3f}",
            kind=NoticeKind.ALERT,
            text=f"Plan **{plan.name}** is {plan.status}: {plan.note}\n\n`fabric fleet show {plan.id}`",
            facts={"plan_id": plan.id, "status": plan.status.value, "note": plan.note, "skipped": list(plan.skipped)},
        )
        try:
            await self.notify(plan.created_by, notice)
        except AccountNotFound:  # made with a key, or on this machine: the alert tells the others
            return
