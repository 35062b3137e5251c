"""What turns of sessions have left, for the servers of a cluster."""

from typing import Protocol

from agent_fabric.domain.chat.turn_context import TurnContext
from agent_fabric.domain.ids import RunId, SessionId


class TurnContexts(Protocol):
    """What the newest turns of sessions have left, for whichever server begins the next one.

    A cache: what is not there, or cannot be reached, is taken from the log. It never raises.
    """

    async def get(self, session_id: SessionId, run_id: RunId) -> TurnContext | None:
        """Return what a turn has left, if it is still there and no one has changed it. Its log may have grown since."""
        ...

    def put(self, context: TurnContext) -> None:
        """Keep what a turn has left instead of what earlier ones did, soon; never waits."""
        ...

    def drop(self, session_id: SessionId) -> None:
        """Forget a session, soon; never waits."""
        ...

    async def aclose(self) -> None:
        """Finish what was put and dropped."""
        ...
