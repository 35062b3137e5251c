"""What hub and node say to each other: JSON-RPC 2.0 over one WebSocket that the node opens.

The node calls `agent.identify`, then `agent.prove`; nothing else is answered before. Then the hub calls `tool.execute`,
`mcp.proxy`, `policy.sync` and the like. `docs/concepts/fleet.md` describes every message.
"""

import json
from enum import IntEnum, StrEnum
from typing import Any, Final

SOCKET_PATH: Final = "/api/v1/ws"
JOIN_PATH: Final = "/api/v1/nodes/join"
ARCHIVE_PATH: Final = "/node/fabric-node.pyz"

PROTOCOL: Final = 1
"""What both ends speak. It grows when an older node could not be understood any more."""
MIN_PROTOCOL: Final = 1
"""A node that speaks less has to be upgraded before the hub talks to it."""
MAX_FRAME_BYTES: Final = 1024 * 1024
MAX_IN_FLIGHT: Final = 8
"""Calls of one node that are carried out at the same time."""
MAX_INLINE_BYTES: Final = 256 * 1024
"""Of an output, in a result; the rest stays in the node's spool."""
CHUNK_BYTES: Final = 256 * 1024
"""Of a file or a long output, in one message."""
HEARTBEAT_S: Final = 15.0
MAX_HEARTBEATS_PER_S: Final = 50
MISSED_HEARTBEATS: Final = 3
CLONE_PING_TIMEOUT_S: Final = 2.0
MAX_LIFETIME_S: Final = 24 * 3600.0
"""Of a command: whatever a node has forgotten has expired by then."""
DEFAULT_TIMEOUT_S: Final = 60.0
MAX_TIMEOUT_S: Final = 6 * 3600.0
INVITE_PREFIX: Final = "fnj_"
SHELL_IDLE_S: Final = 15 * 60.0
"""A shell ends when no one has typed anything for so long."""
SHELL_READ_S: Final = 20.0
"""How long a reader of a shell is kept waiting at most."""
MAX_TYPED_BYTES: Final = 64 * 1024
"""Of what is typed, in one message."""


class Method(StrEnum):
    """What can be called."""

    IDENTIFY = "agent.identify"
    PROVE = "agent.prove"
    HEARTBEAT = "agent.heartbeat"
    PING = "agent.ping"
    """Hub to node: is someone there?"""
    EXECUTE = "tool.execute"
    RESULT = "tool.result"
    """Node to hub: the result of a call whose connection has ended before it could be told."""
    ACK = "tool.ack"
    """Hub to node, without an answer: this result is durable here."""
    CANCEL = "tool.cancel"
    FETCH = "tool.output"
    """Hub to node: a part of an output that was too long for the result."""
    FILE_WRITE = "file.write"
    """Hub to node: a chunk of a file that a call of `file_put` has opened."""
    FILE_READ = "file.read"
    """Hub to node: a chunk of a file that a call of `file_get` has opened."""
    PTY_WRITE = "pty.write"
    """Hub to node: what a person types into a shell that a call of `shell` has opened."""
    PTY_READ = "pty.read"
    """Hub to node: what the shell has printed from an offset on; answered when there is something."""
    POLICY_SYNC = "policy.sync"
    MCP_PROXY = "mcp.proxy"
    ROTATE = "key.rotate"
    ROTATED = "key.rotated"
    """Node to hub: here is the new key, signed by the old one."""
    AUDIT = "audit.entries"


class CloseCode(IntEnum):
    """Why the hub ends a connection; the reason beside it is for people."""

    UNAUTHENTICATED = 4401
    REVOKED = 4403
    CONFLICT = 4409
    UPGRADE = 4426
    TRY_AGAIN = 1013
    """Of the protocol itself: nothing is wrong, and it works the next time."""


class RpcCode(IntEnum):
    """Errors of calls."""

    PARSE = -32700
    INVALID = -32600
    UNKNOWN = -32601
    PARAMS = -32602
    INTERNAL = -32603
    BLOCKED = -32001
    """A rule forbids it; no approval helps."""
    APPROVAL = -32002
    """It needs an approval, and there is none that holds for exactly this call."""
    EXPIRED = -32003
    REUSED = -32004
    """The execution id belongs to another call."""
    BUSY = -32005
    """Too many calls are under way, or the spool is full."""
    IN_DOUBT = -32006
    """It had begun when the node was stopped: it may have happened."""
    POLICY_CHANGED = -32007
    """Another policy is in force than the one that the call was judged by."""
    CANCELLED = -32008
    DISABLED = -32009
    """The node's own file does not turn this on."""
    UNPROVEN = -32010
    """Nothing but `agent.identify` and `agent.prove` is answered yet."""


def canonical(value: Any) -> bytes:
    """Return the one text of a JSON value that hashes and signatures are made of.

    Keys sorted, no spaces, UTF-8, no number that JSON does not have.

    Raises:
        ValueError: it is no JSON value.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def hub_message(agent_id: str, nonce: str, challenge: str) -> bytes:
    """Return what the hub signs: it holds the key that the node has pinned, and answers this very connection."""
    return canonical(["fabric-hub", agent_id, nonce, challenge])


def node_message(agent_id: str, hub_key: str, challenge: str, state: str) -> bytes:
    """Return what the node signs: it holds its key, speaks to this hub, and was in this state."""
    return canonical(["fabric-node", agent_id, hub_key, challenge, state])


def rotation_message(agent_id: str, old_key: str, new_key: str) -> bytes:
    """Return what the old key signs to name its successor."""
    return canonical(["fabric-node-key", agent_id, old_key, new_key])


def join_message(token_hash: str, public_key: str) -> bytes:
    """Return what the hub signs in its answer to an enrolment, so that the node has proof of the pinned key."""
    return canonical(["fabric-join", token_hash, public_key])
