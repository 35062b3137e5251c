"""What happened in turns: taking files back, the record, the timeline and the context as of an event."""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from agent_fabric.application.chat.undo_turns import LaterChanges, UndoTurns
from agent_fabric.application.chat.verify_session import VerifiedSession, VerifySession
from agent_fabric.bootstrap.chat import Chat
from agent_fabric.bootstrap.runs import undo_run
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.runs.evolve import run_as_of
from agent_fabric.domain.runs.timeline import Timeline, timeline_of
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.chat.sessions import ONE, MessagePath, SessionPath, TakeBackRequest
from agent_fabric.interfaces.http.routing import Answerer, OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import LAST, RunIdPath
from agent_fabric.interfaces.http.views import status_of
from agent_fabric.wire import turns as wire
from agent_fabric.wire.changes import diff_object


def add_turns(routes: Routes, runs: ServedRuns, chat: Chat) -> None:
    """Add the routes."""
    _add_taking_back(routes.below(ONE), runs, chat)
    verify_session = VerifySession(chat.messages, runs.records.storage.logs)

    @routes.get(
        f"{ONE}/verify", Scope.RUNS_READ, "Check the record of a session", wire.VERIFIED_SESSION, fails=[404, 503]
    )
    async def verify(session_id: SessionPath, by: Principal) -> VerifiedSession:
        """Recompute the hashes of all its turns."""
        return await verify_session(await chat.find(session_id, by=by))

    _add_looking(routes.with_tag("runs").below("/runs/{run_id}"), runs)


def _add_taking_back(routes: Routes, runs: ServedRuns, chat: Chat) -> None:
    undo_turns = UndoTurns(chat.messages, runs.records.runs, undo_run(runs.records))

    @routes.get(
        "/messages/{message_id}/changes",
        Scope.RUNS_READ,
        "Show what was changed behind a message",
        wire.LATER_CHANGES,
        fails=[404, 503],
    )
    async def changes(session_id: SessionPath, message_id: MessagePath, by: Principal) -> Response:
        """By each later turn, the newest first; and what was sent or pushed, which cannot be taken back."""
        session = await chat.find(session_id, by=by)
        found = await undo_turns.look(session, message_id)
        shown = wire.LATER_CHANGES.dump(LaterChanges((), found.sent))
        return json_answer({**shown, "runs": [diff_object(each, None) for each in found.diffs]})

    @routes.post(
        "/messages/{message_id}/undo",
        Scope.RUNS,
        "Take the files of a session back to a message",
        wire.TAKEN_BACK,
        fails=[403, 404, 409, 503, 507],
    )
    async def undo(
        wish: OptionalBody[TakeBackRequest], session_id: SessionPath, message_id: MessagePath, by: Answerer
    ) -> Response:
        """Undo the later turns, the newest first. A file that was edited since stays, and `refused` names it."""
        session = await chat.find(session_id, by=by)
        done = await undo_turns(session, message_id, by=by, dry=wish.dry_run, force=wish.force)
        return json_answer(wire.taken_back_object(done))


def _add_looking(routes: Routes, runs: ServedRuns) -> None:
    @routes.get("/timeline", Scope.RUNS_READ, "Show when what happened in a run", wire.TIMELINE, fails=[404, 409])
    async def timeline(run_id: RunIdPath, by: Principal) -> Timeline:
        """Model calls, tool calls and waits of each lane, with their tokens and events."""
        found = await runs.find(run_id, by=by)
        events = await runs.records.runs.read(found)
        return timeline_of(events, await status_of(runs, found))

    @routes.get(
        "/context", Scope.RUNS_READ, "Show what a model was sent as of an event", wire.CONTEXT, fails=[404, 409]
    )
    async def context(
        run_id: RunIdPath,
        by: Principal,
        seq: Annotated[int, Query(ge=0, le=LAST, description="The event; by default the newest.")] = LAST,
    ) -> wire.RunContext:
        """The conversation of each lane as it was right behind this event."""
        found = await runs.find(run_id, by=by)
        state = run_as_of(found, await runs.records.runs.read(found), seq)
        lanes = [
            wire.LaneContext(
                lane.lane_id, lane.model.model, lane.phase.value, lane.context_tokens, tuple(lane.messages)
            )
            for lane in state.lanes.values()
        ]
        return wire.RunContext(found, state.next_seq - 1, lanes)
