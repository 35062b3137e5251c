"""`write_file` as research uses it: it tells which addresses a file mentions, and leaves the tools' tables alone."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from posixpath import basename, normpath
from typing import Any

from agent_fabric.domain.evidence.citations import urls_in_file
from agent_fabric.domain.evidence.research_tables import KEPT_BY_TOOLS
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.tools.files import WriteFile, text_argument


@dataclass(frozen=True, slots=True)
class WriteReport:
    """Tool: write a text file whose addresses are held to the same rule as the result's."""

    write: WriteFile

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Write `content` to `path`.

        Raises:
            ValueError: the file is one that the tools keep, or an argument is wrong.
            OSError: as `write_file`.
        """
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
