"""What every store of sessions promises."""

from dataclasses import replace

import pytest

from agent_fabric.application.ports.chat import SessionQuery
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.chat.sessions import QueuedMessage, Session, answer_id, question_id
from agent_fabric.domain.errors import (
    DriverConflict,
    MessageNotFound,
    MessageSent,
    SessionMoved,
    SessionNotFound,
)
from agent_fabric.domain.events import Event, RunCancelled
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.ids import RunId, SessionId
from chat_projection import rebuild_messages
from contract.run_repository_contract import OTHER, RUN, completed, run_created

TALK = SessionId("5e550000-0000-4000-8000-000000000001")
SECOND = SessionId("5e550000-0000-4000-8000-000000000002")


def session(session_id: SessionId = TALK, **more: object) -> Session:
    given = Session(session_id=session_id, title="", created_at=100.0, updated_at=100.0, owner="user:ada")
    return replace(given, **more)  # type: ignore[arg-type] # fields of a Session


def waiting(run_id: RunId, content: str, session_id: SessionId = TALK) -> QueuedMessage:
    return QueuedMessage(
        message_id=question_id(run_id),
        session_id=session_id,
        run_id=run_id,
        content=content,
        asked={"by": "ada"},
        created_at=101.0,
    )


async def turn(
    storage: Storage, run_id: RunId, said: str, answer: str, session_id: SessionId = TALK, at: float = 200.0
) -> None:
    """Let somebody say something, and be answered."""
    created = Event(0, at, None, "", replace(run_created(said), session=session_id, owner="user:ada"))
    held = await storage.runs.create(run_id, [created])
    done = completed(run_id, answer)
    await held.append([Event(1, at + 1, None, "", done)])
    await held.release()


class ChatContract:
    """Sessions, what was said in them, and what waits. Derive from this and give `storage`."""

    async def test_a_turn_becomes_two_messages_which_can_be_made_anew(self, storage: Storage) -> None:
        await storage.sessions.create(session(), encrypted=False)
        await storage.message_queue.add(waiting(RUN, "Hello\nthere"))
        assert await storage.message_queue.due() == [TALK]
        await turn(storage, RUN, "Hello\nthere", "good day")
        assert await storage.message_queue.due() == []
        assert await storage.message_queue.list(TALK) == []
        page = await storage.messages.page(TALK)
        assert [(each.message_id, each.role, each.content) for each in page.messages] == [
            (question_id(RUN), "user", "Hello\nthere"),
            (answer_id(RUN), "assistant", "good day"),
        ]
        found = await storage.sessions.find(TALK[:20] + TALK[20:])
        assert (found.title, found.has_unread, found.turn, found.last_run) == ("Hello there", True, None, RUN)
        assert found.updated_at == 201.0
        assert await rebuild_messages(storage.messages, TALK) == 2
        assert await storage.messages.page(TALK) == page
        assert await storage.messages.turns(TALK) == [RUN]

    async def test_one_turn_at_a_time_and_none_without_a_session(self, storage: Storage) -> None:
        await storage.sessions.create(session(), encrypted=False)
        first = Event(0, 200.0, None, "", replace(run_created("a"), session=TALK))
        held = await storage.runs.create(RUN, [first])
        with pytest.raises(DriverConflict):
            await storage.runs.create(OTHER, [Event(0, 200.0, None, "", replace(run_created("b"), session=TALK))])
        assert (await storage.sessions.find(TALK)).turn == RUN
        await held.append([Event(1, 201.0, None, "", RunCancelled(by="ada", reason="", said="so far"))])
        await held.release()
        found = await storage.sessions.find(TALK)
        assert (found.turn, found.has_unread) == (None, False)
        newest = (await storage.messages.page(TALK)).messages[-1]
        assert (newest.content, newest.metadata["status"]) == ("so far", "stopped")
        with pytest.raises(DriverConflict):
            await storage.runs.create(OTHER, [Event(0, 200.0, None, "", replace(run_created("b"), session=SECOND))])

    async def test_what_waits_is_changed_withdrawn_and_held_against_what_was_seen(self, storage: Storage) -> None:
        await storage.sessions.create(session(), encrypted=False)
        queue = storage.message_queue
        await queue.add(waiting(RUN, "one"), after="")
        await queue.add(waiting(RUN, "one, sent again"))
        with pytest.raises(SessionMoved):
            await queue.add(waiting(OTHER, "two"), after="")
        await queue.add(waiting(OTHER, "two"), after=question_id(RUN))
        assert [each.content for each in await queue.list(TALK)] == ["one", "two"]
        assert (await storage.sessions.find(TALK)).queued == 2
        await queue.change(TALK, question_id(OTHER), None, problem="no such model")
        assert [each.problem for each in await queue.list(TALK)] == ["", "no such model"]
        await queue.change(TALK, question_id(OTHER), "three")
        assert [(each.content, each.problem) for each in await queue.list(TALK)] == [("one", ""), ("three", "")]
        await queue.withdraw(TALK, question_id(OTHER))
        with pytest.raises(MessageNotFound):
            await queue.withdraw(TALK, question_id(OTHER))
        await turn(storage, RUN, "one", "yes")
        with pytest.raises(MessageSent):
            await queue.change(TALK, question_id(RUN), "too late")
        assert [each.content for each in await storage.messages.after(TALK, question_id(RUN))] == ["yes"]

    async def test_messages_are_read_in_pages_and_found_by_words(self, storage: Storage) -> None:
        await storage.sessions.create(session(), encrypted=False)
        await storage.sessions.create(session(SECOND, owner="user:eve"), encrypted=False)
        runs = [RunId(f"0000000{number}-0000-4000-8000-000000000000") for number in range(4)]
        for number, run_id in enumerate(runs):
            await turn(storage, run_id, f"question {number}", f"Réponse number {number}, about deployments")
        newest = await storage.messages.page(TALK, limit=3)
        assert newest.has_older
        assert [each.content[-1] for each in newest.messages] == ["s", "3", "s"]
        older = await storage.messages.page(TALK, before=newest.messages[0].message_id, limit=50)
        assert (len(older.messages), older.has_older) == (5, False)
        with pytest.raises(MessageNotFound):
            await storage.messages.page(TALK, before="nowhere")
        ada, eve = Viewer(("user:ada",), sees_all=False), Viewer(("user:eve",), sees_all=False)
        for words, count in (
            ("reponse", 4),
            ("DEPLOY", 4),
            ("question 2", 1),
            ("number 3 about", 1),
            ("xyz", 0),
            ("", 0),
        ):
            found = await storage.messages.search(words, wanted=SessionQuery(viewer=ada))
            assert len([each for each in found if each.message is not None]) == count, words
            assert await storage.messages.search(words, wanted=SessionQuery(viewer=eve)) == []

    async def test_the_newest_messages_of_many_sessions_are_found_first(self, storage: Storage) -> None:
        ids = [SessionId(f"5e550000-0000-4000-8000-0000000001{number:02}") for number in range(70)]
        for number, session_id in enumerate(ids):
            await storage.sessions.create(session(session_id, title="Talk"), encrypted=False)
            rare = " seldom" if number == 3 else ""
            run_id = RunId(f"000001{number:02}-0000-4000-8000-000000000000")
            await turn(storage, run_id, f"often asked {number}{rare}", "often answered", session_id, 200.0 + number)

        async def found(words: str, limit: int) -> list[str]:
            hits = await storage.messages.search(words, wanted=SessionQuery(limit=limit))
            return ["title" if each.message is None else each.message.content for each in hits]

        assert await found("often asked", 3) == ["often asked 69", "often asked 68", "often asked 67"]
        assert len(await found("oft ask", 100)) == 70
        assert (await found("oft ask", 100))[-1] == "often asked 0"
        assert await found("often seldom", 5) == ["often asked 3 seldom"]
        assert await found("talk", 4) == ["title"] * 4

    async def test_sessions_are_listed_changed_forked_and_removed(self, storage: Storage) -> None:
        await storage.sessions.create(session(), encrypted=False)
        await storage.sessions.create(session(SECOND, owner="user:eve", updated_at=150.0), encrypted=False)
        await turn(storage, RUN, "Hello", "good day")
        listed = await storage.sessions.list(SessionQuery())
        assert [each.session_id for each in listed] == [TALK, SECOND]
        eve = Viewer(("user:eve",), sees_all=False)
        assert [each.session_id for each in await storage.sessions.list(SessionQuery(viewer=eve))] == [SECOND]
        with pytest.raises(SessionNotFound):
            await storage.sessions.find(TALK, viewer=eve)
        changed = await storage.sessions.change(TALK, title="Ours", visibility=Visibility.TEAM, has_unread=False)
        assert (changed.title, changed.has_unread) == ("Ours", False)
        assert (await storage.sessions.find(TALK, viewer=eve)).title == "Ours"
        await storage.sessions.change(SECOND, archived_at=300.0)
        assert [each.session_id for each in await storage.sessions.list(SessionQuery(archived=True))] == [SECOND]
        third = SessionId("5e550000-0000-4000-8000-000000000003")
        forked = session(third, owner="user:eve", parent_session=TALK, parent_message=question_id(RUN))
        with pytest.raises(MessageNotFound):
            await storage.sessions.create(forked, encrypted=False, upto="nowhere")
        await storage.sessions.create(forked, encrypted=False, upto=question_id(RUN))
        assert [each.content for each in (await storage.messages.page(third)).messages] == ["Hello"]
        assert await storage.sessions.remove(TALK) == [RUN]
        with pytest.raises(SessionNotFound):
            await storage.sessions.remove(TALK)
        assert len((await storage.messages.page(third)).messages) == 1
        assert await rebuild_messages(storage.messages, third) == 1, "its parent is gone"
