"""A browser without a window: logs in to the page of a server, and talks over its socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from integration.http.served import TLS, Served

PATIENCE_S = 60.0


@dataclass
class Browser:
    """One login."""

    port: int
    client: httpx2.AsyncClient
    """Has the cookie."""
    page_token: str

    @property
    def cookie(self) -> str:
        """The cookie, as a browser sends it."""
        return "; ".join(f"{each.name}={each.value}" for each in self.client.cookies.jar)

    @property
    def both(self) -> dict[str, str]:
        """What shows the server who asks, beside the cookie that the client sends."""
        return {"X-Fabric-Page": self.page_token}

    @contextlib.asynccontextmanager
    async def socket(self, *, origin: str | None = None, cookie: str | None = None) -> AsyncIterator["Socket"]:
        """Open a socket; nothing is said yet."""
        headers = {"Cookie": self.cookie if cookie is None else cookie}
        async with connect(
            f"ws://127.0.0.1:{self.port}/api/v1/web/ws",
            origin=origin or f"http://127.0.0.1:{self.port}",  # type: ignore[arg-type]
            additional_headers=headers,
            compression=None,
        ) as connection:
            yield Socket(connection)

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator["Socket"]:
        """Open a socket that has said hello."""
        async with self.socket() as socket:
            await socket.say(type="hello", page_token=self.page_token)
            assert (await socket.hear())["type"] == "hello"
            yield socket


@dataclass
class Socket:
    """A socket of a page."""

    connection: ClientConnection

    async def say(self, **message: Any) -> None:
        """Send a message."""
        await self.connection.send(json.dumps(message))

    async def hear(self) -> dict[str, Any]:
        """Wait for a message."""
        async with asyncio.timeout(PATIENCE_S):
            told: dict[str, Any] = json.loads(await self.connection.recv())
            return told

    async def until(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return what is heard up to a message that has all of this, or an event that has."""
        heard: list[dict[str, Any]] = []
        while True:
            message = await self.hear()
            heard.append(message)
            told = {**message, **message.get("event", {})}
            if all(told.get(key) == value for key, value in wanted.items()):
                return heard


@contextlib.asynccontextmanager
async def browser(server: Served, **shown: str) -> AsyncIterator[Browser]:
    """Log in: with a code of the owner, or with what is shown."""
    if not shown:
        shown = {"code": (await server.client.post("/api/v1/web/codes")).json()["code"]}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", verify=TLS) as client:
        answer = await client.post("/api/v1/web/session", json=shown)
        assert answer.status_code == 200, answer.text
        yield Browser(server.port, client, answer.json()["page_token"])
