"""Joins what sessions need, for a process of its own and for a server."""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_fabric.application.chat.begin_turn import BeginTurn
from agent_fabric.application.chat.choose_node import ChooseNode
from agent_fabric.application.chat.export_session import ExportSession
from agent_fabric.application.chat.find_session import FindSession
from agent_fabric.application.chat.manage_sessions import ManageSessions
from agent_fabric.application.chat.send_message import SendMessage
from agent_fabric.application.chat.title_session import TitleSession
from agent_fabric.application.ports.chat import MessageQueue, SessionMessages, SessionRepository
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.turn_contexts import TurnContexts
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.records import configured_address
from agent_fabric.bootstrap.runs import export_session, find_session, manage_sessions
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.chat.sessions import Session
from agent_fabric.domain.chat.turn_context import context_after
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Budget, Profile, Task
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.channels.attached_files import AttachedFiles
from agent_fabric.infrastructure.clock import RandomIds, SystemClock

if TYPE_CHECKING:  # what only a server needs
    from agent_fabric.application.chat.serve_turns import ServeTurns
    from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
    from agent_fabric.application.runs.dispatch_runs import DispatchRuns
    from agent_fabric.application.runs.limits import Limits


@dataclass(frozen=True, slots=True)
class Chat:
    """The sessions of a fabric folder."""

    sessions: SessionRepository
    messages: SessionMessages
    queue: MessageQueue
    find: FindSession
    manage: ManageSessions
    send: SendMessage
    begin: BeginTurn
    export: ExportSession
    title: TitleSession | None
    """Names sessions after their first answer; None: no model is configured for that."""


@dataclass(frozen=True, slots=True)
class ServedChat:
    """The sessions of a server."""

    chat: Chat
    turns: "ServeTurns"
    contexts: TurnContexts | None = None
    """What turns have left, as all servers of a cluster know it."""

    async def aclose(self) -> None:
        """Finish what is to be kept."""
        if self.contexts is not None:
            await self.contexts.aclose()


def open_chat(
    fabric: LocalFabric, config: FabricConfig, *, limits: "Limits | None" = None, contexts: TurnContexts | None = None
) -> Chat:
    """Join the parts; the caller drives the turns."""
    storage, clock, ids = fabric.records.storage, SystemClock(), RandomIds()

    def new_task(session: Session, prompt: str) -> Task:
        usual = "" if session.node else config.chat.pack  # a chosen machine wants the pack that looks after machines
        task = task_from(config, prompt, pack=session.pack or usual or None, model_key=session.model_key or None)
        budget = Budget.of(
            Profile.CHAT,
            max_steps=config.chat.max_turns,
            max_tokens=config.budget.max_tokens,
            max_seconds=config.budget.max_seconds,
            max_cost=config.budget.max_cost,
            max_calls_per_turn=config.budget.max_calls_per_turn,
        )
        return replace(task, profile=Profile.CHAT, budget=budget, node=session.node)

    def check(session: Session) -> None:
        fabric.execute_task.recruit.require_known(new_task(session, "?"))

    sessions, messages, queue = storage.sessions, storage.messages, storage.message_queue
    titling = config.chat.title_model_key
    choose_node = ChooseNode(fabric.fleet_door)
    manage = manage_sessions(fabric.records, encrypts=config.encryption != "off")
    manage = replace(manage, check=check, choose_node=choose_node)
    return Chat(
        sessions=sessions,
        messages=messages,
        queue=queue,
        find=find_session(fabric.records),
        manage=manage if contexts is None else replace(manage, forget=contexts.drop),
        export=export_session(fabric.records),
        title=TitleSession(sessions, messages, fabric.models, fabric.models, titling) if titling else None,
        send=SendMessage(sessions, messages, queue, clock, ids, check, choose_node),
        begin=BeginTurn(
            sessions,
            queue,
            fabric.records.runs,
            fabric.records.layout,
            fabric.execute_task,
            new_task,
            (lambda budget: budget) if limits is None else limits.caps.lower,
            choose_node,
            contexts,
            AttachedFiles(lambda: storage.channels.files),
        ),
    )


def serve_chat(
    fabric: LocalFabric,
    config: FabricConfig,
    dispatch: "DispatchRuns",
    limits: "Limits",
    watch: "WatchPendingWork | None" = None,
    contexts: TurnContexts | None = None,
) -> ServedChat:
    """Join the parts for a server, which drives turns among its other runs; `watch` looks for messages."""
    from agent_fabric.application.chat.serve_turns import ServeTurns  # noqa: PLC0415 - only servers need it
    from agent_fabric.application.ports.pending_work import TURNS  # noqa: PLC0415 - as above
    from agent_fabric.infrastructure.cluster.wake_ups.choose import SELDOM_S  # noqa: PLC0415 - as above

    chat = open_chat(fabric, config, limits=limits, contexts=contexts)
    turns = ServeTurns(chat.queue, chat.begin, dispatch, limits.runs, title=chat.title)
    if watch is not None:
        turns.look_every_s = SELDOM_S
        watch.listen(TURNS, turns.wake)
    return ServedChat(chat, turns, contexts)


_log = logging.getLogger(__name__)


def open_turn_contexts(config: FabricConfig, cipher_of: Callable[[RunId], Cipher | None]) -> TurnContexts | None:
    """Return the cache in Redis; None: there is no Redis, no other server, or no key that all of them share.

    `cipher_of` gives the ciphers of encrypted runs; it may block.

    Raises:
        ConfigProblem: the address is a reference that leads nowhere.
        MissingExtra: the client of Redis is not installed.
    """
    url, key = config.redis.address(os.environ), audit_key(os.environ)
    if url is None or not configured_address(config.store, os.environ).is_remote or not key.value:
        return None
    try:
        from agent_fabric.infrastructure.cluster.redis.turn_contexts import RedisTurnContexts  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`redis.url`") from None
    return RedisTurnContexts(url, key.value, cipher_of)


def keep_context(contexts: TurnContexts | None) -> Callable[[RunState], None] | None:
    """Return what keeps the end of each turn; None: nothing does."""
    if contexts is None:
        return None

    def keep(state: RunState) -> None:
        if state.task is None or not state.task.session:
            return
        try:
            contexts.put(context_after(state))
        except Exception:  # noqa: BLE001 - the turn has ended well, and its log has it all
            _log.exception("The end of a turn could not be cached")

    return keep
