"""Settles which machine of the fleet a session is about."""

from collections.abc import Collection
from dataclasses import field

from agent_fabric.application.fleet.fleet_policy import FleetDoor, may_operate
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Forbidden, NodeUnavailable

_ANOTHER = "Choose another machine, or none: /node NAME, /node"


@dataclass(frozen=True, slots=True)
class ChooseNode:
    """Use case: check that a session may be about a machine, and that its turn can reach it now."""

    door: FleetDoor = field(default_factory=FleetDoor)
    """Where machines are found; by default there are none."""

    async def __call__(self, which: str, scopes: Collection[str], *, now: bool = False) -> str:
        """Return the name of a machine, for someone with these scopes; none was chosen: an empty one.

        `now`: a turn about it is to begin, so it must be online.

        Raises:
            Forbidden: they may not operate machines.
            NodeNotFound: there is no such machine.
            NodeUnavailable: it is not to be used, or this process has no machines.
        """
        if not which:
            return ""
        if not may_operate(frozenset(scopes)):
            raise Forbidden("Machines need the scope 'nodes'", hint="Ask an admin or an operator, or choose none.")
        dispatch = self.door.tools.dispatch
        node = await dispatch.node(which)
        try:
            dispatch.require_usable(node, queue=not now)
        except NodeUnavailable as problem:
            raise NodeUnavailable(problem.message, hint=_ANOTHER) from None
        return node.name
