"""What the hub stores about machines, invitations and commands."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.fleet.commands import CommandStatus, Invite, NodeCommand, RelayedCall
from agent_fabric.domain.fleet.nodes import Node, NodeId
from agent_fabric.domain.fleet.plans import Plan


class NodeStates(NamedTuple):
    """What tells a node from a copy of it: given out with each session; the one before is tolerated."""

    current: str
    previous: str


class SeenNode(NamedTuple):
    """When a connection of a node was last heard of."""

    node_id: NodeId
    generation: int
    at: float


class NodePresence(Protocol):
    """Which machines are there, as all servers of a store see it.

    A machine counts as offline as soon as the server that holds its connection is gone.
    """

    async def note(self, seen: Sequence[SeenNode], *, held_by: str) -> Collection[NodeId]:
        """Keep when nodes were last heard of, all at once; return those whose newest connection it still is.

        `held_by` is the server that holds the connections, by its id among those of the store; empty: it has none.
        """
        ...

    async def forget_gone(self) -> None:
        """Mark nodes offline that servers hold which are gone."""
        ...


class NodeRepository(Protocol):
    """All machines that have joined."""

    async def list(self, *, revoked: bool = False) -> Sequence[Node]: ...

    async def find(self, node_id: str) -> Node | None:
        """Return a node by its id, or by the name of one that is not revoked."""
        ...

    def find_now(self, node_id: str) -> Node | None:
        """The same, on this thread; a policy judges where nothing can wait."""
        ...

    async def update(
        self, node_id: NodeId, changes: Mapping[str, Any], *, act: Act | None = None, generation: int | None = None
    ) -> Node | None:
        """Change columns of a node; None: there is none, or it is revoked.

        With `generation`, only if the node's newest connection is that one: another server may have a newer one.

        Raises:
            NameTaken: another one has the name.
        """
        ...

    async def states(self, node_id: NodeId) -> NodeStates:
        """Return what tells it from a copy."""
        ...


class InviteRepository(Protocol):
    """Invitations."""

    async def add(self, invite: Invite, *, act: Act | None = None) -> None: ...

    async def join(self, token_hash: bytes, node: Node, *, at: float, act: Act | None = None) -> Node | None:
        """Use an invitation for a node, in one transaction; None: it is unknown, used up or expired.

        The same machine, by its key, that asks again before it has ever connected gets its node again.
        """
        ...

    async def list(self, *, at: float) -> Sequence[Invite]:
        """Return those that can be used, the newest first."""
        ...


class PlanRepository(Protocol):
    """Plans for many machines."""

    async def save(self, plan: Plan) -> None:
        """Keep a plan; of one that is kept already, only its status and progress change."""
        ...

    async def replace(self, plan: Plan, *, before: Plan) -> bool:
        """Change status and progress of a plan, if both still are as in `before`; tell whether they were."""
        ...

    async def find(self, plan_id: str) -> Plan | None: ...

    async def list(self, *, open_only: bool = False, limit: int = 100) -> Sequence[Plan]:
        """Return plans, the newest first."""
        ...


class CallRelay(Protocol):
    """Calls of nodes between servers that share a store; the server that the node is connected to answers each."""

    async def ask(self, call: RelayedCall) -> None:
        """Keep a call for whichever server holds the connection."""
        ...

    async def waiting(self, node_id: NodeId, *, at: float) -> Sequence[RelayedCall]:
        """Return calls of a node that no one has answered and someone still waits for, the oldest first."""
        ...

    async def answer(self, call_id: str, answer: Mapping[str, Any]) -> None:
        """Keep the answer; the first one counts."""
        ...

    async def take(self, call_id: str) -> Mapping[str, Any] | None:
        """Return the answer and forget the call; None: there is no answer yet."""
        ...

    async def forget(self, *, expired_before: float) -> None:
        """Forget calls whose answer no one has fetched."""
        ...


class NodeWork(Protocol):
    """Tells servers that share a store for which nodes there is something to do."""

    async def __call__(self, *, at: float) -> Sequence[NodeId]:
        """Return nodes with a command to send, a call to make, or a connection to end; some may not be connected."""
        ...


class CommandRepository(Protocol):
    """Commands for nodes: each is durable before anything is sent."""

    async def add(self, *commands: NodeCommand) -> None:
        """Keep new commands, all or none; one with the same id stays as it is."""
        ...

    async def find(self, execution_id: str) -> NodeCommand | None: ...

    async def list(
        self, node_id: NodeId | None = None, *, open_only: bool = False, run_id: str = "", limit: int = 100
    ) -> Sequence[NodeCommand]:
        """Return commands, the newest first: of all nodes or one, of all runs or one."""
        ...

    async def due(self, node_id: NodeId, statuses: Sequence[CommandStatus]) -> Sequence[NodeCommand]:
        """Return commands of a node in some states, none of which is settled, the oldest first."""
        ...

    async def move(
        self, execution_id: str, status: CommandStatus, *, since: Sequence[CommandStatus], at: float, **more: Any
    ) -> NodeCommand | None:
        """Move a command on, if it is in one of the states `since`; return it, or None if it is not."""
        ...

    async def finish(
        self, execution_id: str, node_id: NodeId, status: CommandStatus, result: Mapping[str, Any], *, at: float
    ) -> NodeCommand | None:
        """Keep what a node says came of a command that is queued for it or was sent to it; return the command.

        None: there is no such command, or it is settled; the first result counts. Results that come at the same time
        are one write.
        """
        ...


class ApprovalSigner(Protocol):
    """The key of a person who approves commands for nodes that do not trust their hub."""

    async def sign(self, message: bytes) -> str:
        """Return a signature: in hexadecimal, or as OpenSSH writes it.

        Raises:
            ConfigError: the key cannot be used.
        """
        ...
