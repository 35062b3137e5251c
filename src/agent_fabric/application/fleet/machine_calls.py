"""Which machines of the fleet an approval is about."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from agent_fabric.application.fleet.fleet_policy import FLEET_PLAN, NODE_COMMAND, NODE_RUN
from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.domain.fleet.chosen_node import NODE_PREFIX
from agent_fabric.domain.fleet.served_tools import served_name


class Machine(NamedTuple):
    """A machine as a card shows it."""

    name: str
    is_signed: bool = False
    """Whether only signed approvals count there."""


FindMachine = Callable[[str], Awaitable[Machine]]
"""Returns the machine of an id or a name; one that is unknown has that as its name."""


async def unknown_machine(which: str) -> Machine:
    """Know no machine."""
    return Machine(which)


def named_machines(asked: ApprovalCard) -> Sequence[str]:
    """Return the ids or names of the machines that a call is for; none: it stays here."""
    nodes = asked.args.get("nodes")
    if asked.tool == FLEET_PLAN:
        return [str(each) for each in nodes] if isinstance(nodes, list | tuple) else ["?"]
    if (served := served_name(asked.tool)) is not None:
        return [served.node]
    goes_there = asked.tool in {NODE_COMMAND, NODE_RUN} or asked.tool.startswith(NODE_PREFIX)
    return [str(asked.args["node"])] if goes_there and "node" in asked.args else []
