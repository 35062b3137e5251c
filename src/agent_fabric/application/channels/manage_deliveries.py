"""Shows what went out on channels, and sends again what a person wants to be sent again."""

import uuid
from collections.abc import Sequence

from agent_fabric.application.channels.manage_people import require_admin
from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.approvals import ApprovalRepository, ApprovalStatus
from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import DeliveryStatus, Part, PartKind
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ApprovalNotFound, ChannelNotFound, InvalidInputs
from agent_fabric.domain.identity.principals import Principal


async def is_worth_sending(part: Part, approvals: ApprovalRepository) -> bool:
    """Tell whether a part may go again; a card only as long as no one has answered it."""
    if part.kind is not PartKind.CARD:
        return True
    try:
        asked = await approvals.find(str(part.facts.get("approval_id", "")))
    except ApprovalNotFound:
        return False
    return asked.status is ApprovalStatus.PENDING


LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class ManageDeliveries:
    """Use case: the ledger of what goes out, for those who run the server. It shows no text: chats are private."""

    store: ChannelStore
    approvals: ApprovalRepository
    clock: Clock

    async def list(self, *, statuses: Sequence[DeliveryStatus] = (), limit: int = 100) -> Sequence[Part]:
        """Return parts, newest first."""
        return await self.store.deliveries.list(statuses=statuses, limit=min(limit, LIMIT))

    async def resend(self, part_id: str, *, by: Principal) -> Part:
        """Send a part again that is in doubt, failed or expired.

        Raises:
            Forbidden: the caller is no admin, or a run.
            ChannelNotFound: there is no such part.
            InvalidInputs: it is on its way, has arrived, or asks for something that was answered.
        """
        require_admin(by, "look after deliveries")
        for part in await self.store.deliveries.of_source(part_id.rsplit(":", 3)[0]):
            if part.id == part_id:
                if not await is_worth_sending(part, self.approvals):
                    raise InvalidInputs(f"{part_id} asks for something that was answered, or has expired")
                if await self.store.outbox.requeue(part, now=self.clock.now()):
                    return part
                raise InvalidInputs(f"{part_id} is {part.status}", hint="Only what is in doubt or failed goes again.")
        raise ChannelNotFound(f"There is no delivery {part_id[:200]!r}", hint="See `fabric channels deliveries`.")

    async def send_test(self, user: str, *, by: Principal) -> Sequence[Part]:
        """Send a message to a user, wherever they are paired.

        Raises:
            Forbidden: the caller is no admin, or a run.
            ChannelNotFound: they are paired nowhere.
        """
        require_admin(by, "look after deliveries")
        found = [each for each in await self.store.people.list() if each.user == user]
        if not found:
            raise ChannelNotFound(f"{user!r} is paired nowhere", hint="See people with `fabric channels people`.")
        text = f"A test message, sent by {by.name}."
        source, now = f"test:{uuid.uuid4()}", self.clock.now()
        parts = [plain_part(source, each.place, text, at=now) for each in found]
        await self.store.outbox.put(parts)
        return parts
