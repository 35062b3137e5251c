"""One look for all who wait for something to do, where the store is shared and every look is a query."""

from collections.abc import Collection
from typing import Final, Protocol

RUNS: Final = "runs"
"""There are runs without a driver."""
ANSWERS: Final = "answers"
"""There are waiting runs that can go on."""
OUTBOX: Final = "outbox"
"""There is something that the bus has not been told of."""
TURNS: Final = "turns"
"""There are messages of sessions whose turn can begin."""
SCHEDULES: Final = "schedules"
"""There are schedules whose time has come, or firings that wait."""
MESSAGES: Final = "messages"
"""There are messages for subscribed receivers."""
PLANS: Final = "plans"
"""There are plans for the machines of the fleet that are under way."""
COMMANDS: Final = "commands"
"""There are commands for those machines that will never be sent, and are not settled yet."""
NOTICES: Final = "notices"
"""There are questions of which webhooks of users may have to be told."""


class PendingWork(Protocol):
    """Tells what there is to do."""

    async def __call__(self, kinds: Collection[str]) -> Collection[str]:
        """Return those kinds of work of which there is any.

        Raises:
            StoreUnavailable: it could not be looked up.
        """
        ...
