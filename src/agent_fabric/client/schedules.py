"""Schedules and dead letters at a server."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.client.transport import Named, Query, Resource
from agent_fabric.client.wire import json_from, started_run
from agent_fabric.domain.errors import DeadLetterNotFound, ScheduleNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.wire.shape import Json

_BASE = "/api/v1/schedules"
_LETTERS = "/api/v1/dead-letters"
_SENSORS = "/api/v1/sensors"
_SUBSCRIPTIONS = "/api/v1/subscriptions"
_SUBSCRIPTION = json_from("name", "url", "subjects")
_ONE = json_from("id", "name", "next_at")
_PAGE = 500
"""Schedules in one answer."""
_path = Named(_BASE, ScheduleNotFound, "There is no schedule {!r}", "See them with `fabric schedules list`.")
_sensor = Named(_SENSORS, ScheduleNotFound, "There is no sensor {!r}", "See them with `fabric sensors list`.")
_subscription = Named(
    _SUBSCRIPTIONS, ScheduleNotFound, "There is no subscription {!r}", "See them with `fabric webhooks list`."
)
_letter = Named(_LETTERS, DeadLetterNotFound, "There is no dead letter {!r}", "See them with `fabric dead list`.")


class Schedules(Resource):
    """The schedules of a server, each by its name or id."""

    async def add(self, wish: Mapping[str, Any]) -> Json:
        """Add a schedule.

        Raises:
            InvalidInputs, ConfigError: it cannot be carried out so.
            NameTaken: there is one of this name.
        """
        return await self._post(_ONE, _BASE, dict(wish))

    async def import_crontab(self, wish: Mapping[str, Any]) -> Json:
        """Make schedules of the lines of a crontab; return those, and the lines that became none."""
        return await self._post(json_from("imported", "refused"), f"{_BASE}/import", dict(wish))

    async def list(self, *, words: str = "") -> Sequence[Json]:
        """Return the schedules that we may see, by name; `words`: those in whose name, target or task this stands."""
        found: list[Json] = []
        query: Query = {"limit": _PAGE, "q": words or None}
        while True:
            page = await self._get(json_from("schedules"), _BASE, query)
            found += page["schedules"]
            if not page.get("next"):
                return found
            query = {**query, "after": page["next"]}

    async def show(self, name: str) -> Json:
        """Return a schedule with its next five instants.

        Raises:
            ScheduleNotFound: there is none.
        """
        return await self._get(_ONE, _path(name))

    async def change(self, name: str, wish: Mapping[str, Any]) -> Json:
        """Change a schedule; what is not given stays as it is."""
        return await self._post(_ONE, _path(name), dict(wish), method="PATCH")

    async def remove(self, name: str) -> Json:
        """Remove a schedule."""
        return await self._post(_ONE, _path(name), method="DELETE")

    async def fire(self, name: str) -> RunId:
        """Fire a schedule now, and return the run without waiting for it."""
        return await self._post(started_run, _path(name, "/fire"))

    async def backfill(self, name: str, wish: Mapping[str, Any]) -> Json:
        """Make up for a period."""
        return await self._post(json_from("queued", "already"), _path(name, "/backfill"), dict(wish))

    async def withdraw(self, name: str) -> Json:
        """Take back what waits to be made up for."""
        return await self._post(json_from("withdrawn"), _path(name, "/backfill"), method="DELETE")

    async def firings(self, name: str, *, limit: int = 50) -> Sequence[Json]:
        """Return what became of due instants, the newest first."""
        return await self._list("firings", _path(name, "/firings"), {"limit": limit})

    async def why(self, name: str, at: str) -> Json:
        """Return why a schedule did or did not do something."""
        return await self._get(json_from("answer", "text"), _path(name, "/why"), {"at": at})

    async def simulate(self, name: str, start: float | None, end: float | None) -> Sequence[Json]:
        """Return when a schedule will be due."""
        return await self._list("planned", _path(name, "/simulate"), {"from": start, "to": end})


class Sensors(Resource):
    """The sensors of a server."""

    async def list(self) -> Sequence[Json]:
        """Return those that are armed, by name."""
        return await self._list("sensors", _SENSORS)

    async def look(self, name: str) -> Json:
        """Let a sensor look now.

        Raises:
            ScheduleNotFound: there is none.
        """
        return await self._post(json_from("reason", "runs"), _sensor(name, "/look"))

    async def why(self, name: str) -> Json:
        """Return what a sensor has noticed, the newest first."""
        return await self._get(json_from("happenings"), _sensor(name, "/why"))


class Subscriptions(Resource):
    """Receivers of a server's messages."""

    async def list(self) -> Sequence[Json]:
        """Return all of them, by name."""
        return await self._list("subscriptions", _SUBSCRIPTIONS)

    async def add(self, wish: Mapping[str, Any]) -> Json:
        """Subscribe an address to messages.

        Raises:
            NameTaken: there is one of this name.
        """
        return await self._post(_SUBSCRIPTION, _SUBSCRIPTIONS, dict(wish))

    async def remove(self, name: str) -> Json:
        """End a subscription."""
        return await self._post(_SUBSCRIPTION, _subscription(name), method="DELETE")

    async def test(self, name: str) -> Json:
        """Send a test message; return what the receiver answered."""
        return await self._post(json_from("status"), _subscription(name, "/test"))

    async def rotate(self, name: str, secret: str) -> Json:
        """Sign with another secret."""
        return await self._post(_SUBSCRIPTION, _subscription(name, "/rotate"), {"secret": secret})


class DeadLetters(Resource):
    """What a server could not carry out."""

    async def list(self, *, everything: bool = False) -> Sequence[Json]:
        """Return dead letters, the newest first."""
        return await self._list("dead_letters", _LETTERS, {"all": everything})

    async def show(self, letter_id: str) -> Json:
        """Return a letter with its payload.

        Raises:
            DeadLetterNotFound: there is none.
        """
        return await self._get(json_from("id"), _letter(letter_id))

    async def replay(self, letter_id: str, *, again: bool = False) -> Json:
        """Carry a letter out."""
        return await self._post(json_from("id"), _letter(letter_id, "/replay"), {"again": again})

    async def drop(self, letter_id: str) -> Json:
        """Drop a letter."""
        return await self._post(json_from("id"), _letter(letter_id), method="DELETE")
