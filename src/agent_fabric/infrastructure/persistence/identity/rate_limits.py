"""Counters in the file that the runs are in: they outlive the process, and others count along."""

import asyncio
import sys
from collections import OrderedDict

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Count
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable

MAX_KEYS = 20_000
"""Keys that are kept, in memory and in the file. When there are more, the oldest is forgotten."""
SHARED_EVERY_S = 0.5
"""How often counts go to the file, in one commit for all of them. What others have counted is seen then."""

_ADD = """
    INSERT INTO rate_limits (key, hits, expires_at) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        hits = CASE WHEN rate_limits.expires_at <= ? THEN excluded.hits
                    WHEN rate_limits.hits + ? < 0 THEN 0
                    ELSE rate_limits.hits + ? END,
        expires_at = CASE WHEN rate_limits.expires_at <= ? THEN excluded.expires_at ELSE rate_limits.expires_at END
    RETURNING hits, expires_at
"""


@dataclass(slots=True)
class _Counted:
    """One key, as this process sees it."""

    shared: int
    """What the file has."""
    own: int
    """What the file does not have yet."""
    expires_at: float


class SqlCounters:
    """Counters that no request waits for: they are kept in memory, and brought into line with the file."""

    def __init__(self, database: Database, clock: Clock, *, most: int = MAX_KEYS) -> None:
        self._database = database
        self._clock = clock
        self._most = most
        self._counted: OrderedDict[str, _Counted] = OrderedDict()
        self._changed: set[str] = set()
        self._shared_at = 0.0
        self._sharing: asyncio.Future[dict[str, Count]] | None = None

    def __len__(self) -> int:
        """Tell how many keys are kept in memory."""
        return len(self._counted)

    def add(self, key: str, per_s: int, amount: int) -> Count:
        now = self._clock.now()
        counted = self._known_window(key, now)
        if counted is None:
            counted = self._keep(key, _Counted(0, 0, now + per_s))
        counted.own = max(-counted.shared, counted.own + amount)
        self._changed.add(key)
        if self._sharing is None and abs(now - self._shared_at) >= SHARED_EVERY_S:
            self._share(now)
        return Count(counted.shared + counted.own, counted.expires_at)

    def get(self, key: str) -> Count:
        now = self._clock.now()
        counted = self._known_window(key, now)
        return Count(0, now) if counted is None else Count(counted.shared + counted.own, counted.expires_at)

    async def aclose(self) -> None:
        while self._sharing is not None or self._changed:
            await asyncio.wait([self._sharing or self._share(self._clock.now())])
            await asyncio.sleep(0)  # what follows from it comes a moment later

    def _known_window(self, key: str, now: float) -> _Counted | None:
        counted = self._counted.get(key)
        if counted is None:
            row = self._database.read_now(lambda connection: _row(connection, key))
            counted = None if row is None else self._keep(key, _Counted(row.hits, 0, row.expires_at))
        if counted is None or counted.expires_at > now:
            return counted
        del self._counted[key]
        self._changed.discard(key)
        return None

    def _keep(self, key: str, counted: _Counted) -> _Counted:
        while len(self._counted) >= self._most:
            oldest, _ = self._counted.popitem(last=False)
            self._changed.discard(oldest)
        self._counted[key] = counted
        return counted

    def _share(self, now: float) -> "asyncio.Future[dict[str, Count]]":
        """Begin to bring all counts that have changed into the file."""
        own = {key: (self._counted[key].own, self._counted[key].expires_at) for key in self._changed}
        self._changed.clear()
        self._shared_at = now
        most = self._most

        def write(connection: SqlConnection) -> dict[str, Count]:
            counts = {key: _add_hits(connection, key, hits, expires_at, now) for key, (hits, expires_at) in own.items()}
            connection.execute("DELETE FROM rate_limits WHERE expires_at <= ?", (now,))
            connection.execute(
                "DELETE FROM rate_limits WHERE key IN "
                "(SELECT key FROM rate_limits ORDER BY expires_at DESC LIMIT ? OFFSET ?)",
                (sys.maxsize, most),
            )
            return counts

        self._sharing = sharing = self._database.write(write)
        sharing.add_done_callback(lambda done: self._note_shared(own, done))
        return sharing

    def _note_shared(self, own: dict[str, tuple[int, float]], done: "asyncio.Future[dict[str, Count]]") -> None:
        self._sharing = None
        if done.cancelled() or done.exception() is not None:
            return  # a full disk, say: what was counted stays in memory, which is all that is lost with us
        for key, count in done.result().items():
            counted = self._counted.get(key)
            if counted is not None and counted.expires_at == own[key][1]:
                counted.shared, counted.expires_at = count.hits, count.expires_at
                counted.own -= own[key][0]


def _row(connection: SqlConnection, key: str) -> Count | None:
    row = connection.execute("SELECT hits, expires_at FROM rate_limits WHERE key = ?", (storable(key),)).fetchone()
    return None if row is None else Count(int(row[0]), float(row[1]))


def _add_hits(connection: SqlConnection, key: str, hits: int, expires_at: float, now: float) -> Count:
    values = (storable(key), max(0, hits), expires_at, now, hits, hits, now)
    ((total, until),) = connection.execute(_ADD, values).fetchall()
    assert isinstance(total, int)
    assert isinstance(until, float)
    return Count(total, until)
