"""Decides about a command for a node, keeps it, lets it be sent, and waits for what becomes of it."""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Self

from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import CommandRepository, NodeRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs, NodeBlocked, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.commands import DEFAULT_LIFETIME_S, CommandStatus, NodeCommand, bound_call
from agent_fabric.domain.fleet.node_policy import proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.protocol import MAX_LIFETIME_S
from agent_fabric.domain.policy.calls import ProposedCall, argument_hash
from agent_fabric.domain.policy.engine import strictest
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.json_schema import problems_with

LOOK_AGAIN_S = 0.5
"""How often a result is looked for that another process may bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A command that is wanted on a node."""

    node: Node
    tool_name: str
    arguments: Mapping[str, Any]
    by: str
    execution_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    lifetime_s: float = DEFAULT_LIFETIME_S
    queue: bool = False
    """Wait for a node that is not there."""
    run_id: str = ""
    plan_id: str = ""

    @classmethod
    def again(cls, node: Node, command: NodeCommand) -> Self:
        """Return the request that a command was made of, for the node as it is now."""
        return cls(
            node=node,
            tool_name=command.tool_name,
            arguments=command.arguments,
            by=command.requested_by,
            execution_id=command.execution_id,
            run_id=command.run_id,
            plan_id=command.plan_id,
        )


@dataclass(frozen=True, slots=True)
class DispatchCommand:
    """Use case: a command for a node, from the decision to the result."""

    nodes: NodeRepository
    commands: CommandRepository
    live: LiveNodes
    clock: Clock
    judge_by_hub: Callable[[ProposedCall], Ruling | None]
    """What rules of the hub for all machines say; None: nothing."""
    wake: Callable[[NodeId], None] = lambda _: None
    """Hints at other processes, one of which may hold the node's connection."""
    hub_names_nodes: bool = True
    """Whether a rule of the hub may be about one machine and not about another with the same policies."""

    async def node(self, which: str) -> Node:
        """Return a node by id or name.

        Raises:
            NodeNotFound: there is none.
        """
        found = await self.nodes.find(which)
        if found is None:
            raise NodeNotFound(f"There is no node {which[:80]!r}", hint="See them with: fabric nodes list")
        return found

    def judge(self, request: CommandRequest) -> Ruling:
        """Decide about a command by the rules of the hub, the hub's policy for the node, and the node's floor.

        Raises:
            InvalidInputs: the node has no such tool, or it does not take these arguments.
        """
        spec = NODE_TOOLS.get(request.tool_name)
        if spec is None or (request.node.supported_tools and request.tool_name not in request.node.supported_tools):
            known = ", ".join(request.node.supported_tools or NODE_TOOLS)
            raise InvalidInputs(f"{request.node.name} has no tool {request.tool_name[:80]!r}", hint=f"It has: {known}.")
        if problems := problems_with(dict(request.arguments), spec.parameters):
            raise InvalidInputs(f"{request.tool_name}: {'; '.join(problems)}")
        call = proposed_call(spec, request.arguments, request.node.name)
        ruling = request.node.policy.judge(call)
        general = self.judge_by_hub(call)
        return ruling if general is None else strictest([ruling, general])

    def require_usable(self, node: Node, *, queue: bool) -> None:
        """Check that a command can be sent to a node.

        Raises:
            NodeUnavailable: it cannot.
        """
        match node.status:
            case NodeStatus.ONLINE:
                return
            case NodeStatus.OFFLINE if queue:
                return
            case NodeStatus.OFFLINE:
                raise NodeUnavailable(
                    f"{node.name} is offline; it was last seen {_moment(node.last_seen)}",
                    hint="Wait for it with --queue.",
                )
            case NodeStatus.CONFLICT:
                raise NodeUnavailable(
                    f"Two machines show the identity of {node.name}, so nothing is sent to either: {node.note}",
                    hint=f"Find out which is the true one, then: fabric nodes resolve {node.name} --keep|--split",
                )
            case NodeStatus.PENDING:
                raise NodeUnavailable(
                    f"{node.name} is not confirmed yet", hint=f"fabric nodes resolve {node.name} --keep"
                )
            case NodeStatus.REVOKED:
                raise NodeUnavailable(f"{node.name} is revoked")

    async def require_allowed(self, request: CommandRequest, ruling: Ruling) -> None:
        """Check that a command that was judged may be sent or asked about; one that is blocked is on record.

        Raises:
            NodeBlocked, NodeUnavailable: it may not.
        """
        if ruling.verdict is Verdict.BLOCK:
            await self.commands.add(self.command(request, ruling, CommandStatus.BLOCKED))
            raise blocked_by(ruling)
        self.require_usable(request.node, queue=request.queue)

    def command(
        self, request: CommandRequest, ruling: Ruling, status: CommandStatus, approver: str = ""
    ) -> NodeCommand:
        """Return a new command as it is kept."""
        now = self.clock.now()
        expires_at = round(now + min(request.lifetime_s, MAX_LIFETIME_S), 3)
        bound = bound_call(request.node, request.execution_id, request.tool_name, request.arguments, expires_at)
        return NodeCommand(
            execution_id=request.execution_id,
            agent_id=request.node.id,
            tool_name=request.tool_name,
            arguments=dict(request.arguments),
            status=status,
            created_at=now,
            expires_at=expires_at,
            policy_version=bound.policy_version,
            bound_hash=bound.hash,
            args_hash=argument_hash(request.arguments),
            requested_by=request.by,
            approver=approver,
            rule=ruling.rule,
            run_id=request.run_id,
            plan_id=request.plan_id,
        )

    def status_at_once(self, node: Node) -> CommandStatus:
        """Return the status of a new command that was just judged for a node.

        A node that is connected here gets it at once, so it is kept as sent: that saves a commit. It is durable before
        it is sent in either case, and what was never answered is sent again.
        """
        link = self.live.find(node.id)
        here = link is not None and link.offer is not None and not link.changed
        ready = here and link is not None and link.generation == node.generation and node.status is NodeStatus.ONLINE
        return CommandStatus.SENT if ready else CommandStatus.QUEUED

    async def send(self, *commands: NodeCommand) -> None:
        """Keep commands that are to be sent, in one transaction, and let the connections of their nodes know."""
        await self.commands.add(*commands)
        for command in commands:
            link = self.live.find(command.agent_id)
            if link is None:
                self.wake(command.agent_id)
            elif command.status is CommandStatus.SENT and link.offer is not None:
                link.offer(command)
            else:
                link.wake()

    async def run(self, command: NodeCommand, *, timeout_s: float) -> NodeCommand:
        """Send a new command and wait until it is settled; after `timeout_s` it is returned as it stands."""
        with self.live.awaiting(command.execution_id) as here:
            await self.send(command)
            await asyncio.wait((here,), timeout=min(LOOK_AGAIN_S, timeout_s))
            if here.done():
                return here.result()
        return await self.outcome(command.execution_id, timeout_s=max(0.0, timeout_s - LOOK_AGAIN_S))

    async def release(self, execution_id: str, approver: str) -> NodeCommand | None:
        """Let a command be sent that waited for a person."""
        moved = await self.commands.move(
            execution_id, CommandStatus.QUEUED, since=(CommandStatus.WAITING,), at=self.clock.now(), approver=approver
        )
        if moved is not None:
            self.live.poke(moved.agent_id)
            self.wake(moved.agent_id)
        return moved

    async def end(self, execution_id: str, status: CommandStatus, reason: str) -> NodeCommand | None:
        """Settle a command that was not sent yet; None: it was, or is settled."""
        moved = await self.commands.move(
            execution_id,
            status,
            since=(CommandStatus.WAITING, CommandStatus.QUEUED),
            at=self.clock.now(),
            result={"status": status.value, "error": reason},
        )
        if moved is not None:
            self.live.settle(moved)
        return moved

    async def outcome(self, execution_id: str, *, timeout_s: float | None = None) -> NodeCommand:
        """Wait until a command is settled, by whichever process, and return it as it stands then.

        After `timeout_s` it is returned as it stands.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        with self.live.awaiting(execution_id) as here:
            while True:
                found = await self.commands.find(execution_id)
                if found is None:
                    raise NodeNotFound(f"There is no command {execution_id}")
                left = LOOK_AGAIN_S if until is None else min(LOOK_AGAIN_S, until - loop.time())
                if found.status.settled or left <= 0:
                    return found
                await asyncio.wait((here,), timeout=left)
                if here.done():
                    return here.result()


def blocked_by(ruling: Ruling) -> NodeBlocked:
    """Return the error that tells why a command is not sent."""
    return NodeBlocked(ruling.reason, hint=f"The rule {ruling.rule!r} decides. See the policy of the node.")


def _moment(seconds: float | None) -> str:
    from agent_fabric.domain.audit.acts import moment_words  # noqa: PLC0415 - only for an error

    return "never" if seconds is None else f"at {moment_words(seconds)}"
