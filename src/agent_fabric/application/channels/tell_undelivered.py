"""What follows when something cannot be delivered: never silence."""

from dataclasses import dataclass, replace

from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import UNDELIVERED, Alert, ChannelOutbox, alert_nobody
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import WINDOW_CLOSED, DeliveryStatus, Part, Settlement

DAY_S = 86_400.0
KNOCK = "There is a message for you. Write something to get it."


@dataclass(frozen=True, slots=True)
class TellUndelivered:
    """Use case: knock where only a template is let through, and raise an alert where no one can be told.

    A knock goes to a chat once a day. What waits behind it goes out by itself when the person writes.
    """

    outbox: ChannelOutbox
    clock: Clock
    alert: Alert = alert_nobody

    async def __call__(self, part: Part, settlement: Settlement) -> None:
        """Do what follows from a part that was settled."""
        if settlement.status not in (DeliveryStatus.FAILED, DeliveryStatus.EXPIRED) or part.is_preview:
            return
        if settlement.problem == WINDOW_CLOSED and not part.is_knock:
            now = self.clock.now()
            knock = plain_part(f"knock:{part.place.key}", part.place, KNOCK, at=now, seq=int(now // DAY_S))
            await self.outbox.put([replace(knock, facts={"knock": True})])
        else:
            self.alert(UNDELIVERED)
