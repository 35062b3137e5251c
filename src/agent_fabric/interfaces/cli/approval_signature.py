"""Signs the approval of a command for a node that does not trust its hub. The key never leaves this machine.

What is signed is computed here, from what the approval shows. A hub that shows one command and wants a signature for
another gets none that is good for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.fleet.fleet_policy import NODE_COMMAND
from agent_fabric.domain.errors import ApprovalRefused, ConfigError
from agent_fabric.domain.fleet.binding import BoundCall, approval_message
from agent_fabric.infrastructure.fleet.approval_keys import approval_signer

if TYPE_CHECKING:
    from agent_fabric.application.ports.approvals import ApprovalCard
    from agent_fabric.client.fabric_client import FabricClient
    from agent_fabric.wire.shape import Json


@dataclass(frozen=True, slots=True)
class Signed:
    """How far the signatures of a command have come."""

    approver: str
    count: int
    quorum: int

    @property
    def is_enough(self) -> bool:
        """Whether as many approvers have signed as the node wants."""
        return self.count >= self.quorum


async def add_signature(client: "FabricClient", approval: str, given: str) -> Signed:
    """Sign what an approval shows, with `[NAME=]KEYFILE`, and send the signature.

    Raises:
        ConfigError: the key cannot be used, or it is not clear whose it is.
        ApprovalRefused: it is no command for a node, or the hub wants a signature for something else.
    """
    card = await client.approvals.show(approval)
    if card.tool != NODE_COMMAND:
        raise ApprovalRefused("Only commands for machines are signed", hint="Leave out --sign.")
    name, _, path = given.rpartition("=")
    execution_id, which = str(card.args["execution_id"]), str(card.args["node"])
    node, command = await client.nodes.show(which), await client.nodes.command(which, execution_id)
    approver = name or _only_approver(node)
    signature = await approval_signer(Path(path)).sign(approval_message(shown_hash(card, node, command)))
    await client.nodes.sign(which, execution_id, approver=approver, signature=signature)
    known = {str(each["approver"]) for each in command.get("signatures", ())}
    return Signed(approver, len(known | {approver}), int(node["reported"].get("quorum", 1)))


def shown_hash(card: "ApprovalCard", node: "Json", command: "Json") -> str:
    """Return what an approval of exactly the command that a card shows is bound to.

    Raises:
        ApprovalRefused: the hub wants one for something else.
    """
    arguments = card.args.get("arguments")
    bound = BoundCall(
        agent_id=str(node["id"]),
        node_key=str(node["public_key"]),
        execution_id=str(card.args["execution_id"]),
        tool_name=str(card.args["tool_name"]),
        arguments=arguments if isinstance(arguments, Mapping) else {},
        uid=_uid(node["reported"]),
        policy_version=str(command["policy_version"]),
        expires_at=command["expires_at"],
    ).hash
    if bound != command["bound_hash"]:
        raise ApprovalRefused(
            "The hub wants a signature for something else than the approval shows",
            hint="The policy, key or user of the machine may have changed since: send the command again.",
        )
    return bound


def _uid(reported: Mapping[str, Any]) -> int:
    uid = reported.get("uid")
    return uid if isinstance(uid, int) else -1


def _only_approver(node: "Json") -> str:
    names = [str(each) for each in node["reported"].get("approvers", ())]
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise ConfigError(
            f"Several may sign for {node['name']}, or nobody: {listed}",
            hint="Say who you are there: --sign NAME=KEYFILE",
        )
    return names[0]
