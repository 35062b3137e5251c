"""Joins everything for a server: many runs at once, any number of readers."""

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.audit.collect_garbage import ApplyRetention
from agent_fabric.application.automation.receive_delivery import ReceiveDelivery
from agent_fabric.application.channels.notify_user import AlertUsers, NotifyUser
from agent_fabric.application.channels.say_in_sessions import SayInSessions
from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.observability.change_settings import StoredSettings
from agent_fabric.application.observability.check_readiness import CheckReadiness
from agent_fabric.application.observability.find_answering_keys import FindAnsweringKeys
from agent_fabric.application.observability.find_missing_prerequisites import FindMissingPrerequisites
from agent_fabric.application.observability.raise_alert import RaiseAlerts, alert_rules, webhooks_of
from agent_fabric.application.observability.take_vitals import MEANINGS, TakeVitals
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.cluster import Cluster
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.idempotency import IdempotencyStore
from agent_fabric.application.ports.pending_work import ANSWERS, RUNS
from agent_fabric.application.ports.runs import RunListing, RunReader
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.vitals import StoreGauge, StoreStatus
from agent_fabric.application.ports.wake_ups import CLAIM, INBOX, WakeUps
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.claim_runs import ClaimRuns
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.continue_run import ContinueRun
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.find_run import FindRun
from agent_fabric.application.runs.follow_run import FollowRun
from agent_fabric.application.runs.limits import Limits
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.application.runs.resume_unfinished_runs import RecoverRuns, ResumeUnfinishedRuns
from agent_fabric.application.runs.retry_stopped_runs import RetryStoppedRuns
from agent_fabric.application.runs.start_run import StartRun
from agent_fabric.application.runs.wake_answered_runs import WakeAnsweredRuns
from agent_fabric.bootstrap.automation import Automation, build_webhooks, keep_bus_letters, serve_automation
from agent_fabric.bootstrap.channels import Channels, serve_channels
from agent_fabric.bootstrap.chat import ServedChat, keep_context, open_turn_contexts, serve_chat
from agent_fabric.bootstrap.fleet import Fleet, open_fleet
from agent_fabric.bootstrap.identity import (
    HINT,
    PROBLEM,
    Identity,
    answering_keys,
    build_limits,
    is_to_be_said,
    open_identity,
)
from agent_fabric.bootstrap.local import Driving, LocalFabric, build_local
from agent_fabric.bootstrap.records import Records, folder_backups, head_sender
from agent_fabric.bootstrap.runs import ServedEvals, collect_garbage, serve_evals
from agent_fabric.bootstrap.workflows import missing_prerequisites, open_agents
from agent_fabric.config.constants import DEFAULT_POOL
from agent_fabric.config.loader import Loaded
from agent_fabric.config.schema.audit import AuditConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.runs import RetentionConfig
from agent_fabric.config.schema.server import ServerConfig
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.errors import FabricError, ServerBusy, Unauthenticated
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Priority, RunResult, Task, TaskForceMode
from agent_fabric.infrastructure.agents.agent_files import AgentFolder
from agent_fabric.infrastructure.backup.make import Backup
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.cluster.bus.outgoing import OutgoingMessages
from agent_fabric.infrastructure.cluster.wake_ups.choose import (
    HintedPause,
    delta_pokes,
    log_pokes,
    open_wake_ups,
    watched_pause,
)
from agent_fabric.infrastructure.cluster.wake_ups.pokes import DeltaPokes
from agent_fabric.infrastructure.identity.local_token import local_token
from agent_fabric.infrastructure.models import openai_compatible  # noqa: F401 - now, not during the first request
from agent_fabric.infrastructure.models.lazy_models import LazyModels
from agent_fabric.infrastructure.observability.alert_webhook import AlertWebhook
from agent_fabric.infrastructure.observability.metrics import Reading, RunMetrics
from agent_fabric.infrastructure.observability.observers import Observers, build_observers
from agent_fabric.infrastructure.observability.operations_log import operations_log
from agent_fabric.infrastructure.private_files import write_private
from agent_fabric.infrastructure.runs.log.server_address import forget_server, record_server
from agent_fabric.infrastructure.secrets.folder_secrets import Secrets

if TYPE_CHECKING:
    from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers


class Watchers:
    """Those who hear of every event from the start: what counts, and what raises alerts."""

    def __init__(self, config: FabricConfig, bus: Bus) -> None:
        """Make them.

        Raises:
            ConfigError: one of the rules for alerts is none.
        """
        self._resolve: Resolve | None = None
        clock = SystemClock()
        self.metrics = RunMetrics()
        self.post = AlertWebhook(webhooks_of(config.alerts), self.secret, clock)
        self._people = AlertUsers(self.post)
        self.alerts: RaiseAlerts = RaiseAlerts(
            alert_rules(config.alerts), clock, operations_log("alerts"), bus, self._people
        )

    def learn(self, resolve: Resolve, notify: NotifyUser) -> None:
        """Learn where secrets and people are; that is known only after those who watch."""
        self._resolve = resolve
        self._people.notify = notify

    async def secret(self, reference: str) -> str:
        """Return the secret that a reference names."""
        assert self._resolve is not None, "nothing is sent before the server runs"
        return await self._resolve(reference)


@dataclass
class Operations:
    """What operators need."""

    watchers: Watchers
    dispatch: DispatchRuns
    records: Records
    retention: RetentionConfig
    audit: AuditConfig
    _backing_up: bool = False

    @cached_property
    def vitals(self) -> TakeVitals:
        """Tells how busy the server is, and how its store fares."""
        return TakeVitals(self.dispatch, self._gauge, SystemClock())

    @cached_property
    def check_readiness(self) -> CheckReadiness:
        return CheckReadiness(self._gauge, lambda: self.dispatch.stopping, SystemClock())

    @property
    def _gauge(self) -> StoreGauge:
        return self.records.storage.gauge

    async def metrics_text(self, streams: int) -> bytes:
        values = await self.vitals()
        readings = [Reading(f"fabric_{name}", MEANINGS[name], value) for name, value in values.items()]
        firing = [(rule, alert) for rule, alert, _ in self.watchers.alerts.standing()]
        readings += [
            Reading("fabric_streams_open", "Readers that follow runs", streams),
            *(
                Reading("fabric_alert_firing", "1 while an alert fires", alert.stage == "firing", {"alert": rule.name})
                for rule, alert in firing
            ),
        ]
        return await asyncio.to_thread(self.watchers.metrics.text, readings)

    async def measure(self) -> dict[str, float]:
        """Return what alerts are about; unlike the vitals, it also finds out whether the store can be written."""
        values = await self.vitals()
        if "store" in await self.check_readiness():
            values["store_unavailable"] = 1.0
        return values

    async def status(self, *, check: bool) -> StoreStatus:
        return await self._gauge.status(check=check)

    async def back_up(self, *, by: Principal, workspaces: bool) -> Backup:
        """Make a backup in the fabric folder.

        Raises:
            ServerBusy: one is being made already.
            StoreFull, StoreUnavailable: it cannot be made.
        """
        if self._backing_up:
            raise ServerBusy("A backup is being made already", hint="Ask again when it is done.")
        self._backing_up = True
        try:
            root: Path = self.records.layout.root
            kept = self.retention.backups
            return await asyncio.to_thread(folder_backups(root).make_inside, by=by, workspaces=workspaces, kept=kept)
        finally:
            self._backing_up = False

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on for as long as the server runs."""
        duties: list[Coroutine[Any, Any, None]] = [self.watchers.alerts(self.measure)]
        if self.retention.older_than_days is not None:
            retention = ApplyRetention(
                collect_garbage(self.records),
                self.retention.older_than_days,
                self.retention.keep,
                SystemClock(),
                operations_log("retention"),
            )
            duties.append(retention())
        if self.audit.head_to:
            duties.append(self._send_heads())
        return duties

    async def _send_heads(self) -> None:
        chain, root = self.records.storage.chain, self.records.layout.root
        async with head_sender(chain, root, self.audit, self.watchers.secret) as send:
            await send.forever(operations_log("audit"))

    async def aclose(self) -> None:
        await self.watchers.post.aclose()


STOPPING = 0.6
"""Share of the time for shutting down that runs may take; the rest is for answers under way and for the store."""
PATIENCE_S = 5.0
"""A workflow whose next step is due within this time stays in memory."""
DRAIN_LOOK_S = 0.2
"""How often a process looks whether it is drained."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerFabric:
    """What a server needs to drive runs and to show them."""

    config: FabricConfig
    records: Records
    execute_task: ExecuteTask
    continue_run: ContinueRun
    resume_run: ResumeRun
    cancel_run: CancelRun
    decide_approval: DecideApproval
    models: LazyModels
    secrets: Secrets
    tool_servers: "LazyToolServers | None"
    dispatch: DispatchRuns
    recover_runs: RecoverRuns
    retry_stopped_runs: RetryStoppedRuns | None
    """Takes up runs that a full disk has stopped; None: they are claimed like all others."""
    wake_answered_runs: WakeAnsweredRuns
    claim_runs: ClaimRuns | None
    """Takes up runs without a driver all the time; None: the store is a file, or this is only a door."""
    watch_pending_work: WatchPendingWork | None
    """Looks for what there is to do, for all who do it; None: each looks for itself, which costs nothing in a file."""
    reader: RunReader
    catalogue: RunListing
    find: FindRun
    """Finds a run for a caller; what the caller may not see does not exist."""
    observers: Observers
    bus: Bus
    """Where parts of the server hear what becomes of workflows."""
    outgoing: OutgoingMessages
    """Where other systems hear of it."""
    wake_ups: WakeUps
    """Hints between servers and workers."""
    agents: AgentFolder
    evals: ServedEvals
    fleet: Fleet
    """Machines, and what is done on them."""
    chat: ServedChat
    channels: Channels
    """Where people write to it from outside."""
    automation: Automation
    """Starts things by itself."""
    operations: Operations
    """What those need who run the server."""
    identity: Identity
    """Finds out who is asking, and looks after people and keys."""
    start_run: StartRun
    """Starts runs for callers, within their limits."""
    limits: Limits
    """Per-caller limits."""
    repeats: IdempotencyStore
    """Requests that may come more than once."""
    webhooks: ReceiveDelivery
    """Takes what others send of their own accord."""
    _local: LocalFabric
    """What drives runs; closed with the server."""
    _deltas: tuple[DeltaPokes, ...]
    """Who sends answers to other servers while they are written."""
    _leads: bool
    """Whether this server holds the lock of the folder's server; a second one for the same folder does not."""

    @property
    def settings(self) -> ServerConfig:
        """How to listen and how much to take on."""
        return self.config.server

    async def authenticate(self, credential: str, *, is_key: bool, from_here: bool) -> Principal:
        """Find out who is asking. A deleted store is reported as such; see `Authenticator`.

        Raises:
            Unauthenticated: the credential is unknown.
            StoreUnavailable: the store was deleted, and all users with it.
        """
        try:
            return await self.identity.authenticate(credential, is_key=is_key, from_here=from_here)
        except Unauthenticated:
            self.require_store()
            raise

    @property
    def clock(self) -> Clock:
        return self.execute_task.clock

    @property
    def policy_profile(self) -> str:
        return self.execute_task.policy_profile

    @property
    def sandbox_level(self) -> str:
        return self.execute_task.sandbox_level

    def require_store(self) -> None:
        """Check that what is written now will be found again.

        Raises:
            StoreUnavailable: the store was deleted or replaced.
        """
        self.records.storage.gauge.require_in_place()

    def run_dir(self, run_id: RunId) -> str:
        return self.records.layout.run_dir(run_id)

    def task(
        self,
        prompt: str,
        *,
        pack: str | None,
        model_key: str | None,
        network_allowed: bool,
        max_steps: int | None,
        task_force_mode: str | None,
        priority: Priority = Priority.INTERACTIVE,
        encrypted: bool = False,
    ) -> Task:
        """Make a task of what a client sent.

        Raises:
            ConfigError: there is no such model.
        """
        task = task_from(
            self.config,
            prompt,
            pack=pack,
            model_key=model_key,
            network_allowed=network_allowed,
            priority=priority,
            encrypted=encrypted,
        )
        if max_steps is not None:
            task = replace(task, budget=replace(task.budget, max_steps=max_steps))
        return task if task_force_mode is None else replace(task, task_force_mode=TaskForceMode(task_force_mode))

    @property
    def stored_settings(self) -> StoredSettings:
        """The settings that may be changed on the page."""
        root, acts = self.records.layout.root, self.records.storage.acts
        return StoredSettings(root, self.config, acts, self.clock, partial(write_private, replace=True))

    @property
    def find_missing_prerequisites(self) -> FindMissingPrerequisites:
        """Finds what settings refer to that does not exist."""
        return missing_prerequisites(self.records.layout.root, self.config, self.secrets.chain.resolve)

    @property
    def find_answering_keys(self) -> FindAnsweringKeys:
        """Finds credentials of tool servers with which a run could answer questions."""
        return answering_keys(self.config, self.secrets.chain.resolve, self.records.storage)

    async def log_missing_prerequisites(self) -> None:
        """Log what settings refer to that does not exist."""
        log = operations_log("server")
        for each in (*await self.find_missing_prerequisites(), *await self.find_answering_keys()):
            log.warning("setting_unmet", about=each.about, problem=each.text, hint=each.fix)

    async def log_shared_runs(self) -> None:
        """Log once for a folder that all people see all runs, where no setting decides about it."""
        if await self.identity.has_people() and is_to_be_said(self.records.layout.root, self.config.identity):
            operations_log("server").warning("runs_shared", problem=PROBLEM, hint=HINT)

    def record_address(self, url: str) -> None:
        """Let commands in this folder find the server."""
        if not self._leads:
            return
        try:
            record_server(self.records.layout.root, url)
        except FabricError as problem:
            _log.warning("Commands in this folder cannot find the server: %s", problem.message)

    def listen_to_hints(self) -> None:
        """Take up at once what other servers hint at: a cancellation, an answer, a signal. Needs an event loop."""
        self.wake_ups.listen(INBOX, lambda _: self.records.storage.look_into_inboxes())
        self.fleet.listen()
        for deltas in self._deltas:
            deltas.listen()

    async def left_at_start(self) -> Sequence[RunId]:
        """Return the runs that an earlier server left; several processes find them by claiming instead."""
        cluster = self.records.storage.cluster
        return await self.records.storage.queue.list_unfinished() if cluster is None else ()

    def driving(self) -> "list[Coroutine[Any, Any, None]]":
        """Return what takes up runs for as long as this process lives, and ends it when it is drained."""
        cluster = self.records.storage.cluster
        watching = [] if cluster is None else [_end_when_drained(cluster)]
        if self.watch_pending_work is not None:
            watching.append(self.watch_pending_work())
        if not self.dispatch.drives:
            return watching
        claiming = [] if self.claim_runs is None else [self.claim_runs()]
        if self.retry_stopped_runs is not None:
            claiming.append(self.retry_stopped_runs())
        return [self.wake_answered_runs(), self.chat.turns(), *claiming, *watching]

    async def stop(self) -> None:
        """Stop every run and evaluation where it stands; the next server goes on with it."""
        self.evals.jobs.stop()
        await self.dispatch.stop(timeout_s=STOPPING * self.settings.shutdown_timeout_s)

    async def aclose(self) -> None:
        if self._leads:
            forget_server(self.records.layout.root)
        self.records.storage.leases.release_server()
        await self.evals.jobs.aclose()
        await self.limits.aclose()
        await self.chat.aclose()
        await self.operations.aclose()
        await self.automation.aclose()
        await self.outgoing.aclose()
        await self.wake_ups.aclose()
        self.identity.close()
        await self._local.aclose()
        await self.observers.aclose()


def build_server(
    root: Path,
    loaded: Loaded,
    *,
    readers: Sequence[EventSink] = (),
    log_to_stderr: bool = False,
    role: Role = Role.SERVER,
) -> ServerFabric:
    """Join the parts. Runs that are stopped with the server are left for its successor.

    A worker has no doors, a door drives nothing: both need a store that processes share.

    Raises:
        StoreUnavailable: the store cannot be opened.
    """
    config = loaded.config
    outgoing = OutgoingMessages(config.nats)
    watchers = Watchers(config, outgoing.bus)
    wake_ups = open_wake_ups(config.nats, config.cluster.name)
    deltas = delta_pokes(config.nats, wake_ups)
    watching = (*readers, outgoing, watchers.metrics, watchers.alerts, *log_pokes(config.nats, wake_ups), *deltas)
    observers = build_observers(config, watching, log_to_stderr=log_to_stderr)

    def cipher_of(run_id: RunId) -> Cipher | None:
        return local.records.storage.encryption.cipher_of(run_id)

    contexts = open_turn_contexts(config, cipher_of)
    local = build_local(
        root,
        loaded,
        Driving(
            sink=observers.sink,
            marks_interruption=False,
            patience_s=PATIENCE_S,
            on_settled=keep_context(contexts),
            wake_ups=wake_ups,
            role=role,
        ),
    )
    storage = local.records.storage
    watch = None
    if storage.cluster is not None:  # every look is a query there
        watch = WatchPendingWork(storage.pending_work, SystemClock(), config.cluster.sweep_s)
    outgoing.open(storage, watch)
    observers.redact_runs(storage.encryption.driven)
    comes_back_s = config.cluster.lease_ttl_s + config.cluster.sweep_s
    follow = FollowRun(storage.runs, storage.reader, SystemClock(), comes_back_s, wake_ups)

    async def leave_to_workers(run_id: RunId) -> RunResult:
        wake_ups.poke(CLAIM, {"run": run_id})
        return await follow(run_id)

    def is_of_own_pool(taken: ClaimedRun) -> bool:
        return taken.state.task is None or (taken.state.task.pool or DEFAULT_POOL) in config.cluster.pools

    dispatch = DispatchRuns(
        local.execute_task.drive,
        local.cancel_run,
        config.server.max_running,
        config.server.max_queued,
        None if storage.cluster is None else leave_to_workers,
        None if role is Role.DOOR else is_of_own_pool,
    )
    for each in deltas:
        each.drives, each.encrypted = dispatch.__contains__, storage.encryption.driven
    storage.gauge.require_in_place()
    local_token(local.records.layout.root)  # for the programs of this machine
    leads = storage.leases.claim_server()  # an answer to a run is enough for it to continue
    if leads:
        forget_server(local.records.layout.root)  # of a server that was killed
    watchers.learn(local.secrets.chain.resolve, NotifyUser.of(storage))
    redis_url = config.redis.address(os.environ)
    limits = build_limits(config.limits, storage, SystemClock(), redis_url=redis_url, cluster=config.cluster.name)
    chat = serve_chat(local, config, dispatch, limits, watch, contexts)
    start_run = StartRun(
        limits,
        local.execute_task,
        local.resume_run,
        dispatch,
        storage.runs,
        storage.reader,
        storage.gauge.require_in_place,
    )
    automation = serve_automation(
        root,
        config,
        local,
        dispatch,
        bus=outgoing.bus,
        durable=outgoing.durable,
        limits=limits,
        wake_ups=wake_ups,
        watch=watch,
        say=SayInSessions(storage, chat.chat.manage, chat.chat.send),
        alert=watchers.alerts.note_event,
    )
    starter = automation.starts_runs
    resume_unfinished_runs = ResumeUnfinishedRuns(
        local.resume_run,
        dispatch,
        None if starter is None else starter.take_later,
        lambda run_id: None if retry_stopped_runs is None else retry_stopped_runs.note_stopped(run_id),
    )
    retry_stopped_runs = None
    if storage.cluster is None:  # else it is claimed, by any server
        retry_stopped_runs = RetryStoppedRuns(storage.gauge, resume_unfinished_runs, SystemClock())
        dispatch.on_store_lost = retry_stopped_runs.note_stopped
    webhooks = build_webhooks(root, config, local, start_run, begin=automation.watch.begin, tell=outgoing.tell)
    keep_bus_letters(automation, outgoing.durable)
    return ServerFabric(
        config=config,
        records=local.records,
        execute_task=local.execute_task,
        continue_run=local.continue_run,
        resume_run=local.resume_run,
        cancel_run=local.cancel_run,
        decide_approval=local.decide_approval,
        models=local.models,
        secrets=local.secrets,
        tool_servers=local.tool_servers,
        dispatch=dispatch,
        recover_runs=RecoverRuns(storage.mirrors, resume_unfinished_runs, storage.catalogue),
        retry_stopped_runs=retry_stopped_runs,
        wake_answered_runs=WakeAnsweredRuns(
            storage.queue,
            dispatch,
            resume_unfinished_runs,
            storage.clock,
            watched_pause(wake_ups, INBOX, ANSWERS, watch),
        ),
        claim_runs=_claiming(local, dispatch, config, watched_pause(wake_ups, CLAIM, RUNS, watch))
        if role is not Role.DOOR
        else None,
        watch_pending_work=watch,
        reader=storage.reader,
        catalogue=storage.catalogue,
        find=FindRun(storage.catalogue, storage.acts, SystemClock()),
        observers=observers,
        bus=outgoing.bus,
        outgoing=outgoing,
        wake_ups=wake_ups,
        agents=open_agents(root, config),
        evals=serve_evals(local, config, dispatch, limits),
        fleet=open_fleet(local.records.layout.root, local, config, wake_ups, watch, watchers.alerts.note_event),
        chat=chat,
        channels=serve_channels(config, local, chat.chat, outgoing.bus, watchers.alerts.note_event, watch),
        automation=automation,
        operations=Operations(watchers, dispatch, local.records, config.retention, config.audit),
        identity=open_identity(
            root, config.identity, storage, local.secrets.chain.resolve, shared=bool(config.store.url)
        ),
        start_run=start_run,
        limits=limits,
        repeats=storage.idempotency,
        webhooks=webhooks,
        _local=local,
        _deltas=deltas,
        _leads=leads,
    )


async def _end_when_drained(cluster: Cluster) -> None:
    """Stop this process, as a person would, when it is to take nothing on any more."""
    while not cluster.drains:  # noqa: ASYNC110 - a thread learns of it
        await asyncio.sleep(DRAIN_LOOK_S)
    signal.raise_signal(signal.SIGTERM)


def _claiming(local: LocalFabric, dispatch: DispatchRuns, config: FabricConfig, pause: HintedPause) -> ClaimRuns | None:
    """Return what takes up runs, where several processes share the store."""
    storage = local.records.storage
    cluster = storage.cluster
    if cluster is None:
        return None
    claim_runs = ClaimRuns(
        storage.queue,
        dispatch,
        local.resume_run,
        SystemClock(),
        config.cluster.sweep_s,
        pause,
        cluster.refuse,
        lambda: cluster.drains,
    )

    def look_again() -> None:
        if claim_runs.left_some:
            pause.wake()

    dispatch.on_room = look_again
    return claim_runs
