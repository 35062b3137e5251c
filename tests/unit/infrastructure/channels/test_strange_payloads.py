"""What no platform should send ends no channel, and nobody without an id is anybody (issue 22, point 5; CH-6)."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundMessage
from agent_fabric.infrastructure.channels import discord_wire, slack_wire, telegram_wire, whatsapp_wire

ANN = {"id": 7, "is_bot": False}
CHAT = {"id": 7, "type": "private"}
TELEGRAM = [
    {
        "update_id": 1,
        "message": {
            "message_id": 1,
            "date": 1,
            "chat": CHAT,
            "from": ANN,
            "text": "@bot hi",
            "entities": [{"type": "mention", "offset": 0, "length": 4}],
            "reply_to_message": {"from": ANN, "text": "x"},
            "document": {"file_id": "a", "file_name": "n", "file_size": 3},
            "photo": [{"file_id": "b"}],
            "is_topic_message": True,
            "message_thread_id": 3,
        },
    },
    {
        "update_id": 2,
        "callback_query": {
            "id": "q",
            "from": ANN,
            "data": "d",
            "message": {"message_id": 1, "date": 1, "chat": CHAT},
        },
    },
    {"update_id": 3, "message": {"message_id": 1, "date": 1, "chat": CHAT, "migrate_to_chat_id": -5}},
]
SLACK = [
    {
        "type": "event_callback",
        "team_id": "T1",
        "team": {"id": "T1"},
        "authorizations": [{"team_id": "T1"}],
        "event_id": "E1",
        "event": {
            "type": "message",
            "channel_type": "im",
            "user": "U7",
            "channel": "D7",
            "text": "<@U0> hi",
            "ts": "1.0",
            "subtype": "file_share",
            "files": [{"url_private_download": "u", "name": "n", "size": 1}],
        },
    },
    {
        "type": "block_actions",
        "user": {"id": "U7"},
        "channel": {"id": "D7"},
        "message": {"ts": "1.0", "thread_ts": "x"},
        "actions": [{"value": "v", "action_ts": "1"}],
        "trigger_id": "t",
    },
]
DISCORD = [
    {
        "id": "1",
        "channel_id": "2",
        "author": {"id": "7", "bot": False},
        "content": "hi",
        "referenced_message": {"author": {"id": "5"}, "content": "x"},
        "mentions": [{"id": "42"}],
        "timestamp": "2024-01-01T00:00:00+00:00",
        "attachments": [{"url": "u", "filename": "f", "size": 1}],
    },
    {
        "id": "1",
        "type": 3,
        "token": "t",
        "channel_id": "2",
        "user": {"id": "7"},
        "member": {"user": {"id": "7"}},
        "data": {"custom_id": "x"},
        "message": {"id": "9"},
    },
]
_SAID = {"from": "4", "id": "w", "timestamp": "1", "type": "text", "text": {"body": "x"}, "context": {"id": "z"}}
_REPORT = {"id": "i", "status": "failed", "recipient_id": "4", "biz_opaque_callback_data": "p", "errors": [{"code": 1}]}
_VALUE = {
    "metadata": {"phone_number_id": "1"},
    "messages": [_SAID, {**_SAID, "interactive": {"button_reply": {"id": "d"}}}],
    "statuses": [_REPORT],
}
WHATSAPP = [{"entry": [{"changes": [{"value": _VALUE}]}]}]
JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**400, 1e400, -1e400, float("nan"), 3.5),
    *("", "x", "\ud800", "\x00", "9" * 5_000, [], [1], [[]], [None], [{}], {}, {"id": {}}),
)


def _telegram(payload: Any) -> Sequence[Inbound | None]:
    telegram_wire.next_offset([payload], 0)
    return telegram_wire.read_updates([payload], telegram_wire.Bot("42", "bot"))


def _slack(payload: Any) -> Sequence[Inbound | None]:
    return [slack_wire.read_delivery(payload, slack_wire.Bot("T1", "U0"))]


def _discord(payload: Any) -> Sequence[Inbound | None]:
    kinds = ("MESSAGE_CREATE", "INTERACTION_CREATE")
    return [discord_wire.read_dispatch(kind, payload, discord_wire.Bot("42", "77")) for kind in kinds]


def _whatsapp(payload: Any) -> Sequence[Inbound | None]:
    return whatsapp_wire.read_webhook(payload, phone_number_id="1")


def _changed(payload: Any, chance: random.Random) -> Any:
    """Return a payload in which a few values are missing or something else."""
    payload = json.loads(json.dumps(payload))
    for _ in range(chance.randint(1, 3)):
        places = list[tuple[Any, Any]]()
        waiting = [payload]
        while waiting:
            each = waiting.pop()
            keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else []
            places += [(each, key) for key in keys]
            waiting += [each[key] for key in keys]
        if not places:
            break
        holder, key = chance.choice(places)
        if isinstance(holder, dict) and chance.random() < 0.2:
            del holder[key]
        else:
            holder[key] = json.loads(json.dumps(chance.choice(JUNK)))
    return payload


@pytest.mark.parametrize(
    ("read", "payloads"),
    [(_telegram, TELEGRAM), (_slack, SLACK), (_discord, DISCORD), (_whatsapp, WHATSAPP)],
    ids=["telegram", "slack", "discord", "whatsapp"],
)
def test_whatever_stands_there_is_read_or_left_alone(
    read: Callable[[Any], Sequence[Inbound | None]], payloads: Sequence[Any]
) -> None:
    assert all(any(each is not None for each in read(payload)) for payload in payloads)
    chance = random.Random(22)
    for number in range(2_000):
        for each in read(_changed(payloads[number % len(payloads)], chance)):
            if each is not None:
                assert each.key.strip()
                assert each.place.chat
            if isinstance(each, InboundMessage | ButtonPress):
                assert each.sender.id
