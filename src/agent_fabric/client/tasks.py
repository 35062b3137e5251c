"""A task, as it is sent to a server or done on this machine."""

from dataclasses import fields
from enum import Enum
from typing import Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.runs.task import Priority, TaskForceMode

_ALWAYS_SENT = frozenset({"prompt", "network_allowed", "priority"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """A task, with the options of `fabric run`. What is not set is as the server is configured."""

    prompt: str
    pack: str | None = None
    """The specialist; several, separated by commas, share the task."""
    model_key: str | None = None
    network_allowed: bool = True
    outside_allowed: bool = True
    """Whether a command that a person agrees to may run outside the box."""
    plan: bool = False
    """Whether it only makes a plan, and changes nothing."""
    max_steps: int | None = None
    task_force_mode: TaskForceMode | None = None
    priority: Priority = Priority.INTERACTIVE
    encrypt: bool = False
    """Whether nothing of the run is kept in the clear."""
    visibility: Visibility | None = None
    """Who sees the run beside its owner; None: as the server is configured."""
    pool: str | None = None
    """The workers that may drive it, where several share a store; None: those of the pool `default`."""
    continues: str | None = None
    """The run to follow up, or the beginning of its id: the new run continues its conversation, in its workspace."""
    require_proof: bool = False
    """Whether the run fails, with the code `result_unproven`, where nothing bears its result out."""
    max_cost: float | None = None
    """What the answers of models may cost together; None: as the server is configured."""

    def body(self) -> dict[str, Any]:
        """Return it as a server takes it."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {
            name: value.value if isinstance(value, Enum) else value
            for name, (value, default) in values.items()
            if name in _ALWAYS_SENT or value != default
        }


TaskWish = TaskRequest
"""The name until 0.5."""
