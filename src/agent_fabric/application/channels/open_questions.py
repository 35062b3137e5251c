"""Whether the question of a card is still open: an old card is sent to no one."""

from agent_fabric.application.ports.approvals import ApprovalRepository, ApprovalStatus
from agent_fabric.domain.channels.deliveries import Part, PartKind
from agent_fabric.domain.errors import ApprovalNotFound


async def is_worth_sending(part: Part, approvals: ApprovalRepository) -> bool:
    """Tell whether a part may go again; a card only as long as no one has answered it."""
    if part.kind is not PartKind.CARD:
        return True
    try:
        asked = await approvals.find(str(part.facts.get("approval_id", "")))
    except ApprovalNotFound:
        return False
    return asked.status is ApprovalStatus.PENDING
