"""What all pages of a person are told, whatever they show: questions of runs, and how sessions stand."""

import asyncio
import logging
from collections.abc import Mapping

from agent_fabric.application.chat.find_session import listed_for
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.chat import SessionQuery, SessionRepository
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.errors import FabricError, SessionNotFound
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.interfaces.http.page.messages import say
from agent_fabric.interfaces.http.page.sockets import OpenSocket, Sockets
from agent_fabric.wire.approvals import APPROVAL
from agent_fabric.wire.chat import SESSION

LOOK_EVERY_S = 0.5
"""Other processes may have driven a run, or answered a question."""
PAUSE_S = 0.05
"""At least so long between two looks, however much happens."""
MAX_SESSIONS = 100
FRESH_S = 60.0
"""A page that has just come knows the sessions of a moment ago, and is told of those that changed since."""

_log = logging.getLogger(__name__)


async def tell_news(runs: ServedRuns, sessions: SessionRepository, sockets: Sockets) -> None:
    """Keep all pages informed, for ever. Without pages, nothing is looked up."""
    while True:
        for viewer, pages in sockets.groups():
            try:
                await _tell(runs, sessions, viewer, pages)
            except FabricError:
                continue  # the next look may work
            except Exception:  # noqa: BLE001 - without us, pages would wait for ever
                _log.exception("Pages could not be told what happened")
        await asyncio.sleep(PAUSE_S)
        # Counted now: a page that came since the look has woken no one.
        await sockets.news(LOOK_EVERY_S if sockets.groups() else 3600.0)


async def _tell(runs: ServedRuns, sessions: SessionRepository, viewer: Viewer, pages: list[OpenSocket]) -> None:
    now = runs.execute_task.clock.now()
    pending = await runs.approvals.list(pending_only=True, viewer=viewer)
    questions = {card.approval_id: say("approval", approval=APPROVAL.dump(card)) for card in pending}
    listed = await sessions.list(SessionQuery(viewer=viewer, limit=MAX_SESSIONS))
    told = {each.session_id: say("session", session=SESSION.dump(listed_for(each, viewer))) for each in listed}
    fresh = {each.session_id for each in listed if each.updated_at > now - FRESH_S}
    for page in pages:
        await _tell_questions(runs.approvals, page, questions)
        is_new = not page.sessions
        for session_id, text in told.items():
            if page.sessions.get(session_id) != text:
                page.sessions[session_id] = text
                if not is_new or session_id in fresh:
                    page.tell(text)
        for gone in page.sessions.keys() - told.keys():
            del page.sessions[gone]
            if await _is_gone(sessions, gone):
                page.tell(say("session", session={"id": gone}, deleted=True))


async def _tell_questions(approvals: ApprovalRepository, page: OpenSocket, questions: Mapping[str, str]) -> None:
    for approval_id, text in questions.items():
        if page.questions.get(approval_id) != text:
            page.questions[approval_id] = text
            page.tell(text)
    for approval_id in page.questions.keys() - questions.keys():
        del page.questions[approval_id]
        card = await approvals.find(approval_id)
        page.tell(say("approval", approval=APPROVAL.dump(card)))


async def _is_gone(sessions: SessionRepository, session_id: str) -> bool:
    try:
        await sessions.find(session_id)
    except SessionNotFound:
        return True
    return False
