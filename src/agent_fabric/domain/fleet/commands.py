"""A command for a node, as the hub keeps it from the request to the result."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.binding import BoundCall
from agent_fabric.domain.fleet.nodes import Node, NodeId
from agent_fabric.domain.fleet.protocol import Method
from agent_fabric.domain.fleet.served_tools import MCP_PROXY

DEFAULT_LIFETIME_S: Final = 3600.0


class CommandStatus(StrEnum):
    """Where a command stands; `pending` of the seed are the first three (C41)."""

    WAITING = "waiting"
    """For a person."""
    QUEUED = "queued"
    """To be sent when the node is there."""
    SENT = "sent"
    SUCCESS = "success"
    ERROR = "error"
    DENIED = "denied"
    BLOCKED = "blocked"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    """It had begun when the node was stopped: it may have happened. It is never run again by itself."""

    @property
    def settled(self) -> bool:
        """Whether nothing more will become of it."""
        return self not in {CommandStatus.WAITING, CommandStatus.QUEUED, CommandStatus.SENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """One command for one node."""

    execution_id: str
    agent_id: NodeId
    tool_name: str
    arguments: Mapping[str, Any]
    status: CommandStatus
    created_at: float
    expires_at: float
    policy_version: str
    bound_hash: str
    """What an approval is good for."""
    args_hash: str
    requested_by: str
    approver: str = ""
    rule: str = ""
    """The rule of the policy that decided."""
    run_id: str = ""
    plan_id: str = ""
    signatures: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] | None = None
    completed_at: float | None = None
    withheld: bool = False
    """Whether arguments and result are left out: a private run of someone else asked for it."""

    @property
    def method(self) -> Method:
        return Method.MCP_PROXY if self.tool_name == MCP_PROXY else Method.EXECUTE

    def request(self, issued_at: float) -> dict[str, Any]:
        """Return the parameters of `tool.execute` (FC-011), or of `mcp.proxy` (FC-012)."""
        approval = {
            "hash": self.bound_hash,
            "approver": self.approver,
            "signatures": [dict(s) for s in self.signatures],
        }
        named: dict[str, Any] = {"tool_name": self.tool_name, "arguments": dict(self.arguments)}
        return {
            **(named if self.method is Method.EXECUTE else self.arguments),
            "execution_id": self.execution_id,
            "approved_by": self.approver,
            "issued_at": issued_at,
            "expires_at": self.expires_at,
            "policy_version": self.policy_version,
            **({"approval": approval} if self.approver else {}),
        }


def bound_call(
    node: Node, execution_id: str, tool_name: str, arguments: Mapping[str, Any], expires_at: float
) -> BoundCall:
    """Return what an approval of a command is bound to, as the node will compute it."""
    return BoundCall(
        agent_id=node.id,
        node_key=node.public_key,
        execution_id=execution_id,
        tool_name=tool_name,
        arguments=arguments,
        uid=node.uid,
        policy_version=node.policy.version,
        expires_at=expires_at,
    )


_STATUS: Final = {
    "success": CommandStatus.SUCCESS,
    "error": CommandStatus.ERROR,
    "in_doubt": CommandStatus.IN_DOUBT,
    "expired": CommandStatus.EXPIRED,
    "cancelled": CommandStatus.CANCELLED,
}


def status_after(result: Mapping[str, Any]) -> CommandStatus:
    """Return where a command stands after a result of its node."""
    return _STATUS.get(str(result.get("status")), CommandStatus.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite:
    """A permission to join, until it is used up or expires."""

    id: str
    hash: bytes = field(repr=False)
    name: str
    labels: Mapping[str, str]
    uses_left: int
    confirm: bool
    """A person at the hub confirms each machine."""
    created_by: str
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedCall:
    """One call on its way through the store."""

    id: str
    node_id: NodeId
    method: str
    params: Mapping[str, Any]
    created_at: float
    expires_at: float
    """No one waits for the answer any more after this moment."""
