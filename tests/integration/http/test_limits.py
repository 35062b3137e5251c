"""Nobody asks too often, and nobody guesses fast."""

import asyncio
import time
from pathlib import Path

import pytest

from integration.http.served import PATIENCE_S, Served, bearer, served, task

pytestmark = pytest.mark.proves("A33-123")


async def test_whoever_asks_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "requests": "3/minute"}}) as server:
        answers = [await server.client.get("/runs") for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert [each.headers["ratelimit-remaining"] for each in answers] == ["2", "1", "0", "0"]
        assert {each.headers["ratelimit-limit"] for each in answers} == {"3"}
        refused = answers[-1]
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["code"] == "too_many_requests"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert (await server.client.get("/health")).status_code == 200, "whether it lives is everybody's business"
        assert (await server.client.post("/runs/nobody/cancel")).status_code == 404, "other requests count apart"


async def test_the_local_token_is_not_limited_unless_somebody_says_so(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"requests": "2/minute", "starts": "1/minute"}}) as server:
        answers = [await server.client.get("/runs") for _ in range(10)]
        assert {each.status_code for each in answers} == {200}
        assert "ratelimit-limit" not in answers[0].headers


async def test_runs_are_started_only_so_often_however_they_are_started(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "starts": "2/minute"}}) as server:
        assert (await server.client.post("/run", json=task())).status_code == 200
        assert (await server.client.post("/api/v1/run", json=task())).status_code == 200
        refused = await server.client.post("/runs", json=task())
        assert refused.status_code == 429
        assert "started too many runs" in refused.json()["detail"]
        assert "limits.starts" in refused.json()["hint"]
        assert int(refused.headers["retry-after"]) >= 1
        assert (await server.client.get("/runs")).status_code == 200


async def test_everybody_has_their_own_share(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"requests": "2/minute"}}) as server:
        keys = []
        for name in ("ci", "page"):
            made = await server.client.post("/api/v1/keys", json={"name": name, "scopes": ["runs:read"]})
            keys.append(made.json()["key"])
        del server.client.headers["Authorization"]
        statuses = [
            (await server.client.get("/runs", headers={"X-API-Key": key})).status_code
            for key in (keys[0], keys[0], keys[0], keys[1], keys[1], keys[1])
        ]
        assert statuses == [200, 200, 429, 200, 200, 429]
        assert (await server.client.get("/runs", headers=bearer(server.token))).status_code == 200


async def test_only_so_many_runs_are_under_way_and_the_end_of_one_makes_room(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "concurrent_runs": 2}}) as server:
        streams = [await server.start("hang") for _ in range(2)]
        refused = await server.client.post("/run", json=task())
        assert refused.status_code == 429
        assert "You already have 2 runs under way" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert len((await server.client.get("/runs")).json()["runs"]) == 2, "nothing was started"
        await server.client.post(f"/runs/{streams[0].run_id}/cancel")
        await server.settled(streams[0].run_id)
        assert (await server.client.post("/run", json=task())).status_code == 200
        again = await server.start("hang")
        assert (await server.client.post(f"/runs/{again.run_id}/resume")).status_code == 202, "it is not one more"
        await server.client.post(f"/runs/{again.run_id}/cancel")
        await server.client.post(f"/runs/{streams[1].run_id}/cancel")
        await server.settled(again.run_id)
        await server.settled(streams[1].run_id)
        async with asyncio.timeout(PATIENCE_S):
            limits = server.fabric.runs.start.limits
            assert limits.runs is not None
            while limits.runs.under_way(f"local:{await local_name(server)}"):
                await asyncio.sleep(0.01)


async def local_name(server: Served) -> str:
    principal = await server.fabric.authenticate(server.token, is_key=False, from_here=True)
    return principal.name


async def test_only_so_many_streams_are_open_and_a_closed_one_makes_room(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "streams": 2}}) as server:
        first = await server.start("hang")
        second = await server.watch(first.run_id)
        assert " 200 " in second.head
        third = await server.watch(first.run_id)
        assert " 429 " in third.head
        assert "retry-after" in third.head.lower()
        assert (await server.client.get(f"/runs/{first.run_id}/events")).status_code == 200, "a page is no stream"
        second.close()
        async with asyncio.timeout(PATIENCE_S):
            while " 429 " in (await server.watch(first.run_id)).head:
                await asyncio.sleep(0.02)


async def test_a_run_is_asked_for_no_more_than_may_be_and_gets_no_more_by_default(tmp_path: Path) -> None:
    limits = {"local": True, "run": {"max_steps": 3, "max_tokens": 5_000_000}}
    async with served(tmp_path, also={"limits": limits, "budget": {"max_steps": 30}}) as server:
        refused = await server.client.post("/run", json=task(max_steps=4))
        assert refused.status_code == 422
        assert "at most 3 steps" in refused.json()["detail"]
        assert (await server.client.post("/run", json=task(max_steps=3))).status_code == 200
        done = (await server.client.post("/run", json=task())).json()
        events = (await server.client.get(f"/runs/{done['_meta']['run_id']}/events")).json()["events"]
        budget = events[0]["payload"]["budget"]
        assert (budget["max_steps"], budget["max_tokens"], budget["max_seconds"]) == (3, 5_000_000, None)


async def test_who_guesses_credentials_has_to_wait_but_only_who_guesses(tmp_path: Path) -> None:
    async with served(tmp_path, trusted_proxies=["127.0.0.1"], also={"limits": {"failures": "3/minute"}}) as server:

        def at(address: str, token: str) -> dict[str, str]:
            return {"X-Forwarded-For": address, **bearer(token)}

        guesses = [await server.client.get("/runs", headers=at("203.0.113.5", f"guess-{n}")) for n in range(5)]
        assert [each.status_code for each in guesses] == [401, 401, 401, 429, 429]
        assert int(guesses[-1].headers["retry-after"]) >= 1
        right = await server.client.get("/runs", headers=at("203.0.113.5", server.token))
        assert right.status_code == 429, "or a guess that is right would be found out all the same"
        for path in ("/health", "/ready", "/api/v1/health"):
            alive = await server.client.get(path, headers={"X-Forwarded-For": "203.0.113.5"})
            assert alive.status_code == 200, "or who watches over the server would restart it"
        elsewhere = await server.client.get("/runs", headers=at("198.51.100.7", server.token))
        assert elsewhere.status_code != 429
        liar = await server.client.get("/runs", headers=at("198.51.100.9, 203.0.113.5", server.token))
        assert liar.status_code == 429, "what stands before our proxy's own entry is anybody's"


async def test_many_logins_that_fail_have_to_wait_and_those_that_succeed_do_not_count(tmp_path: Path) -> None:
    limits = {"login": "3/minute", "failures": None}
    async with served(tmp_path, trusted_proxies=["127.0.0.1"], also={"limits": limits}) as server:
        ada = {"name": "ada", "password": "correct horse battery staple", "role": "viewer"}
        assert (await server.client.post("/api/v1/users", json=ada)).status_code in {200, 201}

        async def log_in(password: str, address: str) -> int:
            body = {"username": "ada", "password": password}
            headers = {"X-Forwarded-For": address}
            return (await server.client.post("/api/v1/login", json=body, headers=headers)).status_code

        assert [await log_in(ada["password"], "203.0.113.5") for _ in range(4)] == [200] * 4
        guesses = await asyncio.gather(*(log_in(f"a wrong guess {n}", "203.0.113.5") for n in range(8)))
        assert sorted(guesses) == [401] * 3 + [429] * 5, "all at once, too"
        assert await log_in(ada["password"], "203.0.113.5") == 429
        assert await log_in(ada["password"], "198.51.100.7") == 200, "elsewhere nobody is locked out"


@pytest.mark.parametrize("address", ["", "203.0.113.5"])
async def test_whoever_guesses_passwords_does_not_lock_out_the_code_of_the_owner(tmp_path: Path, address: str) -> None:
    limits = {"login": "10/minute", "failures": "20/minute"}
    async with served(tmp_path, trusted_proxies=["127.0.0.1"], also={"limits": limits}) as server:
        ada = {"name": "ada", "password": "correct horse battery staple", "role": "viewer"}
        assert (await server.client.post("/api/v1/users", json=ada)).status_code in {200, 201}
        there = {"X-Forwarded-For": address} if address else {}

        async def open_page(**wish: str) -> int:
            return (await server.client.post("/api/v1/web/session", json=wish, headers=there)).status_code

        guesses = [await open_page(username="ada", password=f"a wrong guess {n}") for n in range(12)]
        assert guesses == [401] * 10 + [429] * 2
        for number in range(15):  # more wrong credentials than one address may show
            await server.client.get("/runs", headers={**there, **bearer(f"guess-{number}")})
        assert await open_page(username="ada", password=ada["password"]) == 429
        code = (await server.client.post("/api/v1/web/codes")).json()["code"]
        # The code of the local owner counts on the server's own machine only.
        assert await open_page(code=code) == (401 if address else 200)
        wrong = [await open_page(code=f"guess-{number}") for number in range(12)]
        assert wrong[-1] == 429, "codes are not guessed faster than passwords"


async def test_forgetting_credentials_is_not_guessing(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "failures": "2/minute"}}) as server:
        del server.client.headers["Authorization"]
        assert [(await server.client.get("/runs")).status_code for _ in range(4)] == [401] * 4
        assert (await server.client.get("/runs", headers=bearer(server.token))).status_code == 200


async def test_a_program_of_this_machine_with_an_old_token_does_not_lock_out_its_owner(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"failures": "2/minute"}}) as server:
        wrong = [await server.client.get("/runs", headers=bearer("old")) for _ in range(6)]
        assert {each.status_code for each in wrong} == {401}
        assert (await server.client.get("/runs")).status_code == 200


async def test_counts_outlive_the_server_if_they_are_kept_with_the_runs(tmp_path: Path) -> None:
    limits = {"local": True, "requests": "3/hour", "storage": "sqlite"}
    async with served(tmp_path, also={"limits": limits}) as server:
        assert [(await server.client.get("/runs")).status_code for _ in range(2)] == [200, 200]
    async with served(tmp_path, also={"limits": limits}) as server:
        assert [(await server.client.get("/runs")).status_code for _ in range(2)] == [200, 429]


async def test_hundreds_at_once_get_as_much_as_the_rate_says_and_nobody_gets_an_error(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "requests": "50/minute"}}) as server:
        started = time.monotonic()
        answers = await asyncio.gather(*(server.client.get("/runs") for _ in range(200)))
        assert sorted({each.status_code for each in answers}) == [200, 429]
        assert sum(each.status_code == 200 for each in answers) == 50
        assert time.monotonic() - started < PATIENCE_S


async def test_an_endpoint_has_a_rate_of_its_own_for_each_caller(tmp_path: Path) -> None:
    endpoints = {"GET /runs/{run_id}": "2/minute", "GET /runs/newest": "3/minute", "POST /api/v1/run": "1/minute"}
    async with served(tmp_path, also={"limits": {"endpoints": endpoints}}) as server:
        keys = []
        for name in ("one", "two"):
            made = await server.client.post("/api/v1/keys", json={"name": name, "scopes": ["runs"]})
            keys.append({"X-API-Key": made.json()["key"]})
        del server.client.headers["Authorization"]
        for key in keys:
            answers = [await server.client.get(f"/api/v1/runs/{nth}", headers=key) for nth in range(3)]
            assert [each.status_code for each in answers] == [404, 404, 429], "all runs count together"
            assert [each.headers["ratelimit-remaining"] for each in answers] == ["1", "0", "0"]
            assert answers[-1].headers["ratelimit-limit"] == "2"
            assert int(answers[-1].headers["retry-after"]) >= 1
            assert "GET /runs/{run_id}" in answers[-1].json()["detail"]
            assert (await server.client.get("/runs/newest", headers=key)).headers["ratelimit-limit"] == "3"
            assert (await server.client.get("/runs", headers=key)).headers["ratelimit-limit"] == "600"
        statuses = [
            (await server.client.post(path, json=task(), headers=keys[0])).status_code
            for path in ("/run", "/api/v1/run")
        ]
        assert statuses == [200, 429]
