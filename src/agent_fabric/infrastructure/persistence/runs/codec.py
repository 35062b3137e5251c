"""Events and blobs as bytes: the one place through which everything stored passes.

A payload is JSON. Long texts in it move into content-addressed blobs, so that rows stay small and a text that appears
twice is kept once.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from agent_fabric.domain.events import Body, UnknownEvent
from agent_fabric.domain.runs.event_versions import body_from
from agent_fabric.wire.json_codec import BLOB_MARK, dump_json, load_json, may_have_long_text, refers_to_blobs

INLINE_BYTES = 8_192
"""A payload up to this size is stored as it is."""
LONG_TEXT = 2_000
"""In a larger payload, texts longer than this move into blobs."""
_BLOB_KEY = "$blob"

Blobs = dict[bytes, bytes]
"""Content by address."""
VERY_LONG = 1_000_000
"""Of texts with more characters, only the beginning is read where they are shown."""
Beginning = Callable[[bytes, int], str]
"""Gives the beginning of a text, for the address and the number of characters."""
Address = Callable[[bytes], bytes]
"""Gives the name under which a content is kept."""


def content_hash(content: bytes) -> bytes:
    """Return the name under which a blob is kept that is not sealed."""
    return hashlib.sha256(content).digest()


def encode(body: Body, address: Address = content_hash) -> tuple[bytes, Blobs]:
    """Return a payload, and the blobs that it refers to; `address` gives the name of a blob's content."""
    value = body.payload if body.__class__ is UnknownEvent else body
    try:
        payload = orjson.dumps(value)
    except TypeError:  # it takes the lenient way
        payload = dump_json(value)
    if BLOB_MARK not in payload and (len(payload) <= INLINE_BYTES or not may_have_long_text(payload, LONG_TEXT)):
        return payload, {}
    blobs: Blobs = {}
    return dump_json(_spill(load_json(payload), blobs, address)), blobs


def decode(
    kind: str, version: int, payload: bytes, blob: Callable[[bytes], bytes], beginning: Beginning | None = None
) -> Body:
    """Return the body that was encoded; `blob` gives the content for an address.

    With `beginning`, only the beginnings of very long texts are read.
    """
    return body_from(kind, version, restore(payload, blob, beginning))


def restore(payload: bytes, blob: Callable[[bytes], bytes], beginning: Beginning | None = None) -> Any:
    """Return what a payload says, with its long texts; as `decode`, before it becomes a body."""
    value = load_json(payload)
    return _restore(value, blob, beginning) if refers_to_blobs(payload) else value


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


def _restore(value: Any, blob: Callable[[bytes], bytes], beginning: Beginning | None) -> Any:
    if isinstance(value, list):
        return [_restore(item, blob, beginning) for item in value]
    if not isinstance(value, Mapping):
        return value
    reference = value.get(_BLOB_KEY)
    if isinstance(reference, str) and "chars" in value:
        if beginning is not None and int(value["chars"]) > VERY_LONG:
            return beginning(bytes.fromhex(reference), int(value["chars"]))
        return blob(bytes.fromhex(reference)).decode("utf-8", "surrogatepass")
    if isinstance(reference, Mapping) and len(value) == 1:
        return {key: _restore(item, blob, beginning) for key, item in reference.items()}
    return {key: _restore(item, blob, beginning) for key, item in value.items()}
