"""Signs approvals for nodes that do not trust their hub. The key never leaves this machine.

What is signed is computed here, from what the approval shows. A hub that shows one command and wants a signature for
another gets none that is good for it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.fleet.fleet_policy import FLEET_PLAN, NODE_COMMAND, asked_of_node
from agent_fabric.application.fleet.remote_tools import execution_id_of_call
from agent_fabric.bootstrap.this_machine import approval_signer
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ApprovalRefused, ConfigError
from agent_fabric.domain.fleet.binding import BoundCall, approval_message
from agent_fabric.domain.fleet.plan_signatures import plan_message, root_of
from agent_fabric.domain.ids import CallId
from agent_fabric.interfaces.cli.approvals.approval_card import require_read

if TYPE_CHECKING:
    from agent_fabric.application.ports.approvals import ApprovalCard
    from agent_fabric.client.fabric_client import FabricClient
    from agent_fabric.wire.shape import Json


@dataclass(frozen=True, slots=True)
class Signed:
    """How far the signatures have come."""

    approver: str
    count: int
    quorum: int

    @property
    def is_enough(self) -> bool:
        """Whether as many approvers have signed as the nodes want."""
        return self.count >= self.quorum


async def add_signature(client: "FabricClient", approval: str, given: str, shown_hash: str = "") -> Signed:
    """Sign what an approval shows, with `[NAME=]KEYFILE`, and send the signature.

    `shown_hash` is the hash of the call that the person was shown; a long one is not signed without it.

    Raises:
        ConfigError: the key cannot be used, or it is not clear whose it is.
        ApprovalRefused: it is no command for a node, or the hub wants a signature for something else.
    """
    card = await client.approvals.show(approval)
    require_read(card, shown_hash)
    name, _, path = given.rpartition("=")
    if card.tool == FLEET_PLAN:
        return await _sign_plan(client, card, name, Path(path))
    asked = asked_of_node(card.tool, card.args)
    if asked is None:
        raise ApprovalRefused("Only commands for machines are signed", hint="Leave out --sign.")
    which, tool_name, arguments = asked
    node = await client.nodes.show(which)
    if card.tool == NODE_COMMAND:
        execution_id = str(card.args["execution_id"])
        command = await client.nodes.command(which, execution_id)
    else:
        execution_id = execution_id_of_call(card.run_id, CallId(card.call_id))
        command = await client.nodes.prepare(which, card.approval_id)
    approver = name or _only_approver([node])
    bound = _binding_of(node, execution_id, tool_name, arguments, command)
    if bound != command["bound_hash"]:
        raise _other_thing()
    signature = await approval_signer(Path(path)).sign(approval_message(bound))
    await client.nodes.sign(which, execution_id, approver=approver, signature=signature)
    known = {str(each["approver"]) for each in command.get("signatures", ())}
    return Signed(approver, len(known | {approver}), _quorum(node))


async def _sign_plan(client: "FabricClient", card: "ApprovalCard", name: str, key: Path) -> Signed:
    """Sign all calls of a plan at once, each as the approval shows it."""
    plan = await client.nodes.plan(str(card.args["plan_id"]))
    nodes = {str(node["id"]): node for node in await client.nodes.list()}
    arguments = card.args.get("arguments")
    shown = arguments if isinstance(arguments, Mapping) else {}
    hashes = []
    for call in plan["calls"]:
        node = nodes.get(str(call["node_id"]))
        bound = (
            "" if node is None else _binding_of(node, call["execution_id"], str(card.args["tool_name"]), shown, call)
        )
        if bound != call["bound_hash"]:
            raise _other_thing()
        hashes.append(bound)
    if [call["node"] for call in plan["calls"]] != card.args.get("nodes"):
        raise _other_thing()
    wanting = [nodes[str(call["node_id"])] for call in plan["calls"]]
    wanting = [node for node in wanting if node["reported"].get("approvals") == "signed"]
    approver = name or _only_approver(wanting)
    signature = await approval_signer(key).sign(plan_message(root_of(hashes)))
    signed = await client.nodes.sign_plan(str(plan["id"]), approver=approver, signature=signature)
    by = {str(each["approver"]) for each in signed["signatures"]}
    return Signed(approver, len(by), max(map(_quorum, wanting), default=1))


def _binding_of(
    node: "Json", execution_id: str, tool_name: str, arguments: Mapping[str, Any], promised: "Mapping[str, Any]"
) -> str:
    """Return what an approval of exactly this call on this machine is bound to."""
    uid = node["reported"].get("uid")
    return BoundCall(
        agent_id=str(node["id"]),
        node_key=str(node["public_key"]),
        execution_id=execution_id,
        tool_name=tool_name,
        arguments=arguments,
        uid=uid if isinstance(uid, int) else -1,
        policy_version=str(promised["policy_version"]),
        expires_at=promised["expires_at"],
    ).hash


def _other_thing() -> ApprovalRefused:
    return ApprovalRefused(
        "The hub wants a signature for something else than the approval shows",
        hint="The policy, key or user of the machine may have changed since: ask for it again.",
    )


def _quorum(node: "Json") -> int:
    return int(node["reported"].get("quorum", 1))


def _only_approver(nodes: "list[Json]") -> str:
    names = {str(each) for node in nodes for each in node["reported"].get("approvers", ())}
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise ConfigError(
            f"Several may sign, or nobody: {listed}", hint="Say who you are on the machines: --sign NAME=KEYFILE"
        )
    return names.pop()
