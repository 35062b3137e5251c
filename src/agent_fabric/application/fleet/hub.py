"""What all connections of nodes share."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.dispatch_command import CommandRequest
from agent_fabric.application.fleet.enrol_node import JoinNode
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.review_link import ReviewLink
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import CommandRepository, NodeRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.plans import PlanStatus
from agent_fabric.domain.policy.verdicts import Ruling


class HubKey(Protocol):
    """The key by which nodes know their hub."""

    @property
    def public(self) -> str:
        """The public key, in hexadecimal."""
        ...

    def sign(self, message: bytes) -> str: ...


async def _no_plan(_: str) -> PlanStatus | None:
    return None


@dataclass(frozen=True, slots=True)
class Hub:
    """What all connections share."""

    nodes: NodeRepository
    commands: CommandRepository
    join: JoinNode
    live: LiveNodes
    clock: Clock
    key: HubKey
    is_signed: Callable[[str, bytes, str], bool]
    review: ReviewLink
    call: CallNodes
    judge: Callable[[CommandRequest], Ruling]
    shared: bool
    """Whether other servers share the store, one of which may hold a node's connection."""
    hint: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Tells other servers about a node or a command."""
    plan_status: Callable[[str], Awaitable[PlanStatus | None]] = _no_plan
    """Where the plan stands that a command belongs to; None: there is none."""
    holder: Callable[[], str] = lambda: ""
    """Returns the id of this server among those that share the store; empty: none does. It may ask the store."""
