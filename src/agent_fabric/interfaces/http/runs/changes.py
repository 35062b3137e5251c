"""What runs changed: see it, and take it back."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from agent_fabric.application.chat.send_message import require_owner
from agent_fabric.application.runs.diff_run import DiffRun, RunDiff
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.bootstrap.runs import diff_run, undo_run, verify_run
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import FileChange
from agent_fabric.domain.runs.unified_diff import FileDiff, file_diff
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.outcomes import about
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import RunIdPath
from agent_fabric.interfaces.http.schemas import UndoRequest
from agent_fabric.wire.changes import DIFF, UNDONE, diff_object, undo_object
from agent_fabric.wire.runs import VERIFICATION

MAX_DIFF_BYTES = 4_000_000
"""Of all diffs in one answer; the rest is only named."""

EXACT = "Whether bytes that are no text, and everything else that is known about files, are kept as they are."
LAST = 2**31 - 1


def add_changes(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    look, take_back = diff_run(fabric.records), undo_run(fabric.records)

    @routes.get("/runs/{run_id}/diff", Scope.RUNS_READ, "Show what a run changed", DIFF, fails=[404, 503])
    async def diff(
        request: Request,
        run_id: RunIdPath,
        contents: Annotated[bool, Query(description="Whether to compare what the files hold.")] = True,
        exact: Annotated[bool, Query(description=EXACT)] = False,
        skip: Annotated[int, Query(ge=0, le=LAST, description="Leave out so many of the changes.")] = 0,
    ) -> Response:
        """By tools and by commands, in the folder that it worked in."""
        found = await look(await fabric.find(run_id, by=who_asks(request)))
        rest = replace(found, changes=found.changes[skip:])
        return json_answer(await asyncio.to_thread(_described, look, rest, contents, exact))

    @routes.post(
        "/runs/{run_id}/undo", Scope.RUNS, "Take back what a run changed", UNDONE, fails=[403, 404, 409, 503, 507]
    )
    async def undo(
        wish: OptionalBody[UndoRequest],
        run_id: RunIdPath,
        request: Request,
        exact: Annotated[bool, Query(description=EXACT)] = False,
    ) -> Response:
        """If a file was edited since, nothing is touched, and `refused` names it. Turns: the session's owner only."""
        by = who_asks(request)
        found = await fabric.find(run_id, by=by)
        await _require_own_turn(fabric, found, by)
        with about(found):
            undone = await take_back(
                found, by=by.name, paths=wish.paths, redo=wish.redo, dry=wish.dry_run, force=wish.force
            )
        return json_answer(undo_object(undone, exact=exact))


async def _require_own_turn(fabric: ServerFabric, run_id: RunId, by: Principal) -> None:
    """Check that files of a session are taken back by its owner, as where a session itself is asked.

    Raises:
        Forbidden: the run is a turn of another user's session.
    """
    [created] = await fabric.reader.page(run_id, after=-1, limit=1)
    if isinstance(created.body, RunCreated) and created.body.session:
        require_owner(await fabric.chat.chat.find(created.body.session, by=by), by)


def _described(look: DiffRun, found: RunDiff, contents: bool, exact: bool) -> dict[str, Any]:
    room = MAX_DIFF_BYTES

    def compared(change: FileChange) -> FileDiff | None:
        nonlocal room
        if room <= 0:
            return None
        one = file_diff(change, *look.content(found, change))
        room -= len(one.text)
        return one

    return diff_object(found, compared if contents else None, exact=exact)


def add_verification(routes: Routes, fabric: ServerFabric) -> None:
    """Add the route."""
    verify = verify_run(fabric.records)

    @routes.get(
        "/runs/{run_id}/verify", Scope.RUNS_READ, "Check again what a run claims", VERIFICATION, fails=[404, 503]
    )
    async def verification(request: Request, run_id: RunIdPath) -> Verification:
        """Offline: its log, citations, quotes, files, pages and proof, from what was recorded alone."""
        found = await fabric.find(run_id, by=who_asks(request))
        return await verify(found)
