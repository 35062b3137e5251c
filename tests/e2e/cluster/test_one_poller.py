"""Two servers share a store and a bot: one of them polls, and the other takes over when that one dies (CH-1, CH-7)."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.application.channels.run_channel import CLAIM_EVERY_S
from agent_fabric.domain.channels.addresses import run_of_message
from agent_fabric.testing.scripted_model import Answer, Say, ScriptedModel
from agent_fabric.testing.telegram_standin import BOT_ID, TOKEN, TelegramStandIn
from e2e.cluster.world import Member
from e2e.fabric_process import Fabric, settings
from integration.http.served import TLS, bearer

LEASE_S = 5.0
PATIENCE_S = 90.0
ANN = 7


def answering(request: dict[str, Any], _: int) -> Answer:
    said = str([each for each in request["messages"] if each["role"] == "user"][-1]["content"])
    return Say(f"answer to {said}")


async def _until(found: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (seen := found()):
            await asyncio.sleep(0.05)
        return seen


async def _state(client: httpx2.AsyncClient) -> str:
    [channel] = (await client.get("/api/v1/channels")).json()["channels"]
    return str(channel["state"])


@pytest.mark.slow
@pytest.mark.proves("A33-093")
async def test_one_server_polls_and_the_other_takes_over_when_it_is_killed(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(answering) as model, TelegramStandIn() as telegram:
        config = settings(
            model.base_url,
            store={"url": database_url, "pool": 4},
            cluster={"lease_ttl_s": LEASE_S, "sweep_s": 0.2},
            channels={"telegram": {"token": "env:TG", "api_base": telegram.api_base}},
        )
        fabric = Fabric(tmp_path, config, environment={"TG": TOKEN})
        migrated = await fabric("db", "migrate")
        assert migrated.code == 0, migrated.err
        members = [Member(name, fabric, ("serve", "--port", "0", "--json")) for name in ("one", "two")]
        try:
            for each in members:
                await each.start()
            headers = bearer((fabric.root / "token").read_text().strip())
            clients = [
                httpx2.AsyncClient(base_url=each.url, headers=headers, timeout=PATIENCE_S, verify=TLS)
                for each in members
            ]
            await _ends_well(telegram, members, clients)
            for client in clients:
                await client.aclose()
        finally:
            for each in members:
                await each.aclose()


async def _ends_well(telegram: TelegramStandIn, members: list[Member], clients: list[httpx2.AsyncClient]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while sorted([await _state(each) for each in clients]) != ["connected", "elsewhere"]:
            await asyncio.sleep(0.1)
    owner = [await _state(each) for each in clients].index("connected")
    other = clients[1 - owner]
    assert (await other.post("/api/v1/users", json={"name": "ann", "role": "operator"})).status_code == 201
    telegram.write(ANN, "hello")
    text = (await _until(lambda: telegram.texts(ANN)))[0]
    code = text.split("Your code is ")[1][:8]
    # The server that does not poll pairs as well as the one that does.
    assert (await other.post("/api/v1/channels/pair", json={"code": code, "user": "ann"})).status_code == 200
    keys = {f"m{number}.": telegram.write(ANN, f"m{number}.") for number in range(3)}
    await _until(lambda: any("answer to m0." in each for each in telegram.texts(ANN)))
    killed_at = time.monotonic()
    await members[owner].end()
    keys |= {f"m{number}.": telegram.write(ANN, f"m{number}.") for number in range(3, 6)}
    async with asyncio.timeout(PATIENCE_S):
        while await _state(other) != "connected":
            await asyncio.sleep(0.05)
    took_s = time.monotonic() - killed_at
    print(f"taken over after {took_s:.1f} s")
    assert took_s < LEASE_S + CLAIM_EVERY_S + 10  # a busy machine
    doubts = set[str]()

    def missing() -> list[str]:
        texts = telegram.texts(ANN)
        runs = {said: run_of_message("telegram", str(BOT_ID), str(key)) for said, key in keys.items()}
        return [
            said for said in keys if not any(f"answer to {said}" in each for each in texts) and runs[said] not in doubts
        ]

    async with asyncio.timeout(PATIENCE_S):
        while missing():
            found = await other.get("/api/v1/channels/deliveries", params={"status": "in_doubt"})
            doubts = {each["source"] for each in found.json()["deliveries"]}
            await asyncio.sleep(0.2)
    await members[owner].start()
    await asyncio.sleep(2.0)  # what would come twice would come within this time
    for said in keys:
        assert sum(f"answer to {said}" in each for each in telegram.texts(ANN)) <= 1, said
    assert telegram.waiting == []
