"""Joins the fleet for a server: who is connected, what is sent to them, what people may do."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from agent_fabric.application.channels.notify_user import NotifyUser, TellPlanOwner
from agent_fabric.application.cluster.require_keys import HUB, fingerprint, require_keys
from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.fleet.apply_plan import ApplyPlan, FreezePlan
from agent_fabric.application.fleet.ask_with_run import AskWithRun
from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.enrol_node import InviteNode, JoinNode
from agent_fabric.application.fleet.hub import Hub
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.operate_nodes import OperateNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools, SettleCommands
from agent_fabric.application.fleet.review_link import ReviewLink
from agent_fabric.application.fleet.roll_out_plan import RollOutPlan
from agent_fabric.application.fleet.run_on_nodes import RunOnNodes
from agent_fabric.application.fleet.sign_commands import SignCommands
from agent_fabric.application.fleet.track_presence import FindNodeWork, TrackPresence
from agent_fabric.application.fleet.verify_node_audit import NodeAudit, VerifyNodeAudit
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.application.ports.pending_work import COMMANDS, PLANS
from agent_fabric.application.ports.wake_ups import NODES, WakeUps
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.explain_policy import ExplainPolicy
from agent_fabric.domain.fleet.nodes import Node, NodeId
from agent_fabric.domain.fleet.plans import PlanStatus
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.infrastructure.cluster.wake_ups.choose import SELDOM_S
from agent_fabric.infrastructure.fleet.key_files import hub_key
from agent_fabric.infrastructure.fleet.node_archive import NodeArchive, node_archive
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed
from agent_fabric.infrastructure.identity.own_secrets import key_pepper
from agent_fabric.infrastructure.threads import wait_for


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a server needs to operate machines."""

    hub: Hub
    invite: InviteNode
    dispatch: DispatchCommand
    run_on_nodes: RunOnNodes
    operate: OperateNodes
    tools: RemoteTools
    sign: SignCommands
    freeze: FreezePlan
    apply: ApplyPlan
    roll_out: RollOutPlan
    plans: PlanRepository
    key: SigningKey
    _general: RulePolicy
    _presence: TrackPresence
    _settle: SettleCommands
    _find_work: FindNodeWork | None
    _wake_ups: WakeUps
    _looking: "set[asyncio.Task[None]]" = field(default_factory=set)

    async def archive(self) -> NodeArchive:
        return await asyncio.to_thread(node_archive)

    async def verify(self, which: str) -> NodeAudit:
        """Compare the record of a node with the hub's.

        Raises:
            NodeNotFound, NodeUnavailable: there is none, or it is not connected.
        """
        node = await self.operate.find(which)
        return await VerifyNodeAudit(self.hub.commands, self.hub.call, self.hub.is_signed)(node)

    def explain(self, node: Node) -> ExplainPolicy:
        """Tell what is in force on a machine, and why."""
        return ExplainPolicy(node.name, node.policy, self._general)

    def listen(self) -> None:
        """Look at once when another process hints at a node, or at a command that is settled."""
        self._wake_ups.listen(NODES, self._on_hint)

    def _on_hint(self, hint: Mapping[str, Any]) -> None:
        live, execution_id = self.hub.live, str(hint.get("command", ""))
        if node := str(hint.get("node", "")):
            live.review(NodeId(node), doubted=hint.get("doubt") is True)
        if call_id := str(hint.get("call", "")):
            self.hub.call.heard_answer(call_id)
        if execution_id and live.is_awaited(execution_id):
            task = asyncio.create_task(self._look_for(execution_id))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _look_for(self, execution_id: str) -> None:
        found = await self.hub.commands.find(execution_id)
        if found is not None and found.status.settled:
            self.hub.live.settle(found)

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """Return what is done for as long as the server lives."""
        finding = [] if self._find_work is None else [self._find_work()]
        return [self._presence(), self.roll_out.watch(), self._settle(), *finding]

    def close(self) -> None:
        """End all connections; the nodes come back to whichever server is there."""
        for link in self.hub.live.all():
            link.close(1012, "the hub restarts")


def open_fleet(
    root: Path,
    local: LocalFabric,
    config: FabricConfig,
    wake_ups: WakeUps,
    watch: WatchPendingWork | None = None,
    alert: Callable[[str, str], None] = lambda _kind, _about: None,
) -> Fleet:
    """Join the parts; `watch` looks for plans to take up and commands to settle, where servers share the store.

    `alert` hears of plans that were halted by errors or have left machines out.

    Raises:
        ConfigError: the hub's key cannot be used, or is not that of the other servers.
    """
    storage, live = local.records.storage, LiveNodes()
    clock, shared = storage.clock, storage.cluster is not None
    # Rules for all machines hold on nodes as well; what no rule is about, the policies of the node decide.
    general = replace(local.rules, profile=Profile.OPEN)

    def hint(node_id: NodeId) -> None:
        wake_ups.poke(NODES, {"node": node_id})

    def holder() -> str:
        return "" if storage.cluster is None else storage.cluster.worker_id

    async def plan_status(plan_id: str) -> PlanStatus | None:
        found = await storage.fleet_plans.find(plan_id)
        return None if found is None else found.status

    async def program_hash() -> str:
        return (await asyncio.to_thread(node_archive)).sha256

    key = hub_key(root, pepper=key_pepper(root, os.environ) if shared else None)
    if shared:
        wait_for(require_keys(storage.fingerprints, {HUB: fingerprint(HUB, key.seed)}))
    review = ReviewLink(storage.nodes, live)
    call = CallNodes(
        live, storage.node_calls, clock, shared, hint, lambda call_id: wake_ups.poke(NODES, {"call": call_id})
    )
    find_work = FindNodeWork(storage.node_work, live, clock, watch.every_s) if watch is not None else None
    dispatch = DispatchCommand(
        storage.nodes,
        storage.node_commands,
        live,
        clock,
        general.judge,
        hint,
        any(rule.nodes for rule in general.rules),
    )
    ask = AskWithRun(open_workflows(root, config).task, storage.approvals)
    tools = RemoteTools(dispatch, storage.approvals, storage.fleet_plans)
    local.fleet_door.open(tools)
    roll_out, settle = RollOutPlan(dispatch, storage.fleet_plans), SettleCommands(tools)
    roll_out.tell = TellPlanOwner(NotifyUser.of(storage))
    roll_out.alert = lambda plan: alert(f"plan_{plan.status}", f"{plan.name} ({plan.id}): {plan.note}")
    if watch is not None:
        roll_out.look_every_s = settle.look_every_s = SELDOM_S
        watch.listen(PLANS, roll_out.wake)
        watch.listen(COMMANDS, settle.wake)
    return Fleet(
        hub=Hub(
            storage.nodes,
            storage.node_commands,
            JoinNode(storage.node_invites, clock),
            live,
            clock,
            key,
            is_signed,
            review,
            call,
            dispatch.judge,
            shared,
            lambda about: wake_ups.poke(NODES, about),
            plan_status,
            holder,
        ),
        invite=InviteNode(storage.node_invites, clock),
        dispatch=dispatch,
        run_on_nodes=RunOnNodes(dispatch, ask),
        operate=OperateNodes(dispatch, is_signed, call, review),
        tools=tools,
        sign=SignCommands(storage.nodes, storage.node_commands, storage.fleet_plans, clock),
        freeze=FreezePlan(dispatch, storage.fleet_plans, program_hash),
        apply=ApplyPlan(dispatch, storage.fleet_plans, roll_out, ask),
        roll_out=roll_out,
        plans=storage.fleet_plans,
        key=key,
        _general=general,
        _presence=TrackPresence(
            storage.nodes, storage.node_presence, storage.node_commands, live, clock, shared, call.forget_old, holder
        ),
        _settle=settle,
        _find_work=find_work,
        _wake_ups=wake_ups,
    )
