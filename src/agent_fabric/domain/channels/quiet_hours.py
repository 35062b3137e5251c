"""When someone does not want to be woken by what can wait."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Self

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
