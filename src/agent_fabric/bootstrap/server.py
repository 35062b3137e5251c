"""Joins everything for a server: many runs at once, any number of readers."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.audit.collect_garbage import ApplyRetention
from agent_fabric.application.automation.receive_delivery import ReceiveDelivery
from agent_fabric.application.channels.notify_user import AlertUsers, NotifyUser
from agent_fabric.application.channels.say_in_sessions import SayInSessions
from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.observability.change_settings import StoredSettings
from agent_fabric.application.observability.check_readiness import CheckReadiness
from agent_fabric.application.observability.raise_alert import RaiseAlerts, alert_rules, webhooks_of
from agent_fabric.application.observability.take_vitals import MEANINGS, TakeVitals
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.cluster import Cluster
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.events import EventSink
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
from agent_fabric.application.runs.start_run import StartRun
from agent_fabric.application.runs.take_up_runs import (
    RecoverRuns,
    ResumeUnfinishedRuns,
    RetryStoppedRuns,
    WakeAnsweredRuns,
)
from agent_fabric.bootstrap.agents import ServedAgents, open_agents
from agent_fabric.bootstrap.automation import (
    Automation,
    Surroundings,
    build_webhooks,
    keep_bus_letters,
    serve_automation,
)
from agent_fabric.bootstrap.channels import Channels, serve_channels
from agent_fabric.bootstrap.chat import ServedChat, keep_context, open_turn_contexts, serve_chat
from agent_fabric.bootstrap.fleet import Fleet, open_fleet
from agent_fabric.bootstrap.identity import (
    HINT,
    PROBLEM,
    Identity,
    build_limits,
    is_to_be_said,
    open_identity,
)
from agent_fabric.bootstrap.local import Driving, LocalFabric, build_local
from agent_fabric.bootstrap.memory import ServedMemory
from agent_fabric.bootstrap.observability import answering_keys, missing_prerequisites
from agent_fabric.bootstrap.records import Records, folder_backups, head_sender
from agent_fabric.bootstrap.runs import ServedEvals, collect_garbage, serve_evals
from agent_fabric.bootstrap.workflows import (
    ServedWorkflows,
    open_workflows,
)
from agent_fabric.config.constants import DEFAULT_POOL
from agent_fabric.config.loader import Loaded
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.server import ServerConfig
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ServerBusy, Unauthenticated
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.observability.findings import HealthFinding
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.infrastructure.backup.make import Backup
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.cluster.bus.outgoing import OutgoingMessages
from agent_fabric.infrastructure.cluster.heap import share_heap
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
from agent_fabric.infrastructure.observability.alert_webhook import AlertWebhook
from agent_fabric.infrastructure.observability.metrics import CONTENT_TYPE, Reading, RunMetrics
from agent_fabric.infrastructure.observability.observers import Observers, build_observers
from agent_fabric.infrastructure.observability.operations_log import operations_log
from agent_fabric.infrastructure.private_files import write_private
from agent_fabric.infrastructure.runs.log.layout import forget_server, record_server


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

    config: FabricConfig
    records: Records
    resolve: Resolve
    watchers: Watchers
    dispatch: DispatchRuns
    metrics_type: ClassVar[str] = CONTENT_TYPE
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
            kept = self.config.retention.backups
            return await asyncio.to_thread(folder_backups(root).make_inside, by=by, workspaces=workspaces, kept=kept)
        finally:
            self._backing_up = False

    @property
    def stored_settings(self) -> StoredSettings:
        """The settings that may be changed on the page."""
        storage = self.records.storage
        write = partial(write_private, replace=True)
        return StoredSettings(self.records.layout.root, self.config, storage.acts, storage.clock, write)

    async def find_unmet(self) -> list[HealthFinding]:
        """Find what settings refer to that does not exist, and credentials with which a run could answer questions."""
        missing = missing_prerequisites(self.records.layout.root, self.config, self.resolve)
        return [*await missing(), *await answering_keys(self.config, self.resolve, self.records.storage)()]

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on for as long as the server runs."""
        retention, audit = self.config.retention, self.config.audit
        duties: list[Coroutine[Any, Any, None]] = [self._log_unmet(), self.watchers.alerts(self.measure)]
        if retention.older_than_days is not None:
            clear = ApplyRetention(
                collect_garbage(self.records),
                retention.older_than_days,
                retention.keep,
                SystemClock(),
                operations_log("retention"),
            )
            duties.append(clear())
        return [*duties, self._send_heads()] if audit.head_to else duties

    async def _log_unmet(self) -> None:
        log = operations_log("server")
        for each in await self.find_unmet():
            log.warning("setting_unmet", about=each.about, problem=each.text, hint=each.fix)

    async def _send_heads(self) -> None:
        chain, root = self.records.storage.chain, self.records.layout.root
        async with head_sender(chain, root, self.config.audit, self.watchers.secret) as send:
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
Duty = Callable[[], Coroutine[Any, Any, None]]
"""Goes on for as long as a process lives."""


@dataclass(frozen=True, slots=True)
class ServedRuns:
    """The runs of a server: what starts, finds, shows, continues and ends them, and answers what they ask."""

    config: FabricConfig
    records: Records
    reader: RunReader
    catalogue: RunListing
    approvals: ApprovalRepository
    dispatch: DispatchRuns
    start: StartRun
    """Starts runs for callers, within their limits."""
    find: FindRun
    """Finds a run for a caller; what the caller may not see does not exist."""
    execute_task: ExecuteTask
    continue_run: ContinueRun
    cancel_run: CancelRun
    decide_approval: DecideApproval

    def run_dir(self, run_id: RunId) -> str:
        return self.records.layout.run_dir(run_id)


@dataclass(frozen=True, slots=True)
class ServerFabric:
    """A server: one bundle for each of its rooms, and what it does while it runs."""

    config: FabricConfig
    local: LocalFabric
    """What drives runs; closed with the server."""
    runs: ServedRuns
    agents: ServedAgents
    workflows: ServedWorkflows
    evals: ServedEvals
    memory: ServedMemory
    fleet: Fleet
    """Machines, and what is done on them."""
    chat: ServedChat
    channels: Channels
    """Where people write to it from outside."""
    automation: Automation
    """Starts things by itself."""
    webhooks: ReceiveDelivery
    """Takes what others send of their own accord."""
    operations: Operations
    identity: Identity
    """Finds out who is asking, and looks after people and keys."""
    observers: Observers
    outgoing: OutgoingMessages
    """Where other parts of the server, and other systems, hear what becomes of workflows."""
    wake_ups: WakeUps
    """Hints between servers and workers."""
    claim_runs: ClaimRuns | None
    """Takes up runs without a driver all the time; None: the store is a file, or this is only a door."""
    recover_runs: RecoverRuns
    _driving: Sequence[Duty]
    """What takes up runs."""
    _deltas: Sequence[DeltaPokes]
    """Who sends answers to other servers while they are written."""
    _leads: bool
    """Whether this server holds the lock of the folder's server; a second one for the same folder does not."""

    @property
    def records(self) -> Records:
        return self.local.records

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
            self.runs.start.require_store()
            raise

    def record_address(self, url: str) -> None:
        """Let commands in this folder find the server."""
        if not self._leads:
            return
        try:
            record_server(self.records.layout.root, url)
        except FabricError as problem:
            _log.warning("Commands in this folder cannot find the server: %s", problem.message)

    def drive(self, unfinished: Sequence[RunId] = ()) -> "list[Coroutine[Any, Any, object]]":
        """Return what takes up runs for as long as this process lives, and ends it when it is drained.

        What other servers hint at is taken up at once: a cancellation, an answer, a signal. Needs an event loop.
        """
        self.wake_ups.listen(INBOX, lambda _: self.records.storage.look_into_inboxes())
        self.fleet.listen()
        for deltas in self._deltas:
            deltas.listen()
        return [*(duty() for duty in self._driving), self.outgoing.relay(), self.recover_runs(unfinished)]

    async def duties(self) -> "list[Coroutine[Any, Any, object]]":
        """Return what a server with doors does for as long as it lives."""
        storage = self.records.storage
        # Several processes find by claiming what an earlier server left.
        unfinished = await storage.queue.list_unfinished() if storage.cluster is None else ()
        self.runs.dispatch.expect(unfinished)
        return [
            *self.drive(unfinished),
            *self.automation.duties(),
            self.evals.jobs.resume_unfinished(),
            self._log_shared_runs(),
            self.memory.find_missing_vectors()(),
            *self.operations.duties(),
            *self.fleet.duties(),
            *self.channels.duties(),
        ]

    async def _log_shared_runs(self) -> None:
        """Log once for a folder that all people see all runs, where no setting decides about it."""
        if await self.identity.has_people() and is_to_be_said(self.records.layout.root, self.config.identity):
            operations_log("server").warning("runs_shared", problem=PROBLEM, hint=HINT)

    async def stop(self) -> None:
        """Stop every run and evaluation where it stands; the next server goes on with it."""
        self.evals.jobs.stop()
        await self.runs.dispatch.stop(timeout_s=STOPPING * self.settings.shutdown_timeout_s)

    async def aclose(self) -> None:
        if self._leads:
            forget_server(self.records.layout.root)
        self.records.storage.leases.release_server()
        await self.evals.jobs.aclose()
        await self.runs.start.limits.aclose()
        await self.chat.aclose()
        await self.operations.aclose()
        await self.automation.aclose()
        await self.outgoing.aclose()
        await self.wake_ups.aclose()
        self.identity.close()
        await self.local.aclose()
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
    share_heap()  # before there are threads that have one of their own
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
    note_event, resolve = watchers.alerts.note_event, local.secrets.chain.resolve
    around = Surroundings(
        bus=outgoing.bus,
        durable=outgoing.durable,
        limits=limits,
        say=SayInSessions(storage, chat.chat.manage, chat.chat.send),
        alert=note_event,
    )
    automation = serve_automation(root, config, local, dispatch, wake_ups, watch, around)
    webhooks = build_webhooks(root, config, local, start_run, begin=automation.watch.begin, tell=outgoing.tell)
    keep_bus_letters(automation, outgoing.durable)
    takes_up = _take_up(local, config, dispatch, chat, automation, watch, wake_ups, role)
    runs = ServedRuns(
        config=config,
        records=local.records,
        reader=storage.reader,
        catalogue=storage.catalogue,
        approvals=local.records.approvals,
        dispatch=dispatch,
        start=start_run,
        find=FindRun(storage.catalogue, storage.acts, SystemClock()),
        execute_task=local.execute_task,
        continue_run=local.continue_run,
        cancel_run=local.cancel_run,
        decide_approval=local.decide_approval,
    )
    return ServerFabric(
        config=config,
        local=local,
        runs=runs,
        agents=ServedAgents(open_agents(root, config)),
        workflows=ServedWorkflows(open_workflows(root, config)),
        memory=ServedMemory(local, config, open_workflows(root, config), dispatch),
        evals=serve_evals(local, config, dispatch, limits),
        fleet=open_fleet(local.records.layout.root, local, config, wake_ups, watch, note_event),
        chat=chat,
        channels=serve_channels(config, local, chat.chat, outgoing.bus, note_event, watch),
        automation=automation,
        webhooks=webhooks,
        operations=Operations(config, local.records, resolve, watchers, dispatch),
        identity=open_identity(root, config.identity, storage, resolve, shared=bool(config.store.url)),
        observers=observers,
        outgoing=outgoing,
        wake_ups=wake_ups,
        claim_runs=takes_up.claim_runs,
        recover_runs=takes_up.recover_runs,
        _driving=takes_up.duties if watch is None else [watch, *takes_up.duties],
        _deltas=deltas,
        _leads=leads,
    )


async def _end_when_drained(cluster: Cluster) -> None:
    """Stop this process, as a person would, when it is to take nothing on any more."""
    while not cluster.drains:  # noqa: ASYNC110 - a thread learns of it
        await asyncio.sleep(DRAIN_LOOK_S)
    signal.raise_signal(signal.SIGTERM)


class _TakesUp(NamedTuple):
    """What takes up runs that no process drives."""

    duties: Sequence[Duty]
    claim_runs: ClaimRuns | None
    recover_runs: RecoverRuns


def _take_up(
    local: LocalFabric,
    config: FabricConfig,
    dispatch: DispatchRuns,
    chat: ServedChat,
    automation: Automation,
    watch: WatchPendingWork | None,
    wake_ups: WakeUps,
    role: Role,
) -> _TakesUp:
    storage, starter = local.records.storage, automation.starts_runs
    cluster = storage.cluster
    resume = ResumeUnfinishedRuns(local.resume_run, dispatch, None if starter is None else starter.take_later)
    claim_runs, duties = None, list[Duty]()
    if cluster is not None:
        duties.append(partial(_end_when_drained, cluster))
    if dispatch.drives:
        pause = watched_pause(wake_ups, INBOX, ANSWERS, watch)
        duties += [WakeAnsweredRuns(storage.queue, dispatch, resume, storage.clock, pause), chat.turns]
    if cluster is not None and role is not Role.DOOR:
        claim_runs = _claiming(local, cluster, dispatch, config, watched_pause(wake_ups, CLAIM, RUNS, watch))
        duties.append(claim_runs)
    if cluster is None:  # else a run that a full disk has stopped is claimed like all others, by any server
        retry = RetryStoppedRuns(storage.gauge, resume, SystemClock())
        dispatch.on_store_lost = retry.note_stopped
        duties.append(retry)
    return _TakesUp(duties, claim_runs, RecoverRuns(storage.mirrors, resume, storage.catalogue))


def _claiming(
    local: LocalFabric, cluster: Cluster, dispatch: DispatchRuns, config: FabricConfig, pause: HintedPause
) -> ClaimRuns:
    """Return what takes up runs, where several processes share the store."""
    claim_runs = ClaimRuns(
        local.records.storage.queue,
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
