"""Attacks on the page's server: stolen halves of a login, pages elsewhere, frames, floods. All get nothing."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed

from agent_fabric.domain.errors import Unauthenticated
from agent_fabric.interfaces.http.page.socket import MAX_MESSAGES
from agent_fabric.interfaces.http.page.sockets import Sockets
from integration.http.served import TLS, served
from integration.page.page_client import browser

pytestmark = pytest.mark.slow

DOORS = (
    ("GET", "/api/v1/sessions"),
    ("POST", "/api/v1/sessions"),
    ("GET", "/runs"),
    ("POST", "/runs"),
    ("GET", "/approvals"),
    ("POST", "/approvals/abcd1234"),
    ("PATCH", "/api/v1/settings"),
    ("POST", "/api/v1/web/codes"),
    ("POST", "/api/v1/web/logout"),
    ("GET", "/users"),
    ("GET", "/keys"),
)


@pytest.mark.proves("CO-4")
async def test_a_stolen_cookie_or_a_stolen_page_token_opens_no_door(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person:
        async with httpx2.AsyncClient(base_url=server.client.base_url, verify=TLS) as thief:
            for method, path in DOORS:
                body: dict[str, str] | None = None if method == "GET" else {}
                with_cookie = await thief.request(method, path, json=body, headers={"Cookie": person.cookie})
                assert with_cookie.status_code == 401, f"a cookie alone at {method} {path}"
                with_token = await thief.request(method, path, json=body, headers=person.both)
                assert with_token.status_code == 401, f"a page token alone at {method} {path}"
            in_query = await thief.get(f"/api/v1/sessions?page_token={person.page_token}&token={server.token}")
            assert in_query.status_code == 401, "an address holds no credentials"
        logins = server.fabric.identity.page_logins
        cookies = [each.value or "" for each in person.client.cookies.jar]
        assert (await logins.read(cookies, person.page_token, from_here=True)).name
        with pytest.raises(Unauthenticated):  # both halves of the owner's login, at another machine
            await logins.read(cookies, person.page_token, from_here=False)


@pytest.mark.proves("CO-1", "CO-3")
async def test_a_page_elsewhere_can_neither_log_anybody_in_nor_frame_us(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person:
        code = (await server.client.post("/api/v1/web/codes")).json()["code"]
        elsewhere = {"Origin": "http://evil.example"}
        async with httpx2.AsyncClient(base_url=server.client.base_url, verify=TLS) as page:
            for headers in (elsewhere, {"Origin": "null"}, {"Host": "evil.example"}):
                planted = await page.post("/api/v1/web/session", json={"code": code}, headers=headers)
                assert planted.status_code in {400, 403, 421}, "nobody is logged in as somebody else"
            formed = await page.post(
                "/api/v1/web/session", content=json.dumps({"code": code}), headers={"content-type": "text/plain"}
            )
            assert formed.status_code in {400, 415, 422}, "a form of another page is no request of ours"
            for path in ("/", "/s/x", "/r/x", "/app/0000/main.js"):
                answer = await page.get(path)
                assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path
            assert "access-control-allow-origin" not in (await page.get("/")).headers
        used = await person.client.get("/api/v1/me", headers={**person.both, **elsewhere})
        assert used.status_code == 403, "a whole login, used by a page elsewhere"


@pytest.mark.proves("CO-5")
async def test_a_flood_of_silent_sockets_keeps_nobody_out(tmp_path: Path) -> None:
    few = Sockets(max_silent=2)
    with few.introducing() as oldest, few.introducing() as second:
        assert not oldest.done()
        with few.introducing() as newest:
            assert (oldest.done(), second.done(), newest.done()) == (True, False, False)
    async with served(tmp_path) as server, browser(server) as person, AsyncExitStack() as held:
        for _ in range(100):
            await held.enter_async_context(person.socket(cookie=""))
        async with person.page() as page:
            await page.say(type="ping")
            assert (await page.until(type="pong"))[-1]["type"] == "pong"


@pytest.mark.proves("CO-5")
async def test_a_flood_of_messages_closes_its_socket_and_no_other(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person, person.page() as calm:
        async with person.page() as flooding:
            reading = asyncio.create_task(_drained(flooding.connection))
            try:
                for _ in range(MAX_MESSAGES + 200):
                    await flooding.say(type="ping")
            except ConnectionClosed:
                pass
            assert await asyncio.wait_for(reading, 15) == 4429
        await calm.say(type="ping")
        assert (await calm.until(type="pong"))[-1]["type"] == "pong"


async def _drained(connection: object) -> int:
    """Read until the end; return with which code it came."""
    try:
        while True:
            await connection.recv()  # type: ignore[attr-defined]
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else 0
