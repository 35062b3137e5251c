"""The operator is on a train (issue 22): a card, the whole command, the machine, her thumb, and the answer (C17).

Everything is real but the platform and the model: a server, a machine that has joined it, the command that runs there.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Say
from agent_fabric.testing.telegram_standin import TOKEN, USERNAME, SentMessage, TelegramStandIn
from integration.channels.test_telegram_served import _paired, _until
from integration.fleet.machines import ASKING, Machine, enrol, until_status
from integration.http.served import Served, served

ANN, BOB, TEAM = 7, 8, -500
COMMAND = "touch restarted && echo 'nginx *is* up' | tee _log_ && cat restarted _log_"
"""With marks that a platform could take for markup: she has to see them all."""


def operating(request: dict[str, Any], _: int) -> Answer:
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Say(f"Done, it says: {'up' if 'nginx *is* up' in str(last['content']) else last['content']}.")
    words = str([each for each in request["messages"] if each["role"] == "user"][-1]["content"])
    return Call("node_run_command", {"node": "web", "command": COMMAND}) if "restart" in words else Say("Hello.")


def _mention(telegram: TelegramStandIn, person: int, text: str) -> None:
    said = f"@{USERNAME} {text}"
    entity = {"type": "mention", "offset": 0, "length": len(USERNAME) + 1}
    telegram.write(person, said, chat=TEAM, entities=[entity])


def _cards(telegram: TelegramStandIn) -> list[SentMessage]:
    return [each for each in telegram.messages if each.chat == TEAM and "Approve" in each.buttons]


async def _colleague_is_refused(server: Served, telegram: TelegramStandIn, card: SentMessage) -> None:
    before = dict(card.buttons)
    number = telegram.press(BOB, card, "Approve")
    await _until(lambda: [each for each in telegram.answers if each["callback_query_id"] == f"q{number}"])
    [told] = [each for each in telegram.answers if each["callback_query_id"] == f"q{number}"]
    assert told["text"].startswith("Sorry, this is not yours to answer.")
    assert told["show_alert"] is True, "only he sees it"
    assert (card.buttons, card.edits) == (before, 0), "the card stays"
    acts = (await server.client.get("/api/v1/audit/acts?limit=50")).text
    assert "channel_press_refused" in acts
    assert "bob" in acts


@pytest.mark.slow
@pytest.mark.proves("C17", "A33-093")
async def test_a_thumb_on_a_train_restarts_a_machine_and_another_thumb_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    async with TelegramStandIn() as telegram:
        bot = {"token": "env:TELEGRAM_TOKEN", "api_base": telegram.api_base, "groups": [str(TEAM)]}
        also = {"channels": {"telegram": bot}, "chat": {"pack": "sysadmin"}}
        async with served(tmp_path, operating, also=also) as server:
            web: Machine = await enrol(server.client, tmp_path / "web", "web", ASKING)
            web.start()
            try:
                await until_status(server.client, "web", "online")
                await _paired(server, telegram, ANN, "ann", "operator")
                await _paired(server, telegram, BOB, "bob", "member")
                _mention(telegram, ANN, "restart nginx on web")
                [card] = await _until(lambda: _cards(telegram))
                assert COMMAND in card.text
                assert "node_run_command on web" in card.text
                await _colleague_is_refused(server, telegram, card)
                telegram.press(ANN, card, "Approve")
                answer = await _until(
                    lambda: next((each for each in telegram.messages if "Done, it says: up." in each.text), None)
                )
                assert (answer.chat, len(_cards(telegram))) == (TEAM, 0)
                await _until(lambda: "approved by ann" in card.text and not card.buttons)
                await asyncio.sleep(0.5)  # a second answer would come within this time
                assert len([each for each in telegram.messages if "Done, it says" in each.text]) == 1
            finally:
                web.kill()
