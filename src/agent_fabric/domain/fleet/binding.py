"""What an approval of a node's call is bound to: the exact call, on the exact machine, under the exact rules."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.protocol import DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S, canonical

APPROVAL_NAMESPACE: Final = "fabric-approval"
"""Of signatures by approvers; `ssh-keygen -Y sign -n fabric-approval` makes one, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCall:
    """Everything that a person agrees to. Hub and node compute the hash of it each by themselves."""

    agent_id: str
    node_key: str
    """The node's public key, in hexadecimal."""
    execution_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    uid: int
    """The user that commands run as on the node."""
    policy_version: str
    expires_at: float

    @property
    def folder(self) -> str:
        """The folder that a command begins in; empty: the home of its user."""
        return str(self.arguments.get("cwd") or "")

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables beyond the usual ones."""
        given = self.arguments.get("environment")
        return {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}

    @property
    def timeout_s(self) -> float:
        return timeout_of(self.arguments)

    @property
    def hash(self) -> str:
        """The hash of all of it, in hexadecimal."""
        return hashlib.sha256(
            canonical(
                {
                    "agent_id": self.agent_id,
                    "node_key": self.node_key,
                    "execution_id": self.execution_id,
                    "tool_name": self.tool_name,
                    "arguments": dict(self.arguments),
                    "folder": self.folder,
                    "environment": dict(self.environment),
                    "timeout_s": self.timeout_s,
                    "uid": self.uid,
                    "policy_version": self.policy_version,
                    "expires_at": self.expires_at,
                }
            )
        ).hexdigest()


def timeout_of(arguments: Mapping[str, Any]) -> float:
    """Return how long a call may take."""
    given = arguments.get("timeout_s")
    usable = isinstance(given, int | float) and not isinstance(given, bool) and given > 0
    return min(float(given), MAX_TIMEOUT_S) if usable and given is not None else DEFAULT_TIMEOUT_S


def approval_message(bound: str) -> bytes:
    """Return what an approver signs."""
    return f"{APPROVAL_NAMESPACE}-v1\n{bound}\n".encode()
