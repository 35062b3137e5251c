"""The pages that a run has fetched, in a folder beside its workspace.

snapshots/
    <sha256>.html      the bytes as they came; the ending tells their kind
    <sha256>.txt       the text that was read out of them
    index.jsonl        one line for each page: where it was found, and when
"""

import asyncio
import hashlib
import os
import secrets
import threading
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.web import Page
from agent_fabric.domain.citations import same_address
from agent_fabric.domain.sources import Source
from agent_fabric.infrastructure.persistence.codec import dump_json, load_json

MAX_TEXT_CHARS = 500_000
"""How much of a page's text is kept and recorded."""

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

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, page: Page, *, fetched_at: float) -> Source:
        return await asyncio.to_thread(self._keep, page, fetched_at)

    async def find(self, url: str) -> Source | None:
        return await asyncio.to_thread(self._find, url)

    async def damage_to(self, source: Source) -> str:
        return await asyncio.to_thread(self._damage_to, source.sha256)

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
        self._folder.mkdir(exist_ok=True)
        _write(self._folder / f"{source.sha256}{_ENDINGS.get(page.content_type, '.bin')}", page.body)
        _write(self._folder / f"{source.sha256}.txt", text)
        # Last: a page that the index names is there.
        self._add_to_index(
            {
                "url": source.url,
                "final_url": source.final_url,
                "title": source.title,
                "content_type": source.content_type,
                "fetched_at": source.fetched_at,
                "sha256": source.sha256,
            }
        )
        return source

    def _add_to_index(self, entry: dict[str, Any]) -> None:
        with _indexing:
            entries = self._index()
            if entry not in entries:
                _write(self._folder / "index.jsonl", b"".join(dump_json(each) + b"\n" for each in (*entries, entry)))

    def _find(self, url: str) -> Source | None:
        for entry in reversed(self._index()):
            if same_address(url, entry["url"]) or same_address(url, entry["final_url"]):
                text = (self._folder / f"{entry['sha256']}.txt").read_bytes().decode("utf-8", "replace")
                return Source(**entry, text=text)
        return None

    def _index(self) -> list[dict[str, Any]]:
        try:
            lines = (self._folder / "index.jsonl").read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [load_json(line) for line in lines]

    def _damage_to(self, sha256: str) -> str:
        kept = [path for path in self._folder.glob(f"{sha256}.*") if path.suffix != ".txt"]
        if not kept:
            return "the snapshot is gone"
        if hashlib.sha256(kept[0].read_bytes()).hexdigest() != sha256:
            return f"the snapshot {kept[0].name} is not what was fetched"
        return ""


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
