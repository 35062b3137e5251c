"""How fast a platform lets us write, and where.

Every message passes a few buckets: its chat, its group, the whole account. A bucket lets so many through in a time. A
429 closes only the bucket that it is about, for exactly as long as the platform says.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """So many messages in so many seconds."""

    count: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """The limits of a platform."""

    chat: Pace | None = None
    group: Pace | None = None
    """In addition, for chats that are not direct ones."""
    account: Pace | None = None


TELEGRAM_PACES: Final = Paces(chat=Pace(1, 1.0), group=Pace(20, 60.0), account=Pace(30, 1.0))
SLACK_PACES: Final = Paces(chat=Pace(1, 1.0))
WHATSAPP_PACES: Final = Paces(chat=Pace(1, 6.0), account=Pace(80, 1.0))
DISCORD_PACES: Final = Paces()
"""Discord tells its limits with every answer."""


@dataclass(slots=True)
class Pacer:
    """Counts what went out through each bucket. One per account, in the process that owns it."""

    paces: Paces
    _sent: dict[str, deque[float]] = field(default_factory=dict)
    _closed: dict[str, float] = field(default_factory=dict)

    def free_at(self, place: Place, now: float) -> float:
        """Return when the next message may go to a place; not later than `now`: at once."""
        free = now
        for name, pace in self._buckets(place):
            free = max(free, self._closed.get(name, 0.0))
            sent = self._sent.get(name)
            if pace is not None and sent is not None and len(sent) >= pace.count:
                free = max(free, sent[-pace.count] + pace.per_s)
        return free

    def note(self, place: Place, now: float) -> None:
        """Count a message that goes out."""
        for name, pace in self._buckets(place):
            if pace is not None:
                self._sent.setdefault(name, deque(maxlen=pace.count)).append(now)
        if len(self._sent) > 10_000:
            self._forget(now)

    def close(self, place: Place, until: float, *, whole_account: bool = False) -> None:
        """Let nothing through to a place, or at all, before a moment: the platform said so."""
        name = "account" if whole_account else f"chat {place.chat}"
        self._closed[name] = max(until, self._closed.get(name, 0.0))

    def _buckets(self, place: Place) -> Sequence[tuple[str, Pace | None]]:
        buckets = [("account", self.paces.account), (f"chat {place.chat}", self.paces.chat)]
        if not place.is_direct:
            buckets.append((f"group {place.chat}", self.paces.group))
        return buckets

    def _forget(self, now: float) -> None:
        longest = max(
            (each.per_s for each in (self.paces.chat, self.paces.group, self.paces.account) if each), default=0
        )
        for name in [name for name, sent in self._sent.items() if sent[-1] + longest < now]:
            del self._sent[name]
        for name in [name for name, until in self._closed.items() if until < now]:
            del self._closed[name]
