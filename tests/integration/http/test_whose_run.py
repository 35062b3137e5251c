"""Whose run it is decides at every door who sees, follows, answers and ends it: over all routes, not over examples."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.identity.principals import RUN_HEADER, Scope
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.routing import Route
from agent_fabric.testing.scripted_model import Call, Script
from integration.http.served import DONE, PATIENCE_S, SCRIPT, Served, bearer, served
from integration.http.test_mcp_door import called, connected, refused

ASKING = Script(named={**SCRIPT.named, "ask": (Call("shell", {"command": "make deploy"}), DONE)}, turns=SCRIPT.turns)
MARK = "axolotl"
"""A word of the private run's task, which nobody else may read."""
NOBODY = "ffffffff-0000-4000-8000-000000000000"
NOTHING = "ffffffffffff"
MEMBER = (Scope.RUNS, Scope.WORKFLOWS, Scope.APPROVALS)
PAGE = "/r/{run_id}"
"""The same page for everybody; what it shows comes from the routes below."""
BODIES: Mapping[str, Any] = {
    "/approvals/{approval_id}": {"decision": "deny"},
    "/api/v1/workflows/runs/{run_id}/signal": {"name": "x"},
}
"""Bodies of routes that need one."""
IDS = ("run_id", "approval_id", "response_id")


@dataclass(frozen=True)
class Team:
    """A server with people, and a run of Ada's that waits for an answer."""

    server: Served
    ada: dict[str, str]
    eve: dict[str, str]
    auditor: dict[str, str]
    run_id: str
    approval_id: str

    def __getitem__(self, name: str) -> str:
        return {"run_id": self.run_id, "approval_id": self.approval_id, "response_id": f"resp_{self.run_id}"}[name]

    async def ask(self, headers: Mapping[str, str], method: str, path: str, **more: Any) -> httpx2.Response:
        async with httpx2.AsyncClient(
            base_url=self.server.client.base_url, headers=dict(headers), timeout=PATIENCE_S
        ) as client:
            return await client.request(method, path, **more)


@asynccontextmanager
async def team(tmp_path: Path, visibility: str = "private") -> AsyncIterator[Team]:
    async with served(tmp_path, ASKING) as server:
        people = {}
        for name, scopes in (("ada", MEMBER), ("eve", MEMBER), ("auditor", (Scope.RUNS_ALL,))):
            made = {"name": name, "role": "viewer", "scopes": [scope.value for scope in scopes]}
            answer = await server.client.post("/api/v1/users", json=made)
            assert answer.status_code == 201, answer.text
            people[name] = bearer((await server.fabric.identity.issue(name, by=owner_here())).token)
        body = {"prompt": f"[[script=ask]] {MARK}", "pack": "engineering", "visibility": visibility}
        answer = await server.client.post("/run", json=body, headers=people["ada"])
        assert answer.status_code == 202, answer.text
        meta = answer.json()["_meta"]
        yield Team(server, people["ada"], people["eve"], people["auditor"], meta["run_id"], meta["approvals"][0])


def routes(server: Served) -> Iterator[tuple[str, str]]:
    """Yield every method and path of the server."""
    for route in server.routes:
        if isinstance(route, Route):
            for method in sorted(route.methods - {"HEAD", "OPTIONS"}):
                yield method, route.path


def names_in(path: str) -> list[str]:
    return [name.partition(":")[0] for name in re.findall(r"{([^}]+)}", path)]


def filled(path: str, values: Mapping[str, str]) -> str:
    return re.sub(r"{([^}:]+)(:[^}]*)?}", lambda found: values.get(found[1], "hello.py"), path)


def told(answer: httpx2.Response, *hidden: str) -> tuple[int, str]:
    """Return what an answer says, without the ids that were asked for."""
    text = answer.text
    for each in hidden:
        text = text.replace(each, "ID")
    return answer.status_code, text


@pytest.mark.proves("WA-7")
async def test_for_every_route_with_an_id_a_private_run_of_another_does_not_exist(tmp_path: Path) -> None:
    async with team(tmp_path) as members:
        about_runs = [each for each in routes(members.server) if set(names_in(each[1])) & set(IDS) and each[1] != PAGE]
        assert len(about_runs) > 15, about_runs
        missing = {"run_id": NOBODY, "approval_id": NOTHING, "response_id": f"resp_{NOBODY}"}
        for method, path in about_runs:
            body = {} if method == "GET" else {"json": BODIES.get(path, {})}
            there = await members.ask(members.eve, method, filled(path, {name: members[name] for name in IDS}), **body)
            nowhere = await members.ask(members.eve, method, filled(path, missing), **body)
            assert there.status_code == 404, (method, path, there.text)
            shown = told(there, members.run_id, members.approval_id)
            assert shown == told(nowhere, NOBODY, NOTHING), (method, path)
            assert MARK not in there.text
        events = members.server.fabric.runs.reader
        newest = await events.newest((await members.server.fabric.runs.catalogue.locate(members.run_id)).run_id)
        assert newest.body.kind == "run_waiting", "nothing has happened to it"


@pytest.mark.proves("WA-7")
async def test_no_route_without_an_id_shows_a_private_run_of_another(tmp_path: Path) -> None:
    async with team(tmp_path) as members:
        lists = [path for method, path in routes(members.server) if method == "GET" and not names_in(path)]
        assert {"/runs", "/runs/newest", "/runs/matching", "/approvals"} <= set(lists)
        seen = set()
        for path in lists:
            query = {"q": MARK} if path in ("/runs/matching", "/runs/search") else {}
            for person, headers in (("ada", members.ada), ("eve", members.eve)):
                if path == "/mcp":
                    continue  # a stream; its tools are tried below
                answer = await members.ask(headers, "GET", path, params=query)
                if MARK in answer.text or members.run_id in answer.text or members.approval_id in answer.text:
                    seen.add((person, path))
        assert {path for person, path in seen if person == "eve"} == set()
        assert {path for person, path in seen if person == "ada"} == {
            "/runs",
            "/runs/newest",
            "/runs/matching",
            "/approvals",
        }


@pytest.mark.parametrize(("visibility", "counted"), [("private", 0), ("team", 1)])
async def test_a_simulated_policy_tells_nothing_about_private_runs_of_others(
    tmp_path: Path, visibility: str, counted: int
) -> None:
    rules = {"text": "rules: [{id: none, verdict: block, tools: [shell]}]", "file": "rules.yaml"}
    async with team(tmp_path, visibility) as members:
        answer = await members.ask(members.eve, "POST", "/api/v1/policy/simulate", json=rules)
        assert answer.status_code == 200, answer.text
        assert answer.json()["runs"] == counted
        assert (members.run_id in answer.text) is bool(counted)


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.proves("WA-7")
async def test_a2a_and_mcp_know_no_private_run_of_another(tmp_path: Path) -> None:
    async with team(tmp_path) as members:
        message = {"role": "ROLE_USER", "messageId": "1", "taskId": members.run_id, "parts": [{"text": "approve"}]}
        calls = (
            rpc("GetTask", id=members.run_id),
            rpc("CancelTask", id=members.run_id),
            rpc("SubscribeToTask", id=members.run_id),
            rpc("SendMessage", message=message),
            rpc("SendStreamingMessage", message=message),
        )
        for call in calls:
            answer = (await members.ask(members.eve, "POST", "/a2a", json=call)).json()
            assert answer["error"]["code"] == -32001, (call["method"], answer)
        listed = await members.ask(members.eve, "POST", "/a2a", json=rpc("ListTasks", includeArtifacts=True))
        assert listed.json()["result"]["tasks"] == []
        own = await members.ask(members.ada, "POST", "/a2a", json=rpc("ListTasks"))
        assert [each["id"] for each in own.json()["result"]["tasks"]] == [members.run_id]
        async with connected(members.server, members.eve) as client:
            for words in ("", MARK):
                assert (await called(client, "search_runs", words=words))["runs"] == []
            assert (await called(client, "list_approvals"))["approvals"] == []
            for tool in ("follow_run", "cancel_run"):
                assert "There is no run" in await refused(client, tool, run_id=members.run_id)
            answer_it = {"approval_id": members.approval_id, "decision": "approve"}
            assert "No approval begins" in await refused(client, "answer_approval", **answer_it)
        previous = {"model": "engineering", "input": "go on", "previous_response_id": f"resp_{members.run_id}"}
        assert (await members.ask(members.eve, "POST", "/v1/responses", json=previous)).status_code == 404


@pytest.mark.proves("WA-7")
async def test_who_may_see_all_runs_does_and_the_record_tells(tmp_path: Path) -> None:
    async with team(tmp_path) as members:
        for _ in range(2):
            shown = await members.ask(members.auditor, "GET", f"/runs/{members.run_id}")
            assert shown.status_code == 200, shown.text
            listed = (await members.ask(members.auditor, "GET", "/runs")).json()["runs"]
            assert [(each["owner"], each["visibility"]) for each in listed] == [("user:ada", "private")]
        (card,) = (await members.ask(members.auditor, "GET", "/approvals")).json()["approvals"]
        assert card["owner"] == "user:ada"
        cancelled = await members.ask(members.auditor, "POST", f"/runs/{members.run_id}/cancel")
        assert cancelled.status_code == 403, "seeing is not ending"
        assert (await members.ask(members.ada, "GET", f"/runs/{members.run_id}")).status_code == 200
        acts = (await members.server.client.get("/api/v1/audit/acts")).json()["acts"]
        reads = [(act["by"], act["act"], act.get("about")) for act in acts if act["act"].startswith("private_")]
        assert sorted(reads) == [
            ("auditor", "private_run_read", members.run_id),
            ("auditor", "private_runs_listed", None),
        ]


@pytest.mark.proves("WA-7")
async def test_a_run_of_the_team_is_everybodys_and_lists_name_its_owner(tmp_path: Path) -> None:
    async with team(tmp_path, "team") as members:
        meta = (await members.ask(members.eve, "GET", f"/runs/{members.run_id}")).json()["_meta"]
        assert (meta["owner"], meta["visibility"]) == ("user:ada", "team")
        (first, *_) = (await members.ask(members.eve, "GET", f"/runs/{members.run_id}/events")).json()["events"]
        assert (first["payload"]["owner"], first["payload"]["visibility"]) == ("user:ada", "team")
        for query, count in (("owner=ada", 1), ("owner=user:ada", 1), ("owner=eve", 0), ("owner=ada&status=failed", 0)):
            assert len((await members.ask(members.eve, "GET", f"/runs?{query}")).json()["runs"]) == count, query
        denied = await members.ask(members.eve, "POST", f"/approvals/{members.approval_id}", json={"decision": "deny"})
        assert denied.status_code == 200, denied.text
        url, token = str(members.server.client.base_url), members.eve["Authorization"].removeprefix("Bearer ")
        async with FabricClient(url, token=token) as client:
            listed = await client.runs.list(owner="user:ada", status=RunStatus.COMPLETED)
            assert {each.owner for each in listed} <= {"user:ada"}


@pytest.mark.proves("WA-7")
async def test_without_a_word_the_configuration_decides_and_a_run_hands_its_owner_on(tmp_path: Path) -> None:
    async with served(tmp_path, also={"identity": {"visibility": "private"}}) as server:
        for name in ("ada", "eve"):
            made = {"name": name, "role": "member"}
            assert (await server.client.post("/api/v1/users", json=made)).status_code == 201
        ada, eve = [
            bearer((await server.fabric.identity.issue(name, by=owner_here())).token) for name in ("ada", "eve")
        ]
        begun = await server.client.post("/run", json={"prompt": MARK, "pack": "engineering"}, headers=ada)
        run_id = begun.json()["_meta"]["run_id"]
        assert (await server.client.get(f"/runs/{run_id}", headers=eve)).status_code == 404
        # A tool server of the run starts another one with the token of the folder.
        acting = {RUN_HEADER: run_id, **bearer(server.token)}
        child = await server.client.post("/run", json={"prompt": MARK, "pack": "engineering"}, headers=acting)
        meta = (await server.client.get(f"/runs/{child.json()['_meta']['run_id']}", headers=ada)).json()["_meta"]
        assert (meta["owner"], meta["visibility"]) == ("user:ada", "private")
        url = str(server.client.base_url)
        async with FabricClient(url, token=eve["Authorization"].removeprefix("Bearer ")) as client:
            with pytest.raises(RunNotFound):
                await client.runs.show(run_id)
        shared = {"prompt": "for all", "pack": "engineering", "visibility": "team"}
        run_id = (await server.client.post("/run", json=shared, headers=ada)).json()["_meta"]["run_id"]
        assert (await server.client.get(f"/runs/{run_id}", headers=eve)).status_code == 200


@pytest.mark.proves("WA-7")
async def test_searching_other_runs_a_run_finds_its_owners_and_the_teams(tmp_path: Path) -> None:
    search = Call("cross_run_search", {"query": MARK})
    script = Script(turns=SCRIPT.turns, named={"search": (search, DONE)})
    async with served(tmp_path, script) as server:
        people = {}
        for name in ("ada", "eve"):
            assert (await server.client.post("/api/v1/users", json={"name": name, "role": "admin"})).status_code == 201
            people[name] = bearer((await server.fabric.identity.issue(name, by=owner_here())).token)
        private = {"prompt": f"the {MARK}", "pack": "engineering", "visibility": Visibility.PRIVATE.value}
        run_id = (await server.client.post("/run", json=private, headers=people["ada"])).json()["_meta"]["run_id"]
        found = {}
        for name, headers in people.items():
            wish = {"prompt": "[[script=search]]", "pack": "enterprise_research"}
            searching = (await server.client.post("/run", json=wish, headers=headers)).json()["_meta"]["run_id"]
            events = (await server.client.get(f"/runs/{searching}/events?limit=1000&full")).json()["events"]
            returned = [each["payload"] for each in events if each["payload"].get("tool") == "cross_run_search"]
            found[name] = run_id in json.dumps(returned)
        assert found == {"ada": True, "eve": False}


@pytest.mark.parametrize("visibility", ["team", "private"])
async def test_to_name_a_run_of_another_gives_no_right_of_its_owner(tmp_path: Path, visibility: str) -> None:
    async with team(tmp_path, visibility) as people:
        body = {"prompt": "do it", "pack": "engineering"}
        answer = await people.ask({**people.eve, RUN_HEADER: people.run_id}, "POST", "/run", json=body)
        assert answer.status_code == 200, answer.text
        run_id = answer.json()["_meta"]["run_id"]
        shown = (await people.ask(people.eve, "GET", f"/runs/{run_id}")).json()["_meta"]
        assert shown["owner"] == "user:eve"


@pytest.mark.proves("WA-7")
async def test_clients_of_openai_and_a2a_say_who_sees_their_runs(tmp_path: Path) -> None:
    async with team(tmp_path) as here:

        async def seen(answer: httpx2.Response) -> str:
            assert answer.status_code == 200, answer.text
            newest = (await here.ask(here.ada, "GET", "/runs?limit=1")).json()["runs"][0]
            hidden = (await here.ask(here.eve, "GET", f"/runs/{newest['run_id']}")).status_code == 404
            assert hidden == (newest["visibility"] == "private")
            return str(newest["visibility"])

        chat = {"model": "engineering", "messages": [{"role": "user", "content": "do it"}]}
        response = {"model": "engineering", "input": "do it"}
        for path, body in (("/v1/chat/completions", chat), ("/v1/responses", response)):
            for wish in ("private", "team"):
                asked = {**body, "metadata": {"visibility": wish, "trace": "abc"}}
                assert await seen(await here.ask(here.ada, "POST", path, json=asked)) == wish
            assert await seen(await here.ask(here.ada, "POST", path, json={**body, "metadata": None})) == "team"
            wrong = {**body, "metadata": {"visibility": "everybody"}}
            assert (await here.ask(here.ada, "POST", path, json=wrong)).status_code == 400
        first = await here.ask(
            here.ada, "POST", "/v1/responses", json={**response, "metadata": {"visibility": "private"}}
        )
        more = {**response, "previous_response_id": first.json()["id"]}
        assert await seen(await here.ask(here.ada, "POST", "/v1/responses", json=more)) == "private", (
            "it quotes the first"
        )

        def message(wish: str) -> dict[str, Any]:
            said = {"messageId": f"m-{wish}", "role": "ROLE_USER", "parts": [{"text": "do it"}]}
            params = {"message": said, "metadata": {"visibility": wish, "skill": "pack/engineering"}}
            return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}

        versions = {**here.ada, "A2A-Version": "1.0"}
        for wish in ("private", "team"):
            assert await seen(await here.ask(versions, "POST", "/a2a", json=message(wish))) == wish
        refused_one = (await here.ask(versions, "POST", "/a2a", json=message("everybody"))).json()
        assert "visibility" in refused_one["error"]["message"]
