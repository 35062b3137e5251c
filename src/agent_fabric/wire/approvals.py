"""Questions that runs ask people."""

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.wire.shape import Listing, Shape

APPROVAL = Shape(
    ApprovalCard,
    "id=approval_id run_id tool args rule expires_at status question reason subject for_run=alike? agent target sandbox"
    " untrusted private destination? outside policy_version args_hash call_id created_at decided_by? decided_at"
    " decided_because? owner binding changed damage?",
    name="Approval",
    about="A question that a run has asked.",
)
APPROVALS = Listing("approvals", APPROVAL, name="ApprovalList", about="Questions, the oldest first.")
