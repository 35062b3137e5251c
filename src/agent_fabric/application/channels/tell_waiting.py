"""Tells people at once that a schedule waits for one of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.automation import FiringOverview, ScheduleRepository
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.automation.firing import AskedPerson
from agent_fabric.domain.channels.notices import Notice, NoticeKind
from agent_fabric.domain.errors import AccountNotFound, ApprovalNotFound, ScheduleNotFound

WAITS_EVENT = "schedule_waits"


@dataclass(slots=True)
class TellWaiting:
    """Use case: say once of each run that a crash has cut off that its schedule waits for a person.

    What a run asks in the course of its work needs no more than its card. This is a question that no one expects.
    """

    overview: FiringOverview
    approvals: ApprovalRepository
    schedules: ScheduleRepository
    notify: NotifyUser
    alert: Callable[[str, str], None]
    _told: set[str] = field(default_factory=set)
    """Questions that this process has told of, as long as they are open."""

    async def __call__(self) -> None:
        """Look once."""
        asked = await self.overview.asked()
        self._told.intersection_update(each.approval_id for each in asked.values())
        for name, each in asked.items():
            if each.approval_id not in self._told:
                await self._tell(name, each)
                self._told.add(each.approval_id)

    async def _tell(self, name: str, asked: AskedPerson) -> None:
        try:
            card = await self.approvals.find(asked.approval_id)
            schedule = await self.schedules.find(name)
        except (ApprovalNotFound, ScheduleNotFound):  # gone since
            return
        if card.question is not Question.DID_IT_HAPPEN:
            return
        answer = f"fabric approvals show {asked.approval_id}"
        self.alert(WAITS_EVENT, f"{name} waits for a person: its run was cut off in the middle of a step ({answer})")
        notice = Notice(
            source=f"schedule:{name}:{asked.approval_id}",
            kind=NoticeKind.ALERT,
            text=f"The schedule **{name}** waits for you: the server was stopped in the middle of a step of its run "
            f"{asked.run_id}, and only a person can tell whether it has happened.\n\n`{answer}`",
            facts={"schedule": name, "run_id": asked.run_id, "approval_id": asked.approval_id, "since": asked.since},
        )
        try:
            await self.notify(schedule.requested_by, notice)
        except AccountNotFound:  # made on this machine, or with a key: the alert tells the others
            return
