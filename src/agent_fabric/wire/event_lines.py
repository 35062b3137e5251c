"""An event as one line for people and scripts: small, stable, and sure to be valid JSON."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from agent_fabric.config.constants import MAX_LLM_CONTENT_IN_RUNLOG_CHARS
from agent_fabric.domain.events import Event, RunCreated, UnknownEvent
from agent_fabric.domain.ids import RunId
from agent_fabric.wire.json_codec import BLOB_MARK, dump_json, load_json, may_have_long_text


class LongText(str):  # noqa: SLOT000 - it is copied with its attributes
    """A text of which only the beginning is here."""

    chars: int
    """How long the whole text is."""
    sha256: str
    """Of the whole text, in hexadecimal digits."""

    @classmethod
    def of(cls, beginning: str, chars: int, sha256: str) -> "LongText":
        """Return the beginning of a text."""
        made = cls(beginning)
        made.chars, made.sha256 = chars, sha256
        return made


_LIFTED = ("call_id", "attempt")
"""Fields of a payload that a line shows once more on its own level."""


def is_encrypted(events: Sequence[Event]) -> bool:
    """Tell whether nothing of a run may be kept in the clear, given its events, or only those that tell its outline."""
    first = events[0].body if events else None
    return isinstance(first, RunCreated) and first.encrypted


def line_of(run_id: RunId, event: Event, *, whole: bool = False) -> dict[str, Any]:
    """Return an event as the log shows it: `ts`, `kind`, `step`, `payload`, then whatever else applies.

    Long texts are cut, unless `whole` is asked for; `cut` then tells how long each was and its SHA-256.
    """
    body = event.body
    cut: dict[str, Any] = {}
    content: Any = body.payload if isinstance(body, UnknownEvent) else body
    if not whole:  # before it is encoded: it may be very large
        content = _shorten(content if isinstance(body, UnknownEvent) else asdict(body), "", cut)
    payload = load_json(dump_json(content))
    line: dict[str, Any] = {
        "ts": event.ts,
        "kind": body.kind,
        "step": event.step,
        "payload": payload,
        "seq": event.seq,
        "run_id": run_id,
    }
    if event.lane is not None:
        line["lane"] = event.lane
    for key in _LIFTED:
        if key in payload:
            line[key] = payload[key]
    if isinstance(body, UnknownEvent) and body.problem:
        line["unreadable"] = body.problem
    if cut:
        line["cut"] = cut
    return line


def encoded_line(run_id: RunId, event: Event, payload: bytes) -> bytes:
    """Return the same line as bytes, built around a payload that is encoded already: this runs for every event."""
    body = event.body
    if (
        BLOB_MARK in payload
        or (isinstance(body, UnknownEvent) and body.problem)
        or (
            len(payload) > MAX_LLM_CONTENT_IN_RUNLOG_CHARS
            and may_have_long_text(payload, MAX_LLM_CONTENT_IN_RUNLOG_CHARS)
        )
    ):
        return dump_json(line_of(run_id, event))
    line: dict[str, Any] = {
        "ts": event.ts,
        "kind": body.kind,
        "step": event.step,
        "payload": orjson.Fragment(payload),
        "seq": event.seq,
        "run_id": run_id,
    }
    if event.lane is not None:
        line["lane"] = event.lane
    for key in _LIFTED:
        value = getattr(body, key, None)
        if value is not None:
            line[key] = value
    try:
        return orjson.dumps(line)
    except TypeError:  # half a character in an id
        return dump_json(line_of(run_id, event))


def _shorten(value: Any, at: str, cut: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if len(value) <= MAX_LLM_CONTENT_IN_RUNLOG_CHARS:
            return value
        if isinstance(value, LongText):
            cut[at] = {"chars": value.chars, "sha256": value.sha256}
        else:
            digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            cut[at] = {"chars": len(value), "sha256": digest}
        return value[:MAX_LLM_CONTENT_IN_RUNLOG_CHARS]
    if isinstance(value, list | tuple):
        return [_shorten(item, f"{at}[{index}]", cut) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _shorten(item, f"{at}.{key}" if at else key, cut) for key, item in value.items()}
    return value
