"""Channels at a server."""

from collections.abc import Sequence

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import items_from, json_from
from agent_fabric.wire.shape import Json

_BASE = "/api/v1/channels"
_PERSON = json_from("channel", "user", "sender")
_NOTIFY = json_from("user", "approvals", "alerts")


class ServerChannels(Resource):
    """Where people write to a server, and who they are."""

    async def list(self) -> Sequence[Json]:
        """Return the channels that are configured, and how each stands."""
        return await self._list("channels", _BASE)

    async def people(self) -> Sequence[Json]:
        """Return all people who are paired, by user."""
        return await self._list("people", f"{_BASE}/people")

    async def pair(self, code: str, user: str) -> Json:
        """Make the sender who was shown a code a user.

        Raises:
            PairingNotFound: no sender waits with this code.
            AccountNotFound: there is no such user.
        """
        return await self._post(_PERSON, f"{_BASE}/pair", {"code": code, "user": user})

    async def unpair(self, user: str, channel: str = "") -> Sequence[Json]:
        """Make a user a stranger, on one channel or on all."""
        body = {"user": user, "channel": channel or None}
        return await self._post(items_from("people"), f"{_BASE}/unpair", body)

    async def notify(self, user: str) -> Json:
        """Return where a user wants to be told."""
        return await self._get(_NOTIFY, f"{_BASE}/notify", {"user": user})

    async def set_notify(self, user: str, **changes: object) -> Json:
        """Change where a user wants to be told: `approvals`, `alerts`, `quiet_hours`, `timezone`."""
        return await self._post(_NOTIFY, f"{_BASE}/notify", {"user": user, **changes})

    async def deliveries(self, *, status: str = "", limit: int = 100) -> Sequence[Json]:
        """Return what went out, the newest first."""
        return await self._list("deliveries", f"{_BASE}/deliveries", {"status": status or None, "limit": limit})

    async def resend(self, delivery_id: str) -> Json:
        """Send again what is in doubt, failed or expired."""
        return await self._post(json_from("id", "status"), f"{_BASE}/deliveries/resend", {"id": delivery_id})

    async def test(self, user: str) -> Sequence[Json]:
        """Send a test message to a user, wherever they are paired."""
        return await self._post(items_from("deliveries"), f"{_BASE}/test", {"user": user})
