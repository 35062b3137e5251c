"""The steps of a run that adds documents: a file of this machine, a page of the web, the vectors of all."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.memory import NewDocument, RunMemory
from agent_fabric.application.ports.runs import RunCatalogue
from agent_fabric.application.ports.web import PageFetcher
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import DocumentUnreadable, MissingExtra
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.ingestion import ADD_FILE, ADD_PAGE, EMBED
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, Trust, object_schema
from agent_fabric.infrastructure.memory.document_parser import PDF, WORD
from agent_fabric.infrastructure.memory.local_documents import read_local_document
from agent_fabric.infrastructure.tools.files import text_argument

_MAX_TIMEOUT_S: Final = 24 * 3600.0
_COMMON: Final[Mapping[str, Any]] = {
    "labels": {"type": "array", "items": {"type": "string"}},
    "team": {"type": "boolean"},
}
FILE_SPEC: Final = ToolSpec(
    name=ADD_FILE,
    description="Add a file of this machine to memory.",
    parameters=object_schema({"path": {"type": "string", "minLength": 1}, **_COMMON}, ["path"]),
    effect=Effect.IDEMPOTENT,
    timeout_s=300.0,
)
PAGE_SPEC: Final = ToolSpec(
    name=ADD_PAGE,
    description="Add a page of the web to memory.",
    parameters=object_schema({"url": {"type": "string", "minLength": 1, "maxLength": 8_000}, **_COMMON}, ["url"]),
    effect=Effect.IDEMPOTENT,
    timeout_s=300.0,
    url_argument="url",
    trust=Trust.WEB,
)
EMBED_SPEC: Final = ToolSpec(
    name=EMBED,
    description="Make the vectors of all passages that have none.",
    parameters=object_schema({}),
    effect=Effect.IDEMPOTENT,
    timeout_s=_MAX_TIMEOUT_S,
)


@dataclass(frozen=True, slots=True)
class AddDocuments:
    """What the three steps share. A document that cannot be read says so in its result, and the others go on."""

    memory: Callable[[], RunMemory]
    catalogue: RunCatalogue
    fetcher: PageFetcher

    async def add_file(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Add the file at `path`, which a person has named."""
        path = text_argument(args, "path")
        try:
            data = await asyncio.to_thread(read_local_document, Path(path))
        except OSError as problem:
            return ToolResult(output={"source": path, "problem": problem.strerror or str(problem)})
        return await self._add(data, path, "", args, context)

    async def add_page(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Fetch `url`, which the policy has allowed, and add it."""
        url = text_argument(args, "url").strip()
        if not context.network_allowed:
            return ToolResult(success=False, error="The network is not allowed in this run")
        page = await self.fetcher.fetch(url, timeout_s=context.timeout_s, limits=context.limits, files=(PDF, WORD))
        return await self._add(page.body, page.final_url, page.content_type, args, context, origin=page.final_url)

    async def embed(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        embed = self.memory().embed
        return ToolResult(output={"by_meaning": embed is not None, "passages": 0 if embed is None else await embed()})

    async def _add(
        self, data: bytes, source: str, media_type: str, args: Mapping[str, Any], context: ToolContext, origin: str = ""
    ) -> ToolResult:
        add = self.memory().add
        assert add is not None
        new = NewDocument(
            data=data,
            source=source,
            owner=(await self.catalogue.locate(context.run_id)).owner,
            media_type=media_type,
            visibility=Visibility.TEAM if args.get("team") else Visibility.PRIVATE,
            labels=tuple(args.get("labels") or ()),
            run_id=context.run_id,
        )
        try:
            document = await add(new)
        except (DocumentUnreadable, MissingExtra) as problem:
            return ToolResult(output={"source": source, "problem": problem.message}, origin=origin)
        return ToolResult(output=_render(document), origin=origin)


def ingest_tools(parts: AddDocuments) -> tuple[tuple[ToolSpec, Any], ...]:
    """Return the tools of the steps."""
    return (FILE_SPEC, parts.add_file), (PAGE_SPEC, parts.add_page), (EMBED_SPEC, parts.embed)


def _render(document: Document) -> dict[str, Any]:
    return {
        "source": document.source,
        "id": document.document_id,
        "passages": document.passages,
        "notes": list(document.notes),
    }
