"""What was changed on machines and not looked at since: only what was read afterwards counts as done."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_policy import NodePolicy, node_policy, proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.domain.fleet.served_tools import MCP_PROXY
from agent_fabric.domain.policy.verdicts import Verdict

_PLAIN: Final[NodePolicy] = node_policy({})
"""Without rules, only what surely reads is allowed."""
_ANY: Final = "any machine"
"""A call without a machine would be judged as one of this machine, whose files are another matter."""


def surely_reads(tool_name: str, arguments: Mapping[str, Any]) -> bool:
    """Tell whether a call changes nothing on the machine, whatever policies say about it."""
    spec = NODE_TOOLS.get(tool_name)
    return spec is not None and _PLAIN.judge(proposed_call(spec, arguments, _ANY)).verdict is Verdict.ALLOW


def may_have_happened(command: NodeCommand) -> bool:
    """Tell whether a command was carried out, or may have been: a node that refuses one has not begun it."""
    match command.status:
        case CommandStatus.SUCCESS | CommandStatus.IN_DOUBT:
            return True
        case CommandStatus.ERROR | CommandStatus.CANCELLED:
            return command.result is not None and "duration_ms" in command.result
        case _:
            return False


def not_read_back(commands: Iterable[NodeCommand]) -> list[NodeId]:
    """Return the machines that were changed and of which nothing was read successfully since, the first one first."""
    left: dict[NodeId, None] = {}
    for command in sorted(commands, key=lambda each: each.created_at):
        if not surely_reads(command.tool_name, command.arguments):
            if may_have_happened(command):
                left[command.agent_id] = None
        elif (
            command.status is CommandStatus.SUCCESS and command.tool_name != MCP_PROXY
        ):  # a list of tools shows nothing
            left.pop(command.agent_id, None)
    return list(left)
