"""Holds a connection against the store: other servers, and people at them, change what is true about its node."""

import logging

from agent_fabric.application.fleet.json_rpc import LinkLost, RpcFailed
from agent_fabric.application.fleet.live_nodes import LiveNodes, NodeLink
from agent_fabric.application.ports.fleet import NodeRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.nodes import Node, NodeStatus
from agent_fabric.domain.fleet.protocol import CLONE_PING_TIMEOUT_S, CloseCode, Method

SYNC_TIMEOUT_S = 20.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReviewLink:
    """Use case: end a connection whose node is revoked, in conflict or connected elsewhere; sync its policy."""

    nodes: NodeRepository
    live: LiveNodes

    async def __call__(self, link: NodeLink) -> bool:
        """Tell whether the connection may go on; if not, it is ended."""
        doubted, link.changed, link.doubted = link.doubted, False, False
        node = await self.nodes.find(link.node_id)
        if node is None or node.status is NodeStatus.REVOKED:
            return self._end(link, CloseCode.REVOKED, "the node is revoked")
        if node.status is NodeStatus.CONFLICT:
            return self._end(link, CloseCode.CONFLICT, f"the node is in conflict: {node.note}")
        if doubted or node.generation != link.generation:
            return await self._settle_doubt(link, node)
        return await self.sync_policy(link, node)

    async def sync_policy(self, link: NodeLink, node: Node) -> bool:
        """Send the hub's policy if the node has another one; tell whether the connection may go on."""
        wanted = dict(node.security_policy_json)
        if wanted == dict(link.policy):
            return True
        try:
            await link.peer.call(Method.POLICY_SYNC, {"policy": wanted}, timeout_s=SYNC_TIMEOUT_S)
        except (LinkLost, RpcFailed, TimeoutError):
            link.close(1001, "the policy could not be synced")  # it gets it when it is back
            return False
        link.policy = wanted
        return True

    async def _settle_doubt(self, link: NodeLink, node: Node) -> bool:
        """Another server has a connection of the node: either this one is dead, or there are two machines."""
        if await answers(link):
            reason = "a second machine has connected while the first one answers"
            await self.nodes.update(node.id, {"status": NodeStatus.CONFLICT.value, "note": reason})
            _log.warning("node %s (%s) is in conflict: %s", node.name, node.id, reason)
            return self._end(link, CloseCode.CONFLICT, reason)
        offline = {"status": NodeStatus.OFFLINE.value}
        if node.status is NodeStatus.ONLINE:
            await self.nodes.update(node.id, offline, generation=link.generation)
        return self._end(link, 1001, "another connection of the node has taken over")

    def _end(self, link: NodeLink, code: int, reason: str) -> bool:
        self.live.drop(link)
        link.close(code, reason)
        return False


async def answers(link: NodeLink) -> bool:
    """Tell whether someone is still there at the other end."""
    try:
        await link.peer.call(Method.PING, {}, timeout_s=CLONE_PING_TIMEOUT_S)
    except (TimeoutError, LinkLost, RpcFailed, OSError):
        return False
    return True
