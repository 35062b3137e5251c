"""Looks at everything that has a value at every moment."""

from collections.abc import Mapping

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.vitals import StoreGauge
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError

MEANINGS: Mapping[str, str] = {
    "runs_running": "Runs that are being driven",
    "runs_queued": "Runs that wait for their turn",
    "cluster_runs_queued": "Runs that no process of a shared store drives yet",
    "queue_oldest_age_seconds": "How long the first run in line has waited",
    "approvals_waiting": "Questions that are not answered yet",
    "approvals_oldest_age_seconds": "How long the oldest of them has waited",
    "nodes_online": "Machines of the fleet that are connected",
    "nodes_offline": "Machines of the fleet that are not",
    "store_unavailable": "1 when the store cannot be read, else 0",
    "store_bytes": "Size of the store",
    "disk_free_bytes": "Room on the disk of the store",
    "disk_free_ratio": "Room on the disk of the store, as a share of it",
    "clock_skew_seconds": "Difference between the clock of this machine and that of the shared store",
}
"""What can be watched, by name."""


@dataclass(frozen=True, slots=True)
class TakeVitals:
    """Use case: tell how busy the server is and how its store fares. It never fails."""

    dispatch: DispatchRuns
    store: StoreGauge
    clock: Clock

    async def __call__(self) -> dict[str, float]:
        """Return each value by its name; those of a store that cannot be read are missing."""
        found = {
            "runs_running": float(self.dispatch.running),
            "runs_queued": float(self.dispatch.queued),
            "queue_oldest_age_seconds": self.dispatch.oldest_queued_s,
        }
        try:
            measured = await self.store.measure()
        except FabricError:
            return {**found, "store_unavailable": 1.0}
        asked_at = measured.oldest_approval_at
        return {
            **found,
            "cluster_runs_queued": float(measured.cluster_runs_queued),
            "approvals_waiting": float(measured.approvals_waiting),
            "approvals_oldest_age_seconds": 0.0 if asked_at is None else max(0.0, self.clock.now() - asked_at),
            "nodes_online": float(measured.nodes_online),
            "nodes_offline": float(measured.nodes_offline),
            "store_unavailable": 0.0,
            "store_bytes": float(measured.store_bytes),
            "disk_free_bytes": float(measured.disk_free_bytes),
            "disk_free_ratio": measured.disk_free_bytes / max(1, measured.disk_total_bytes),
            "clock_skew_seconds": abs(measured.clock_skew_s),
        }
