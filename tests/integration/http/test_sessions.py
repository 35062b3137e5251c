"""Sessions over HTTP: what others build on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Hang, Say
from integration.http.served import PATIENCE_S, Served, served

BASE = "/api/v1/sessions"


def answering(request: dict[str, Any], attempt: int) -> Answer:
    """Answer a chat: `look` calls a tool first, `hang` never answers, `count` tells how many messages there are."""
    said = [message for message in request["messages"] if message["role"] == "user"]
    last, words = request["messages"][-1], str(said[-1]["content"])
    if last["role"] == "tool":
        return Say(f"the tool said {last['content'][:40]}")
    if "look" in words:
        return Call("list_files", {"path": "."})
    if "break" in words:
        return Call("read_file", {"path": "nowhere.txt"})
    if "hang" in words and not attempt:
        return Hang()
    return Say(f"{len(request['messages'])} messages; you said {words!r}")


async def new_session(server: Served, **wish: Any) -> str:
    answer = await server.client.post(BASE, json=wish)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def say(server: Served, session: str, content: str, **more: Any) -> dict[str, Any]:
    answer = await server.client.post(f"{BASE}/{session}/messages", json={"content": content, **more})
    assert answer.status_code == 202, answer.text
    sent: dict[str, Any] = answer.json()
    return sent


async def messages_of(server: Served, session: str) -> list[dict[str, Any]]:
    answer = await server.client.get(f"{BASE}/{session}/messages")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


async def answered(server: Served, session: str, run_id: str) -> dict[str, Any]:
    """Wait for the answer of a turn."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for message in await messages_of(server, session):
                if message["id"] == f"{run_id}-2":
                    return message
            await asyncio.sleep(0.02)


@pytest.mark.proves("CO-9", "CO-10", "CO-12", "FC-020", "FC-023", "FC-024", "FC-025", "FC-065", "FC-066")
async def test_a_message_becomes_a_turn_that_ends_by_a_plain_answer(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        session = await new_session(server)
        sent = await say(server, session, "look at the   files, please, and say what you find in this folder of mine")
        first = await answered(server, session, sent["run_id"])
        assert first["content"].startswith("the tool said ")
        assert first["metadata"]["status"] == "completed"
        shown = (await server.client.get(f"{BASE}/{session}")).json()
        assert shown["title"] == "look at the files, please, and say what you find in this fo…"
        assert len(shown["title"]) == 60
        assert shown["has_unread"] is True
        assert shown["turn"] is None
        again = await say(server, session, "and break it")
        second = await answered(server, session, again["run_id"])
        assert second["content"].startswith("the tool said "), "an error goes back to the model"
        roles = [(each["role"], each["metadata"]["run_id"]) for each in await messages_of(server, session)]
        assert roles == [
            ("user", sent["run_id"]),
            ("assistant", sent["run_id"]),
            ("user", again["run_id"]),
            ("assistant", again["run_id"]),
        ]
        asked = server.model.requests[-1].body["messages"]
        assert [each["role"] for each in asked] == [
            "system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool",
        ]  # fmt: skip
        assert (await server.client.post(f"{BASE}/{session}/read", json={})).json()["has_unread"] is False
        assert [each["id"] for each in (await server.client.get(BASE)).json()["sessions"]] == [session]
