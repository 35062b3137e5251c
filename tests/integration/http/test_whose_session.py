"""Whose session it is decides at every door who sees it and its runs, and who writes in it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.identity.principals import RUN_HEADER, Scope
from agent_fabric.testing.scripted_model import Answer, Call, Say
from integration.http.served import PATIENCE_S, Served, bearer, served
from integration.http.test_whose_run import MEMBER, NOBODY, filled, names_in, routes, told

BASE = "/api/v1/sessions"
MARK = "axolotl"
BODIES: Mapping[str, Any] = {
    f"{BASE}/{{session_id}}/messages": {"content": "hello"},
    f"{BASE}/{{session_id}}/messages/{{message_id}}": {"content": "hello"},
    f"{BASE}/{{session_id}}": {"title": "mine"},
}


def answering(request: dict[str, Any], _: int) -> Answer:
    said = [message["content"] for message in request["messages"] if message["role"] == "user"]
    if "ask" in said[-1] and request["messages"][-1]["role"] != "tool":
        return Call("shell", {"command": "make deploy"})
    return Say(f"about {said[-1]}")


@dataclass(frozen=True)
class Team:
    """A server with people, and a session of Ada's whose turn waits for an answer."""

    server: Served
    people: Mapping[str, dict[str, str]]
    session: str
    first: str
    waiting: str

    async def ask(self, who: str, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {**self.people[who], **more.pop("headers", {})}
        async with httpx2.AsyncClient(
            base_url=self.server.client.base_url, headers=headers, timeout=PATIENCE_S
        ) as client:
            return await client.request(method, path, **more)

    async def until(self, who: str, path: str, text: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while text not in (await self.ask(who, "GET", path)).text:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with served(tmp_path, answering) as server:
        people = {}
        for name, scopes in (("ada", MEMBER), ("eve", MEMBER), ("auditor", (Scope.RUNS_ALL,))):
            made = {"name": name, "role": "viewer", "scopes": [scope.value for scope in scopes]}
            assert (await server.client.post("/api/v1/users", json=made)).status_code == 201
            people[name] = bearer((await server.fabric.identity.issue(name, by=owner_here())).token)
        members = Team(server, people, "", "", "")
        session = (await members.ask("ada", "POST", BASE, json={"pack": "engineering"})).json()["id"]
        path = f"{BASE}/{session}/messages"
        first = (await members.ask("ada", "POST", path, json={"content": MARK})).json()["run_id"]
        await members.until("ada", path, f"about {MARK}")
        waiting = (await members.ask("ada", "POST", path, json={"content": f"ask for the {MARK}"})).json()["run_id"]
        await members.until("ada", "/approvals", waiting)
        yield Team(server, people, session, first, waiting)


@pytest.mark.proves("CO-11", "FC-068")
async def test_a_session_and_its_runs_are_private_until_they_are_shared(tmp_path: Path) -> None:
    async with team(tmp_path) as members:
        doors = [each for each in routes(members.server) if each[1].startswith(BASE) and names_in(each[1])]
        assert len(doors) >= 11, doors
        for method, path in doors:
            body = {} if method in ("GET", "DELETE") else {"json": BODIES.get(path, {})}
            there = await members.ask("eve", method, filled(path, {"session_id": members.session}), **body)
            nowhere = await members.ask("eve", method, filled(path, {"session_id": NOBODY}), **body)
            assert there.status_code == 404, (method, path, there.text)
            assert told(there, members.session) == told(nowhere, NOBODY), (method, path)
        for path in (BASE, f"{BASE}/search?q={MARK}", "/runs", f"/runs/matching?q={MARK}", "/approvals"):
            answer = await members.ask("eve", "GET", path)
            assert answer.status_code == 200
            assert not any(secret in answer.text for secret in (MARK, members.session, members.first, members.waiting))
        for path in (f"/runs/{members.first}", f"/runs/{members.first}/events", f"/runs/{members.first}/files"):
            assert (await members.ask("eve", "GET", path)).status_code == 404

        listed = (await members.ask("auditor", "GET", BASE)).json()["sessions"]
        assert [(each["id"], each["title"]) for each in listed] == [(members.session, "(private)")]
        assert MARK not in (await members.ask("auditor", "GET", f"{BASE}/search?q={MARK}")).text
        assert MARK in (await members.ask("auditor", "GET", f"{BASE}/{members.session}/messages")).text
        acts = (await members.server.client.get("/api/v1/audit/acts")).text
        assert "private_session_read" in acts

        as_run = {RUN_HEADER: members.first}
        for path, body in ((f"{BASE}/{members.session}/messages", {"content": "x"}), (BASE, {})):
            refused = await members.ask("ada", "POST", path, json=body, headers=as_run)
            assert refused.status_code == 403, refused.text

        shared = await members.ask("ada", "PATCH", f"{BASE}/{members.session}", json={"visibility": "team"})
        assert shared.status_code == 200
        assert MARK in (await members.ask("eve", "GET", f"{BASE}/{members.session}/messages")).text
        assert MARK in (await members.ask("eve", "GET", f"{BASE}/search?q={MARK}")).text
        assert (await members.ask("eve", "GET", f"/runs/{members.first}/events")).status_code == 200
        shown = (await members.ask("eve", "GET", "/runs")).json()["runs"]
        assert {run["run_id"] for run in shown} == {members.first, members.waiting}
        assert "private_run_read" not in (await members.server.client.get("/api/v1/audit/acts")).text
        cards = (await members.ask("eve", "GET", "/approvals")).json()["approvals"]
        assert [card["run_id"] for card in cards] == [members.waiting]
        wrote = await members.ask("eve", "POST", f"{BASE}/{members.session}/messages", json={"content": "x"})
        assert wrote.status_code == 403
        forked = (await members.ask("eve", "POST", f"{BASE}/{members.session}/fork", json={})).json()
        assert forked["owner"] == "user:eve"
        path = f"{BASE}/{forked['id']}/messages"
        await members.ask("eve", "POST", path, json={"content": "mine now"})
        await members.until("eve", path, "about mine now")
        assert (await members.ask("ada", "GET", path)).status_code == 404

        await members.ask("ada", "PATCH", f"{BASE}/{members.session}", json={"visibility": "private"})
        assert (await members.ask("eve", "GET", f"{BASE}/{members.session}")).status_code == 404
        assert (await members.ask("eve", "GET", f"/runs/{members.first}")).status_code == 404
