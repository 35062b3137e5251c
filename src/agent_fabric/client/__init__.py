"""A typed client of agent-fabric servers. See docs/guides/python-client.md.

What it needs for HTTP is imported when the first of these names is used: the command line, which also works without a
server, must not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_fabric.client.agents import AgentLine as AgentLine
    from agent_fabric.client.errors import AnswerUnusable as AnswerUnusable
    from agent_fabric.client.errors import ServerTimedOut as ServerTimedOut
    from agent_fabric.client.errors import ServerUnreachable as ServerUnreachable
    from agent_fabric.client.fabric_client import FabricClient as FabricClient
    from agent_fabric.client.following import Delta as Delta
    from agent_fabric.client.following import Happening as Happening
    from agent_fabric.client.following import Notice as Notice
    from agent_fabric.client.models import ModelLine as ModelLine
    from agent_fabric.client.runs import RunDetails as RunDetails
    from agent_fabric.client.tasks import TaskRequest as TaskRequest
    from agent_fabric.client.tasks import TaskWish as TaskWish
    from agent_fabric.client.workflows import WorkflowLine as WorkflowLine
    from agent_fabric.wire.operations import Health as Health

_HOMES = {
    **dict.fromkeys(("AnswerUnusable", "ServerTimedOut", "ServerUnreachable"), "errors"),
    **dict.fromkeys(("Delta", "Happening", "Notice"), "following"),
    **dict.fromkeys(("FabricClient", "Health"), "fabric_client"),
    **dict.fromkeys(("TaskRequest", "TaskWish"), "tasks"),
    "AgentLine": "agents",
    "ModelLine": "models",
    "RunDetails": "runs",
    "WorkflowLine": "workflows",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - read from the table


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
