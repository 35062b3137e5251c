"""Sessions: start them, talk in them, stop an answer, fork, search, export and delete them."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from agent_fabric.application.chat.find_session import listed_for
from agent_fabric.application.chat.send_message import MissedMessages, require_owner
from agent_fabric.application.ports.chat import SessionQuery
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.chat.sessions import Session
from agent_fabric.domain.identity.ownership import Viewer, Visibility, owner_of
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.chat.chat_schemas import (
    ForkRequest,
    MessageChange,
    MessageRequest,
    ReadRequest,
    SessionChange,
    SessionRequest,
    StopRequest,
)
from agent_fabric.interfaces.http.errors import problem
from agent_fabric.interfaces.http.locks import needs, who_answers, who_asks
from agent_fabric.interfaces.http.openapi import operation, problems, takes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.interfaces.views.chat import json_export, markdown_export
from agent_fabric.wire.chat import (
    FORKED,
    FOUND_MESSAGES,
    MESSAGE,
    MESSAGE_LIST,
    SENT,
    SESSION,
    SESSION_LIST,
    ForkedSession,
    MessageList,
    SentMessage,
    message_object,
)

BASE = "/api/v1/sessions"
ONE = f"{BASE}/{{session_id}}"
SessionPath = Annotated[str, Path(max_length=200, description="The session, or the beginning of its id.")]
MessagePath = Annotated[str, Path(max_length=200, description="The message.")]
_CHANGES = [403, 404, 409, 503, 507]
_ENDINGS = {"markdown": "md", "json": "json"}
_EXPORT = {
    "description": "The whole session",
    "content": {
        "text/markdown": {"schema": {"type": "string"}},
        "application/json": {"schema": {"type": "object", "additionalProperties": True}},
    },
}


def add_sessions(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_listing(app, fabric)
    _add_session(app, fabric)
    _add_messages(app, fabric)
    _add_stopping(app, fabric)


def _add_listing(app: FastAPI, fabric: ServerFabric) -> None:
    chat = fabric.chat.chat

    @app.get(BASE, **operation("sessions", Scope.RUNS_READ, "List sessions, the newest words first", SESSION_LIST))
    async def list_sessions(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1_000, description="Most sessions to list.")] = 200,
        before: Annotated[
            float | None, Query(allow_inf_nan=False, description="Only those last changed before this time.")
        ] = None,
        archived: Annotated[Flag, Query(description="Those that were put away.")] = False,
        own: Annotated[Flag, Query(description="Only the caller's own.")] = False,
    ) -> Response:
        """One's own and those shared with the team. Of private ones of others, an admin sees that they exist."""
        by = who_asks(request)
        viewer, owner = Viewer.of(by), owner_of(by) if own else ""
        wanted = SessionQuery(viewer=viewer, owner=owner, archived=archived, before=before, limit=limit)
        found = [listed_for(each, viewer) for each in await chat.sessions.list(wanted)]
        return json_answer(SESSION_LIST.dump(found))

    @app.post(
        BASE,
        **operation(
            "sessions",
            Scope.RUNS,
            "Start a session",
            SESSION,
            status=201,
            body=takes(SessionRequest, required=False),
            fails=_CHANGES,
        ),
    )
    async def create(request: Request) -> Response:
        """Nothing is said in it yet."""
        wish = await body_of(request, SessionRequest, absent=SessionRequest())
        fabric.require_store()
        made = await chat.manage.create(
            by=await who_answers(request),
            title=wish.title,
            visibility=Visibility(wish.visibility),
            model_key=wish.model_key,
            pack=wish.pack,
            node=wish.node,
            session_id=_reserved(request),
        )
        return json_answer(SESSION.dump(made), 201, {"location": f"{BASE}/{made.session_id}"})

    @app.get(
        f"{BASE}/search", **operation("sessions", Scope.RUNS_READ, "Search what was said in sessions", FOUND_MESSAGES)
    )
    async def search(
        request: Request,
        q: Annotated[str, Query(max_length=1_000, description="Words; each may be the beginning of a longer one.")],
        limit: Annotated[int, Query(ge=1, le=200, description="Most messages to list.")] = 50,
    ) -> Response:
        """One's own sessions and those shared with the team; private ones of others are not looked into."""
        viewer = Viewer((owner_of(who_asks(request)),), sees_all=False)
        found = await chat.messages.search(q, wanted=SessionQuery(viewer=viewer, limit=limit))
        return json_answer(FOUND_MESSAGES.dump(found))


def _add_session(app: FastAPI, fabric: ServerFabric) -> None:
    chat = fabric.chat.chat

    @app.get(ONE, **operation("sessions", Scope.RUNS_READ, "Show a session", SESSION, fails=[404]))
    async def show(session_id: SessionPath, request: Request) -> Response:
        """Reading a private one of somebody else is recorded."""
        return json_answer(SESSION.dump(await chat.find(session_id, by=who_asks(request))))

    @app.get(
        f"{ONE}/export",
        summary="Export a session",
        response_class=Response,
        responses={200: _EXPORT, **problems(404, 409)},
        openapi_extra=needs(Scope.RUNS_READ),
        tags=["sessions"],
    )
    async def export(
        session_id: SessionPath,
        request: Request,
        format: Annotated[Literal["markdown", "json"], Query(description="How it is written.")] = "markdown",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """All messages, and all that was done for them; nothing is cut."""
        whole = await chat.export(await chat.find(session_id, by=who_asks(request)))
        name = {
            "content-disposition": f'attachment; filename="session-{whole.session.session_id[:8]}.{_ENDINGS[format]}"'
        }
        if format == "json":
            return json_answer(json_export(whole), 200, name)
        return Response(markdown_export(whole), headers=name, media_type="text/markdown")

    @app.patch(
        ONE,
        **operation("sessions", Scope.RUNS, "Change a session", SESSION, body=takes(SessionChange), fails=_CHANGES),
    )
    async def change(session_id: SessionPath, request: Request) -> Response:
        """Its visibility is that of its runs, from now on and for all of them."""
        wish = await body_of(request, SessionChange)
        by = await who_answers(request)
        session = await chat.find(session_id, by=by)
        values = wish.model_dump(exclude_none=True, exclude={"archived"})
        if wish.archived is not None:
            values["archived_at"] = fabric.clock.now() if wish.archived else None
        return json_answer(SESSION.dump(await chat.manage.change(session, values, by=by)))

    @app.delete(ONE, **operation("sessions", Scope.RUNS, "Delete a session", status=204, fails=_CHANGES))
    async def delete(session_id: SessionPath, request: Request) -> Response:
        """With everything that was said and done in it. Each of its runs leaves a tombstone in the audit chain."""
        by = await who_answers(request)
        await chat.manage.delete(await chat.find(session_id, by=by), by=by)
        return Response(status_code=204)

    @app.post(
        f"{ONE}/fork",
        **operation(
            "sessions",
            Scope.RUNS,
            "Fork a session at a message",
            FORKED,
            status=201,
            body=takes(ForkRequest, required=False),
            fails=[403, 404, 503, 507],
        ),
    )
    async def fork(session_id: SessionPath, request: Request) -> Response:
        """The fork is the caller's own. Its first turn begins with a copy of the session's files."""
        wish = await body_of(request, ForkRequest, absent=ForkRequest())
        by = await who_answers(request)
        found = await chat.find(session_id, by=by)
        made, draft = await chat.manage.fork(found, wish.message_id, by=by, session_id=_reserved(request))
        return json_answer(FORKED.dump(ForkedSession(made, draft)), 201, {"location": f"{BASE}/{made.session_id}"})

    @app.post(
        f"{ONE}/read",
        **operation(
            "sessions",
            Scope.RUNS_READ,
            "Mark a session as read",
            SESSION,
            body=takes(ReadRequest, required=False),
            fails=[404, 503, 507],
        ),
    )
    async def read(session_id: SessionPath, request: Request) -> Response:
        """By its owner; others leave no trace."""
        await body_of(request, ReadRequest, absent=ReadRequest())
        by = who_asks(request)
        return json_answer(SESSION.dump(await chat.manage.mark_read(await chat.find(session_id, by=by), by=by)))


def _add_messages(app: FastAPI, fabric: ServerFabric) -> None:
    chat = fabric.chat.chat

    @app.get(
        f"{ONE}/messages",
        **operation("sessions", Scope.RUNS_READ, "Show what was said in a session", MESSAGE_LIST, fails=[404]),
    )
    async def messages(
        session_id: SessionPath,
        request: Request,
        before: Annotated[str, Query(max_length=200, description="Only messages before this one.")] = "",
        limit: Annotated[int, Query(ge=1, le=500, description="Most messages of one page.")] = 50,
    ) -> Response:
        """The newest, oldest first, then those that wait for their turn."""
        session = await chat.find(session_id, by=who_asks(request))
        page = await chat.messages.page(session.session_id, before=before, limit=limit)
        waiting = [] if before else [each.as_message() for each in await chat.queue.list(session.session_id)]
        shown = {each.message_id: each for each in (*page.messages, *waiting)}  # one may have begun in between
        return json_answer(MESSAGE_LIST.dump(MessageList([*shown.values()], page.has_older, session)))

    @app.post(
        f"{ONE}/messages",
        **operation(
            "sessions",
            Scope.RUNS,
            "Say something in a session",
            SENT,
            status=202,
            body=takes(MessageRequest),
            fails=[*_CHANGES, 429],
        ),
    )
    async def say(session_id: SessionPath, request: Request) -> Response:
        """It is durable, and its turn begins as soon as those before it have ended.

        With `after`, it is refused if more was said than the client has seen: 409 `session_moved`, with the `tail`.
        """
        wish = await body_of(request, MessageRequest)
        by = await who_answers(request)
        session = await chat.find(session_id, by=by)
        require_owner(session, by)
        fabric.require_store()
        state = request.scope["state"]
        limited = fabric.limits.hold_for(by)
        if limited and not state.get("is_repeat"):
            state["starts_left"] = await fabric.limits.count_start(by.id)
        run_id = None if state.get("run_id") is None else RunId(state["run_id"])
        try:
            sent = await chat.send(session, wish.content, by=by, after=wish.after, run_id=run_id, limited=limited)
        except MissedMessages as moved:
            tail = [message_object(each) for each in moved.tail]
            return problem(moved, more={"tail": tail})
        await fabric.chat.turns.begin_next(session.session_id)
        queued = (await chat.find(session.session_id, by=by)).turn != sent.run_id
        answer = SentMessage(sent.run_id, sent.message_id, queued)
        return json_answer(SENT.dump(answer), 202, {"location": f"/runs/{sent.run_id}"})

    @app.patch(
        f"{ONE}/messages/{{message_id}}",
        **operation(
            "sessions",
            Scope.RUNS,
            "Change a message that waits",
            MESSAGE,
            body=takes(MessageChange),
            fails=_CHANGES,
        ),
    )
    async def change(session_id: SessionPath, message_id: MessagePath, request: Request) -> Response:
        """Once its turn has begun it stays as it is: 409 `message_sent`."""
        wish = await body_of(request, MessageChange)
        by = await who_answers(request)
        session = await chat.find(session_id, by=by)
        changed = await chat.send.change(session, message_id, wish.content, by=by)
        await fabric.chat.turns.begin_next(session.session_id)
        return json_answer(message_object(changed.as_message()))

    @app.delete(
        f"{ONE}/messages/{{message_id}}",
        **operation("sessions", Scope.RUNS, "Withdraw a message that waits", status=204, fails=_CHANGES),
    )
    async def withdraw(session_id: SessionPath, message_id: MessagePath, request: Request) -> Response:
        """Once its turn has begun it can only be stopped: 409 `message_sent`."""
        by = await who_answers(request)
        await chat.send.withdraw(await chat.find(session_id, by=by), message_id, by=by)
        return Response(status_code=204)


def _add_stopping(app: FastAPI, fabric: ServerFabric) -> None:
    chat = fabric.chat.chat

    @app.post(
        f"{ONE}/stop",
        **operation(
            "sessions",
            Scope.RUNS,
            "Stop the answer",
            SESSION,
            body=takes(StopRequest, required=False),
            fails=_CHANGES,
        ),
    )
    async def stop(session_id: SessionPath, request: Request) -> Response:
        """What was said of it is kept, and marked. Without an answer under way, nothing happens."""
        wish = await body_of(request, StopRequest, absent=StopRequest())
        by = await who_answers(request)
        session = await chat.find(session_id, by=by)
        require_owner(session, by)
        if wish.withdraw:
            for each in await chat.queue.list(session.session_id):
                await chat.send.withdraw(session, each.message_id, by=by)
        if session.turn is not None:
            await fabric.cancel_run(session.turn, by=by.name, reason="stopped in the session")
        return json_answer(SESSION.dump(await _standing(fabric, session)))


def _reserved(request: Request) -> SessionId | None:
    """Return the id that an idempotency key stands for; None: the request has no key."""
    chosen = request.scope["state"].get("run_id")
    return None if chosen is None else SessionId(chosen)


async def _standing(fabric: ServerFabric, session: Session) -> Session:
    return await fabric.chat.chat.sessions.find(session.session_id)
