"""Messages between parts of a system that do not know each other."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Handler = Callable[[str, Mapping[str, Any]], None]
"""Takes a subject and a message; it must not block."""

WORKFLOW_STARTED = "agent33.workflow.started"
WORKFLOW_COMPLETED = "agent33.workflow.completed"
"""It has come to its end, well or badly; `status` tells."""
AGENT_INVOKED = "agent33.agent.invoked"


class Bus(Protocol):
    """Hands messages on by subject. The log is the truth: a message that gets lost can be read there."""

    def publish(self, subject: str, message: Mapping[str, Any]) -> None:
        """Tell everybody who wants to know. Never blocks, and never fails because of somebody who listens."""
        ...

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        """Hear about subjects; `*` stands for one part of a subject, a final `>` for all that follow.

        Returns:
            What ends it.
        """
        ...
