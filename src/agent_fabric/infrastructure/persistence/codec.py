"""Events and blobs as bytes: the one place through which everything stored passes.

A payload is JSON. Long texts in it move into content-addressed blobs, so that rows stay small and a text that appears
twice is kept once. What JSON libraries disagree about (huge integers, lone surrogates) takes the slower, more lenient
road through the standard library: whatever a model or tool sent is recorded as it came.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from agent_fabric.domain.event_versions import body_from
from agent_fabric.domain.events import Body, UnknownEvent

INLINE_BYTES = 8_192
"""A payload up to this size is stored as it is."""
LONG_TEXT = 2_000
"""In a larger payload, texts longer than this move into blobs."""
_BLOB_KEY = "$blob"
_MARK = b'"$blob"'
_LENIENT = b" "
"""First byte of JSON that only the standard library reads back as it was."""

Blobs = dict[bytes, bytes]
"""Content by address."""
Address = Callable[[bytes], bytes]
"""Gives the name under which a content is kept."""


def content_hash(content: bytes) -> bytes:
    """Return the name under which a blob is kept that is not sealed."""
    return hashlib.sha256(content).digest()


def encode(body: Body, address: Address = content_hash) -> tuple[bytes, Blobs]:
    """Return a payload, and the blobs that it refers to; `address` gives the name of a blob's content."""
    value: Any = body.payload if isinstance(body, UnknownEvent) else body
    payload = dump_json(value)
    if len(payload) <= INLINE_BYTES and _MARK not in payload:
        return payload, {}
    if _MARK not in payload and not may_have_long_text(payload, LONG_TEXT):
        return payload, {}
    blobs: Blobs = {}
    return dump_json(_spill(load_json(payload), blobs, address)), blobs


def decode(kind: str, version: int, payload: bytes, blob: Callable[[bytes], bytes]) -> Body:
    """Return the body that was encoded; `blob` gives the content for an address."""
    value = load_json(payload)
    if refers_to_blobs(payload):
        value = _restore(value, blob)
    return body_from(kind, version, value)


def refers_to_blobs(payload: bytes) -> bool:
    """Tell whether texts of a payload, or what looks like it, have moved elsewhere."""
    return _MARK in payload


def blobs_named_in(payload: bytes) -> Iterator[bytes]:
    """Return the addresses of the blobs that a payload refers to."""
    waiting = [load_json(payload)] if refers_to_blobs(payload) else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            reference = value.get(_BLOB_KEY)
            if isinstance(reference, str) and "chars" in value:
                yield bytes.fromhex(reference)
            else:
                waiting.extend(value.values())


def pack(content: bytes) -> bytes:
    """Return a blob's content as it is stored."""
    return zlib.compress(content, level=1)


def unpack(stored: bytes) -> bytes:
    """Undo `pack`."""
    return zlib.decompress(stored)


def dump_json(value: Any) -> bytes:
    """Encode anything an event can hold."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Numbers that JSON lacks become null, as orjson has it.
        plain = json.loads(json.dumps(value, default=_plain), parse_constant=lambda _: None)
        return _LENIENT + json.dumps(plain, separators=(",", ":")).encode()


def load_json(data: bytes) -> Any:
    """Decode what `dump_json` wrote.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(data) if data.startswith(_LENIENT) else orjson.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def may_have_long_text(payload: bytes, most_chars: int) -> bool:
    """Tell whether any text in encoded JSON may be longer: rather once too often than once too rarely.

    Text ends where a quotation mark is that no backslash precedes; going through the values would take ten times as
    long, and large payloads of workflows have many short ones.
    """
    return max(map(len, payload.replace(b'\\"', b"''").split(b'"'))) > most_chars


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)


def _spill(value: Any, blobs: Blobs, address: Address) -> Any:
    if isinstance(value, str):
        if len(value) <= LONG_TEXT:
            return value
        content = value.encode("utf-8", "surrogatepass")
        digest = address(content)
        blobs[digest] = content
        return {_BLOB_KEY: digest.hex(), "chars": len(value)}
    if isinstance(value, list):
        return [_spill(item, blobs, address) for item in value]
    if isinstance(value, dict):
        # A tool may use our key for something of its own; one more level tells the two apart.
        spilled = {key: _spill(item, blobs, address) for key, item in value.items()}
        return {_BLOB_KEY: spilled} if _BLOB_KEY in value else spilled
    return value


def _restore(value: Any, blob: Callable[[bytes], bytes]) -> Any:
    if isinstance(value, list):
        return [_restore(item, blob) for item in value]
    if not isinstance(value, Mapping):
        return value
    reference = value.get(_BLOB_KEY)
    if isinstance(reference, str) and "chars" in value:
        return blob(bytes.fromhex(reference)).decode("utf-8", "surrogatepass")
    if isinstance(reference, Mapping) and len(value) == 1:
        return {key: _restore(item, blob) for key, item in reference.items()}
    return {key: _restore(item, blob) for key, item in value.items()}
