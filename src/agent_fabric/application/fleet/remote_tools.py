"""Node tools inside runs: what an agent or a step of a workflow does on machines of the fleet, and with which tools."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final, NamedTuple

from agent_fabric.application.attempts import attempt
from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.fleet.fleet_policy import NODE_COMMAND, asked_of_node
from agent_fabric.application.fleet.roll_out_plan import machines_online
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalRepository, ApprovalStatus
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, InvalidInputs, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_tools import NOT_FOR_AGENTS
from agent_fabric.domain.fleet.nodes import Node, NodeStatus
from agent_fabric.domain.fleet.plans import Plan, PlanStatus
from agent_fabric.domain.fleet.read_back import not_read_back
from agent_fabric.domain.fleet.served_tools import MCP_PROXY, ServedTool, listed_tools, listing_arguments
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.policy.verdicts import Verdict

LIST_TIMEOUT_S: Final = 10.0
"""A run waits for it; a server that takes longer is listed for the next one."""
KNOWN_FOR_S: Final = 300.0
MAX_PAGES: Final = 10
MAX_AT_ONCE: Final = 32


class ServedListing(NamedTuple):
    """What the servers of one machine offer."""

    node: str
    tools: tuple[ServedTool, ...]
    problems: tuple[str, ...]
    """Why tools of a server are not known, one sentence for each server."""


class ServedCatalogue:
    """Use case: the tools of MCP servers on machines. Each machine is asked once in five minutes, or connection."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[float, ServedListing]] = {}

    async def everywhere(self, dispatch: DispatchCommand, by: str) -> Sequence[ServedListing]:
        """Return what the machines offer that are online and have servers."""
        nodes = [each for each in await dispatch.nodes.list() if each.status is NodeStatus.ONLINE and servers_of(each)]
        turns = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(node: Node) -> ServedListing:
            async with turns:
                return await self.of(dispatch, node, by)

        return await asyncio.gather(*map(one, nodes))

    async def of(self, dispatch: DispatchCommand, node: Node, by: str, *, fresh: bool = False) -> ServedListing:
        """Return what one machine offers; `fresh`: ask it now."""
        key, now = (node.id, node.generation), dispatch.clock.now()
        kept = self._known.get(key)
        if kept is not None and not fresh and now - kept[0] < KNOWN_FOR_S:
            return kept[1]
        answers = await asyncio.gather(*(_tools_of(dispatch, node, server, by) for server in servers_of(node)))
        found = ServedListing(
            node.name,
            tuple(tool for tools, _ in answers for tool in tools),
            tuple(problem for _, problem in answers if problem),
        )
        self._known = {k: v for k, v in self._known.items() if k[0] != node.id and now - v[0] < KNOWN_FOR_S}
        self._known[key] = (now, found)
        return found


def servers_of(node: Node) -> list[str]:
    """Return the names of the MCP servers that a machine has reported."""
    listed = node.reported.get("mcp_servers")
    named = (each.get("name") for each in listed if isinstance(each, Mapping)) if isinstance(listed, list) else ()
    return [name for name in named if isinstance(name, str)]


async def _tools_of(dispatch: DispatchCommand, node: Node, server: str, by: str) -> tuple[list[ServedTool], str]:
    """Return a server's tools, or why they are not known."""
    found: list[ServedTool] = []
    cursor: str | None = None
    try:
        async with asyncio.timeout(LIST_TIMEOUT_S):
            for _ in range(MAX_PAGES):
                answer = await _ask_node(dispatch, node, listing_arguments(server, cursor), by)
                found += listed_tools(node.name, server, answer)
                result = answer.get("result")
                following = result.get("nextCursor") if isinstance(result, Mapping) else None
                if not isinstance(following, str):
                    break
                cursor = following
    except FabricError as problem:
        return found, f"{node.name}: {server}: {problem.message}"
    except TimeoutError:
        return found, f"{node.name}: {server}: it did not list its tools within {LIST_TIMEOUT_S:g} s"
    return found, ""


async def _ask_node(dispatch: DispatchCommand, node: Node, arguments: Mapping[str, Any], by: str) -> Mapping[str, Any]:
    request = CommandRequest(node=node, tool_name=MCP_PROXY, arguments=arguments, by=by, lifetime_s=LIST_TIMEOUT_S)
    ruling = dispatch.judge(request)
    if ruling.verdict is not Verdict.ALLOW:
        raise NodeUnavailable(f"its policy does not let its tools be listed: {ruling.reason}")
    dispatch.require_usable(node, queue=False)
    command = dispatch.command(request, ruling, dispatch.status_at_once(node))
    settled = await dispatch.run(command, timeout_s=LIST_TIMEOUT_S)
    output = (settled.result or {}).get("output")
    if settled.status is not CommandStatus.SUCCESS or not isinstance(output, Mapping):
        raise NodeUnavailable(str((settled.result or {}).get("error") or f"it is {settled.status.value}"))
    if isinstance(error := output.get("error"), Mapping):
        raise NodeUnavailable(str(error.get("message", "it answers with an error"))[:500])
    return output


MAX_COMMANDS = 1_000
"""Commands that are looked at in one go, of all runs or of one, which takes at most 50 steps."""


@dataclass(frozen=True, slots=True)
class RemoteTools:
    """Use case: run a tool on a node for a run, with the approval that the run has got for it."""

    dispatch: DispatchCommand
    approvals: ApprovalRepository
    plans: PlanRepository
    catalogue: ServedCatalogue = field(default_factory=ServedCatalogue)

    async def nodes(self) -> Sequence[Node]:
        return await self.dispatch.nodes.list()

    def vouches_for(self, which: str) -> bool:
        """Tell whether an admin has said that what a machine says counts as the owner's words."""
        node = self.dispatch.nodes.find_now(which)
        return node is not None and node.is_vouched_for

    async def list_served(self, by: str) -> Sequence[ServedListing]:
        """Return the tools of MCP servers on all machines that are online."""
        return await self.catalogue.everywhere(self.dispatch, by)

    async def execute(
        self, which: str, tool_name: str, arguments: Mapping[str, Any], *, run_id: RunId, call_id: CallId, by: str
    ) -> NodeCommand:
        """Run a tool on a node and wait for the result.

        Raises:
            FabricError: there is no such node, it is not there, or its policy forbids the call.
        """
        execution_id = execution_id_of_call(run_id, call_id)
        kept = await self.dispatch.commands.find(execution_id)
        if kept is not None and kept.status is CommandStatus.WAITING:  # approvers were to sign it
            return await self._send_signed(kept, tool_name, arguments, await self._approver(run_id, call_id))
        if kept is not None:  # the server was killed while it waited
            return await self.dispatch.outcome(execution_id)
        if tool_name in NOT_FOR_AGENTS:
            raise InvalidInputs(f"{tool_name} is for people, and not for runs")
        node = await self.dispatch.node(which)
        request = CommandRequest(
            node=node, tool_name=tool_name, arguments=arguments, by=by, run_id=run_id, execution_id=execution_id
        )
        ruling = self.dispatch.judge(request)
        await self.dispatch.require_allowed(request, ruling)
        approver = await self._approver(run_id, call_id)
        if ruling.verdict is Verdict.ASK and not approver:
            raise NodeUnavailable(f"{ruling.reason} The policy of the node has changed: call it again.")
        if ruling.verdict is Verdict.ASK and node.wants_signatures:
            raise NodeUnavailable(
                f"{node.name} wants signed approvals, and this one was not signed",
                hint="Call it again; a person approves it with: fabric approvals approve ID --sign KEY",
            )
        command = self.dispatch.command(request, ruling, CommandStatus.QUEUED, approver)
        await self.dispatch.send(command)
        return await self.dispatch.outcome(command.execution_id)

    async def prepare(self, card: ApprovalCard) -> NodeCommand:
        """Keep the command that a run asks about, so that approvers can sign it before they approve.

        Raises:
            FabricError: the run asks about something else, or the node is not there.
        """
        asked = asked_of_node(card.tool, card.args)
        if asked is None or card.tool == NODE_COMMAND:
            raise InvalidInputs("Only calls to machines are signed")
        which, tool_name, arguments = asked
        node = await self.dispatch.node(which)
        execution_id = execution_id_of_call(card.run_id, CallId(card.call_id))
        request = CommandRequest(
            node=node,
            tool_name=tool_name,
            arguments=arguments,
            by=card.agent or "run",
            run_id=card.run_id,
            execution_id=execution_id,
        )
        ruling = self.dispatch.judge(request)
        if ruling.verdict is Verdict.BLOCK:
            raise NodeUnavailable(ruling.reason)
        await self.dispatch.commands.add(self.dispatch.command(request, ruling, CommandStatus.WAITING))
        kept = await self.dispatch.commands.find(execution_id)
        assert kept is not None
        return kept

    async def _send_signed(
        self, command: NodeCommand, tool_name: str, arguments: Mapping[str, Any], approver: str
    ) -> NodeCommand:
        if (command.tool_name, dict(command.arguments)) != (tool_name, dict(arguments)):
            raise InvalidInputs("The command is not the one that was signed")
        return await self._release(command, approver)

    async def not_read_back(self, run_id: RunId) -> Sequence[str]:
        """Return the names of machines that a run has changed and of which it has read nothing since."""
        kept = await self.dispatch.commands.list(run_id=run_id, limit=MAX_COMMANDS)
        nodes = [await self.dispatch.nodes.find(each) for each in not_read_back(kept)]
        return [node.name for node in nodes if node is not None]

    async def carry_out(self, execution_id: str, arguments: Mapping[str, Any], *, run_id: RunId) -> NodeCommand:
        """Send a command that waited for the approval of its run, and wait for the result; once, however often.

        Raises:
            FabricError: the command is not the one that was shown.
        """
        found = await self.dispatch.commands.find(execution_id)
        if found is None or found.run_id != run_id or dict(found.arguments) != dict(arguments):
            raise InvalidInputs("The command is not the one that was asked for")
        if found.status is CommandStatus.WAITING:
            return await self._release(found, await self._approver(run_id, None))
        return await self.dispatch.outcome(execution_id)

    async def _release(self, command: NodeCommand, approver: str) -> NodeCommand:
        if not approver:
            raise InvalidInputs("No person has approved the command")
        await self.dispatch.release(command.execution_id, approver)
        return await self.dispatch.outcome(command.execution_id)

    async def begin_plan(self, shown: Mapping[str, Any], *, run_id: RunId) -> Plan:
        """Begin a plan that a person has agreed to, as it was shown to them.

        Raises:
            InvalidInputs: it is not the plan that was shown, or no one has agreed.
        """
        plan = await self.plans.find(str(shown.get("plan_id")))
        if plan is None or plan.run_id != run_id or plan.hash != shown.get("hash"):
            raise InvalidInputs("The plan is not the one that was asked for")
        frozen = (plan.tool_name, dict(plan.arguments), [call.node for call in plan.calls], plan.check)
        if frozen != (shown.get("tool_name"), shown.get("arguments"), shown.get("nodes"), shown.get("check")):
            raise InvalidInputs("The plan is not the one that was shown")
        approver = await self._approver(run_id, None)
        if not approver:
            raise InvalidInputs("No person has approved the plan")
        if plan.status is PlanStatus.WAITING:
            await self._require_signed(plan)
            now = self.dispatch.clock.now()
            online = await machines_online(plan, self.dispatch.nodes)
            begun = replace(plan, status=PlanStatus.RUNNING, approver=approver, online=online, updated_at=now)
            if not await self.plans.replace(begun, before=plan):
                raise InvalidInputs("The plan has been changed meanwhile")
            return begun
        return plan

    async def _require_signed(self, plan: Plan) -> None:
        """Refuse to begin a plan that machines would refuse for want of signatures."""
        signed_by = {str(each.get("approver")) for each in plan.signatures}
        for call in plan.calls:
            node = await self.dispatch.nodes.find(call.node_id)
            if node is None or not node.wants_signatures or len(signed_by & node.approvers) >= node.quorum:
                continue
            request = CommandRequest(node=node, tool_name=plan.tool_name, arguments=plan.arguments, by=plan.created_by)
            if self.dispatch.judge(request).verdict is Verdict.ASK:
                raise InvalidInputs(
                    f"{node.name} wants {node.quorum} signed approval(s) of this plan",
                    hint="Freeze it again, and approve it with: fabric approvals approve ID --sign KEY",
                )

    async def settle_denied(self, command: NodeCommand) -> None:
        """Settle a waiting command if its run was not allowed to send it."""
        if not command.run_id:
            return
        cards = await self.approvals.list(run_id=RunId(command.run_id), pending_only=False)
        own = [each for each in cards if _is_about(each, command)]
        status = next((_SETTLED[card.status] for card in own or cards if card.status in _SETTLED), None)
        if status is not None:
            await self.dispatch.end(command.execution_id, status, f"it was {status.value}")

    async def _approver(self, run_id: RunId, call_id: CallId | None) -> str:
        cards = await self.approvals.list(run_id=run_id, pending_only=False)
        agreed = [
            card.decided_by
            for card in cards
            if card.status is ApprovalStatus.APPROVED and call_id in {None, card.call_id}
        ]
        return agreed[-1] if agreed else ""


def _is_about(card: ApprovalCard, command: NodeCommand) -> bool:
    return execution_id_of_call(card.run_id, CallId(card.call_id)) == command.execution_id


def execution_id_of_call(run_id: RunId, call_id: CallId) -> str:
    """Return the id of the command that a call of a run becomes: the same however often the run is taken up."""
    return str(uuid.uuid5(_CALLS, f"{run_id} {call_id}"))


_CALLS = uuid.UUID("6f1f2a0e-5f0b-4b52-9d3c-0a4e5b7c9d21")
_SETTLED = {
    ApprovalStatus.DENIED: CommandStatus.DENIED,
    ApprovalStatus.EXPIRED: CommandStatus.EXPIRED,
    ApprovalStatus.CANCELLED: CommandStatus.CANCELLED,
}

SWEEP_S = 2.0
"""How often commands are looked at; never more often, however often it is woken."""


@dataclass(slots=True)
class SettleCommands:
    """Use case: for as long as the server lives, settle what has expired or was denied before it was sent."""

    tools: RemoteTools
    look_every_s: float = SWEEP_S
    """How often commands are looked at; seldom, where someone calls `wake`."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """There is a command to settle."""
        self._woken.set()

    async def __call__(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.look_every_s - SWEEP_S):
                    await self._woken.wait()
            self._woken.clear()
            await attempt(self.settle(), "Commands could not be looked at")

    async def settle(self) -> None:
        dispatch = self.tools.dispatch
        now = dispatch.clock.now()
        for command in await dispatch.commands.list(open_only=True, limit=MAX_COMMANDS):
            if command.status is CommandStatus.SENT:
                continue
            if command.expires_at <= now:
                await dispatch.end(command.execution_id, CommandStatus.EXPIRED, "it expired before it was sent")
            elif command.status is CommandStatus.WAITING:
                await self.tools.settle_denied(command)
