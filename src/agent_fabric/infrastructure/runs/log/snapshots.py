"""The pages that a run has fetched, in a folder beside its workspace.

snapshots/
    <sha256>.html           the bytes as they came; the ending tells their kind
    <sha256>-<sha256>.txt   the text that was read out of them, and the beginning of its own hash: the same bytes can be
                            read in two ways, as HTML and as plain text
    index.jsonl             one line for each page: where it was found, and when

Those of an encrypted run are sealed, and so are their names: <hash>.sealed, with the run's key in the hash.

Versions up to 0.2 kept the text as <sha256>.txt; it is still read.

Whatever else may be found in the folder, such as a pipe or a link that someone put there, is not read.
"""

import asyncio
import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.web import Page
from agent_fabric.domain.evidence.citations import same_address
from agent_fabric.domain.tools.findings import Source
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import require_unlinked
from agent_fabric.wire.json_codec import dump_json, load_json

MAX_TEXT_CHARS = 500_000
"""How much of a page's text is kept and recorded."""

_MAX_BYTES = 100_000_000
"""More than any page that the configuration lets in; nothing that is larger was fetched."""
_SEALED_NAME_CHARS = 64
_HASH_CHARS = 16
"""How much of a text's hash is in its name."""

_ENDINGS = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "application/json": ".json",
    "application/xml": ".xml",
    "text/xml": ".xml",
    "text/plain": ".plain",
    "text/markdown": ".md",
    "text/csv": ".csv",
}
"""Never `.txt`: that is the text that was read out of the page."""

_indexing = threading.Lock()
"""Held while an index is read, extended and written back. One process drives a run, so no other one writes there."""


class SnapshotFolder:
    """Snapshots in a folder, which is made when the first page is kept."""

    def __init__(self, folder: Path, cipher: Callable[[], Cipher | None] = lambda: None) -> None:
        """Keep pages in `folder`; `cipher` gives what an encrypted run is sealed with, and is asked once at most."""
        self._folder = folder
        self._cipher_of = cipher

    @cached_property
    def _cipher(self) -> Cipher | None:
        return self._cipher_of()

    async def keep(self, page: Page, *, fetched_at: float) -> Source:
        return await asyncio.to_thread(self._keep, page, fetched_at)

    async def find(self, url: str) -> Source | None:
        return await asyncio.to_thread(lambda: next(self._versions(url), None))

    async def versions(self, url: str) -> Sequence[Source]:
        return await asyncio.to_thread(lambda: list(self._versions(url)))

    async def damage_to(self, source: Source) -> str:
        return await asyncio.to_thread(self._damage_to, source)

    def _keep(self, page: Page, fetched_at: float) -> Source:
        text = page.text[:MAX_TEXT_CHARS].encode("utf-8", "replace")
        source = Source(
            url=page.url,
            final_url=page.final_url,
            title=page.title,
            content_type=page.content_type,
            fetched_at=fetched_at,
            sha256=hashlib.sha256(page.body).hexdigest(),
            text=text.decode(),
        )
        self._require_unlinked()
        self._folder.mkdir(exist_ok=True)
        text_sha256 = hashlib.sha256(text).hexdigest()
        self._write(_name_of_bytes(source), page.body)
        self._write(_name_of_text(source.sha256, text_sha256), text)
        # Last: a page that the index names is there.
        self._add_to_index(
            {
                "url": source.url,
                "final_url": source.final_url,
                "title": source.title,
                "content_type": source.content_type,
                "fetched_at": source.fetched_at,
                "sha256": source.sha256,
                "text_sha256": text_sha256,
            }
        )
        return source

    def _add_to_index(self, entry: dict[str, Any]) -> None:
        with _indexing:
            entries = self._index()
            if entry not in entries:
                self._write("index.jsonl", b"".join(dump_json(each) + b"\n" for each in (*entries, entry)))

    def _require_unlinked(self) -> None:
        """Check that the pages are still in the run's own folder.

        Raises:
            FolderLinked: a folder on the way has become a link.
        """
        require_unlinked(self._folder.parents[2], *self._folder.parts[-3:])

    def _path(self, name: str) -> Path:
        self._require_unlinked()
        if self._cipher is None:
            return self._folder / name
        return self._folder / f"{self._cipher.address(_place(name).encode()).hex()[-_SEALED_NAME_CHARS:]}.sealed"

    def _write(self, name: str, data: bytes) -> None:
        write_atomically(self._path(name), data if self._cipher is None else self._cipher.seal(_place(name), data))

    def _content(self, name: str) -> bytes:
        """Return what a file holds.

        Raises:
            OSError: there is none that could have been kept here; its `strerror` says why.
        """
        data = _content(self._path(name))
        if self._cipher is None:
            return data
        try:
            return self._cipher.unseal(_place(name), data)
        except ValueError:
            raise OSError(errno.EBADMSG, "it was changed, or belongs to another run") from None

    def _versions(self, url: str) -> Iterator[Source]:
        for entry in reversed(self._index()):
            if same_address(url, entry["url"]) or same_address(url, entry["final_url"]):
                text_sha256 = entry.pop("text_sha256", "")
                text = self._text(entry["sha256"], text_sha256)
                if text is not None:
                    yield Source(**entry, text=text)

    def _text(self, sha256: str, text_sha256: str) -> str | None:
        """Return a page's text; None if it is not the one that was read out of it: no quote is held against that."""
        try:
            data = self._content(_name_of_text(sha256, text_sha256))
        except OSError:
            return None
        if text_sha256 and hashlib.sha256(data).hexdigest() != text_sha256:
            return None
        return data.decode("utf-8", "replace")

    def _index(self) -> list[dict[str, Any]]:
        try:
            lines = self._content("index.jsonl").splitlines()
        except FileNotFoundError:
            return []
        return [load_json(line) for line in lines]

    def _damage_to(self, source: Source) -> str:
        data = source.text.encode("utf-8", "replace")
        text = _name_of_text(source.sha256, hashlib.sha256(data).hexdigest())
        if not os.path.lexists(self._path(text)):
            text = _name_of_text(source.sha256, "")
        try:
            if hashlib.sha256(self._content(_name_of_bytes(source))).hexdigest() != source.sha256:
                return f"the snapshot {_name_of_bytes(source)} is not what was fetched"
        except FileNotFoundError:
            return "the snapshot is gone"
        except OSError as problem:
            return f"the snapshot {_name_of_bytes(source)} cannot be read: {problem.strerror}"
        try:
            if self._content(text) != data:
                return f"the text {text} is not what was read on the page"
        except FileNotFoundError:
            return "the text that was read on the page is gone"
        except OSError as problem:
            return f"the text {text} cannot be read: {problem.strerror}"
        return ""


def _place(name: str) -> str:
    return f"snapshot\0{name}"


def _name_of_bytes(source: Source) -> str:
    return f"{source.sha256}{_ENDINGS.get(source.content_type, '.bin')}"


def _name_of_text(sha256: str, text_sha256: str) -> str:
    return f"{sha256}-{text_sha256[:_HASH_CHARS]}.txt" if text_sha256 else f"{sha256}.txt"


def _content(path: Path) -> bytes:
    """Read a file, and nothing but a file: a pipe or a device might never end.

    Raises:
        OSError: there is none that could have been kept here; its `strerror` says why.
    """
    with open(path, "rb", opener=_opened_as_it_is) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no longer a file")
        if status.st_size > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, more than any page that is kept")
        return file.read(_MAX_BYTES)


def _opened_as_it_is(path: str, flags: int) -> int:
    """Open what is there: not what a link points to, and without waiting for who writes into a pipe."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link now") from None
        raise
