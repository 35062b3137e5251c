"""Secrets over HTTP: they come in, and never go out."""

import asyncio
import json
from pathlib import Path

import pytest

from integration.http.served import served, task

SECRET = "sk-8f3a-over-the-wire"
ROUTES = (
    ("GET", "/api/v1/secrets"),
    ("PUT", "/api/v1/secrets/TOKEN"),
    ("DELETE", "/api/v1/secrets/TOKEN"),
    ("POST", "/api/v1/secrets/rotate"),
)


@pytest.mark.proves("A33-121")
async def test_a_secret_is_put_listed_changed_and_deleted_but_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(tmp_path) as server:
        client = server.client
        made = await client.put("/api/v1/secrets/TOKEN", json={"value": SECRET})
        changed = await client.put("/api/v1/secrets/TOKEN", json={"value": SECRET + "2"})
        listed = await client.get("/api/v1/secrets")
        gone = await client.delete("/api/v1/secrets/TOKEN")
        again = await client.delete("/api/v1/secrets/TOKEN")
    assert [made.status_code, changed.status_code, gone.status_code, again.status_code] == [201, 200, 204, 404]
    assert again.json()["code"] == "secret_not_found"
    (shown,) = listed.json()["secrets"]
    assert shown == changed.json()
    assert (shown["name"], shown["source"]) == ("TOKEN", "file")
    assert SECRET not in made.text + changed.text + listed.text
    assert SECRET.encode() not in b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


@pytest.mark.proves("A33-121")
async def test_what_a_client_sets_is_used_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(tmp_path, also={"model": {"api_key": "file:TOKEN"}}) as server:
        before = (await server.client.post("/run", json=task())).json()
        await server.client.put("/api/v1/secrets/TOKEN", json={"value": SECRET})
        after = (await server.client.post("/run", json=task())).json()
    assert "file:TOKEN is not set" in json.dumps(before)
    assert after["_meta"]["status"] == "completed", after
    assert {request.headers["authorization"] for request in server.model.requests} == {f"Bearer {SECRET}"}


async def test_keys_rotate_while_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(tmp_path) as server:
        client = server.client
        await client.put("/api/v1/secrets/TOKEN", json={"value": SECRET})
        first = (await client.post("/api/v1/secrets/rotate")).json()
        second = (await client.post("/api/v1/secrets/rotate")).json()
        value = await server.fabric.local.secrets.chain.resolve("file:TOKEN")
    assert (first["new_key"], first["secrets"], second["secrets"]) == (True, 1, 1)
    assert first["generation"] != second["generation"]
    assert value == SECRET


REFUSED = [
    ("TOKEN", b"", 422),
    ("TOKEN", b"{}", 422),
    ("TOKEN", b'{"value": 1}', 422),
    ("TOKEN", b'{"value": ""}', 422),
    ("TOKEN", b'{"value": "abc"}', 422),
    ("TOKEN", b'{"value": "sk-8f3a-over-the-wire", "more": 1}', 422),
    ("TOKEN", b'{"value": "\\ud800sk-8f3a-over-the-wire"}', 422),
    ("TOKEN", json.dumps({"value": SECRET + "x" * 70_000}).encode(), 422),
    ("a.b", b'{"value": "sk-8f3a-over-the-wire"}', 422),
    ("%00", b'{"value": "sk-8f3a-over-the-wire"}', 422),
    ("a%2Fb", b'{"value": "sk-8f3a-over-the-wire"}', 404),
]


async def test_what_cannot_be_kept_is_refused_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(tmp_path) as server:
        for path, body, status in REFUSED:
            answer = await server.client.put(
                f"/api/v1/secrets/{path}", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == status, (path, body[:80], answer.text)
            assert SECRET not in answer.text
    assert not (tmp_path / ".fabric" / "secrets.sealed").exists()


async def test_nobody_gets_in_without_credentials(tmp_path: Path) -> None:
    async with served(tmp_path) as server, asyncio.timeout(30):
        for method, path in ROUTES:
            answer = await server.client.request(method, path, headers={"authorization": ""})
            assert answer.status_code == 401, (method, path)
