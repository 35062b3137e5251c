"""Chores of a team's day: rights that are granted, runs of others, keys that count for an hour."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Finish, ScriptedModel, Slow
from e2e.cli.test_approvals import waiting_fabric
from e2e.fabric_process import Fabric, settings
from e2e.server.test_login import PASSWORD, Person, ada_at_a_server
from e2e.server_process import serving

pytestmark = pytest.mark.proves("DU-7")


async def test_a_scope_is_added_without_taking_others_away(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    await fabric("users", "add", "vera", "--no-password", "--scope", "tools:read")
    added = await fabric("users", "set", "vera", "--scope", "+approvals")
    assert added.out == "vera has been changed. They may: approvals, runs:read, tools:read\n"
    assert not added.err
    replaced = await fabric("users", "set", "vera", "--scope", "runs")
    assert replaced.out == "vera has been changed. They may: runs, runs:read\n"
    assert "no longer has: approvals, tools:read" in replaced.err
    assert "fabric users set vera --scope +approvals --scope +tools:read" in replaced.err
    mixed = await fabric("users", "set", "vera", "--scope", "+approvals", "--scope", "workflows")
    assert mixed.code == 2
    unknown = await fabric("users", "set", "vera", "--scope", "+everything")
    assert unknown.code == 2
    assert (await fabric("users", "list")).out.split()[:4] == ["vera", "viewer", "runs,", "runs:read"]


async def test_hints_grant_what_is_missing_and_never_admin(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        await ada("login", "--user", "ada", "--password-stdin", sends=PASSWORD + "\n")
        refused = await ada("db", "backup")
        assert refused.code == 1
        assert "--scope admin" not in refused.err
        assert "Ask an admin of the server to do it." in refused.err
        checked = await ada("doctor")
        assert checked.code == 0, checked.err
        assert "warn" not in checked.out
        assert "machine           shown to admins of the server only" in checked.out
        assert "not start runs" not in checked.out
        await server.client.patch("/api/v1/users/ada", json={"role": "viewer"})
        await ada("login", "--user", "ada", "--password-stdin", sends=PASSWORD + "\n")
        assert "not start runs" in (await ada("doctor")).out
        refused = await ada("run", "hello")
        assert "fabric users set ada --scope +runs, then log in again" in refused.err


async def test_last_says_when_only_others_have_runs(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        await ada("login", "--user", "ada", "--password-stdin", sends=PASSWORD + "\n")
        assert "There are no runs here yet" in (await ada("logs", "show", "--last")).err
        await server.client.post("/run", json={"prompt": "Hello", "pack": "engineering"})
        said = await ada("logs", "show", "--last")
        assert said.code == 2
        assert "None of the runs here is yours" in said.err
        assert "fabric logs list" in said.err


async def test_whoever_answers_is_told_where_to_look_and_the_card_says_that_it_is_settled(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        asked = (await fabric("run", "push it", "--json")).json["_meta"]
        question, run_id = asked["approvals"][0], asked["run_id"]
        async with serving(fabric) as server:
            there = replace(fabric, server=server.url)
            denied = await there("approvals", "deny", question, "--reason", "not today")
            assert f"Watch it: fabric logs show {run_id} --follow" in denied.out
            card = (await fabric("approvals", "show", question)).out
            assert card.startswith(f"approval denied · {question}")
            assert "approval needed" not in card


async def test_a_cancelled_run_gives_the_reason_as_a_reason(tmp_path: Path) -> None:
    async with waiting_fabric(tmp_path) as fabric:
        run_id = (await fabric("run", "push it", "--json")).json["_meta"]["run_id"]
        await fabric("cancel", run_id, "--reason", "deploy freeze")
        shown = (await fabric("resume", run_id)).out
        assert "  reason: deploy freeze\n" in shown
        assert "hint:" not in shown


async def test_a_key_for_an_hour_says_the_hour_and_the_record_a_date(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    made = await fabric("keys", "create", "ci", "--expires", "1h")
    assert made.err.count(":") >= 2, made.err
    listed = (await fabric("keys", "list")).out
    assert ":" in listed.split("until ")[1][:17]
    await fabric("keys", "create", "long")
    assert "UTC" in (await fabric("audit", "list")).out


async def test_a_command_whose_key_is_revoked_says_that_the_run_is_kept(tmp_path: Path) -> None:
    slowly = ScriptedModel([Slow(Finish(summary="done"), 4.0)])
    async with slowly as model, serving(Fabric(tmp_path, settings(model.base_url))) as server:
        wish = {"name": "ci", "scopes": ["runs"]}
        key = (await server.client.post("/api/v1/keys", json=wish)).json()
        person = Person(tmp_path / "ci", server.url)
        person.home.mkdir()
        started = asyncio.create_task(person("run", "hello", FABRIC_API_KEY=key["key"]))
        await model.wait_for_requests(1)
        await server.client.delete(f"/api/v1/keys/{key['id']}")
        ended = await started
        (run,) = (await server.client.get("/runs")).json()["runs"]
        assert ended.code == 1
        assert f"Run {run['run_id']} is kept at {server.url}: fabric logs show {run['run_id']} --follow" in ended.err


async def test_a_bad_password_is_refused_before_it_is_typed_again(tmp_path: Path) -> None:
    async with ada_at_a_server(tmp_path) as (ada, server):
        await server.client.patch("/api/v1/users/ada", json={"role": "admin"})
        await ada("login", "--user", "ada", "--password-stdin", sends=PASSWORD + "\n")
        said = await ada.types(("short",), "users", "add", "bea")
        assert said.code != 0
        assert "shorter than 12 characters" in said.out + said.err
        assert "Once more" not in said.out + said.err
