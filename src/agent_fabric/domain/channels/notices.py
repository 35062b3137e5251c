"""Where a user wants to be told of things, and when not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Final, Self

from agent_fabric.domain.automation.schedule import zone_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs

_SPAN: Final = re.compile(r"^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$")
_DAY: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A span of each day, in someone's own time zone. It may go past midnight."""

    start: int
    """Minutes since midnight."""
    end: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the span that a text such as `22:00-07:00` means.

        Raises:
            InvalidInputs: it means none.
        """
        found = _SPAN.match(text.strip())
        if found is None:
            raise InvalidInputs(f"{text[:40]!r} are no quiet hours", hint="Write them as 22:00-07:00.")
        start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
        return cls(start, end)

    def until(self, now: float, zone: tzinfo) -> float | None:
        """Return when the quiet ends that is now; None: it is not quiet."""
        local = datetime.fromtimestamp(now, UTC).astimezone(zone)
        minute = local.hour * 60 + local.minute
        length = (self.end - self.start) % _DAY
        if (minute - self.start) % _DAY >= length:
            return None
        # Wall times are counted, not seconds: the clock may be changed in between.
        days = 1 if minute >= self.start and self.end <= self.start else 0
        day = local.date() + timedelta(days=days)
        end = datetime(day.year, day.month, day.day, self.end // 60, self.end % 60, tzinfo=zone)
        return end.timestamp()


PAGE: Final = "page"
"""Nothing is sent: it stands on the page, as everything does."""
ANY_CHANNEL: Final = "channel"
"""Every channel on which the user is paired."""
WEBHOOK: Final = "webhook:"
"""Begins a route to a subscription, by its name."""
_ROUTE: Final = re.compile(r"page|channel|[a-z][a-z0-9_-]{0,39}|webhook:[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
MAX_ROUTES: Final = 10


class NoticeKind(StrEnum):
    """What a notice is about."""

    APPROVAL = "approval"
    ALERT = "alert"
    MESSAGE = "message"
    """Something that a workflow sends. It goes to channels, whatever is set for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyPreference:
    """Where a user wants to be told, and their quiet hours."""

    user: str
    approvals: tuple[str, ...] = (ANY_CHANNEL,)
    alerts: tuple[str, ...] = (ANY_CHANNEL,)
    quiet_hours: str = ""
    """Such as `22:00-07:00`; empty: none."""
    timezone: str = "UTC"

    def routes(self, kind: NoticeKind) -> tuple[str, ...]:
        return {NoticeKind.APPROVAL: self.approvals, NoticeKind.ALERT: self.alerts}.get(kind, (ANY_CHANNEL,))

    def wants(self, kind: NoticeKind, channel: str) -> bool:
        """Tell whether notices of a kind go to a channel."""
        return not {ANY_CHANNEL, channel}.isdisjoint(self.routes(kind))

    def webhooks(self, kind: NoticeKind) -> tuple[str, ...]:
        """Return the names of the subscriptions that notices of a kind go to."""
        return tuple(each.removeprefix(WEBHOOK) for each in self.routes(kind) if each.startswith(WEBHOOK))

    def quiet_until(self, now: float) -> float | None:
        """Return when the quiet ends that is now; None: it is not quiet."""
        if not self.quiet_hours:
            return None
        return QuietHours.read(self.quiet_hours).until(now, zone_of(self.timezone))


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that a user is told."""

    source: str
    """What it comes from. The same notice has the same source, and is told once."""
    kind: NoticeKind
    text: str
    is_urgent: bool = False
    """Whether it wakes people."""
    channel: str = ""
    """Only there; empty: wherever the user wants it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a webhook is sent."""


def read_routes(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return routes as they are kept.

    Raises:
        InvalidInputs: one is none.
    """
    routes = tuple(dict.fromkeys(each.strip() for each in wanted))
    wrong = [each for each in routes if _ROUTE.fullmatch(each) is None]
    if wrong or not routes or len(routes) > MAX_ROUTES:
        said = f"{wrong[0][:80]!r} is no place to be told" if wrong else f"There are 1 to {MAX_ROUTES} places"
        raise InvalidInputs(said, hint="Write page, channel, the name of a channel, or webhook:NAME.")
    return routes


def read_preference(
    user: str, *, approvals: Sequence[str], alerts: Sequence[str], quiet_hours: str, timezone: str
) -> NotifyPreference:
    """Return a preference that can be kept.

    Raises:
        InvalidInputs: a route or the hours cannot be read.
        ConfigError: there is no such time zone.
    """
    if quiet_hours:
        QuietHours.read(quiet_hours)
    zone_of(timezone)
    return NotifyPreference(
        user=user,
        approvals=read_routes(approvals),
        alerts=read_routes(alerts),
        quiet_hours=quiet_hours.strip(),
        timezone=timezone,
    )
