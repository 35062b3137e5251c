"""Machines of the fleet, invitations and commands."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_fabric.application.fleet.verify_node_audit import NodeAudit
from agent_fabric.domain.fleet.commands import Invite, NodeCommand
from agent_fabric.domain.fleet.explain_policy import ExplainedRule, PolicySource, SaidAboutCall
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.served_tools import ServedTool
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.wire.shape import Listing, Shape

NODE = Shape(
    Node,
    "id name hostname platform arch memory_total supported_tools os_info status last_seen security_policy_json labels "
    "generation created_at note reported public_key",
    name="NodeDetails",
    about="A machine that has joined.",
)
NODES = Listing("nodes", NODE, name="NodeList", about="Machines, by name.")
COMMAND = Shape(
    NodeCommand,
    "execution_id agent_id tool_name arguments status result created_at completed_at expires_at requested_by approver "
    "rule args_hash bound_hash policy_version signatures run_id? plan_id? withheld?",
    name="NodeCommandDetails",
    about="A command for a machine.",
)
COMMANDS = Listing("commands", COMMAND, name="NodeCommandList", about="Commands, the newest first.")
INVITE = Shape(Invite, "id name labels uses_left confirm created_by created_at expires_at", name="NodeInvite")
INVITES = Listing("invites", INVITE, name="NodeInviteList", about="Invitations that can be used.")


class CreatedInvite(NamedTuple):
    """An invitation that was just made."""

    token: str
    """It is shown this once, and stored hashed."""
    hub_key: str
    """The fingerprint of the hub's key, which the machine pins."""
    sha256: str
    """Of the node's program."""
    url: str
    command: str
    """One line for the machine."""
    expires_at: float


CREATED_INVITE = Shape(CreatedInvite, name="CreatedNodeInvite")


class Joined(NamedTuple):
    """What a machine is told that joins."""

    status: str
    """`enrolled`, or `pending` until a person confirms it."""
    agent_id: str
    name: str
    hub_key: str
    """The hub's public key, in hexadecimal."""
    hub_signature: str
    """Shows that the hub holds the key."""
    code: str
    """To be compared by two people while it is pending."""


JOINED = Shape(Joined, name="JoinedNode")


class AskedCommand(NamedTuple):
    """A command that waits for a person, or for its node."""

    execution_id: str
    status: str
    approval_id: str
    """Empty: it waits for the node, not for a person."""
    run_id: str
    """The run that carries it out once it is approved."""
    reason: str
    """Why a person is asked."""
    bound_hash: str
    """What a signature has to be about, where the node wants one."""


ASKED_COMMAND = Shape(AskedCommand, name="AskedNodeCommand")


class NodeProblem(NamedTuple):
    """Why a command was not sent to a machine."""

    code: str
    message: str
    hint: str


class NodeOutcome(NamedTuple):
    """What came of a command on one of many machines: it has ended, or waits, or was refused. The rest is null."""

    node: str
    command: NodeCommand | None
    asked: AskedCommand | None
    """It waits for a person or for the machine; or, if nothing was to be sent, what the policy says."""
    problem: NodeProblem | None
    omitted: bool
    """Whether the result was left out because the answer would be too long; the command itself has it."""


NODE_OUTCOMES = Listing(
    "outcomes",
    Shape(NodeOutcome, parts=[COMMAND, ASKED_COMMAND]),
    name="NodeOutcomeList",
    about="What came of a command on each machine, by name.",
)


class NodeChunk(NamedTuple):
    """A part of a file or of a long output."""

    offset: int
    size: int
    """Of the whole."""
    data: str
    """In base64; empty at the end."""


NODE_CHUNK = Shape(NodeChunk)


class NodeUpload(NamedTuple):
    """How far a file has come."""

    offset: int
    """What the machine has; the next chunk begins here."""
    done: bool
    """Whether the file is in its place."""


NODE_UPLOAD = Shape(NodeUpload)


class NodeTerminal(NamedTuple):
    """What a shell on a machine has printed, and how it fares."""

    status: str
    """As that of its command: `sent` while it is open."""
    offset: int
    size: int
    """Of everything that it has printed."""
    data: str
    """From the offset on, in base64."""
    exit_code: int | None
    error: str
    """Why it was ended, unless it ended by itself."""


NODE_TERMINAL = Shape(NodeTerminal)


class ServedToolList(NamedTuple):
    """Tools of the MCP servers on a machine."""

    tools: tuple[ServedTool, ...]
    problems: tuple[str, ...]
    """Why tools of a server are not known."""


SERVED_TOOLS = Shape(ServedToolList, name="NodeServedTools")


class NodeRulings(NamedTuple):
    """What is in force on a node, and why."""

    version: str
    floor: Mapping[str, Any]
    """The node's own, which no hub can lower."""
    hub: Mapping[str, Any]
    """The hub's policy for the node."""
    otherwise: Profile
    """What holds where no rule is about a call: the stricter profile of both."""
    otherwise_by: tuple[PolicySource, ...]
    """Who says so."""
    rules: tuple[ExplainedRule, ...]
    """Each with where it stands and whether something stricter decides; the strictest first."""
    trusted: str = ""
    """What an admin trusts it with: `true`, only its `text`, or only with private `data`; empty: nothing."""


NODE_RULINGS = Shape(NodeRulings, name="NodePolicyInForce")


class CheckedNodeCall(NamedTuple):
    """What would become of a call on a node."""

    verdict: Verdict
    reason: str
    rule: str
    version: str
    said: tuple[SaidAboutCall, ...]
    """What the node's own file, the hub's policy for it and the hub's rules for all machines say; strictest first."""


CHECKED_NODE_CALL = Shape(CheckedNodeCall)


NODE_AUDIT = Shape(NodeAudit, about="What hub and node say about the same calls.")
