"""Answers what a run would ask where no one can be asked."""

from agent_fabric.application.ports.runs import Prepared
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import Body

NOBODY = "nobody"
UNATTENDED = "unattended"
"""How such an answer comes, beside `terminal`, `cli`, `http` and `clock`."""


def refuse_questions(prepared: Prepared) -> Prepared:
    """Let no one agree to what is asked, at once: the model is told so and goes on without it."""
    bodies: list[Body] = []
    for body in prepared.bodies:
        bodies.append(body)
        if isinstance(body, ApprovalRequested):
            bodies.append(
                ApprovalDecided(approval_id=body.approval_id, decision=Decision.EXPIRED, by=NOBODY, via=UNATTENDED)
            )
    return prepared._replace(bodies=bodies)
