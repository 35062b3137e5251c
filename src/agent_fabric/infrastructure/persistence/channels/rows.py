"""What came and what goes out, as rows. Bodies are sealed with the user's keys: sessions may be encrypted."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import HELD, Button, DeliveryStatus, Part, PartKind
from agent_fabric.domain.channels.inbound import (
    ButtonPress,
    ChatMoved,
    DeliveryReport,
    Inbound,
    InboundFile,
    InboundMessage,
)
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.sql import storable

PART_COLUMNS: Final = (
    *("id", "source", "seq", "part", "channel", "account", "chat", "thread", "is_direct", "kind", "priority", "body"),
    *("status", "attempts", "next_at", "created_at", "settled_at", "message_id", "problem"),
)
_KINDS: Final = {"message": InboundMessage, "press": ButtonPress, "moved": ChatMoved, "report": DeliveryReport}


def part_row(part: Part, seal: LetterSeal) -> tuple[Any, ...]:
    """Return the row of a part, in the order of `PART_COLUMNS`."""
    body = {
        "text": part.text,
        "plain": part.plain,
        "buttons": [[each.label, each.data] for each in part.buttons],
        "reply_to": part.reply_to,
        "edits": part.edits,
        "facts": dict(part.facts),
    }
    place = part.place
    return (
        storable(part.id),
        storable(part.source),
        part.seq,
        part.number,
        *(storable(text) for text in (place.channel, place.account, place.chat, place.thread)),
        int(place.is_direct),
        part.kind.value,
        part.priority,
        seal.sealed(body),
        part.status.value,
        part.attempts,
        part.next_at,
        part.created_at,
        part.settled_at,
        storable(part.message_id),
        storable(part.problem),
    )


def part_from(row: Sequence[Any], seal: LetterSeal) -> Part:
    """Return the part of a row."""
    stored = dict(zip(PART_COLUMNS, row, strict=True))
    body = seal.opened(bytes(stored["body"]))
    return Part(
        source=stored["source"],
        seq=int(stored["seq"]),
        number=int(stored["part"]),
        place=Place(
            stored["channel"], stored["account"], stored["chat"], stored["thread"], is_direct=bool(stored["is_direct"])
        ),
        kind=PartKind(stored["kind"]),
        text=body["text"],
        plain=body["plain"],
        buttons=tuple(Button(label, data) for label, data in body["buttons"]),
        reply_to=body["reply_to"],
        edits=body["edits"],
        facts=body["facts"],
        is_held=int(stored["priority"]) == HELD,
        status=DeliveryStatus(stored["status"]),
        attempts=int(stored["attempts"]),
        next_at=float(stored["next_at"]),
        created_at=float(stored["created_at"]),
        settled_at=None if stored["settled_at"] is None else float(stored["settled_at"]),
        message_id=stored["message_id"],
        problem=stored["problem"],
    )


def as_plain(part: Part) -> Part:
    """Return a part that goes without markup from now on."""
    return replace(part, text=part.plain)


def inbound_body(inbound: Inbound, seal: LetterSeal) -> bytes:
    """Return what came, as it is stored."""
    kind = next(name for name, each in _KINDS.items() if isinstance(inbound, each))
    return seal.sealed({"kind": kind, **asdict(inbound)})


def inbound_from(stored: bytes, seal: LetterSeal) -> Inbound:
    """Return what came."""
    body = seal.opened(stored)
    made: dict[str, Any] = {**body, "place": Place(**body["place"])}
    kind: Callable[..., Inbound] = _KINDS[made.pop("kind")]
    if "sender" in made:
        made["sender"] = Sender(**made["sender"])
    if "files" in made:
        made["files"] = tuple(InboundFile(**each) for each in made["files"])
    return kind(**made)
