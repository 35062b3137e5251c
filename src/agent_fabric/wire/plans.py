"""Plans for many machines."""

from typing import NamedTuple

from agent_fabric.domain.fleet.plans import Plan, PlannedCall
from agent_fabric.wire.shape import Listing, Shape

PLANNED_CALL = Shape(PlannedCall, "node_id node execution_id policy_version bound_hash wave expires_at")
PLAN = Shape(
    Plan,
    "id name status hash tool_name arguments calls max_errors pause_s on_offline check wave waves errors outcomes "
    "skipped online away note signatures created_by approver run_id? created_at updated_at",
    name="FleetPlan",
    parts=[PLANNED_CALL],
)
PLANS = Listing("plans", PLAN, name="FleetPlanList", about="Plans, the newest first.")


class AskedPlan(NamedTuple):
    """A plan that waits for a person, or goes on."""

    id: str
    status: str
    hash: str
    approval_id: str
    """Empty: no approval is needed, or it was given."""
    run_id: str


ASKED_PLAN = Shape(AskedPlan, name="AskedFleetPlan")
