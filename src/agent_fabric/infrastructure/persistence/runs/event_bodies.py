"""Reads what rows hold: bodies of events and the blobs that they refer to, sealed or not."""

import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.events import Body, UnknownEvent
from agent_fabric.infrastructure.persistence.runs.codec import Blobs, decode, pack, unpack
from agent_fabric.infrastructure.persistence.secrets.sealing import event_place, is_sealed, key_missing, unsealed_json
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.wire.event_lines import LongText

ReadBody = Callable[[int, str, int, bytes], Body]


def body_reader(connection: SqlConnection, number: int, cipher: Cipher | None, *, whole: bool = True) -> ReadBody:
    """Return the function that reads an event's body, given its sequence number, kind, version and stored payload.

    Unless `whole`, a very long text is a LongText with its beginning.

    It raises ValueError for what is damaged, and RunKeyMissing for what is sealed if there is no cipher.
    """
    blob = blob_from(connection, cipher)
    beginning = None if whole else beginning_from(connection, cipher)
    if cipher is None:

        def read(seq: int, kind: str, version: int, payload: bytes) -> Body:  # noqa: ARG001 - as below
            if is_sealed(payload):  # the run's key was removed
                raise key_missing(_id_of(connection, number))
            return decode(kind, version, payload, blob, beginning)

        return read

    def unseal(seq: int, kind: str, version: int, payload: bytes) -> Body:
        plain = unsealed_json(cipher, event_place(seq, kind), payload)
        return decode(kind, version, plain, blob, beginning)

    return unseal


def _id_of(connection: SqlConnection, number: int) -> str:
    row = connection.execute("SELECT run_id FROM runs WHERE number = ?", (number,)).fetchone()
    return str(row[0]) if row else str(number)


def blob_from(connection: SqlConnection, cipher: Cipher | None = None) -> Callable[[bytes], bytes]:
    """Return the function that gives a blob's content; it fails for one that is missing or not what it was."""
    if cipher is not None:
        return partial(_sealed_blob, connection, cipher)

    def blob(digest: bytes) -> bytes:
        row = connection.execute("SELECT data FROM blobs WHERE hash = ?", (digest,)).fetchone()
        content = b"" if row is None else unpack(row[0])
        if hashlib.sha256(content).digest() != digest:
            raise ValueError(f"blob {digest.hex()} is missing or not what it was")
        return content

    return blob


def _sealed_blob(connection: SqlConnection, cipher: Cipher, address: bytes) -> bytes:
    row = connection.execute("SELECT data FROM blobs WHERE hash = ?", (address,)).fetchone()
    if row is None:
        raise ValueError(f"blob {address.hex()} is missing")
    return unpack(cipher.unseal(blob_place(address), bytes(row[0])))


def stored_blobs(blobs: Blobs, cipher: Cipher | None) -> Iterator[tuple[bytes, bytes]]:
    """Return blobs as rows."""
    for address, content in blobs.items():
        data = pack(content)
        yield address, data if cipher is None else cipher.seal(blob_place(address), data)


def blob_place(address: bytes) -> str:
    """Return where a blob's content belongs."""
    return f"blob\0{address.hex()}"


DAMAGE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error)
"""What damaged rows give when they are read."""


def readable(read: ReadBody) -> ReadBody:
    """Return a reader for lists and logs: an event that is damaged says so, and the others can be shown."""

    def read_anyway(seq: int, kind: str, version: int, payload: bytes) -> Body:
        try:
            return read(seq, kind, version, payload)
        except DAMAGE as problem:
            return UnknownEvent(kind=kind, payload={}, problem=f"event {seq} cannot be read: {problem}")

    return read_anyway


@contextmanager
def damage_explained() -> Iterator[None]:
    """Turn what damaged rows give into an error of ours."""
    try:
        yield
    except DAMAGE as problem:
        raise StoreUnavailable(
            f"The store is damaged: {problem}", hint="Restore it from a backup; runlog.jsonl files keep what happened."
        ) from problem


PIECE_BYTES: Final = 1024 * 1024
_DATA: Final = "SELECT substr(data, ?, ?) FROM blobs WHERE hash = ?"
BEGINNING_CHARS: Final = 100_000
"""What is read of a very long text that is only shown."""


def blob_pieces(connection: SqlConnection, cipher: Cipher | None, address: bytes) -> Iterator[bytes]:
    """Return a blob's content piece by piece; whether it is what it was is for the caller to check.

    Raises:
        ValueError, zlib.error: it is missing, or not whole.
    """
    row = connection.execute("SELECT length(data) FROM blobs WHERE hash = ?", (address,)).fetchone()
    if row is None:
        raise ValueError(f"blob {address.hex()} is missing or not what it was")
    stored = pieces_of(connection, _DATA, address, int(row[0]))
    if cipher is not None:
        stored = iter((cipher.unseal(blob_place(address), b"".join(stored)),))
    return _unpack_pieces(stored)


def beginning_from(connection: SqlConnection, cipher: Cipher | None) -> Callable[[bytes, int], str]:
    """Return the function that reads the beginning of a very long text."""

    def beginning(address: bytes, chars: int) -> str:
        digest, size, kept = hashlib.sha256(), 0, list[bytes]()
        for piece in blob_pieces(connection, cipher, address):
            digest.update(piece)
            if size < BEGINNING_CHARS:
                kept.append(piece)
            size += len(piece)
        if cipher is None and digest.digest() != address:
            raise ValueError(f"blob {address.hex()} is missing or not what it was")
        text = b"".join(kept)[: 4 * BEGINNING_CHARS].decode("utf-8", "ignore")
        return LongText.of(text[:BEGINNING_CHARS], chars, digest.hexdigest())

    return beginning


def pieces_of(connection: SqlConnection, query: str, which: object, size: int) -> Iterator[bytes]:
    """Read a long value piece by piece."""
    for first in range(1, size + 1, PIECE_BYTES):
        ((piece,),) = connection.execute(query, (first, PIECE_BYTES, which)).fetchall()
        yield bytes(piece)


def _unpack_pieces(stored: Iterator[bytes]) -> Iterator[bytes]:
    """Undo `codec.pack` piece by piece.

    Raises:
        ValueError, zlib.error: it is not whole.
    """
    unpacking = zlib.decompressobj()
    for data in stored:
        yield unpacking.decompress(data, PIECE_BYTES)
        while unpacking.unconsumed_tail:
            yield unpacking.decompress(unpacking.unconsumed_tail, PIECE_BYTES)
    yield unpacking.flush()
    if not unpacking.eof:
        raise ValueError("a blob is cut off")
