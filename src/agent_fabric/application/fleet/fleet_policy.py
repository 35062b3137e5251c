"""How calls to nodes are judged inside runs, and where node tools find the fleet. Light: every run imports it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, NodeUnavailable
from agent_fabric.domain.fleet.chosen_node import NODE_PREFIX
from agent_fabric.domain.fleet.served_tools import MCP_PROXY, proxied_arguments, served_name
from agent_fabric.domain.identity.principals import Scope, holds_scope
from agent_fabric.domain.policy.access import lacks_scope
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect, Trust

if TYPE_CHECKING:
    from agent_fabric.application.fleet.remote_tools import RemoteTools
    from agent_fabric.domain.fleet.nodes import Node

NODE_COMMAND = "node-command"
"""The action of a workflow that carries out one command which was asked for from outside of a run."""
NODE_RUN = "node-run"
"""The action that runs a tool on a machine for its own run, such as that of a schedule."""
FLEET_PLAN = "fleet-plan"
"""The action that begins a plan once a person has agreed to all of it."""


class FleetDoor:
    """Where node tools find the fleet: in a server, once it has been joined; nowhere else."""

    def __init__(self) -> None:
        self._tools: RemoteTools | None = None

    def open(self, tools: "RemoteTools") -> None:
        """Let node tools work."""
        self._tools = tools

    @property
    def tools(self) -> "RemoteTools":
        """The fleet.

        Raises:
            NodeUnavailable: this process has none.
        """
        if self._tools is None:
            raise NodeUnavailable(
                "Nodes are connected to a server, and this process is none",
                hint="Start one with `fabric serve`, and work there: --server auto",
            )
        return self._tools

    async def has_nodes(self) -> bool:
        """Tell whether there are machines to look after, as far as this process knows."""
        return self._tools is not None and bool(await self._tools.nodes())


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """A `Policy` that judges calls to nodes by what is in force on the node and by what the run has read.

    All other calls are judged as before.

    What a person may not do themselves, their runs may not do for them: calls to nodes need their scope `nodes`.
    """

    inner: RulePolicy
    door: FleetDoor

    @property
    def version(self) -> str:
        """That of the rules for all calls; the node's own is part of what an approval of its call is bound to."""
        return self.inner.version

    def judge(self, call: ProposedCall) -> Ruling:
        """Decide about one call; never raises."""
        asked = asked_of_node(call.tool, call.args) if _may_be_for_node(call) else None
        if asked is not None and (reason := _lacks_right(call)):
            return Ruling(Verdict.BLOCK, reason, "scope", call.tool)
        if call.tool == FLEET_PLAN:
            nodes = call.args.get("nodes")
            count = len(nodes) if isinstance(nodes, list) else 0
            reason = f"A plan for {count} machine(s): a person has to agree to all of it."
            return Ruling(Verdict.ASK, reason, "fleet_plan", str(call.args.get("plan_id", "")))
        if asked is None:
            return self.inner.judge(call)
        which, tool_name, arguments = asked
        try:
            dispatch = self.door.tools.dispatch
            node = dispatch.nodes.find_now(which)
            if node is None:
                return Ruling(Verdict.ALLOW, f"There is no node {which!r}.", "unknown_node", call.tool)
            from agent_fabric.application.fleet.dispatch_command import CommandRequest  # noqa: PLC0415 - only for nodes

            ruling = dispatch.judge(CommandRequest(node=node, tool_name=tool_name, arguments=arguments, by=""))
            return _stricter(ruling, self._judge_sending(call, node, tool_name, arguments))
        except FabricError as problem:  # the tool says the same
            return Ruling(Verdict.ALLOW, problem.message, "unusable_node", call.tool)

    def _judge_sending(
        self, call: ProposedCall, node: "Node", tool_name: str, arguments: Mapping[str, Any]
    ) -> Ruling | None:
        """Decide whether a call may carry out what it carries: a machine is outside, as a tool server is."""
        from agent_fabric.domain.fleet.read_back import surely_reads  # noqa: PLC0415 - only for nodes

        effect = Effect.READS if surely_reads(tool_name, arguments) else Effect.LEAVES_SANDBOX
        flow = replace(call.flow, private=()) if node.is_trusted_with_data else call.flow
        return self.inner.judge_sending(replace(call, effect=effect, flow=flow))


def _stricter(ruling: Ruling, sending: Ruling | None) -> Ruling:
    """Return the stricter of what a machine's policies say about a call and what the labels of its run say.

    An allowance of the labels is counted, so it is what the log names. If both ask, one answer covers one call.
    """
    if sending is None or ruling.verdict is Verdict.BLOCK:
        return ruling
    if sending.verdict is not Verdict.ASK or ruling.verdict is not Verdict.ASK:
        return ruling if ruling.verdict is Verdict.ASK else sending
    return Ruling(Verdict.ASK, f"{sending.reason} {ruling.reason}", sending.rule, ruling.subject)


def may_operate(scopes: frozenset[str]) -> bool:
    """Tell whether someone with these scopes may operate machines; no scopes at all are no limit."""
    return not scopes or holds_scope(scopes, Scope.NODES)


def _lacks_right(call: ProposedCall) -> str:
    if not may_operate(call.scopes):
        return "The user behind this run may not operate machines: that needs the scope 'nodes'."
    return "" if call.tool in {NODE_COMMAND, NODE_RUN} else lacks_scope(call)


def _may_be_for_node(call: ProposedCall) -> bool:
    """Tell a machine's tool from one of a pack that happens to have dots in its name."""
    return served_name(call.tool) is None or call.server.startswith(f"{Trust.NODE.value}: ")


def asked_of_node(tool: str, args: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]] | None:
    """Return which node a call is for, and what it wants there; None: for none."""
    if tool in {NODE_COMMAND, NODE_RUN}:
        arguments = args.get("arguments")
        return str(args.get("node")), str(args.get("tool_name")), arguments if isinstance(arguments, Mapping) else {}
    if tool.startswith(NODE_PREFIX) and "node" in args:
        arguments = {key: value for key, value in args.items() if key != "node"}
        return str(args["node"]), tool.removeprefix(NODE_PREFIX), arguments
    if (served := served_name(tool)) is not None:
        return served.node, MCP_PROXY, proxied_arguments(served.server, served.tool, args)
    return None
