"""Who uses the page: a cookie and a page token, neither of which opens anything alone."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.infrastructure.identity.local_token import rotate_local_token
from agent_fabric.interfaces.http.page.assets import POLICY
from integration.http.served import TLS, served
from integration.page.page_client import browser

OWNER = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
PASSWORD = "correct horse battery staple"


@pytest.mark.slow
async def test_the_page_and_its_files_carry_the_policy_and_are_kept_for_ever(tmp_path: Path) -> None:
    async with served(tmp_path) as server, httpx2.AsyncClient(base_url=server.client.base_url, verify=TLS) as client:
        for path in ("/", "/s/some-session", "/r/some-run"):
            page = await client.get(path)
            assert page.status_code == 200
            assert page.headers["content-security-policy"] == POLICY
            assert page.headers["cache-control"] == "no-cache"
        assert "'unsafe" not in POLICY
        names = [part.partition('"')[0] for part in page.text.split('href="')[1:] + page.text.split('src="')[1:]]
        assert any(name.endswith("/main.js") for name in names)
        for name in names:
            file = await client.get(name)
            assert file.status_code == 200, name
            assert "immutable" in file.headers["cache-control"]
            assert file.headers["content-security-policy"] == POLICY
            assert file.headers["x-content-type-options"] == "nosniff"
            assert file.headers["referrer-policy"] == "no-referrer"
            assert file.headers["cross-origin-opener-policy"] == "same-origin"
        for path in (
            "/app/0000/main.js",
            next(iter(names)).rpartition("/")[0] + "/../__init__.py",
            "/app/x/../../etc/passwd",
        ):
            assert (await client.get(path)).status_code in {401, 404}


@pytest.mark.slow
async def test_a_code_opens_the_page_once_and_neither_half_of_the_login_counts_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        code = (await server.client.post("/api/v1/web/codes")).json()["code"]
        assert len(code) >= 22
        async with browser(server, code=code) as person:
            cookie = next(iter(person.client.cookies.jar))
            assert cookie.name == f"fabric_{server.port}"
            assert (await person.client.get("/api/v1/web/start", headers=person.both)).json()["kind"] == "local"
            assert (await person.client.get("/api/v1/me")).status_code == 401, "a cookie alone"
            async with httpx2.AsyncClient(base_url=server.client.base_url, verify=TLS) as other:
                assert (await other.get("/api/v1/me", headers=person.both)).status_code == 401, "a page token alone"
                again = await other.post("/api/v1/web/session", json={"code": code})
                assert again.status_code == 401, "a code counts once"
            async with browser(server) as second:
                assert second.page_token != person.page_token
                mixed = await person.client.get("/api/v1/me", headers=second.both)
                assert mixed.status_code == 401, "halves of two logins"
            with_bearer = {**person.both, "Authorization": f"Bearer {server.token}"}
            assert (await person.client.get("/api/v1/me", headers=with_bearer)).status_code == 401
            set_cookie = (
                await person.client.post(
                    "/api/v1/web/session",
                    json={"code": (await server.client.post("/api/v1/web/codes")).json()["code"]},
                    headers={"Origin": f"https://localhost:{server.port}"},
                )
            ).headers["set-cookie"]
            assert set_cookie.startswith("__Host-fabric=")
            assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= {
                part.strip() for part in set_cookie.split(";")
            }
            rotate_local_token(tmp_path / ".fabric")
            assert (await person.client.get("/api/v1/me", headers=person.both)).status_code == 401, "another token"


@pytest.mark.slow
async def test_logging_out_disabling_and_lost_scopes_close_sockets_within_five_seconds(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        users = server.fabric.identity.users
        for name in ("ann", "bob", "cid"):
            await users.add(name, password=PASSWORD, by=OWNER)
        people = [browser(server, username=name, password=PASSWORD) for name in ("ann", "bob", "cid")]
        async with people[0] as ann, people[1] as bob, people[2] as cid:
            async with ann.page() as first, bob.page() as second, cid.page() as third:
                assert (await ann.client.post("/api/v1/web/logout", headers=ann.both)).status_code == 204
                await users.change("bob", by=OWNER, disabled=True)
                await users.change("cid", by=OWNER, extra=(Scope.RUNS,))
                for socket in (first, second, third):
                    with pytest.raises(ConnectionClosed) as closed:
                        await asyncio.wait_for(socket.until(type="never"), 60)
                    assert closed.value.rcvd is not None
                    assert closed.value.rcvd.code == 4401
            assert (await ann.client.get("/api/v1/me", headers=ann.both)).status_code == 401
            assert (await bob.client.get("/api/v1/me", headers=bob.both)).status_code == 401
            assert (await cid.client.get("/api/v1/me", headers=cid.both)).status_code == 401, (
                "other rights: log in again"
            )


@pytest.mark.slow
async def test_a_socket_is_for_our_pages_and_those_who_say_who_they_are(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person:
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
            with pytest.raises(InvalidStatus) as refused:
                async with person.socket(origin=origin):
                    pass
            assert refused.value.response.status_code == 403
        for token, cookie in (("x" * 48, None), (person.page_token, ""), (person.page_token, "fabric_1=a.b")):
            async with person.socket(cookie=cookie) as socket:
                await socket.say(type="hello", page_token=token)
                assert (await socket.hear())["type"] == "bye"
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.hear()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 4401


@pytest.mark.slow
async def test_a_page_follows_a_run_from_any_place_and_gets_the_lines_of_its_log(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser(server) as person, person.page() as page:
        started = await server.client.post("/runs", json={"prompt": "do it", "pack": "engineering"})
        run = started.json()["run_id"]
        await page.say(type="follow", run=run, after=-1)
        heard = await page.until(kind="run_complete")
        lines = [message["event"] for message in heard if message["type"] == "event"]
        log = (await server.client.get(f"/runs/{run}/events?limit=500")).json()["events"]
        assert lines == log
        await page.say(type="follow", run=run, after=log[-2]["seq"])
        assert [message["event"] for message in await page.until(kind="run_complete")] == log[-1:]
        await page.say(type="follow", run="no-such-run")
        assert (await page.until(code="run_not_found"))[-1]["run"] == "no-such-run"
        await page.say(type="ping")
        assert (await page.hear())["type"] == "pong"
