"""A server that is killed in the middle of an answer: the next one finishes it, and what waits behind it."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Say, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from effort import effort, report

BASE = "/api/v1/sessions"
PATIENCE_S = 60.0


def answering(request: dict[str, Any], _: int) -> Answer:
    said = [message for message in request["messages"] if message["role"] == "user"]
    if request["messages"][-1]["role"] != "tool" and "look" in str(said[-1]["content"]):
        return Call("list_files", {"path": "."})
    return Say(f"answer to {said[-1]['content']}", pause_s=0.05)


async def answers(server: Serving, session: str) -> list[str]:
    shown = (await server.client.get(f"{BASE}/{session}/messages")).json()["messages"]
    return [each["content"] for each in shown if each["role"] == "assistant"]


@pytest.mark.slow
@pytest.mark.proves("CO-13")
async def test_a_killed_turn_and_what_waits_behind_it_are_finished_by_the_next_server(tmp_path: Path) -> None:
    kills = effort(2, 20)
    chance = random.Random(7)
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        session, said = "", []
        for number in range(kills):
            async with serving(fabric) as server:
                if not session:
                    session = (await server.client.post(BASE, json={"pack": "engineering"})).json()["id"]
                for words in (f"look {number}", f"plain {number}"):
                    sent = await server.client.post(f"{BASE}/{session}/messages", json={"content": words})
                    assert sent.status_code == 202, sent.text
                    said.append(words)
                await asyncio.sleep(chance.uniform(0.0, 0.8))
                await server.kill()
        async with serving(fabric) as server, asyncio.timeout(PATIENCE_S):
            while len(found := await answers(server, session)) < len(said):
                await asyncio.sleep(0.1)
            shown = (await server.client.get(f"{BASE}/{session}/messages", params={"limit": 500})).json()
            assert (await server.client.get(f"{BASE}/{session}/verify")).json()["holds"] is True
    assert found == [f"answer to {words}" for words in said]
    assert [each["content"] for each in shown["messages"] if each["role"] == "user"] == said
    report("kills of a server in the middle of a conversation", kills)
