"""Who did what, whether the record is whole, and what was deleted from it."""

from agent_fabric.application.audit.collect_garbage import Collected
from agent_fabric.application.ports.audit import ChainReport
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.audit.chain import AuditEntry
from agent_fabric.wire.shape import Listing, Shape

CALL = Shape(
    AuditEntry,
    "run_id seq created_at=at completed_at=ended_at agent tool_name=tool arguments=args args_hash rule? approval_id?"
    " approved_by=approver? sandbox status",
    fixed={"kind": "call"},
)
ACT = Shape(Act, "created_at=at by credential act=deed about? detail?", name="AdminAct", fixed={"kind": "admin"})
ACTS = Listing("acts", ACT, name="AdminActs", about="What was done to the server itself, the newest first.")
CHAIN = Shape(
    ChainReport, "holds runs removed entries unknown_key untied head kept_head damage", name="ChainVerification"
)
COLLECTED = Shape(Collected, "removed=runs freed_bytes dry_run refused", name="GarbageCollected")
