"""Documents and facts at a server."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.client.transport import Named, Query, Resource
from agent_fabric.client.wire import json_from
from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.wire.shape import Json

_DOCUMENTS = "/api/v1/documents"
_FACTS = "/api/v1/memory/facts"
_DOCUMENT = json_from("id", "title", "state")
_FACT = json_from("id", "text", "status")
_MISSING = (MemoryNotFound, "There is no document or fact {!r}", "See them with `fabric memory list`.")
_document, _fact = Named(_DOCUMENTS, *_MISSING), Named(_FACTS, *_MISSING)


class Memory(Resource):
    """The documents and facts of a server, each by its id or the beginning of it."""

    async def add(self, source: str, data: bytes, **more: Any) -> Json:
        """Add a document, or bring it up to date; `more` are `media_type`, `labels` and `visibility`.

        Raises:
            DocumentUnreadable: nothing can be read in it.
        """
        body = {"source": source, "content": base64.b64encode(data).decode(), **more}
        return await self._post(_DOCUMENT, _DOCUMENTS, body, timeout_s=math.inf)

    async def add_page(self, url: str, **more: Any) -> Json:
        """Let the server fetch a page and add it; `more` are `labels` and `visibility`.

        A run that waits for an answer is returned with its `status` instead of a document.

        Raises:
            DocumentUnreadable: there is no such page, or nothing can be read in it.
        """
        return await self._post(json_from("run_id"), _DOCUMENTS, {"url": url, **more}, timeout_s=math.inf)

    async def search(self, question: str, *, limit: int = 6, labels: Sequence[str] = ()) -> Sequence[Json]:
        """Return passages and facts that answer a question, the best first; there may be none."""
        return await self._list(
            "found", "/api/v1/memory/search", {"q": question, "limit": limit, "labels": ",".join(labels) or None}
        )

    async def documents(self) -> Sequence[Json]:
        """Return documents that we may see, the newest first."""
        return await self._list("documents", _DOCUMENTS)

    async def document(self, document_id: str) -> Json:
        """Return a document with its text.

        Raises:
            MemoryNotFound: there is none.
        """
        return await self._get(_DOCUMENT, _document(document_id))

    async def passages(self, document_id: str) -> Sequence[Json]:
        """Return the passages of a document, in their order."""
        return await self._list("passages", _document(document_id, "/passages"))

    async def erase_document(self, document_id: str, *, runs: bool = False) -> Json:
        """Erase a document of ours, with `runs` also our runs that hold it; return what is left of it."""
        query: Query = {"runs": runs or None}
        return await self._post(json_from("id", "logs"), _document(document_id), query=query, method="DELETE")

    async def facts(self, status: str = "") -> Sequence[Json]:
        """Return our facts, the newest first."""
        return await self._list("facts", _FACTS, {"status": status or None})

    async def remember(self, text: str, **more: Any) -> Json:
        """Remember a fact; `more` are `kind` and `pinned`.

        Raises:
            FactRefused: it is too long, a secret, known already, or contradicts others.
        """
        return await self._post(_FACT, _FACTS, {"text": text, **more})

    async def why(self, fact_id: str) -> Json:
        """Return where a fact comes from, and what rests on it."""
        return await self._get(_FACT, _fact(fact_id))

    async def review(self, fact_id: str, decision: str, *, replaces: str = "") -> Json:
        """Accept, reject or confirm a fact.

        Raises:
            FactSettled: it was reviewed before.
        """
        body = {"decision": decision, **({"replaces": replaces} if replaces else {})}
        return await self._post(_FACT, _fact(fact_id, "/review"), body)

    async def change(self, fact_id: str, changes: Mapping[str, Any]) -> Json:
        """Replace the text of a fact by a new fact, pin it, or both."""
        return await self._post(_FACT, _fact(fact_id), dict(changes), method="PATCH")

    async def export(self) -> str:
        """Return our facts as Markdown."""
        async with self._transport.content(f"{_FACTS}/export", "text/markdown") as stream:
            return (await stream.read()).decode()

    async def import_(self, text: str, *, source: str, accept: bool = False) -> Json:
        """Take facts that were exported; return `facts`, and what was `left_out` and why.

        Raises:
            FactRefused: a line is no fact; nothing was taken.
        """
        body = {"text": text, "source": source, "accept": accept}
        return await self._post(json_from("facts", "left_out"), f"{_FACTS}/import", body)

    async def forget(self, fact_id: str, *, erase: bool = False, runs: bool = False) -> Json:
        """Retire or erase a fact, with `runs` also our runs that hold it; return what is left of it."""
        query: Query = {"erase": erase or None, "runs": runs or None}
        return await self._post(json_from("id", "logs"), _fact(fact_id), query=query, method="DELETE")
