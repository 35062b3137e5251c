"""JSON as bytes: one encoder for the store, the run log and every interface.

What JSON libraries disagree about (huge integers, lone surrogates) takes the slower, more lenient way through the
standard library: what a model or tool sent is recorded as it came.
"""

import json
from dataclasses import asdict
from typing import Any

import orjson

BLOB_MARK = b'"$blob"'
"""Stands in every encoded payload of which texts may have moved into blobs."""
_LENIENT = b" "
"""First byte of JSON that only the standard library reads back as it was."""


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
    """Tell whether any text in encoded JSON may be longer; false positives are possible, false negatives are not.

    Text ends at a quotation mark that no backslash precedes; decoding the values would take ten times as long, and
    large payloads of workflows have many short ones.
    """
    return max(map(len, payload.replace(b'\\"', b"''").split(b'"'))) > most_chars


def refers_to_blobs(payload: bytes) -> bool:
    """Tell whether texts of an encoded payload may have moved into blobs."""
    return BLOB_MARK in payload


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
