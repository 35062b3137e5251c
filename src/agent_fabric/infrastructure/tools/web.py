"""The tools that find and read pages, and note what they show."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import field, replace
from posixpath import basename, normpath
from typing import Any
from weakref import WeakValueDictionary

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import PageFetcher, WebError, WebSearch
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.citations import SHORTEST_QUOTE, ReadPages, address_of, urls_in_file
from agent_fabric.domain.evidence.research_tables import (
    KEPT_BY_TOOLS,
    moment,
    with_evidence,
    with_failure,
    with_hits,
    with_page,
)
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.allowlists import refuse_domain
from agent_fabric.domain.policy.globs import host_of
from agent_fabric.domain.tools.findings import Source
from agent_fabric.domain.tools.specs import (
    SEARCH_ENGINE,
    Effect,
    ToolContext,
    ToolResult,
    ToolSpec,
    Trust,
    object_schema,
)
from agent_fabric.infrastructure.tools.files import WriteFile, text_argument
from agent_fabric.infrastructure.tools.tables import WorkspaceTable
from agent_fabric.infrastructure.web.url_syntax import MAX_URL_CHARS, problem_with

PAGE_CHARS = 12_000
"""How much of a page one call returns, as the model sees it."""
USUAL_HITS, MAX_HITS = 8, 20
_SNIPPET_CHARS = 400

WEB_SEARCH = ToolSpec(
    name="web_search",
    description="Search the web for pages. Read a page with fetch_url before you cite it: a snippet is no source.",
    parameters=object_schema(
        {
            "query": {"type": "string", "minLength": 1, "maxLength": 500},
            "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": USUAL_HITS},
        },
        ["query"],
    ),
    effect=Effect.IDEMPOTENT,
    timeout_s=30.0,
    trust=Trust.WEB,
    local_arguments=("max_results",),
    sends_to=SEARCH_ENGINE,
)

FETCH_URL = ToolSpec(
    name="fetch_url",
    description="Read a web page. A long page comes in parts: go on with offset=next_offset.",
    parameters=object_schema(
        {
            "url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_CHARS},
            "offset": {"type": "integer", "minimum": 0, "default": 0},
            "reason": {"type": "string", "maxLength": 500, "description": "Why this page; kept in the screening log"},
        },
        ["url"],
    ),
    effect=Effect.IDEMPOTENT,
    timeout_s=60.0,
    url_argument="url",
    trust=Trust.WEB,
    local_arguments=("offset", "reason"),
    reads_once=True,
)

RECORD_EVIDENCE = ToolSpec(
    name="record_evidence",
    description="Note what a fetched page shows, in evidence.csv. The quote is checked against the page.",
    parameters=object_schema(
        {
            "url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_CHARS},
            "quote": {"type": "string", "maxLength": 5000, "description": "Copied word for word from the page"},
            "claim": {"type": "string", "minLength": 1, "maxLength": 2000, "description": "What the quote shows"},
        },
        ["url", "quote", "claim"],
    ),
    effect=Effect.IDEMPOTENT,
)

_fetching: WeakValueDictionary[tuple[RunId, str], asyncio.Lock] = WeakValueDictionary()
"""One for each address that a run is reading: lanes that want the same page wait for the first, and see what it saw."""

NETWORK_DISABLED = ToolResult(
    output={
        "error": "network disabled",
        "hint": "This run may not use the network. Work from the files at hand, and say that no page could be fetched.",
    }
)


@dataclass(frozen=True, slots=True)
class SearchWeb:
    """Tool: find pages, and note in the screening log that they were found."""

    search: WebSearch
    screening: WorkspaceTable
    clock: Clock

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if not context.network_allowed:
            return NETWORK_DISABLED
        query = text_argument(args, "query")
        limit = min(int(args.get("max_results", USUAL_HITS)), MAX_HITS)
        hits = await self.search.search(query, limit=limit, timeout_s=context.timeout_s)
        found, at = [(hit.url, hit.title) for hit in hits], self.clock.now()
        if found:
            await self.screening.change(context.run_id, lambda rows: with_hits(rows, query, found, at))
        results = [{"title": hit.title, "url": hit.url, "snippet": hit.snippet[:_SNIPPET_CHARS]} for hit in hits]
        hint = {} if hits else {"hint": "Nothing was found. Try other or fewer words."}
        return ToolResult(output={"query": query, "results": results, **hint})


@dataclass(frozen=True, slots=True)
class FetchUrl:
    """Tool: read a page. It is fetched once in a run; every later look shows the page as it was then."""

    fetcher: PageFetcher
    snapshots: Snapshots
    screening: WorkspaceTable
    clock: Clock
    _told: set[tuple[str, str]] = field(default_factory=set)
    """Pages that a result has carried already: the log needs each only once."""

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if not context.network_allowed:
            return NETWORK_DISABLED
        url, reason = text_argument(args, "url").strip(), str(args.get("reason", ""))
        if problem := problem_with(url):
            raise ValueError(f"'url' is no web address: {problem}. Copy it again, or search for the page.")
        async with _fetching.setdefault((context.run_id, address_of(url)), asyncio.Lock()):
            source, cut, unread = await self.snapshots.find(url), False, ""
            if source is None:
                source, cut, unread = await self._fetch(url, reason, context)
            elif refused := refuse_domain(context.limits, host_of(source.final_url)):
                raise PermissionError(f"{url} redirects to {source.final_url}. {refused}")
        page = source
        await self.screening.change(context.run_id, lambda rows: with_page(rows, page, reason))
        output = _part(source, int(args.get("offset", 0)))
        if cut:
            output["cut"] = "The page is longer than can be read; this is its beginning."
        told = (source.url, source.sha256)
        sources = () if told in self._told else (source,)
        self._told.add(told)
        return ToolResult(output=output, sources=sources, origin=source.final_url, unread=unread)

    async def _fetch(self, url: str, reason: str, context: ToolContext) -> tuple[Source, bool, str]:
        try:
            page = await self.fetcher.fetch(url, timeout_s=context.timeout_s, limits=context.limits)
        except (WebError, PermissionError) as problem:
            message, at = str(problem)[:300], self.clock.now()
            await self.screening.change(context.run_id, lambda rows: with_failure(rows, url, reason, message, at))
            raise
        source = await self.snapshots.keep(page, fetched_at=self.clock.now())
        return source, page.cut or len(source.text) < len(page.text), page.source


@dataclass(frozen=True, slots=True)
class RecordEvidence:
    """Tool: add a row to the evidence table, if the page really says so."""

    snapshots: Snapshots
    evidence: WorkspaceTable
    clock: Clock

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        url, quote, claim = (text_argument(args, name).strip() for name in ("url", "quote", "claim"))
        pages = ReadPages(await self.snapshots.versions(url))
        if url not in pages:
            raise ValueError(f"{url} was not fetched in this run. Read it with fetch_url first, then quote from it.")
        source = await asyncio.to_thread(pages.find_quote, url, quote)
        if source is None:
            raise ValueError(
                f"The quote is not on the page {url}. Copy one passage word for word from what fetch_url returned, "
                f"at least {SHORTEST_QUOTE} letters long."
            )
        at = self.clock.now()
        count = await self.evidence.change(context.run_id, lambda rows: with_evidence(rows, source, quote, claim, at))
        return ToolResult(output={"recorded": True, "rows": count})


def _part(source: Source, offset: int) -> dict[str, Any]:
    """Return a page from `offset` on, as much as one answer holds."""
    length = len(source.text)
    if offset and offset >= length:
        raise ValueError(f"'offset' is {offset}, but the page has {length} characters")
    text = _fitting(source.text[offset : offset + PAGE_CHARS], last=offset + PAGE_CHARS >= length)
    output: dict[str, Any] = {
        "url": source.url,
        "final_url": source.final_url,
        "title": source.title,
        "text": text,
        "length": length,
        "offset": offset,
        "fetched_at": moment(source.fetched_at),
    }
    if offset + len(text) < length:
        output["next_offset"] = offset + len(text)
    return output


def _fitting(text: str, *, last: bool) -> str:
    """Shorten a part of a page until it fits as JSON, and end it between words if the page goes on."""
    while len(json.dumps(text, ensure_ascii=False)) > PAGE_CHARS + 1_000:
        text, last = text[: len(text) * 9 // 10], False
    end = max(text.rfind(" "), text.rfind("\n")) + 1
    return text if last or end < len(text) // 2 else text[:end]


@dataclass(frozen=True, slots=True)
class WriteReport:
    """Tool: write a text file whose addresses are held to the same rule as the result's."""

    write: WriteFile

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path = text_argument(args, "path")
        name = basename(path)
        if name.casefold() in KEPT_BY_TOOLS:
            raise ValueError(
                f"{name} is kept by the tools: web_search, fetch_url and record_evidence write it. Choose another name."
            )
        result = await self.write(args, context)
        # On a thread: a file may have megabytes.
        urls = await asyncio.to_thread(urls_in_file, path, text_argument(args, "content"))
        return replace(result, cites={normpath(path): urls})
