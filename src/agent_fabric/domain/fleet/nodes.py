"""An enrolled machine, as the hub knows it."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NewType

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.fleet.node_policy import NodePolicy, PolicyProblem, node_policy
from agent_fabric.domain.fleet.protocol import HEARTBEAT_S, MAX_HEARTBEATS_PER_S, MISSED_HEARTBEATS, canonical

NodeId = NewType("NodeId", str)
"""A node: a UUID in text form."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,62})")
_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126})?")
FACTS: Final = "fact."
"""Labels that a node reports itself begin so. They never select policy."""
MAX_LABELS: Final = 64
TRUSTED: Final = "trusted"
"""The label by which an admin trusts a machine; one of `TrustedFor`."""


class TrustedFor(StrEnum):
    """What a machine is trusted with; without the label, with nothing."""

    TEXT = "text"
    """What it says counts as the owner's words: no one else can write into its logs and files."""
    DATA = "data"
    """Private data may go there without a question."""
    BOTH = "true"


class NodeStatus(StrEnum):
    """How a node fares."""

    PENDING = "pending"
    """A person at the hub has not confirmed it yet."""
    ONLINE = "online"
    OFFLINE = "offline"
    CONFLICT = "conflict"
    """Two machines show the same identity; nothing is sent to either until a person has resolved it."""
    REVOKED = "revoked"
    """For ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine that has joined."""

    id: NodeId
    name: str
    hostname: str = ""
    platform: str = ""
    arch: str = ""
    memory_total: int | None = None
    supported_tools: tuple[str, ...] = ()
    """The tools that it has reported."""
    os_info: Mapping[str, Any] = field(default_factory=dict)
    status: NodeStatus = NodeStatus.OFFLINE
    last_seen: float | None = None
    security_policy_json: Mapping[str, Any] = field(default_factory=dict)
    """The hub's policy for it; its own floor holds beside it."""
    public_key: str = field(default="", repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    """How often it has connected."""
    created_at: float = 0.0
    note: str = ""
    """Why it is in conflict, or the code that two people compare while it is pending."""
    reported: Mapping[str, Any] = field(default_factory=dict)
    """What it said when it connected last: floor, uid, version, capabilities, tool servers."""

    @property
    def is_trusted_with_data(self) -> bool:
        """Whether private data that a run has read elsewhere may go there without a question."""
        return self.labels.get(TRUSTED) in {TrustedFor.DATA, TrustedFor.BOTH}

    @property
    def is_vouched_for(self) -> bool:
        """Whether what it says counts as the owner's words."""
        return self.labels.get(TRUSTED) in {TrustedFor.TEXT, TrustedFor.BOTH}

    @property
    def floor(self) -> Mapping[str, Any]:
        """The node's own floor, as it has reported it."""
        found = self.reported.get("floor")
        return found if isinstance(found, Mapping) else {}

    @property
    def uid(self) -> int:
        """The user that its commands run as."""
        found = self.reported.get("uid")
        return found if isinstance(found, int) else -1

    @property
    def wants_signatures(self) -> bool:
        """Whether only signed approvals count on it."""
        return self.reported.get("approvals") == "signed"

    @property
    def approvers(self) -> frozenset[str]:
        """Whose signatures count on it."""
        return frozenset(str(each) for each in self.reported.get("approvers") or ())

    @property
    def quorum(self) -> int:
        """How many of them have to sign."""
        found = self.reported.get("quorum")
        return found if isinstance(found, int) and found > 0 else 1

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that its own file names; empty: it names none."""
        return tuple(str(each) for each in self.reported.get("roots") or ())

    @property
    def policy(self) -> NodePolicy:
        """What is in force on it: the stricter of its floor and the hub's policy for it.

        A floor that cannot be read here counts as the strictest: everything that is not read-only asks.
        """
        hub = canonical(dict(self.security_policy_json))
        try:
            return _policy_of(canonical(dict(self.floor)), hub, self.roots)
        except PolicyProblem:
            return _policy_of(b"{}", hub, self.roots)

    @property
    def facts(self) -> dict[str, str]:
        """What the node says about itself, as labels."""
        told = {"platform": self.platform, "arch": self.arch, "hostname": self.hostname}
        return {f"{FACTS}{name}": value for name, value in told.items() if value}


@lru_cache(maxsize=256)
def _policy_of(floor: bytes, hub: bytes, roots: tuple[str, ...]) -> NodePolicy:
    """Return the policy of two documents; most machines of a fleet have the same, and each command needs it twice."""
    return node_policy(json.loads(floor), json.loads(hub), roots)


def node_name(name: str) -> str:
    """Return a name that a node can have.

    Raises:
        ValueError: it cannot.
    """
    if not _NAME.fullmatch(name) or name == "all":
        raise ValueError(f"{name[:80]!r} cannot be a node's name: use up to 64 letters, digits, - _ and .")
    return name


def plain_name(name: str) -> str:
    """Return the nearest name that a node can have, of what a machine calls itself."""
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64].strip("-._")
    return kept if kept and kept != "all" else "node"


def labels_from(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return labels that a node can have.

    Raises:
        ValueError: one of them cannot be used.
    """
    for name, value in pairs.items():
        if not _LABEL.fullmatch(name) or name.startswith(FACTS) or not _VALUE.fullmatch(value):
            raise ValueError(f"{name[:80]}={value[:80]} cannot be a label: write name=value, without {FACTS}")
    if pairs.get(TRUSTED, TrustedFor.BOTH) not in list(TrustedFor):
        raise ValueError(f"{TRUSTED} is `true`, or only `text` or `data`; {TRUSTED}- takes the trust away")
    if len(pairs) > MAX_LABELS:
        raise ValueError(f"a node has at most {MAX_LABELS} labels")
    return dict(pairs)


def heartbeat_for(nodes: int) -> float:
    """Return how often each of so many nodes says that it is there."""
    return max(HEARTBEAT_S, nodes / MAX_HEARTBEATS_PER_S)


def offline_after(heartbeat_s: float) -> float:
    """Return after how long without a word a node counts as offline."""
    return MISSED_HEARTBEATS * heartbeat_s


# Which nodes are meant: a name, `role=web,env!=dev`, or `all`.
def select_nodes(selector: str, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that a selector means, by name.

    Raises:
        InvalidInputs: it is no selector.
    """
    found = [node for node in nodes if _fits(selector.strip(), node)]
    return sorted(found, key=lambda node: node.name)


def _fits(selector: str, node: Node) -> bool:
    if not selector:
        raise InvalidInputs("the selector is empty; write a name, role=web, or all")
    if selector == "all":
        return True
    if "=" not in selector:
        names = [name.strip() for name in selector.split(",")]
        return any(name in {node.name, node.id} for name in names) or (
            len(selector) >= 8 and node.id.startswith(selector)
        )
    labels = {**node.labels, **node.facts}
    held = [_holds(part.strip(), labels) for part in selector.split(",")]  # each is read, whatever others say
    return all(held)


def _holds(condition: str, labels: Mapping[str, str]) -> bool:
    label, sign, value = condition.partition("!=" if "!=" in condition else "=")
    if not sign or not label.strip() or not value.strip():
        raise InvalidInputs(f"{condition!r} is no condition; write role=web or env!=dev")
    return (labels.get(label.strip()) == value.strip()) is (sign == "=")
