"""Sessions over HTTP: what others build on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.ids import SessionId
from agent_fabric.testing.scripted_model import Answer, Call, Hang, Say
from chat_projection import rebuild_messages
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
    if "slowly" in words:
        return Say("one two three four five six seven eight nine ten", pause_s=1.0)
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


@pytest.mark.proves(
    "CO-9", "CO-10", "CO-12", "A33-070", "A33-073", "FC-020", "FC-023", "FC-024", "FC-025", "FC-065", "FC-066"
)
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


@pytest.mark.proves("CO-8", "CO-13")
async def test_messages_wait_for_their_turn_and_can_be_changed_withdrawn_and_refused(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        session = await new_session(server)
        first = await say(server, session, "slowly, please", after="")
        second = await say(server, session, "second", after=first["message_id"])
        third = await say(server, session, "third")
        assert (first["queued"], second["queued"], third["queued"]) == (False, True, True)
        stale = await server.client.post(
            f"{BASE}/{session}/messages", json={"content": "x", "after": first["message_id"]}
        )
        assert (stale.status_code, stale.json()["code"]) == (409, "session_moved")
        assert [each["content"] for each in stale.json()["tail"]] == ["second", "third"]
        changed = await server.client.patch(
            f"{BASE}/{session}/messages/{second['message_id']}", json={"content": "second, reworded"}
        )
        assert changed.json()["metadata"]["status"] == "queued"
        gone = await server.client.delete(f"{BASE}/{session}/messages/{third['message_id']}")
        assert gone.status_code == 204
        too_late = await server.client.delete(f"{BASE}/{session}/messages/{first['message_id']}")
        assert (too_late.status_code, too_late.json()["code"]) == (409, "message_sent")
        answer = await answered(server, session, second["run_id"])
        assert "second, reworded" in answer["content"]
        said = [each["content"] for each in await messages_of(server, session)]
        assert said[0] == "slowly, please"
        assert said[1].startswith("one two three")
        assert len(said) == 4


@pytest.mark.proves("CO-13", "FC-051")
async def test_stopping_keeps_what_was_said_and_the_next_turn_knows_it(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        session = await new_session(server)
        sent = await say(server, session, "slowly, please")
        stream = await server.watch(sent["run_id"], "?follow&deltas")
        await asyncio.wait_for(stream.reader.readuntil(b"event: delta"), PATIENCE_S)
        await asyncio.sleep(0.7)
        stopped = await server.client.post(f"{BASE}/{session}/stop", json={})
        assert stopped.json()["turn"] is None, stopped.text
        answer = await answered(server, session, sent["run_id"])
        assert answer["metadata"]["status"] == "stopped"
        assert answer["content"]
        assert "one two three four five six seven eight nine ten".startswith(answer["content"])
        assert stopped.json()["has_unread"] is False
        again = await say(server, session, "go on")
        await answered(server, session, again["run_id"])
        asked = server.model.requests[-1].body["messages"]
        assert "The person stopped this answer" in asked[2]["content"]
        assert asked[2]["content"].startswith(answer["content"])


@pytest.mark.proves("CO-9", "CO-10", "CO-12", "A33-120", "C22")
async def test_what_is_said_is_encrypted_found_forked_exported_and_deleted(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        session = await new_session(server)
        first = await say(server, session, "Tell me about Chrysanthemums")
        await answered(server, session, first["run_id"])
        second = await say(server, session, "and about the Zürich axolotl")
        await answered(server, session, second["run_id"])
        for place in ("chrysanthemums", "CHRYSAN", "zurich axolotl", "axolotl tell"):
            found = (await server.client.get(f"{BASE}/search", params={"q": place})).json()["found"]
            assert bool(found) is (place != "axolotl tell"), place
        on_disk = b"".join(file.read_bytes() for file in (tmp_path / ".fabric").glob("fabric.db*"))
        assert b"axolotl" not in on_disk
        assert b"hrysanthemum" not in on_disk
        messages = await messages_of(server, session)
        assert await rebuild_messages(server.fabric.chat.chat.messages, SessionId(session)) == 4
        assert await messages_of(server, session) == messages
        forked = (await server.client.post(f"{BASE}/{session}/fork", json={"message_id": second["message_id"]})).json()
        assert forked["draft"] == "and about the Zürich axolotl"
        assert [each["content"] for each in await messages_of(server, forked["id"])] == [
            each["content"] for each in messages[:2]
        ]
        other = await say(server, forked["id"], "something else")
        assert (await answered(server, forked["id"], other["run_id"]))["content"].startswith("4 messages")
        markdown = (await server.client.get(f"{BASE}/{session}/export")).text
        assert "Zürich axolotl" in markdown
        exported = (await server.client.get(f"{BASE}/{session}/export", params={"format": "json"})).json()
        assert [run["run_id"] for run in exported["runs"]] == [first["run_id"], second["run_id"]]
        assert exported["runs"][0]["events"][0]["payload"]["prompt"] == "Tell me about Chrysanthemums"
        assert (await server.client.delete(f"{BASE}/{session}")).status_code == 204
        assert (await server.client.get(f"{BASE}/{session}")).status_code == 404
        assert (await server.client.get(f"/runs/{second['run_id']}")).status_code == 404
        assert len(await messages_of(server, forked["id"])) == 4, "a fork lives on"


def working(request: dict[str, Any], _: int) -> Answer:
    """Write what the person says into a file, then tell what was written."""
    said = [message for message in request["messages"] if message["role"] == "user"]
    last, words = request["messages"][-1], str(said[-1]["content"])
    if last["role"] == "tool":
        return Say(f"Sure, it is done! The file has 4711 lines and says `{words}`. It was sent to 815 people.")
    return Call("write_file", {"path": "note.txt", "content": f"{words}\n4711\n"})


@pytest.mark.proves("CO-23", "CO-24", "CO-25")
async def test_a_turn_tells_what_it_rests_on_when_it_happened_and_can_be_taken_back(tmp_path: Path) -> None:
    async with served(tmp_path, working) as server:
        session = await new_session(server, pack="engineering")
        turns = []
        for words in ("first words", "second words"):
            turns.append(await say(server, session, words))
            await answered(server, session, turns[-1]["run_id"])
        first, second = (turn["run_id"] for turn in turns)
        note = Path((await server.client.get(f"/runs/{first}")).json()["_meta"]["workspace"]) / "note.txt"
        assert note.read_text() == "second words\n4711\n", "both turns work in one folder"

        message = await answered(server, session, second)
        spoken = {
            message["content"][each["start"] : each["end"]]: (each["events"], each["missing"])
            for each in message["metadata"]["sentences"]
        }
        assert spoken["It was sent to 815 people."] == ([], ["815"])

        timeline = (await server.client.get(f"/runs/{second}/timeline")).json()
        assert [(span["kind"], span["label"]) for span in timeline["spans"]] == [
            ("model", "scripted"),
            ("tool", "write_file"),
            ("model", "scripted"),
        ]
        assert timeline["prompt_tokens"] > 0
        tool = timeline["spans"][1]
        then = (await server.client.get(f"/api/v1/runs/{second}/context", params={"seq": tool["first_seq"]})).json()
        (lane,) = then["lanes"]
        assert [each["role"] for each in lane["messages"]][-2:] == ["user", "assistant"]
        assert lane["messages"][-1]["tool_calls"][0]["tool"] == "write_file"
        now = (await server.client.get(f"/runs/{second}/context")).json()
        assert len(now["lanes"][0]["messages"]) == len(lane["messages"]) + 2

        verified = (await server.client.get(f"{BASE}/{session}/verify")).json()
        assert verified["holds"] is True
        assert [each["run_id"] for each in verified["turns"]] == [first, second]

        place = f"{BASE}/{session}/messages/{first}-2"
        later = (await server.client.get(f"{place}/changes")).json()
        assert [each["run_id"] for each in later["runs"]] == [second]
        assert later["cannot_be_taken_back"] == []
        dry = (await server.client.post(f"{place}/undo", json={"dry_run": True})).json()
        assert dry["runs"][0]["dry_run"] is True
        assert note.read_text() == "second words\n4711\n"
        done = await server.client.post(f"{place}/undo", json={})
        assert done.status_code == 200, done.text
        assert note.read_text() == "first words\n4711\n"
        nothing = await server.client.post(f"{BASE}/{session}/messages/{first}-1/undo", json={})
        assert nothing.status_code == 200, nothing.text
        assert not note.exists(), nothing.text


@pytest.mark.proves("CO-6", "CO-13")
async def test_what_is_sent_again_with_its_key_happens_once(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        made = [
            await server.client.post(BASE, json={"title": "Mine"}, headers={"Idempotency-Key": "new"}) for _ in range(2)
        ]
        assert [each.status_code for each in made] == [201, 201]
        session = made[0].json()["id"]
        assert made[1].json()["id"] == session
        path = f"{BASE}/{session}/messages"
        sent = [
            await server.client.post(path, json={"content": "once"}, headers={"Idempotency-Key": "say"})
            for _ in range(3)
        ]
        assert [each.status_code for each in sent] == [202] * 3
        assert len({each.json()["run_id"] for each in sent}) == 1
        await answered(server, session, sent[0].json()["run_id"])
        assert len(await messages_of(server, session)) == 2
        changed = await server.client.patch(
            f"{BASE}/{session}", json={"title": "Chrysanthemum"}, headers={"Idempotency-Key": "name"}
        )
        assert changed.json()["title"] == "Chrysanthemum"
        on_disk = b"".join(file.read_bytes() for file in (tmp_path / ".fabric").glob("fabric.db*"))
        assert b"hrysanthemum" not in on_disk, "no kept answer has it either"
