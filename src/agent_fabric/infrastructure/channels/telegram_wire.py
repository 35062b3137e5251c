"""The Bot API of Telegram as values: updates that come, requests that go. No connection is made here.

The format is that of https://core.telegram.org/bots/api; nothing is used that is newer than version 9.2. It was
compared with version 10.3, as the published package aiogram 3.31.0 has it.
"""

import re
from collections.abc import Mapping, Sequence
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
    Unparsable,
)
from agent_fabric.domain.channels.files import Document
from agent_fabric.domain.channels.inbound import ButtonPress, ChatMoved, Inbound, InboundFile, InboundMessage
from agent_fabric.infrastructure.channels.wire_values import id_in, number_in, table_in, tables_in

CHANNEL: Final = "telegram"
ALLOWED_UPDATES: Final = ("message", "callback_query")
_DIRECT: Final = "private"
_NOT_MODIFIED: Final = "message is not modified"
_UNPARSABLE: Final = "can't parse entities"
_FILE_PATH: Final = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)


class Bot(NamedTuple):
    """Who we are there."""

    id: str
    username: str


class Method(NamedTuple):
    """A request of the Bot API."""

    name: str
    body: Mapping[str, Any]
    file: Document | None = None


def read_updates(updates: Sequence[Any], bot: Bot) -> list[Inbound]:
    """Return what the updates bring. One that we make nothing of is left out; its number still counts."""
    found = (read_update(each, bot) for each in updates if isinstance(each, Mapping))
    return [each for each in found if each is not None]


def next_offset(updates: Sequence[Any], offset: int) -> int:
    """Return the offset that acknowledges these updates."""
    numbers = [each["update_id"] for each in updates if isinstance(each, Mapping) and "update_id" in each]
    return max([offset, *(number + 1 for number in numbers if isinstance(number, int))])


def read_update(update: Mapping[str, Any], bot: Bot) -> Inbound | None:
    """Return what an update brings; None: nothing that is for us."""
    key = id_in(update.get("update_id"))
    if not key:
        return None
    if isinstance(press := update.get("callback_query"), Mapping):
        return _press(key, press, bot)
    message = update.get("message")
    if not isinstance(message, Mapping) or not isinstance(message.get("chat"), Mapping):
        return None
    place = _place(message, bot)
    if not place.chat:
        return None
    sent_at = number_in(message.get("date"))
    if to_chat := id_in(message.get("migrate_to_chat_id")):
        return ChatMoved(key=key, place=place, to_chat=to_chat, sent_at=sent_at)
    author = table_in(message.get("from"))
    # An anonymous admin or a channel writes as a chat: that is no one in particular, so no one's right counts.
    if not id_in(author.get("id")) or "sender_chat" in message:
        return None
    text = str(message.get("text") or message.get("caption") or "")
    files = _files(message)
    if not text and not files:
        return None
    answered = table_in(message.get("reply_to_message"))
    addressed, text = _find_address(text, message, answered, bot)
    is_forwarded = "forward_origin" in message or "via_bot" in message  # another bot has written it
    return InboundMessage(
        key=key,
        place=place,
        sender=Sender(CHANNEL, bot.id, id_in(author.get("id"))),
        text=text,
        sent_at=sent_at,
        message_id=id_in(message.get("message_id")),
        is_bot=bool(author.get("is_bot")),
        is_addressed=addressed,
        quoted="" if _is_own(answered, bot) else str(answered.get("text") or answered.get("caption") or ""),
        is_forwarded=is_forwarded,
        files=files,
    )


def method_for(part: Part) -> Method:
    """Return the request that sends a part."""
    chat: dict[str, Any] = {"chat_id": _chat_id(part.place.chat)}
    if part.kind is PartKind.EDIT:
        chat |= {"message_id": int(part.edits)}
    elif part.place.thread:
        chat |= {"message_thread_id": int(part.place.thread)}
    if part.kind is PartKind.FILE:
        return Method("sendDocument", {**chat, "caption": part.plain[:1_024]}, file=part.document)
    said: dict[str, Any] = {"text": part.text, "link_preview_options": {"is_disabled": True}}
    if part.text != part.plain:
        said |= {"parse_mode": "HTML"}
    if part.reply_to and part.kind is not PartKind.EDIT:
        said |= {"reply_parameters": {"message_id": int(part.reply_to), "allow_sending_without_reply": True}}
    if part.buttons or part.kind is PartKind.EDIT:
        rows = [[{"text": each.label, "callback_data": each.data} for each in part.buttons]] if part.buttons else []
        said |= {"reply_markup": {"inline_keyboard": rows}}
    return Method("editMessageText" if part.kind is PartKind.EDIT else "sendMessage", {**chat, **said})


def read_outcome(part: Part, status: int, answer: Any) -> SendOutcome:
    """Return what an answer says about a part."""
    if isinstance(answer, Mapping) and answer.get("ok") is True:
        return Accepted(str(table_in(answer.get("result")).get("message_id", "")))
    if not isinstance(answer, Mapping) or answer.get("ok") is not False:
        return AnswerLost(f"Telegram answered {status} without saying what became of it")
    said = str(answer.get("description", ""))[:300]
    code = answer.get("error_code", status)
    if code == 429:
        return Throttled(told_to_wait_s(answer))
    if part.kind is PartKind.EDIT and _NOT_MODIFIED in said:
        return Accepted(part.edits)
    if code == 400 and _UNPARSABLE in said:
        return Unparsable(said)
    if isinstance(code, int) and code >= 500:
        return AnswerLost(said or f"Telegram answered {code}")
    return Refused(said or f"Telegram answered {code}")


def told_to_wait_s(answer: Any) -> float:
    """Return how long Telegram wants us to wait."""
    parameters = answer.get("parameters") if isinstance(answer, Mapping) else None
    return max(number_in(parameters.get("retry_after")), 1.0) if isinstance(parameters, Mapping) else 5.0


def delivery_problem(info: Any, *, since: float) -> str:
    """Return why Telegram could not deliver to a webhook lately, as `getWebhookInfo` says; empty: it could."""
    if not isinstance(info, Mapping) or number_in(info.get("last_error_date")) < since:
        return ""
    return f"Telegram cannot deliver: {str(info.get('last_error_message', ''))[:200]}"


def read_file_path(answer: Any) -> str | None:
    """Return where a file is, as `getFile` says; None: it does not, or it is no path below the files."""
    said = table_in(answer)
    path = table_in(said.get("result")).get("file_path") if said.get("ok") is True else None
    if not isinstance(path, str) or not _FILE_PATH.fullmatch(path) or ".." in path.split("/"):
        return None
    return path


def _press(key: str, press: Mapping[str, Any], bot: Bot) -> ButtonPress | None:
    message, author = press.get("message"), press.get("from")
    if not isinstance(message, Mapping) or not isinstance(author, Mapping):
        return None
    if not isinstance(message.get("chat"), Mapping) or not id_in(author.get("id")):
        return None
    place = _place(message, bot)
    if not place.chat:
        return None
    return ButtonPress(
        key=key,
        place=place,
        sender=Sender(CHANNEL, bot.id, id_in(author.get("id"))),
        data=str(press.get("data", "")),
        message_id=id_in(message.get("message_id")),
        answer_id=str(press.get("id", "")),
        sent_at=number_in(message.get("date")),
    )


def _place(message: Mapping[str, Any], bot: Bot) -> Place:
    chat = message["chat"]
    thread = id_in(message.get("message_thread_id")) if message.get("is_topic_message") else ""
    return Place(CHANNEL, bot.id, id_in(chat.get("id")), thread, is_direct=chat.get("type") == _DIRECT)


def _find_address(text: str, message: Mapping[str, Any], answered: Mapping[str, Any], bot: Bot) -> tuple[bool, str]:
    """Tell whether a text is meant for us, and return it without our name at its beginning."""
    name = f"@{bot.username}".lower()
    entities = message.get("entities") or message.get("caption_entities") or []
    mentioned = False
    for entity in tables_in(entities):
        if entity.get("type") in ("mention", "bot_command"):
            start = int(number_in(entity.get("offset")))
            said = _utf16(text, start, start + int(number_in(entity.get("length")))).lower()
            mentioned = mentioned or said == name or (entity["type"] == "bot_command" and said.endswith(name))
    stripped = text[len(name) :].lstrip(" ,:") if mentioned and text.lower().startswith(name) else text
    return mentioned or _is_own(answered, bot), stripped


def _is_own(message: Mapping[str, Any], bot: Bot) -> bool:
    return id_in(table_in(message.get("from")).get("id")) == bot.id


def _utf16(text: str, start: int, end: int) -> str:
    """Return a part of a text by UTF-16 units, which Telegram counts in."""
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "replace")


def _files(message: Mapping[str, Any]) -> tuple[InboundFile, ...]:
    found = []
    for kind in ("document", "audio", "video", "voice", "video_note", "sticker"):
        each = message.get(kind)
        if isinstance(each, Mapping) and "file_id" in each:
            found.append(_file(each, str(each.get("file_name") or kind)))
    photos = message.get("photo")
    if (
        isinstance(photos, list) and photos and isinstance(photos[-1], Mapping) and "file_id" in photos[-1]
    ):  # the last one is the largest
        found.append(_file(photos[-1], "photo.jpg"))
    return tuple(found)


def _file(each: Mapping[str, Any], name: str) -> InboundFile:
    size = each.get("file_size")
    return InboundFile(
        file_id=str(each["file_id"]),
        name=name,
        size=size if isinstance(size, int) else None,
        media_type=str(each.get("mime_type", "")),
    )


def _chat_id(chat: str) -> int | str:
    return int(chat) if chat.lstrip("-").isdigit() else chat
