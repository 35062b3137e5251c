"""What runs made and changed: see it, fetch it, take it back, check it."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Query
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from agent_fabric.application.chat.send_message import require_owner
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.application.runs.diff_run import DiffRun, RunDiff
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.bootstrap.chat import Chat
from agent_fabric.bootstrap.runs import compare_runs, diff_run, fetch_files, undo_run, verify_run
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import FileChange
from agent_fabric.domain.runs.comparison import Comparison
from agent_fabric.domain.runs.files import OpenFile, RunFileList
from agent_fabric.domain.runs.unified_diff import FileDiff, file_diff
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.connection import roomy
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import RunIdPath
from agent_fabric.interfaces.http.runs.starting import about
from agent_fabric.interfaces.http.schemas import UndoRequest
from agent_fabric.interfaces.http.sse import wait_for_disconnect
from agent_fabric.wire.changes import DIFF, UNDONE, diff_object, undo_object
from agent_fabric.wire.comparisons import COMPARISON
from agent_fabric.wire.runs import RUN_FILES, VERIFICATION

MAX_DIFF_BYTES = 4_000_000
"""Of all diffs in one answer; the rest is only named."""

EXACT = "Whether bytes that are no text, and everything else that is known about files, are kept as they are."
LAST = 2**31 - 1
OtherRun = Annotated[str, Path(description="The run that it is compared with, or the beginning of its id.")]


def add_changes(routes: Routes, runs: ServedRuns, chat: Chat) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    look, take_back, beside = diff_run(runs.records), undo_run(runs.records), compare_runs(runs.records)

    @routes.get("/diff", Scope.RUNS_READ, "Show what a run changed", DIFF, fails=[404, 503])
    async def diff(
        by: Principal,
        run_id: RunIdPath,
        contents: Annotated[bool, Query(description="Whether to compare what the files hold.")] = True,
        exact: Annotated[bool, Query(description=EXACT)] = False,
        skip: Annotated[int, Query(ge=0, le=LAST, description="Leave out so many of the changes.")] = 0,
    ) -> Response:
        """By tools and by commands, in the folder that it worked in."""
        found = await look(await runs.find(run_id, by=by))
        rest = replace(found, changes=found.changes[skip:])
        return json_answer(await asyncio.to_thread(_describe, look, rest, contents, exact))

    @routes.get("/compare/{other}", Scope.RUNS_READ, "Compare a run with another one", COMPARISON, fails=[404, 503])
    async def compare(by: Principal, run_id: RunIdPath, other: OtherRun) -> Comparison:
        """Where they part, turn by turn, and how what they left differs."""
        return await beside(await runs.find(run_id, by=by), await runs.find(other, by=by))

    @routes.post("/undo", Scope.RUNS, "Take back what a run changed", UNDONE, fails=[403, 404, 409, 503, 507])
    async def undo(
        wish: OptionalBody[UndoRequest],
        run_id: RunIdPath,
        by: Principal,
        exact: Annotated[bool, Query(description=EXACT)] = False,
    ) -> Response:
        """If a file was edited since, nothing is touched, and `refused` names it. Turns: the session's owner only."""
        found = await runs.find(run_id, by=by)
        await _require_own_turn(runs.reader, chat, found, by)
        with about(found):
            undone = await take_back(
                found, by=by.name, paths=wish.paths, redo=wish.redo, dry=wish.dry_run, force=wish.force
            )
        return json_answer(undo_object(undone, exact=exact))


async def _require_own_turn(reader: RunReader, chat: Chat, run_id: RunId, by: Principal) -> None:
    """Check that files of a session are taken back by its owner, as where a session itself is asked.

    Raises:
        Forbidden: the run is a turn of another user's session.
    """
    [created] = await reader.page(run_id, after=-1, limit=1)
    if isinstance(created.body, RunCreated) and created.body.session:
        require_owner(await chat.find(created.body.session, by=by), by)


def _describe(look: DiffRun, found: RunDiff, contents: bool, exact: bool) -> dict[str, Any]:
    room = MAX_DIFF_BYTES

    def compare(change: FileChange) -> FileDiff | None:
        nonlocal room
        if room <= 0:
            return None
        one = file_diff(change, *look.content(found, change))
        room -= len(one.text)
        return one

    return diff_object(found, compare if contents else None, exact=exact)


def add_verification(routes: Routes, runs: ServedRuns) -> None:
    """Add the route."""
    verify = verify_run(runs.records)

    @routes.get("/verify", Scope.RUNS_READ, "Check again what a run claims", VERIFICATION, fails=[404, 503])
    async def verification(by: Principal, run_id: RunIdPath) -> Verification:
        """Offline: its log, citations, quotes, files, pages and proof, from what was recorded alone."""
        found = await runs.find(run_id, by=by)
        return await verify(found)


PIECE_BYTES = 256 * 1024
CONTENT: dict[str, Any] = {
    "description": "The file as it is",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


def add_files(routes: Routes, runs: ServedRuns) -> None:
    """Add the routes."""
    fetch = replace(fetch_files(runs.records), reader=runs.reader)

    @routes.get("/files", Scope.RUNS_READ, "List the files that a run has made", RUN_FILES, fails=[404, 409, 503])
    async def files(by: Principal, run_id: RunIdPath) -> RunFileList:
        """What is in its workspace. The files of a project folder are not handed out: see its diff."""
        return await fetch.list(await runs.find(run_id, by=by))

    @routes.get(
        "/files/{path:path}",
        Scope.RUNS_READ,
        "Fetch a file that a run has made",
        also={200: CONTENT},
        fails=[404, 409, 503],
    )
    async def content(
        by: Principal,
        run_id: RunIdPath,
        path: Annotated[str, Path(description="The file, as the list of files names it.")],
    ) -> Response:
        """Send it as it is. Links are not followed."""
        found = await runs.find(run_id, by=by)
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

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
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
