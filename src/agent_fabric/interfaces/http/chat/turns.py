"""What happened in turns: taking files back, the record, the timeline and the context as of an event."""

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from agent_fabric.application.chat.undo_turns import LaterChanges, UndoTurns
from agent_fabric.application.chat.verify_session import VerifiedSession, VerifySession
from agent_fabric.bootstrap.runs import undo_run
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.runs.evolve import run_as_of
from agent_fabric.domain.runs.timeline import Timeline, timeline_of
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.chat.sessions import ONE, MessagePath, SessionPath, TakeBackRequest
from agent_fabric.interfaces.http.locks import who_answers, who_asks
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import LAST, RunIdPath
from agent_fabric.interfaces.http.views import status_of
from agent_fabric.wire import turns as wire
from agent_fabric.wire.changes import diff_object


def add_turns(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    _add_taking_back(routes, fabric)
    _add_looking(routes, fabric)


def _add_taking_back(routes: Routes, fabric: ServerFabric) -> None:
    chat = fabric.chat.chat
    undo_turns = UndoTurns(chat.messages, fabric.records.runs, undo_run(fabric.records))

    @routes.get(
        f"{ONE}/messages/{{message_id}}/changes",
        Scope.RUNS_READ,
        "Show what was changed behind a message",
        wire.LATER_CHANGES,
        fails=[404, 503],
    )
    async def changes(session_id: SessionPath, message_id: MessagePath, request: Request) -> Response:
        """By each later turn, the newest first; and what was sent or pushed, which cannot be taken back."""
        session = await chat.find(session_id, by=who_asks(request))
        found = await undo_turns.look(session, message_id)
        shown = wire.LATER_CHANGES.dump(LaterChanges((), found.sent))
        return json_answer({**shown, "runs": [diff_object(each, None) for each in found.diffs]})

    @routes.post(
        f"{ONE}/messages/{{message_id}}/undo",
        Scope.RUNS,
        "Take the files of a session back to a message",
        wire.TAKEN_BACK,
        fails=[403, 404, 409, 503, 507],
    )
    async def undo(
        wish: OptionalBody[TakeBackRequest], session_id: SessionPath, message_id: MessagePath, request: Request
    ) -> Response:
        """Undo the later turns, the newest first. A file that was edited since stays, and `refused` names it."""
        by = await who_answers(request)
        session = await chat.find(session_id, by=by)
        done = await undo_turns(session, message_id, by=by, dry=wish.dry_run, force=wish.force)
        return json_answer(wire.taken_back_object(done))


def _add_looking(routes: Routes, fabric: ServerFabric) -> None:
    chat = fabric.chat.chat
    verify_session = VerifySession(chat.messages, fabric.records.storage.logs)

    @routes.get(
        f"{ONE}/verify", Scope.RUNS_READ, "Check the record of a session", wire.VERIFIED_SESSION, fails=[404, 503]
    )
    async def verify(session_id: SessionPath, request: Request) -> VerifiedSession:
        """Recompute the hashes of all its turns."""
        session = await chat.find(session_id, by=who_asks(request))
        return await verify_session(session)

    @routes.with_tag("runs").get(
        "/runs/{run_id}/timeline", Scope.RUNS_READ, "Show when what happened in a run", wire.TIMELINE, fails=[404, 409]
    )
    async def timeline(run_id: RunIdPath, request: Request) -> Timeline:
        """Model calls, tool calls and waits of each lane, with their tokens and events."""
        found = await fabric.find(run_id, by=who_asks(request))
        events = await fabric.records.runs.read(found)
        return timeline_of(events, await status_of(fabric, found))

    @routes.with_tag("runs").get(
        "/runs/{run_id}/context",
        Scope.RUNS_READ,
        "Show what a model was sent as of an event",
        wire.CONTEXT,
        fails=[404, 409],
    )
    async def context(
        run_id: RunIdPath,
        request: Request,
        seq: Annotated[int, Query(ge=0, le=LAST, description="The event; by default the newest.")] = LAST,
    ) -> wire.RunContext:
        """The conversation of each lane as it was right behind this event."""
        found = await fabric.find(run_id, by=who_asks(request))
        state = run_as_of(found, await fabric.records.runs.read(found), seq)
        lanes = [
            wire.LaneContext(
                lane.lane_id, lane.model.model, lane.phase.value, lane.context_tokens, tuple(lane.messages)
            )
            for lane in state.lanes.values()
        ]
        return wire.RunContext(found, state.next_seq - 1, lanes)
