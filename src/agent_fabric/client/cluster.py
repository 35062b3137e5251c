"""The servers and workers that share a server's store."""

from agent_fabric.client.transport import Resource
from agent_fabric.wire.cluster import CLUSTER, ClusterView


class ServerCluster(Resource):
    """The processes that a server shares its store with."""

    async def status(self) -> ClusterView:
        """Tell who is there, what they drive, and what no process can drive and why.

        Raises:
            StoreUnavailable: the server's database does not answer.
        """
        return await self._get(CLUSTER.load, "/api/v1/cluster")
