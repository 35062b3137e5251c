"""Discord as values: what its gateway brings, requests that go. No connection is made here.

The format is that of API version 10 in the published package discord-api-types 0.38.57.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    Part,
    PartKind,
    Refused,
    SendOutcome,
    Throttled,
)
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile, InboundMessage
from agent_fabric.domain.channels.rendering import DISCORD
from agent_fabric.infrastructure.channels.wire_values import id_in, number_in, table_in, tables_in

CHANNEL: Final = "discord"
DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID_SESSION, HELLO, HEARTBEAT_ACK = 0, 1, 2, 6, 7, 9, 10, 11
"""Opcodes of the gateway."""
INTENTS: Final = (1 << 9) | (1 << 12)
"""Messages in servers and direct ones. What mentions the bot comes with its text; no privileged intent is needed."""
REFUSED_TOKEN: Final = 4_004
REFUSED_INTENTS: Final = frozenset({4_013, 4_014})
UNRESUMABLE: Final = frozenset({1_000, 1_001, 4_007, 4_009})
"""Closings after which a session cannot be resumed."""
_SUPPRESS_EMBEDS: Final = 4
EPHEMERAL: Final = 64
_MESSAGE_COMPONENT: Final = 3
_GRAY, _GREEN, _RED = 2, 3, 4
_STYLES: Final = {"Approve": _GREEN, "Deny": _RED}
_MAX_NONCE: Final = 25
_EPOCH_MS: Final = 1_420_070_400_000
"""The beginning of 2015, from which ids count."""


class Bot(NamedTuple):
    """Who we are there."""

    user: str
    application: str


class Request(NamedTuple):
    """A request of the REST API."""

    method: str
    path: str
    body: Mapping[str, Any]


def read_dispatch(kind: str, data: Mapping[str, Any], bot: Bot) -> Inbound | None:
    """Return what an event of the gateway brings; None: nothing that is for us."""
    match kind:
        case "MESSAGE_CREATE":
            return read_message(data, bot)
        case "INTERACTION_CREATE":
            return _press(data, bot)
        case _:
            return None


def read_message(data: Mapping[str, Any], bot: Bot) -> InboundMessage | None:
    """Return a message of someone else."""
    author = table_in(data.get("author"))
    key, chat = id_in(data.get("id")), id_in(data.get("channel_id"))
    if not key or not chat or id_in(author.get("id")) in ("", bot.user):
        return None
    text, files = str(data.get("content") or ""), _files(data)
    if not text and not files:
        return None
    answered = table_in(data.get("referenced_message"))
    is_own = id_in(table_in(answered.get("author")).get("id")) == bot.user
    mentioned = any(str(each.get("id")) == bot.user for each in tables_in(data.get("mentions")))
    return InboundMessage(
        key=key,
        place=Place(CHANNEL, bot.user, chat, is_direct="guild_id" not in data),
        sender=Sender(CHANNEL, bot.user, id_in(author.get("id"))),
        text=_defuse_mentions(text, bot),
        sent_at=_moment(data.get("timestamp")),
        message_id=key,
        is_bot=bool(author.get("bot")) or "webhook_id" in data,
        is_addressed=mentioned or is_own,
        quoted="" if is_own else str(answered.get("content") or ""),
        files=files,
    )


def request_for(part: Part) -> Request:
    """Return the request that sends a part. Its nonce makes sure that it is there once, however often it is sent."""
    path = f"channels/{part.place.chat}/messages"
    content = DISCORD.literal(part.plain) if part.is_verbatim else part.text
    body: dict[str, Any] = {"content": content, "allowed_mentions": {"parse": []}}
    rows = (
        [{"type": 1, "components": [_button(each.label, each.data) for each in part.buttons]}] if part.buttons else []
    )
    if part.kind is PartKind.EDIT:
        return Request("PATCH", f"{path}/{part.edits}", {**body, "components": rows})
    body |= {"nonce": nonce_of(part), "enforce_nonce": True, "flags": _SUPPRESS_EMBEDS}
    if part.kind is PartKind.FILE:
        body["content"] = part.plain
    if rows:
        body["components"] = rows
    if part.reply_to:
        body["message_reference"] = {"message_id": part.reply_to, "fail_if_not_exists": False}
    return Request("POST", path, body)


def nonce_of(part: Part) -> str:
    """Return what tells a part from all others, for a few minutes."""
    return hashlib.sha256(part.id.encode("utf-8", "replace")).hexdigest()[:_MAX_NONCE]


def id_at(moment: float) -> str:
    """Return the smallest id that is given out at a moment."""
    return str(max(int(moment * 1_000) - _EPOCH_MS, 0) << 22)


def part_in_history(messages: Any, part: Part, bot: Bot) -> str | None:
    """Return the id of a part among the messages of a chat; None: it is not there.

    Discord keeps no nonce, so our own messages are compared by what they say, without the spaces around it, which it
    takes away; files by their names as well.
    """
    wanted = request_for(part).body["content"].strip()
    name = part.document.name if part.document is not None else ""
    for each in tables_in(messages):
        if str(table_in(each.get("author")).get("id")) != bot.user:
            continue
        names = [file.get("filename") for file in tables_in(each.get("attachments"))]
        if str(each.get("content") or "").strip() == wanted and (not name or name in names):
            return str(each.get("id", ""))
    return None


def read_outcome(status: int, headers: Mapping[str, str], answer: Any) -> SendOutcome:
    """Return what an answer says about a part, and how long its chat has to rest."""
    said = table_in(answer)
    if status == 429:
        wait_s = number_in(said.get("retry_after"), number_in(headers.get("retry-after"), 5.0))
        return Throttled(wait_s, whole_account=said.get("global") is True)
    if status < 300 and "id" in said:
        spent = headers.get("x-ratelimit-remaining") == "0"
        rest = number_in(headers.get("x-ratelimit-reset-after"), 0.0) if spent else 0.0
        return Accepted(str(said["id"]), rest_s=rest)
    if status >= 500 or not isinstance(answer, Mapping):
        return AnswerLost(f"Discord answered {status} without saying what became of it")
    return Refused(f"Discord answered {status}: {str(answer.get('message', ''))[:200]}")


def _press(data: Mapping[str, Any], bot: Bot) -> ButtonPress | None:
    inner, message = data.get("data"), data.get("message")
    member = data.get("member")
    user = table_in(member.get("user") if isinstance(member, Mapping) else data.get("user"))
    if data.get("type") != _MESSAGE_COMPONENT or not isinstance(inner, Mapping) or not isinstance(message, Mapping):
        return None
    key, chat, author = id_in(data.get("id")), id_in(data.get("channel_id")), id_in(user.get("id"))
    if not key or not chat or not author:
        return None
    return ButtonPress(
        key=key,
        place=Place(CHANNEL, bot.user, chat, is_direct="guild_id" not in data),
        sender=Sender(CHANNEL, bot.user, author),
        data=str(inner.get("custom_id", "")),
        message_id=id_in(message.get("id")),
        answer_id=str(data.get("token", "")),
        sent_at=_born(key),
    )


def _button(label: str, data: str) -> dict[str, Any]:
    return {"type": 2, "style": _STYLES.get(label, _GRAY), "label": label[:80], "custom_id": data}


def _defuse_mentions(text: str, bot: Bot) -> str:
    """Return a text without our name at its beginning."""
    text = text.strip()
    for name in (f"<@{bot.user}>", f"<@!{bot.user}>"):
        if text.startswith(name):
            return text[len(name) :].lstrip(" ,:")
    return text


def _files(data: Mapping[str, Any]) -> tuple[InboundFile, ...]:
    return tuple(
        InboundFile(
            file_id=str(each["url"]),
            name=str(each.get("filename") or "file"),
            size=each["size"] if isinstance(each.get("size"), int) else None,
            media_type=str(each.get("content_type") or ""),
        )
        for each in tables_in(data.get("attachments"))
        if "url" in each
    )


def _moment(text: Any) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def _born(snowflake: str) -> float:
    """Return when an id was given out: it begins with the milliseconds since 2015."""
    return (
        ((int(snowflake) >> 22) + _EPOCH_MS) / 1_000
        if snowflake.isascii() and snowflake.isdigit() and len(snowflake) < 24
        else 0.0
    )
