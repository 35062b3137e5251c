"""Joins the fleet for a server: who is connected, what is sent to them, what people may do."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_fabric.application.fleet.dispatch_command import DispatchCommand, Wish
from agent_fabric.application.fleet.enrol_node import InviteNode, JoinNode
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.operate_nodes import OperateNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools, settle_denied_forever
from agent_fabric.application.fleet.roll_out_plan import FreezePlan, RollOutPlan
from agent_fabric.application.fleet.serve_link import FleetDesk
from agent_fabric.application.fleet.track_presence import SWEEP_S, TrackPresence
from agent_fabric.application.fleet.verify_node_audit import NodeAudit, VerifyNodeAudit
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.application.ports.wake_ups import NODES, WakeUps
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.domain.fleet.plans import Plan
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.fleet.hub_key import hub_key
from agent_fabric.infrastructure.fleet.node_archive import NodeArchive, node_archive
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a server needs to operate machines."""

    desk: FleetDesk
    invite: InviteNode
    dispatch: DispatchCommand
    operate: OperateNodes
    tools: RemoteTools
    freeze: FreezePlan
    roll_out: RollOutPlan
    plans: PlanRepository
    key: SigningKey
    _presence: TrackPresence
    _wake_ups: WakeUps

    async def archive(self) -> NodeArchive:
        """Return the program for machines."""
        return await asyncio.to_thread(node_archive)

    async def verify(self, which: str) -> NodeAudit:
        """Compare the record of a node with the hub's.

        Raises:
            NodeNotFound, NodeUnavailable: there is none, or it is not connected.
        """
        node = await self.operate.find(which)
        return await VerifyNodeAudit(self.desk.commands, self.desk.live)(node)

    async def asks(self, plan: Plan) -> bool:
        """Tell whether a person has to agree to a plan: on one of its machines, at least, its call asks."""
        for call in plan.calls:
            node = await self.desk.nodes.find(call.node_id)
            if node is None:
                continue
            wish = Wish(node=node, tool_name=plan.tool_name, arguments=plan.arguments, by=plan.created_by)
            if self.dispatch.judge(wish).verdict is not Verdict.ALLOW:
                return True
        return False

    def listen(self) -> None:
        """Look for commands at once when another process hints at one."""
        self._wake_ups.listen(NODES, lambda hint: self.desk.live.poke(NodeId(str(hint.get("node", "")))))

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """Return what is done for as long as the server lives."""
        return [self._presence(), self.roll_out.watch(), settle_denied_forever(self.tools, SWEEP_S)]

    def close(self) -> None:
        """End all connections; the nodes come back to whichever server is there."""
        for link in self.desk.live.all():
            link.close(1012, "the hub restarts")


def open_fleet(root: Path, local: LocalFabric, wake_ups: WakeUps) -> Fleet:
    """Join the parts."""
    storage, clock, live = local.records.storage, SystemClock(), LiveNodes()
    # Rules for all machines hold on nodes as well; what no rule is about, the policies of the node decide.
    general = replace(local.rules, profile=Profile.OPEN)

    def judge_by_hub(call: ProposedCall) -> Ruling | None:
        return general.judge(call)

    key = hub_key(root)
    dispatch = DispatchCommand(
        storage.nodes,
        storage.node_commands,
        live,
        clock,
        judge_by_hub,
        lambda node_id: wake_ups.poke(NODES, {"node": node_id}),
    )
    tools = RemoteTools(dispatch, storage.approvals, storage.fleet_plans)
    local.fleet_door.open(tools)
    return Fleet(
        desk=FleetDesk(
            storage.nodes,
            storage.node_commands,
            JoinNode(storage.node_invites, clock),
            live,
            clock,
            key,
            is_signed,
        ),
        invite=InviteNode(storage.node_invites, clock),
        dispatch=dispatch,
        operate=OperateNodes(storage.nodes, storage.node_commands, live, clock, is_signed),
        tools=tools,
        freeze=FreezePlan(dispatch, storage.fleet_plans),
        roll_out=RollOutPlan(dispatch, storage.fleet_plans),
        plans=storage.fleet_plans,
        key=key,
        _presence=TrackPresence(storage.nodes, storage.node_commands, live, clock),
        _wake_ups=wake_ups,
    )
