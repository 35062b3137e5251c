"""A typed client of agent-fabric servers. See docs/guides/python-client.md.

What it needs for HTTP is imported when the first of these names is used: the command line, which also works without a
server, must not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_fabric.client.agents import AgentLine
    from agent_fabric.client.errors import AnswerUnusable, ServerTimedOut, ServerUnreachable
    from agent_fabric.client.fabric_client import FabricClient
    from agent_fabric.client.following import Delta, Happening, Notice
    from agent_fabric.client.models import ModelLine
    from agent_fabric.client.runs import RunDetails
    from agent_fabric.client.tasks import TaskRequest, TaskWish
    from agent_fabric.client.workflows import WorkflowLine
    from agent_fabric.wire.operations import Health

__all__ = [
    "AgentLine",
    "AnswerUnusable",
    "Delta",
    "FabricClient",
    "Happening",
    "Health",
    "ModelLine",
    "Notice",
    "RunDetails",
    "ServerTimedOut",
    "ServerUnreachable",
    "TaskRequest",
    "TaskWish",
    "WorkflowLine",
]

_HOMES = {
    "AgentLine": "agents",
    "AnswerUnusable": "errors",
    "Delta": "following",
    "FabricClient": "fabric_client",
    "Happening": "following",
    "Health": "fabric_client",
    "ModelLine": "models",
    "Notice": "following",
    "RunDetails": "runs",
    "ServerTimedOut": "errors",
    "ServerUnreachable": "errors",
    "TaskRequest": "tasks",
    "TaskWish": "tasks",
    "WorkflowLine": "workflows",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
