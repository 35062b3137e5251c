"""What people do to a server over HTTP and from its command line stands in one record, which the check covers."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.http.served import Served, bearer, served, task

SECRET = "sesame-open-sesame-open"
PASSWORD = "correct horse battery staple"


async def acts_of(server: Served, **query: Any) -> list[tuple[str, str, str, str | None]]:
    answer = await server.client.get("/api/v1/audit/acts", params=query)
    assert answer.status_code == 200, answer.text
    return [(act["by"], act["credential"], act["act"], act["about"]) for act in answer.json()["acts"]]


@pytest.mark.sqlite
@pytest.mark.proves("FC-062")
async def test_every_administrative_act_is_recorded_whichever_door_it_came_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(tmp_path) as server:
        ask = server.client
        added = await ask.post("/api/v1/users", json={"name": "ann", "role": "admin", "password": PASSWORD})
        assert added.status_code == 201, added.text
        login = await ask.post("/api/v1/login", json={"username": "ann", "password": PASSWORD})
        ann = bearer(login.json()["access_token"])
        made = await ask.post("/api/v1/keys", json={"name": "ci"}, headers=ann)
        key_id, key = made.json()["id"], made.json()["key"]
        assert (await ask.get("/api/v1/audit/acts", headers=bearer(key))).status_code == 403
        for method, path, body, status in (
            ("PUT", "/api/v1/secrets/LAB", {"value": SECRET}, 201),
            ("POST", "/api/v1/secrets/rotate", None, 200),
            ("DELETE", "/api/v1/secrets/LAB", None, 204),
            ("DELETE", "/api/v1/secrets/LAB", None, 404),
            ("DELETE", "/api/v1/keys/ci", None, 200),
            ("POST", "/api/v1/users", {"name": "bob"}, 201),
            ("PATCH", "/api/v1/users/bob", {"disabled": True}, 200),
            ("DELETE", "/api/v1/users/bob", None, 200),
            ("DELETE", "/api/v1/users/ann", None, 409),
            ("POST", "/api/v1/db/backup", {"workspaces": False}, 201),
            ("POST", "/api/v1/me/logout", None, 204),
        ):
            answer = await ask.request(method, path, json=body, headers=ann)
            assert answer.status_code == status, (path, answer.text)
        own = await ask.post("/api/v1/users/ann/password", json={"password": f"{PASSWORD} 2"})
        assert own.status_code == 204

        found = await acts_of(server)
        owner = found[-1][0]
        assert [act[:3] for act in found] == [
            (owner, "local", "password_set"),
            *(
                ("ann", "user", deed)
                for deed in (
                    *("backup_made", "user_removed", "user_changed", "user_added", "key_revoked"),
                    *("secret_removed", "secrets_rotated", "secret_set", "key_created"),
                )
            ),
            (owner, "local", "user_added"),
        ]
        about = {deed: subject for _, _, deed, subject in reversed(found)}
        assert (about["secret_set"], about["key_revoked"], about["user_changed"]) == ("LAB", f"ci ({key_id})", "bob")
        assert await acts_of(server, limit=1) == found[:1]
        assert (await ask.get("/api/v1/audit/acts", params={"limit": 0})).status_code == 422

        # The same from a terminal, and what is done there:
        for arguments in (("token", "rotate"), ("keys", "create", "deploy"), ("keys", "revoke", "deploy")):
            assert (await server.command(*arguments)).code == 0
        listed = json.loads((await server.command("audit", "list", "--kind", "admin", "--json")).out)
        assert [entry["act"] for entry in listed][-3:] == ["local_token_rotated", "key_created", "key_revoked"]
        assert {entry["kind"] for entry in listed} == {"admin"}
        assert len(listed) == len(found) + 3
        shown = (await server.command("audit", "list")).out
        assert "secret set LAB (new)" in shown
        assert "by ann" in shown
        assert (await server.command("audit", "list", "--run", "x", "--kind", "admin")).code == 2
        verified = await server.command("audit", "verify", "--json")
        assert verified.json["holds"] is True, verified.out
    record = b"".join(path.read_bytes() for path in (tmp_path / ".fabric").glob("fabric.db*"))
    for value in (SECRET, PASSWORD, key):
        assert value.encode() not in record


async def test_over_a_server_who_is_no_administrator_sees_the_calls_of_runs_only(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        made = (await server.client.post("/api/v1/keys", json={"name": "look"})).json()["key"]
        assert (await server.client.post("/run", json=task())).status_code == 200
        there = replace(server.command, server=str(server.client.base_url).rstrip("/"))
        looking = replace(there, environment={"FABRIC_API_KEY": made})
        owning = replace(there, environment={"FABRIC_TOKEN": server.token})
        shown, refused, everything = await asyncio.gather(
            looking("audit", "list", "--json"),
            looking("audit", "list", "--kind", "admin"),
            owning("audit", "list", "--json"),
        )
        assert [entry["kind"] for entry in json.loads(shown.out)] == ["call"], shown
        assert "administrators only" in shown.err
        assert refused.code == 1, refused
        assert [entry["kind"] for entry in json.loads(everything.out)] == ["admin", "call"], everything
