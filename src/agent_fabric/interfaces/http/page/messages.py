"""What a page and the server say to each other over the socket: one JSON object in each message."""

import json
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.runs.partial_answers import Piece
from agent_fabric.wire.json_codec import dump_json

MAX_MESSAGE_BYTES: Final = 64 * 1024
MAX_ID_CHARS: Final = 100
MAX_SEQ: Final = 2**63 - 1

UNAUTHENTICATED: Final = 4401
"""Close code: no valid login was shown in time, or it is over."""
TOO_MANY: Final = 4429
"""Close code: too many sockets of one person."""
MISUSED: Final = 4400
"""Close code: message after message made no sense."""


class InvalidMessage(Exception):
    """A message that we do not understand; the text says why."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who is there."""

    page_token: str


@dataclass(frozen=True, slots=True)
class Follow:
    """See everything about a run or a session from now on."""

    run: str = ""
    session: str = ""
    after: int = -1
    """Sequence number of the newest event of the run that the page has."""


@dataclass(frozen=True, slots=True)
class Unfollow:
    """See no more of it."""

    run: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """Check that the server is there."""


ClientMessage = Hello | Follow | Unfollow | Ping


def read_message(text: str | None) -> ClientMessage:
    """Return what a page says.

    Raises:
        InvalidMessage: it makes no sense.
    """
    if text is None:
        raise InvalidMessage("Messages are text")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidMessage("Messages are JSON") from None
    if not isinstance(said, dict):
        raise InvalidMessage("A message is an object")
    match said.get("type"):
        case "hello":
            return Hello(_text(said, "page_token", 2_048))
        case "follow":
            run, session = _subject(said)
            return Follow(run, session, _seq(said.get("after", -1)))
        case "unfollow":
            return Unfollow(*_subject(said))
        case "ping":
            return Ping()
        case _:
            raise InvalidMessage("`type` is one of hello, follow, unfollow, ping")


def _subject(said: dict[str, Any]) -> tuple[str, str]:
    if ("run" in said) is ("session" in said):
        raise InvalidMessage("Name a `run` or a `session`")
    if "run" in said:
        return _text(said, "run", MAX_ID_CHARS), ""
    return "", _text(said, "session", MAX_ID_CHARS)


def _text(said: dict[str, Any], key: str, longest: int) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise InvalidMessage(f"`{key}` is a text of up to {longest} characters")
    return value


def _seq(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= MAX_SEQ:
        raise InvalidMessage("`after` is a sequence number")
    return value


def say(kind: str, **more: Any) -> str:
    """Return a message of the server."""
    return dump_json({"type": kind, **more}).decode()


def say_event(frame: bytes) -> str:
    """Return an event, given as it is sent to other readers."""
    line = frame[frame.index(b"data: ") + 6 :].rstrip()
    return (b'{"type":"event","event":%s}' % line).decode()


def say_notice(notice: bytes) -> str:
    """Return a sign of life, given as it is sent to other readers."""
    return (b'{"type":"notice",%s' % notice[1:]).decode()


def say_piece(run_id: RunId, piece: Piece) -> str:
    """Return some text of an answer: all of it so far, or what follows."""
    if not piece.offset:
        return say("partial", run_id=run_id, lane=piece.lane, text=piece.text)
    return say("delta", run_id=run_id, lane=piece.lane, offset=piece.offset, text=piece.text)
