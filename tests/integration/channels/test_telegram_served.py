"""A person on Telegram and a real server: code, pairing, answer, approval, death (CH-3, CH-6, CH-14, C17)."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.events import RunCreated
from agent_fabric.testing.scripted_model import Answer, Call, Say
from agent_fabric.testing.telegram_standin import TOKEN, Fault, SentMessage, TelegramStandIn
from integration.http.served import PATIENCE_S, Served, served

ANN, BOB = 7, 8


def answering(request: dict[str, Any], attempt: int) -> Answer:
    """Answer a chat; `deploy` needs an approval first."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Say("**done**")
    words = str([each for each in request["messages"] if each["role"] == "user"][-1]["content"])
    return Call("shell", {"command": "make deploy"}) if "deploy" in words else Say(f"you said *{words}*")


async def _until(found: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (seen := found()):
            await asyncio.sleep(0.02)
        return seen


def _settings(telegram: TelegramStandIn) -> dict[str, Any]:
    return {"channels": {"telegram": {"token": "env:TELEGRAM_TOKEN", "api_base": telegram.api_base}}}


async def _paired(server: Served, telegram: TelegramStandIn, person: int, name: str, role: str) -> None:
    wish = {"name": name, "role": role}
    added = await server.client.post("/api/v1/users", json=wish)
    assert added.status_code == 201, added.text
    telegram.write(person, "hello")
    text = await _until(lambda: next((each for each in telegram.texts(person) if "Your code is" in each), None))
    code = text.split("Your code is ")[1][:8]
    paired = await server.client.post("/api/v1/channels/pair", json={"code": code, "user": name})
    assert paired.status_code == 200, paired.text


def _card(telegram: TelegramStandIn, chat: int) -> SentMessage | None:
    return next((each for each in telegram.messages if each.chat == chat and "Approve" in each.buttons), None)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)


@pytest.mark.proves("C17")
async def test_from_a_strangers_first_word_to_an_approved_command(tmp_path: Path) -> None:
    async with TelegramStandIn() as telegram, served(tmp_path, answering, also=_settings(telegram)) as server:
        await _paired(server, telegram, ANN, "ann", "operator")
        await _paired(server, telegram, BOB, "bob", "member")
        telegram.fail("getUpdates", Fault.CUT_AFTER, Fault.ERROR)
        telegram.write(ANN, "how are you?")
        assert await _until(lambda: [each for each in telegram.texts(ANN) if "you said" in each])
        listed = (await server.client.get("/api/v1/channels")).json()["channels"]
        assert [(each["channel"], each["connected"]) for each in listed] == [("telegram", True)]
        telegram.write(ANN, "/new")  # the script above cannot tell what was said before from a tool's result
        telegram.write(ANN, "deploy it")
        card = await _until(lambda: _card(telegram, ANN))
        assert "make deploy" in card.text
        telegram.press(BOB, card, "Approve")
        await _until(lambda: [each for each in telegram.answers if "not yours" in each["text"]])
        telegram.press(ANN, card, "Approve")
        # There is nothing to deploy, so what the model says does not stand alone.
        await _until(lambda: any("done" in each and "failed: make deploy" in each for each in telegram.texts(ANN)))
        await _until(lambda: "approved by ann" in card.text and not card.buttons)
        sessions = (await server.client.get("/api/v1/sessions?all=true")).json()
        assert sessions


def busy(request: dict[str, Any], attempt: int) -> Answer:
    """Read the file that somebody sent, write another one, and take one's time to say so."""
    done = [each for each in request["messages"] if each["role"] == "tool"]
    said = next(str(each["content"]) for each in request["messages"] if each["role"] == "user")
    path = next((word for word in said.split() if word.startswith("inbox/")), "")
    if not done:
        return Call("read_file", {"path": path})
    if len(done) == 1:
        return Call("write_file", {"path": "upper.txt", "content": "TO BE OR NOT"})
    return Say("It is all in `upper.txt`. " + "And so on, and so on. " * 20, pause_s=1.2)


@pytest.mark.proves("A33-093")
async def test_a_file_comes_in_an_answer_grows_and_a_file_goes_out(tmp_path: Path) -> None:
    async with TelegramStandIn() as telegram, served(tmp_path, busy, also=_settings(telegram)) as server:
        await _paired(server, telegram, ANN, "ann", "operator")
        telegram.send_file(ANN, "../../to be\u202e.txt", b"to be or not", "Make it large.")
        file = await _until(lambda: next((each for each in telegram.messages if each.file_name), None))
        assert (file.file_name, file.document) == ("upper.txt", b"TO BE OR NOT")
        answer = next(each for each in telegram.messages if "It is all in" in each.text)
        assert answer.edits >= 2, telegram.history
        assert answer.text.endswith("and so on.")
        assert any(text.endswith("…") and "It is all in" in text for text in telegram.history)
        request = str(server.model.requests[0].body)
        assert "to_be.txt" in request
        assert "no orders" in request
        [run] = (await server.client.get("/runs")).json()["runs"]
        created = (await server.fabric.runs.reader.page(run["run_id"], after=-1, limit=1))[0].body
        assert isinstance(created, RunCreated)
        assert created.quotes is not None
        assert created.quotes.untrusted == created.quotes.private == ("files sent on telegram",)
        assert created.quotes.own_words == "Make it large."
        listed = (await server.client.get(f"/runs/{run['run_id']}/files")).json()["files"]
        assert [each["path"].partition("-")[2] for each in listed if each["path"].startswith("inbox/")] == ["to_be.txt"]


async def test_workflows_and_schedules_write_to_a_person(tmp_path: Path) -> None:
    step = {"id": "tell", "action": "send-message", "inputs": {"to": "ann", "text": "it is **done**"}}
    workflow = {"name": "tell-ann", "steps": [step]}
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "tell.json").write_text(json.dumps(workflow))
    async with TelegramStandIn() as telegram, served(tmp_path, answering, also=_settings(telegram)) as server:
        await _paired(server, telegram, ANN, "ann", "operator")
        begun = await server.client.post("/api/v1/workflows/tell-ann/execute", json={})
        assert begun.status_code < 300, begun.text
        text = await _until(lambda: next((each for each in telegram.texts(ANN) if "it is done" in each), None))
        assert "workflow tell-ann" in text
        wish = {"name": "morning", "cron_expression": "0 3 * * *", "task_instruction": "what failed?"}
        added = await server.client.post(
            "/api/v1/schedules", json=wish | {"target_kind": "channel", "target": "ann@telegram"}
        )
        assert added.status_code == 201, added.text
        assert (await server.client.post("/api/v1/schedules/morning/fire")).status_code < 300
        await _until(lambda: [each for each in telegram.texts(ANN) if "you said what failed?" in each])


async def test_what_was_written_while_no_server_ran_is_answered_once(tmp_path: Path) -> None:
    async with TelegramStandIn() as telegram:
        async with served(tmp_path, answering, also=_settings(telegram)) as server:
            await _paired(server, telegram, ANN, "ann", "operator")
        telegram.write(ANN, "are you there?")
        async with served(tmp_path, answering, also=_settings(telegram)):
            await _until(lambda: [each for each in telegram.texts(ANN) if "are you there" in each])
            await asyncio.sleep(1.0)  # a second answer would come within this time
        assert len([each for each in telegram.texts(ANN) if "are you there" in each]) == 1
        assert telegram.waiting == []
