"""The tools that use a browser: for pages that show nothing until their scripts have run, and for forms."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from agent_fabric.application.ports.browser import Browser, PageView
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import Page
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.research_tables import with_page
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.tools.findings import Source
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec, Trust, object_schema
from agent_fabric.infrastructure.tools.files import text_argument
from agent_fabric.infrastructure.tools.tables import WorkspaceTable
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction
from agent_fabric.infrastructure.tools.web import NETWORK_DISABLED
from agent_fabric.infrastructure.web.url_syntax import MAX_URL_CHARS

VIEW_CHARS = 10_000
"""How much of a page one call returns."""
MAX_LINKS = 40
_LINK_CHARS = 300
_TIMEOUT_S = 60.0
_REASON = "opened in the browser"
_MARK: Final = re.compile(r"\[\d+(?: [a-z]+)?: ([^\[\]]*)\]")
"""A thing with a number; on the page, only its words are to be read."""
_NUMBER = {"type": "integer", "minimum": 0, "description": "The number in [ ] on the page"}

BROWSER_OPEN = ToolSpec(
    name="browser_open",
    description="Open a web page in a browser that runs its scripts. Things to click and fill in have numbers in [ ]. "
    "For plain pages fetch_url is faster.",
    parameters=object_schema({"url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_CHARS}}, ["url"]),
    effect=Effect.READS,
    timeout_s=_TIMEOUT_S,
    url_argument="url",
    trust=Trust.WEB,
)

BROWSER_READ = ToolSpec(
    name="browser_read",
    description="Look at the page that is open in the browser. A long page comes in parts: go on with "
    "offset=next_offset.",
    parameters=object_schema({"offset": {"type": "integer", "minimum": 0, "default": 0}}),
    effect=Effect.READS,
    timeout_s=_TIMEOUT_S,
    trust=Trust.WEB,
)

BROWSER_CLICK = ToolSpec(
    name="browser_click",
    description="Click a numbered link, button or box on the page in the browser, and see what came of it.",
    parameters=object_schema({"number": _NUMBER}, ["number"]),
    effect=Effect.LEAVES_SANDBOX,
    timeout_s=_TIMEOUT_S,
    trust=Trust.WEB,
)

BROWSER_TYPE = ToolSpec(
    name="browser_type",
    description="Fill in a numbered field on the page in the browser, or choose from a list by the words of the "
    "choice. submit=true presses Enter then.",
    parameters=object_schema(
        {
            "number": _NUMBER,
            "text": {"type": "string", "maxLength": 20_000},
            "submit": {"type": "boolean", "default": False},
        },
        ["number", "text"],
    ),
    effect=Effect.LEAVES_SANDBOX,
    timeout_s=_TIMEOUT_S,
    trust=Trust.WEB,
)

BROWSER_SCREENSHOT = ToolSpec(
    name="browser_screenshot",
    description="Save how the page in the browser looks, as a PNG file in the workspace.",
    parameters=object_schema(
        {
            "path": {"type": "string", "minLength": 1, "description": "Path in the workspace, such as page.png"},
            "whole_page": {"type": "boolean", "default": False, "description": "Not only what fits on a screen"},
        },
        ["path"],
    ),
    effect=Effect.IDEMPOTENT,
    timeout_s=_TIMEOUT_S,
    path_arguments=("path",),
    trust=Trust.WEB,
)

BROWSER_TOOLS = (BROWSER_OPEN, BROWSER_READ, BROWSER_CLICK, BROWSER_TYPE, BROWSER_SCREENSHOT)


def browser_tools(
    browser: Callable[[], Browser], sandbox: Sandbox, record: "PageRecord | None" = None
) -> tuple[tuple[ToolSpec, ToolFunction], ...]:
    """Return the five tools, all at work on one browser, which is made when it is needed.

    With a record, what they show can be cited.
    """
    tools = _BrowserTools(browser, sandbox, PageResults(record))
    return (
        (BROWSER_OPEN, _online(tools.open)),
        (BROWSER_READ, _online(tools.read)),
        (BROWSER_CLICK, _online(tools.click)),
        (BROWSER_TYPE, _online(tools.type)),
        (BROWSER_SCREENSHOT, _online(tools.screenshot)),
    )


def _online(use: ToolFunction) -> ToolFunction:
    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await use(args, context) if context.network_allowed else NETWORK_DISABLED

    return call


@dataclass(frozen=True, slots=True)
class PageRecord:
    """Keeps pages as they were seen, so that a citation can be held against them."""

    snapshots: Snapshots
    screening: WorkspaceTable
    clock: Clock

    async def keep(self, view: PageView, run_id: RunId) -> Source:
        """Keep a page as it looks now, and note in the screening log that it was read."""
        page = Page(
            url=view.url,
            final_url=view.url,
            status=view.status,
            content_type="text/html",
            body=view.html.encode("utf-8", "replace"),
            title=view.title,
            text=_MARK.sub(r"\1", view.text),
            cut=False,
        )
        source = await self.snapshots.keep(page, fetched_at=self.clock.now())
        await self.screening.change(run_id, lambda rows: with_page(rows, source, _REASON))
        return source


@dataclass(frozen=True, slots=True)
class PageResults:
    """Makes results of pages."""

    record: PageRecord | None
    _told: set[tuple[str, str]] = field(default_factory=set)
    """Pages that a result has carried already: the log needs each only once."""

    async def __call__(self, view: PageView, run_id: RunId, offset: int = 0) -> ToolResult:
        """Return a page from `offset` on."""
        output = _part(view, offset)
        if self.record is None or not view.url.startswith("http") or view.status >= 400:
            return ToolResult(output=output, origin=view.url, unread=view.html)
        source = await self.record.keep(view, run_id)
        told = (source.url, source.sha256)
        sources = () if told in self._told else (source,)
        self._told.add(told)
        return ToolResult(output=output, origin=view.url, sources=sources, unread=view.html)


@dataclass(frozen=True, slots=True)
class _BrowserTools:
    """The tools. They raise WebError when there is no page, and PermissionError when the policy forbids it."""

    browser: Callable[[], Browser]
    sandbox: Sandbox
    shown: PageResults

    async def open(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        view = await self.browser().open(text_argument(args, "url"), timeout_s=context.timeout_s)
        return await self.shown(view, context.run_id)

    async def read(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        view = await self.browser().read(timeout_s=context.timeout_s)
        return await self.shown(view, context.run_id, int(args.get("offset", 0)))

    async def click(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        view = await self.browser().click(int(args["number"]), timeout_s=context.timeout_s)
        return await self.shown(view, context.run_id)

    async def type(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        number, text, submit = int(args["number"]), text_argument(args, "text"), bool(args.get("submit", False))
        view = await self.browser().type(number, text, submit=submit, timeout_s=context.timeout_s)
        return await self.shown(view, context.run_id)

    async def screenshot(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        path, whole_page = text_argument(args, "path"), bool(args.get("whole_page", False))
        if not path.lower().endswith(".png"):
            raise ValueError("'path' must end in .png: that is what is written")
        url, png = await self.browser().screenshot(whole_page=whole_page, timeout_s=context.timeout_s)
        created = await self.sandbox.write_file(path, png)
        output = {"path": path, "bytes": len(png), "created": created, "url": url}
        return ToolResult(output=output, changed=True, wrote=(path,), origin=url)


def _part(view: PageView, offset: int) -> dict[str, Any]:
    """Return a page from `offset` on, with the links that are in this part."""
    length = len(view.text)
    if offset and offset >= length:
        raise ValueError(f"'offset' is {offset}, but the page has {length} characters")
    text = view.text[offset : offset + VIEW_CHARS]
    if offset + len(text) < length and (end := text.rfind("\n")) > VIEW_CHARS // 2:
        text = text[: end + 1]
    here = [(number, to) for number, to in view.links.items() if f"[{number}:" in text]
    output: dict[str, Any] = {"url": view.url, "title": view.title, "text": text, "length": length, "offset": offset}
    if view.status >= 400:
        output["status"] = view.status
    if offset + len(text) < length:
        output["next_offset"] = offset + len(text)
    if here:
        output["links"] = {str(number): to[:_LINK_CHARS] for number, to in here[:MAX_LINKS]}
    if view.notes:
        output["notes"] = list(view.notes)
    return output
