"""Files that runs have made: see them, and fetch them."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_fabric.bootstrap.runs import fetch_files
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope as Right
from agent_fabric.domain.runs.files import OpenFile, RunFileList
from agent_fabric.interfaces.http.connection import roomy
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.sse import disconnected
from agent_fabric.wire.runs import RUN_FILES

PIECE_BYTES = 256 * 1024
CONTENT: dict[str, Any] = {
    "description": "The file as it is",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}

RunIdPath = Annotated[str, Path(description="The run, or the beginning of its id if only one run begins so.")]


def add_files(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    fetch = replace(fetch_files(fabric.records), reader=fabric.reader)

    @routes.get(
        "/runs/{run_id}/files", Right.RUNS_READ, "List the files that a run has made", RUN_FILES, fails=[404, 409, 503]
    )
    async def files(request: Request, run_id: RunIdPath) -> RunFileList:
        """What is in its workspace. The files of a project folder are not handed out: see its diff."""
        return await fetch.list(await fabric.find(run_id, by=who_asks(request)))

    @routes.get(
        "/runs/{run_id}/files/{path:path}",
        Right.RUNS_READ,
        "Fetch a file that a run has made",
        also={200: CONTENT},
        fails=[404, 409, 503],
    )
    async def content(
        request: Request,
        run_id: RunIdPath,
        path: Annotated[str, Path(description="The file, as the list of files names it.")],
    ) -> Response:
        """Send it as it is. Links are not followed."""
        found = await fabric.find(run_id, by=who_asks(request))
        return FileAnswer(await fetch.open(found, path), path.rpartition("/")[2])


class FileAnswer(Response):
    """A file, sent piece by piece; browsers save it, whatever is in it. A client that has gone is noticed at once."""

    media_type = "application/octet-stream"

    def __init__(self, opened: OpenFile, name: str) -> None:
        self.status_code = 200
        self.background = None
        self._opened = opened
        self.init_headers(
            {
                "content-length": str(opened.size),
                "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
                "cache-control": "no-store",
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            with self._opened.file, roomy(scope):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                left = self._opened.size  # no more than was promised, though the run may still be writing
                while left and not gone.done():
                    piece = await asyncio.to_thread(self._opened.file.read, min(PIECE_BYTES, left))
                    if not piece:
                        break  # it was cut; the client sees that something is missing
                    left -= len(piece)
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
