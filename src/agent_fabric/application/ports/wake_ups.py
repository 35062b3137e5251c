"""Hints between processes, so that no one waits for the next poll."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from agent_fabric.domain.ids import RunId

Poked = Callable[[Mapping[str, Any]], None]
"""Takes a hint; it must not block."""

CLAIM: Final = "claim"
"""A run waits for someone who drives it: `{"run": …, "epoch": …}`."""
INBOX: Final = "inbox"
"""There is a row in the inbox of a run: `{"run": …}`."""
NODES: Final = "nodes"
"""There is something for a node, `{"node": …}`, a command is settled, `{"command": …}`, or a call that another server
has asked for is answered, `{"call": …}`. With `"doubt": true`, the
server that holds the node's connection looks whether someone is still there."""
SCHEDULES: Final = "schedules"
"""Schedules were changed, or firings were queued: `{}`."""
FOLLOW: Final = "follow"
"""Someone reads a run, and wants to see answers while they are written: `{"run": …}`."""
FOLLOWED_FOR_S: Final = 6.0
"""How long that holds, unless it is said again."""


def log_topic(run_id: RunId) -> str:
    """Return the topic of those who follow one log: it has grown up to `{"seq": …}`."""
    return f"log.{run_id}"


def delta_topic(run_id: RunId) -> str:
    """Return the topic of those who read an answer while it is written, piece by piece.

    Alone among all hints these have content: it is stored nowhere, and comes whole with the next event.
    """
    return f"delta.{run_id}"


class WakeUps(Protocol):
    """Hands on hints to listeners, in this process and in others. Best effort.

    What has happened is in the store. Listeners look there after a hint, and from time to time anyway: a lost
    hint costs a poll interval, and one too many costs a look. A hint holds no content of a run, but for `delta_topic`.
    """

    def poke(self, topic: str, hint: Mapping[str, Any]) -> None:
        """Tell everyone who listens to a topic. Never blocks, never fails. Needs a running event loop."""
        ...

    def listen(self, topic: str, poked: Poked) -> Callable[[], None]:
        """Hear all hints of a topic from now on, one's own too. Needs a running event loop.

        Returns:
            What ends it.
        """
        ...

    async def aclose(self) -> None:
        """Stop. Hints that are on the way may be lost."""
        ...
