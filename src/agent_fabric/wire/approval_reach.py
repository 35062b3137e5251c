"""A question with how far its call reaches. Apart from `approvals`, because commands are parsed for it."""

from typing import NamedTuple

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.domain.approvals.blast_radius import BlastRadius, blast_radius
from agent_fabric.domain.approvals.call_text import call_text
from agent_fabric.wire.approvals import APPROVAL
from agent_fabric.wire.shape import Shape


class AskedApproval(NamedTuple):
    """A question, and what agreeing to it could touch."""

    card: ApprovalCard
    reach: BlastRadius
    agreed_before: int
    """How often calls of this tool were agreed to under this rule, among the newest 200 agreements."""
    text: str
    """The whole call as people read it, however long it is."""


ASKED = Shape(
    AskedApproval,
    "*card reach agreed_before text",
    name="AskedApproval",
    parts=[APPROVAL, Shape(BlastRadius, name="BlastRadius")],
)


def asked_approval(card: ApprovalCard, agreed_before: int) -> AskedApproval:
    """Return a question with how far its call reaches."""
    reach = blast_radius(
        card.args, rule=card.rule, sandbox=card.sandbox, destination=card.destination, outside=card.outside
    )
    return AskedApproval(card, reach, agreed_before, call_text(card.args))
