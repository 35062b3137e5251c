"""Sessions: start them, talk in them, stop an answer, fork, search, export and delete them."""

from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_fabric.application.chat.find_session import listed_for
from agent_fabric.application.chat.send_message import MissedMessages, require_owner
from agent_fabric.application.ports.chat import FoundMessage, SessionQuery
from agent_fabric.bootstrap.chat import Chat, ServedChat
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.chat.sessions import MAX_MESSAGE_CHARS, Session
from agent_fabric.domain.identity.ownership import Viewer, Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import SessionId
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.errors import problem
from agent_fabric.interfaces.http.locks import who_answers
from agent_fabric.interfaces.http.routing import Answerer, OptionalBody, Routes
from agent_fabric.interfaces.http.runs.runs import Flag
from agent_fabric.interfaces.http.runs.starting import start_request
from agent_fabric.interfaces.views.chat import json_export, markdown_export
from agent_fabric.wire import chat as wire

_Name = Annotated[str, StringConstraints(max_length=1_000)]
_Title = Annotated[str, StringConstraints(max_length=1_000)]
_Content = Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE_CHARS)]
_MessageId = Annotated[str, StringConstraints(max_length=200)]


class SessionRequest(RequestBody, example={}):
    """A new session. Nothing has to be said about it."""

    title: _Title = ""
    """Empty: the beginning of what is said first."""
    model_key: _Name = ""
    """The configured model that answers; empty: the default one."""
    pack: _Name = ""
    """The specialist; empty: one is chosen."""
    node: _Name = ""
    """The machine that it is about, by name or id; needs the scope `nodes`. Its turns have the pack `sysadmin` unless
    another one is named, and their calls to machines go there unless they name another one."""
    visibility: Literal["private", "team"] = "private"
    """Who sees it beside its owner."""


class SessionChange(RequestBody, example={"title": "Disk on web-3"}):
    """What to change of a session; what is left out stays."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | None = None
    model_key: _Name | None = None
    pack: _Name | None = None
    node: _Name | None = None
    """The machine; empty: any."""
    visibility: Literal["private", "team"] | None = None
    archived: bool | None = None
    """Whether it is put away: not listed, but still there."""


class MessageRequest(RequestBody, example={"content": "Why is the disk full?"}):
    """Something to say."""

    content: _Content
    after: _MessageId | None = None
    """The newest message that the client has seen, empty if none; left out: whatever was said before."""
    plan: bool = False
    """Whether the answer is only a plan: the turn may read and ask, and changes nothing."""


class MessageChange(RequestBody, example={"content": "Why is /var full?"}):
    """A message that waits for its turn, in other words."""

    content: _Content


class StopRequest(RequestBody, example={}):
    """How to stop."""

    withdraw: bool = False
    """Whether messages that wait are withdrawn, too."""


class ForkRequest(RequestBody, example={}):
    """Where to fork a session."""

    message_id: _MessageId = Field(default="")
    """The last message to share. One of the person's own is not shared but given back, to be said anew. Empty: all."""


class ReadRequest(RequestBody, example={}):
    """Nothing: all of it was seen."""


class TakeBackRequest(RequestBody, example={"dry_run": True}):
    """How to take files back."""

    dry_run: bool = False
    """Only show what would happen."""
    force: bool = False
    """Overwrite what was edited since; it is kept."""


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


def add_sessions(routes: Routes, runs: ServedRuns, served: ServedChat) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    chat, one = served.chat, routes.below(ONE)
    _add_listing(routes.below(BASE), runs, chat)
    _add_session(one, runs, chat)
    _add_messages(one, runs, served)
    _add_stopping(one, runs, chat)


def _add_listing(routes: Routes, runs: ServedRuns, chat: Chat) -> None:
    @routes.get("", Scope.RUNS_READ, "List sessions, the newest words first", wire.SESSION_LIST)
    async def list_sessions(
        by: Principal,
        limit: Annotated[int, Query(ge=1, le=1_000, description="Most sessions to list.")] = 200,
        before: Annotated[
            float | None, Query(allow_inf_nan=False, description="Only those last changed before this time.")
        ] = None,
        archived: Annotated[Flag, Query(description="Those that were put away.")] = False,
        own: Annotated[Flag, Query(description="Only the caller's own.")] = False,
    ) -> Iterable[Session]:
        """One's own and those shared with the team. Of private ones of others, an admin sees that they exist."""
        viewer, owner = Viewer.of(by), owner_of(by) if own else ""
        wanted = SessionQuery(viewer=viewer, owner=owner, archived=archived, before=before, limit=limit)
        return [listed_for(each, viewer) for each in await chat.sessions.list(wanted)]

    @routes.post("", Scope.RUNS, "Start a session", wire.SESSION, status=201, fails=_CHANGES)
    async def create(wish: OptionalBody[SessionRequest], request: Request) -> Response:
        """Nothing is said in it yet."""
        runs.start.require_store()
        made = await chat.manage.create(
            by=await who_answers(request),
            title=wish.title,
            visibility=Visibility(wish.visibility),
            model_key=wish.model_key,
            pack=wish.pack,
            node=wish.node,
            session_id=_reserved_id(request),
        )
        return json_answer(wire.SESSION.dump(made), 201, {"location": f"{BASE}/{made.session_id}"})

    @routes.get("/search", Scope.RUNS_READ, "Search what was said in sessions", wire.FOUND_MESSAGES)
    async def search(
        by: Principal,
        q: Annotated[str, Query(max_length=1_000, description="Words; each may be the beginning of a longer one.")],
        limit: Annotated[int, Query(ge=1, le=200, description="Most messages to list.")] = 50,
    ) -> Iterable[FoundMessage]:
        """One's own sessions and those shared with the team; private ones of others are not looked into."""
        viewer = Viewer((owner_of(by),), sees_all=False)
        return await chat.messages.search(q, wanted=SessionQuery(viewer=viewer, limit=limit))


def _add_session(routes: Routes, runs: ServedRuns, chat: Chat) -> None:
    @routes.get("", Scope.RUNS_READ, "Show a session", wire.SESSION, fails=[404])
    async def show(session_id: SessionPath, by: Principal) -> Session:
        """Reading a private one of another user is recorded."""
        return await chat.find(session_id, by=by)

    @routes.get("/export", Scope.RUNS_READ, "Export a session", also={200: _EXPORT}, fails=[404, 409])
    async def export(
        session_id: SessionPath,
        by: Principal,
        format: Annotated[Literal["markdown", "json"], Query(description="How it is written.")] = "markdown",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """All messages, and all that was done for them; nothing is cut."""
        whole = await chat.export(await chat.find(session_id, by=by))
        name = {
            "content-disposition": f'attachment; filename="session-{whole.session.session_id[:8]}.{_ENDINGS[format]}"'
        }
        if format == "json":
            return json_answer(json_export(whole), 200, name)
        return Response(markdown_export(whole), headers=name, media_type="text/markdown")

    @routes.patch("", Scope.RUNS, "Change a session", wire.SESSION, fails=_CHANGES)
    async def change(wish: SessionChange, session_id: SessionPath, by: Answerer) -> Session:
        """Its visibility is that of its runs, from now on and for all of them."""
        session = await chat.find(session_id, by=by)
        values = wish.model_dump(exclude_none=True, exclude={"archived"})
        if wish.archived is not None:
            values["archived_at"] = runs.execute_task.clock.now() if wish.archived else None
        return await chat.manage.change(session, values, by=by)

    @routes.delete("", Scope.RUNS, "Delete a session", status=204, fails=_CHANGES)
    async def delete(session_id: SessionPath, by: Answerer) -> None:
        """With everything that was said and done in it. Each of its runs leaves a tombstone in the audit chain."""
        await chat.manage.delete(await chat.find(session_id, by=by), by=by)

    @routes.post(
        "/fork", Scope.RUNS, "Fork a session at a message", wire.FORKED, status=201, fails=[403, 404, 503, 507]
    )
    async def fork(wish: OptionalBody[ForkRequest], session_id: SessionPath, request: Request) -> Response:
        """The fork is the caller's own. Its first turn begins with a copy of the session's files."""
        by = await who_answers(request)
        found = await chat.find(session_id, by=by)
        made, draft = await chat.manage.fork(found, wish.message_id, by=by, session_id=_reserved_id(request))
        return json_answer(
            wire.FORKED.dump(wire.ForkedSession(made, draft)), 201, {"location": f"{BASE}/{made.session_id}"}
        )

    @routes.post("/read", Scope.RUNS_READ, "Mark a session as read", wire.SESSION, fails=[404, 503, 507])
    async def read(_: OptionalBody[ReadRequest], session_id: SessionPath, by: Principal) -> Session:
        """By its owner; others leave no trace."""
        return await chat.manage.mark_read(await chat.find(session_id, by=by), by=by)


def _add_messages(routes: Routes, runs: ServedRuns, served: ServedChat) -> None:
    chat = served.chat

    @routes.get("/messages", Scope.RUNS_READ, "Show what was said in a session", wire.MESSAGE_LIST, fails=[404])
    async def messages(
        session_id: SessionPath,
        by: Principal,
        before: Annotated[str, Query(max_length=200, description="Only messages before this one.")] = "",
        limit: Annotated[int, Query(ge=1, le=500, description="Most messages of one page.")] = 50,
    ) -> wire.MessageList:
        """The newest, oldest first, then those that wait for their turn."""
        session = await chat.find(session_id, by=by)
        page = await chat.messages.page(session.session_id, before=before, limit=limit)
        waiting = [] if before else [each.as_message() for each in await chat.queue.list(session.session_id)]
        shown = {each.message_id: each for each in (*page.messages, *waiting)}  # one may have begun in between
        return wire.MessageList([*shown.values()], page.has_older, session)

    @routes.post("/messages", Scope.RUNS, "Say something in a session", wire.SENT, status=202, fails=[*_CHANGES, 429])
    async def say(wish: MessageRequest, session_id: SessionPath, request: Request) -> Response:
        """It is durable, and its turn begins as soon as those before it have ended.

        With `after`, it is refused if more was said than the client has seen: 409 `session_moved`, with the `tail`.
        """
        by = await who_answers(request)
        session = await chat.find(session_id, by=by)
        require_owner(session, by)
        runs.start.require_store()
        async with start_request(request, by) as asked:
            if not asked.is_repeat:
                await runs.start.admit(asked)
        limited, run_id = runs.start.limits.hold_for(by), asked.run_id
        try:
            sent = await chat.send(
                session, wish.content, by=by, after=wish.after, run_id=run_id, limited=limited, plan=wish.plan
            )
        except MissedMessages as moved:
            tail = [wire.MESSAGE.dump(each) for each in moved.tail]
            return problem(moved, more={"tail": tail})
        await served.turns.begin_next(session.session_id)
        queued = (await chat.find(session.session_id, by=by)).turn != sent.run_id
        answer = wire.SentMessage(sent.run_id, sent.message_id, queued)
        return json_answer(wire.SENT.dump(answer), 202, {"location": f"/runs/{sent.run_id}"})

    @routes.patch("/messages/{message_id}", Scope.RUNS, "Change a message that waits", wire.MESSAGE, fails=_CHANGES)
    async def change(wish: MessageChange, session_id: SessionPath, message_id: MessagePath, by: Answerer) -> Response:
        """Once its turn has begun it stays as it is: 409 `message_sent`."""
        session = await chat.find(session_id, by=by)
        changed = await chat.send.change(session, message_id, wish.content, by=by)
        await served.turns.begin_next(session.session_id)
        return json_answer(wire.MESSAGE.dump(changed.as_message()))

    @routes.delete("/messages/{message_id}", Scope.RUNS, "Withdraw a message that waits", status=204, fails=_CHANGES)
    async def withdraw(session_id: SessionPath, message_id: MessagePath, by: Answerer) -> None:
        """Once its turn has begun it can only be stopped: 409 `message_sent`."""
        await chat.send.withdraw(await chat.find(session_id, by=by), message_id, by=by)


def _add_stopping(routes: Routes, runs: ServedRuns, chat: Chat) -> None:
    @routes.post("/stop", Scope.RUNS, "Stop the answer", wire.SESSION, fails=_CHANGES)
    async def stop(wish: OptionalBody[StopRequest], session_id: SessionPath, by: Answerer) -> Session:
        """What was said of it is kept, and marked. Without an answer under way, nothing happens."""
        session = await chat.find(session_id, by=by)
        require_owner(session, by)
        if wish.withdraw:
            for each in await chat.queue.list(session.session_id):
                await chat.send.withdraw(session, each.message_id, by=by)
        if session.turn is not None:
            await runs.cancel_run(session.turn, by=by.name, reason="stopped in the session")
        return await chat.sessions.find(session.session_id)


def _reserved_id(request: Request) -> SessionId | None:
    """Return the id that an idempotency key stands for; None: the request has no key."""
    chosen = request.scope["state"].get("run_id")
    return None if chosen is None else SessionId(chosen)
