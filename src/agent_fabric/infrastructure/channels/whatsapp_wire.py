"""The Cloud API of WhatsApp as values: what its webhook brings, requests that go. No connection is made here.

The format is that of https://developers.facebook.com/docs/whatsapp/cloud-api, version 26.0; it was compared with the
published package pywa 4.5.0.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import (
    WINDOW_CLOSED,
    Accepted,
    AnswerLost,
    Part,
    Refused,
    SendOutcome,
    Throttled,
)
from agent_fabric.domain.channels.files import Document
from agent_fabric.domain.channels.inbound import ButtonPress, DeliveryReport, Inbound, InboundFile, InboundMessage
from agent_fabric.domain.channels.rendering import WHATSAPP
from agent_fabric.infrastructure.channels.wire_values import id_in, table_in, tables_in

CHANNEL: Final = "whatsapp"
MAX_TITLE: Final = 20
_FILES: Final = ("document", "image", "audio", "video", "sticker")
_ENDINGS: Final = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "audio/ogg": ".ogg",
    "video/mp4": ".mp4",
    "image/webp": ".webp",
}
_OUTSIDE_WINDOW: Final = 131_047
_PAIR_RATE: Final = 131_056
_RATES: Final = frozenset({4, 80_007, 130_429})
_PAIR_PAUSE_S: Final = 6.0
_PAUSE_S: Final = 60.0
"""How long to wait when the platform says only that it was too much."""
_DOCUMENTS: Final = ("application/pdf", "application/msword", "application/vnd.", "text/plain")
"""How the media types of documents begin that WhatsApp takes."""


class Template(NamedTuple):
    """A message that Meta has approved, and that gets through to people who have not written for a day."""

    name: str
    language: str


class MediaFile(NamedTuple):
    """Where a file of someone is."""

    url: str
    size: int | None


class FileFields(NamedTuple):
    """How a file is called there, and what it is said to be."""

    name: str
    media_type: str


def read_webhook(body: Any, phone_number_id: str) -> list[Inbound]:
    """Return what a delivery of the webhook brings for one of our numbers; the rest is someone else's."""
    return [each for value in _values(body, phone_number_id) for each in _inbound(value, phone_number_id)]


def message_for(part: Part) -> dict[str, Any]:
    """Return the body of the request that sends a part. Nothing can be edited there: a change is a reply."""
    said: dict[str, Any] = {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": part.place.chat,
        "biz_opaque_callback_data": part.id[:512],
    }
    answered = part.edits or part.reply_to
    if answered:
        said["context"] = {"message_id": answered}
    body = WHATSAPP.literal(part.plain) if part.is_verbatim else part.text
    if part.buttons:
        buttons = [
            {"type": "reply", "reply": {"id": each.data, "title": each.label[:MAX_TITLE]}} for each in part.buttons
        ]
        action = {"buttons": buttons}
        return {
            **said,
            "type": "interactive",
            "interactive": {"type": "button", "body": {"text": body}, "action": action},
        }
    return {**said, "type": "text", "text": {"preview_url": False, "body": body}}


def document_for(part: Part, media_id: str, name: str) -> dict[str, Any]:
    """Return the body of the request that shows a file which was uploaded."""
    document = {"id": media_id, "filename": name, "caption": part.plain[:1_024]}
    said = {key: each for key, each in message_for(part).items() if key != "text"}
    return {**said, "type": "document", "document": document}


def knock_for(part: Part, template: Template) -> dict[str, Any]:
    """Return the body of the request that asks someone to write."""
    said = {key: each for key, each in message_for(part).items() if key != "text"}
    wanted = {"name": template.name, "language": {"code": template.language}}
    return {**said, "type": "template", "template": wanted}


def file_fields(document: Document) -> FileFields:
    """Return how a file is sent. WhatsApp takes few types; all other text goes as plain text."""
    if document.media_type.startswith(_DOCUMENTS):
        return FileFields(document.name, document.media_type)
    if document.media_type.startswith("text/") or document.media_type == "application/json":
        return FileFields(f"{document.name}.txt", "text/plain")
    return FileFields(document.name, document.media_type)


def read_media(answer: Any) -> MediaFile | None:
    """Return where a file is; None: the answer does not say it."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("url"), str):
        return None
    size = answer.get("file_size")
    return MediaFile(answer["url"], size if isinstance(size, int) else None)


def read_outcome(status: int, answer: Any) -> SendOutcome:
    """Return what an answer says about a part."""
    if not isinstance(answer, Mapping):
        return AnswerLost(f"WhatsApp answered {status} without saying what became of it")
    messages = answer.get("messages")
    if status < 300 and isinstance(messages, list) and messages and isinstance(messages[0], Mapping):
        return Accepted(str(messages[0].get("id", "")))
    error = answer.get("error")
    if not isinstance(error, Mapping):
        return AnswerLost(f"WhatsApp answered {status} without saying what became of it")
    code, said = error.get("code"), str(error.get("message", ""))[:300]
    if code == _PAIR_RATE:
        return Throttled(_PAIR_PAUSE_S)
    if code in _RATES or status == 429:
        return Throttled(_PAUSE_S, whole_account=True)
    if code == _OUTSIDE_WINDOW:
        return Refused(WINDOW_CLOSED)
    if status >= 500:
        return AnswerLost(said or f"WhatsApp answered {status}")
    return Refused(said or f"WhatsApp answered {status}")


def is_refused_credential(status: int, answer: Any) -> bool:
    """Tell whether the platform does not accept the token."""
    return status == 401 or table_in(table_in(answer).get("error")).get("code") == 190


def _values(body: Any, phone_number_id: str) -> Iterator[Mapping[str, Any]]:
    for entry in tables_in(table_in(body).get("entry")):
        for change in tables_in(entry.get("changes")):
            value = table_in(change.get("value"))
            if str(table_in(value.get("metadata")).get("phone_number_id")) == phone_number_id:
                yield value


def _inbound(value: Mapping[str, Any], account: str) -> Iterator[Inbound]:
    for message in tables_in(value.get("messages")):
        key, author = id_in(message.get("id")), id_in(message.get("from"))
        if not key or not author:
            continue
        place, sender = Place(CHANNEL, account, author), Sender(CHANNEL, account, author)
        sent_at, context = _seconds(message.get("timestamp")), table_in(message.get("context"))
        reply = table_in(message.get("interactive")).get("button_reply")
        if isinstance(reply, Mapping):
            below = str(context.get("id", ""))
            data = str(reply.get("id", ""))
            yield ButtonPress(key=key, place=place, sender=sender, data=data, message_id=below, sent_at=sent_at)
            continue
        text, files = _message_text(message)
        if text or files:
            yield InboundMessage(
                key=key,
                place=place,
                sender=sender,
                text=text,
                sent_at=sent_at,
                message_id=key,
                files=files,
                is_forwarded=context.get("forwarded") is True or context.get("frequently_forwarded") is True,
            )
    for status in tables_in(value.get("statuses")):
        part_id, message_id = id_in(status.get("biz_opaque_callback_data")), id_in(status.get("id"))
        if part_id and message_id and id_in(status.get("recipient_id")):
            problems = tables_in(status.get("errors"))
            yield DeliveryReport(
                key=f"{message_id} {status.get('status', '')}",
                place=Place(CHANNEL, account, id_in(status.get("recipient_id"))),
                part_id=part_id,
                message_id=message_id,
                has_arrived=status.get("status") != "failed",
                problem=_problem(problems[0]) if problems else "",
                sent_at=_seconds(status.get("timestamp")),
            )


def _problem(error: Mapping[str, Any]) -> str:
    return WINDOW_CLOSED if error.get("code") == _OUTSIDE_WINDOW else str(error.get("title", ""))[:300]


def _message_text(message: Mapping[str, Any]) -> tuple[str, tuple[InboundFile, ...]]:
    text = message.get("text")
    if isinstance(text, Mapping):
        return str(text.get("body", "")), ()
    for kind in _FILES:
        each = message.get(kind)
        if isinstance(each, Mapping) and "id" in each:
            media = str(each.get("mime_type", ""))
            name = str(each.get("filename") or kind + _ENDINGS.get(media.partition(";")[0], ""))
            file = InboundFile(file_id=str(each["id"]), name=name, size=None, media_type=media)
            return str(each.get("caption", "")), (file,)
    return "", ()


def _seconds(value: Any) -> float:
    text = str(value or "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 13 else 0.0
