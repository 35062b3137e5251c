"""The processes that share the server's database."""

from agent_fabric.application.ports.cluster import Cluster
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.cluster import CLUSTER, ClusterView, view_of


def add_cluster(routes: Routes, cluster: Cluster | None) -> None:
    """Add the route. It is for administrators: it tells about machines and about runs of all people."""

    @routes.get(
        "/api/v1/cluster", Scope.ADMIN, "Show the servers and workers that share the store", CLUSTER, fails=[503]
    )
    async def status() -> ClusterView:
        """Return who is there, what they drive, what no process can drive, and why: `fabric cluster status --json`."""
        return view_of(None if cluster is None else await cluster.status())
