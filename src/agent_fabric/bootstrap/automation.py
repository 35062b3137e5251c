"""Joins what starts things by itself."""

import asyncio
import shlex
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.automation.arm_triggers import ArmTriggers
from agent_fabric.application.automation.backfill_schedule import BackfillSchedule
from agent_fabric.application.automation.explain_schedule import ExplainSchedule
from agent_fabric.application.automation.find_schedule import FindSchedule
from agent_fabric.application.automation.fire_schedules import LOOK_EVERY_S, FireSchedules
from agent_fabric.application.automation.import_crontab import ImportCrontab
from agent_fabric.application.automation.make_tasks import NarrowToOwner, ScheduledTasks, TriggeredTasks
from agent_fabric.application.automation.manage_schedules import ManageSchedules
from agent_fabric.application.automation.rearm_intervals import RearmIntervals
from agent_fabric.application.automation.receive_delivery import DeliverySource, ReceiveDelivery
from agent_fabric.application.automation.replay_letter import BusLetters, ReplayTrigger, SettleLetters
from agent_fabric.application.automation.send_messages import SendMessages
from agent_fabric.application.automation.watch_sensors import WatchSensors
from agent_fabric.application.channels.notify_user import NotifyUser, TellWaiting
from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.ports import pending_work
from agent_fabric.application.ports import wake_ups as wake_ups_port
from agent_fabric.application.ports.automation import AutomationStore, Begin, LetterKind, Say
from agent_fabric.application.ports.bus import Bus, BusMessage, DurableBus
from agent_fabric.application.ports.limits import Rate
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.ports.wake_ups import CLAIM, WakeUps
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.limits import Limits
from agent_fabric.application.runs.start_run import Commit, StartRun
from agent_fabric.application.runs.take_up_runs import StartCreatedRuns
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.schema.automation import WebhookConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.limits import how_often
from agent_fabric.domain.automation.crontab import CrontabJob, script_of
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.automation.webhooks import Scheme, Signing
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron, use_own_zones
from agent_fabric.infrastructure.automation.message_sender import GuardedSender
from agent_fabric.infrastructure.automation.sensors import open_sensor
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus, InProcessDurableBus, fits
from agent_fabric.infrastructure.cluster.wake_ups.choose import SELDOM_S, HintedPause, watched_pause
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.observability.operations_log import operations_log
from agent_fabric.infrastructure.workflows.command_files import CommandFiles
from agent_fabric.wire.automation import SensorLine

_MESSAGES: Final = "messages"

Pause = Callable[[float], Awaitable[None]]
Hinted = Callable[[float], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a server joins to automation beside what every process has; alone it hears of nothing and tells no one."""

    bus: Bus = field(default_factory=InProcessBus)
    durable: DurableBus = field(default_factory=InProcessDurableBus)
    limits: Limits | None = None
    starts_runs: StartCreatedRuns | None = None
    say: Say | None = None
    alert: Callable[..., None] = lambda *_: None
    firing: Hinted = asyncio.sleep
    """How it is waited until something is due, or until a hint of it."""
    sending: Pause = asyncio.sleep
    look_every_s: float = LOOK_EVERY_S
    """How often firings that wait are looked at."""
    schedules_changed: Callable[[], None] = lambda: None
    messages_changed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Automation:
    """What starts things by itself, and what explains it."""

    store: AutomationStore
    find: FindSchedule
    manage: ManageSchedules
    explain: ExplainSchedule
    backfill: BackfillSchedule
    fire: FireSchedules
    settle_letters: SettleLetters
    watch: WatchSensors
    arm: ArmTriggers
    messages: SendMessages
    durable: DurableBus
    import_crontab: ImportCrontab
    starts_runs: StartCreatedRuns | None = None
    """Drives what was created here; None: other processes claim it."""
    enabled: bool = True
    zones: str = ""
    """The version of the time zones."""

    def duties(self) -> "list[Coroutine[Any, Any, None]]":
        """Return what a server does for as long as it lives."""
        starting = [] if self.starts_runs is None else [self.starts_runs.drive()]
        self.durable.attend("subscriptions", "agent33.>", self.messages.take)
        if self.enabled:
            self.fire.log.info("automation_armed", tzdata=self.zones, timezone=self.manage.default_timezone)
        return [*starting, self.messages(), *([self.arm(), self.watch(), self.fire()] if self.enabled else [])]

    async def aclose(self) -> None:
        await self.messages.sender.aclose()

    async def sensors(self) -> "list[SensorLine]":
        """Return the sensors that are armed, by name."""
        states = {each.name: each for each in await self.store.sensors.states()}
        return [
            SensorLine(
                name=each.name,
                kind=each.kind,
                workflow=each.workflow,
                subjects=each.subjects,
                every_s=each.every_s,
                looked_at=states[each.name].looked_at if each.name in states else None,
                reason=states[each.name].reason if each.name in states else "",
            )
            for _, each in sorted(self.watch.armed.items())
        ]


def build_automation(
    root: Path, config: FabricConfig, local: LocalFabric, *, begin: Begin, around: Surroundings | None = None
) -> Automation:
    """Join the parts; `begin` gets the runs that are created."""
    around = around or Surroundings()
    zones, log, limits = use_own_zones(), operations_log("automation"), around.limits
    clock, workflows = SystemClock(), open_workflows(root, config)
    storage, home = local.records.storage, root.absolute().parent
    store, caps = storage.automation, None if limits is None else limits.caps
    rights = NarrowToOwner(storage.users, storage.api_keys, clock)
    make_task = ScheduledTasks(workflows, home, caps, storage.nodes.find, rights)
    watch = WatchSensors(
        store=store.sensors,
        task_for=TriggeredTasks(workflows, home, caps),
        first_event=local.execute_task.first_event,
        begin=begin,
        bus=around.bus,
        clock=clock,
    )

    async def count_start(schedule: Schedule) -> None:
        if limits is not None and schedule.owner != LOCAL_OWNER:
            await limits.count_start(schedule.owner)

    manage = ManageSchedules(
        store=store,
        read_cron=read_cron,
        make_task=make_task,
        first_event=local.execute_task.first_event,
        begin=begin,
        clock=clock,
        default_timezone=config.automation.timezone,
        say=around.say,
        changed=around.schedules_changed,
    )

    replay = ReplayTrigger(manage, watch, store)
    messages = SendMessages(
        store=store.subscriptions,
        queue=store.outgoing,
        sender=GuardedSender(config.web.allow_hosts),
        resolve=local.secrets.chain.resolve,
        letters=store.letters,
        clock=clock,
        fits=lambda pattern, subject: fits(tuple(pattern.split(".")), tuple(subject.split("."))),
        pause=around.sending,
        changed=around.messages_changed,
    )

    return Automation(
        store=store,
        find=FindSchedule(store.schedules, Visibility(config.identity.visibility)),
        manage=manage,
        explain=explain_schedule(storage),
        backfill=BackfillSchedule(store, read_cron, clock, around.schedules_changed),
        fire=FireSchedules(
            store=store,
            read_cron=read_cron,
            make_task=make_task,
            first_event=local.execute_task.first_event,
            begin=begin,
            cancel_run=local.cancel_run,
            clock=clock,
            bus=around.bus,
            log=log,
            server=config.cluster.label or storage.leases.driver,
            count_start=count_start,
            model_is_free=local.models.is_free,
            say=around.say,
            alert=around.alert,
            rearm=RearmIntervals(store, read_cron, clock, around.alert),
            tell_waiting=TellWaiting(
                store.overview,
                storage.approvals,
                store.schedules,
                NotifyUser.of(storage),
                around.alert,
            ),
            pause=around.firing,
            look_every_s=around.look_every_s,
        ),
        settle_letters=SettleLetters(
            store.letters,
            {LetterKind.TRIGGER: replay, LetterKind.DELIVERY_IN: replay, LetterKind.DELIVERY_OUT: messages.replay},
            clock,
        ),
        messages=messages,
        durable=around.durable,
        import_crontab=ImportCrontab(
            manage,
            CommandFiles(home / Path(config.workflows.definitions[0]).expanduser(), workflows.check_text),
            partial(_why_not_by_itself, local, home),
        ),
        watch=watch,
        arm=ArmTriggers(
            config=config,
            list_files=workflows.files.list,
            open_sensor=partial(open_sensor, home),
            host=socket.gethostname(),
            store=store,
            watch=watch,
            durable=around.durable,
            read_cron=read_cron,
            clock=clock,
            changed=around.schedules_changed,
        ),
        starts_runs=around.starts_runs,
        enabled=config.automation.enabled,
        zones=zones,
    )


def serve_automation(
    root: Path,
    config: FabricConfig,
    local: LocalFabric,
    dispatch: DispatchRuns,
    wake_ups: WakeUps,
    watch: WatchPendingWork | None,
    around: Surroundings,
) -> Automation:
    """Join the parts for a server: alone it drives what it creates; of several, one claims it."""
    around = _waking(around, wake_ups, watch)
    if local.records.storage.cluster is None:
        starter = StartCreatedRuns(dispatch, local.resume_run)
        return build_automation(root, config, local, begin=starter, around=replace(around, starts_runs=starter))

    def hint(run_ids: Sequence[RunId]) -> None:
        for run_id in run_ids[:1]:
            wake_ups.poke(CLAIM, {"run": run_id})

    return build_automation(root, config, local, begin=hint, around=around)


def keep_bus_letters(automation: Automation, durable: DurableBus) -> None:
    """Make dead letters of messages that this process could not take; NATS keeps its messages itself."""
    if not isinstance(durable, InProcessDurableBus):
        return
    letters = BusLetters(automation.store.letters, durable.deliver_to, SystemClock())
    durable.give_up = letters.keep
    automation.settle_letters.replays[LetterKind.BUS] = letters.replay


def _waking(around: Surroundings, wake_ups: WakeUps, watch: WatchPendingWork | None) -> Surroundings:
    """Add how the loops of a server wait; `watch` looks for all of them where the store is shared."""
    firing, hints = HintedPause(wake_ups, wake_ups_port.SCHEDULES), InProcessWakeUps()
    if watch is not None:
        watch.listen(pending_work.SCHEDULES, firing.wake)
    return replace(
        around,
        firing=firing.until_hinted,
        sending=watched_pause(hints, _MESSAGES, pending_work.MESSAGES, watch),
        look_every_s=LOOK_EVERY_S if watch is None else SELDOM_S,
        schedules_changed=lambda: wake_ups.poke(wake_ups_port.SCHEDULES, {}),
        messages_changed=lambda: hints.poke(_MESSAGES, {}),
    )


def _why_not_by_itself(local: LocalFabric, home: Path, job: CrontabJob) -> str:
    """Return why the policy asks about the command of a crontab, or blocks it; empty: it runs."""
    env = ["env", *(f"{name}={value}" for name, value in job.env.items())] if job.env else []
    line = shlex.join([*env, job.shell, "-c", script_of(job)])
    call = ProposedCall(
        tool="shell",
        args={"command": line},
        effect=Effect.CHANGES_WORKSPACE,
        command=line,
        sandbox=local.execute_task.sandbox_level,
        workspace=str(home),
    )
    ruling = local.rules.judge(call)
    return "" if ruling.verdict is Verdict.ALLOW else ruling.reason


def explain_schedule(storage: Storage) -> ExplainSchedule:
    """Return the use case that explains; it needs no configuration."""
    return ExplainSchedule(storage.automation.history, read_cron, SystemClock(), storage.automation.overview)


def build_webhooks(
    root: Path,
    config: FabricConfig,
    local: LocalFabric,
    start_run: StartRun,
    *,
    begin: Begin,
    tell: Callable[[BusMessage], None],
) -> ReceiveDelivery:
    """Return the use case that takes deliveries; `begin` gets runs that are not driven at once."""
    workflows = open_workflows(root, config)
    tasks = TriggeredTasks(open_workflows(root, config), root.absolute().parent, start_run.limits.caps)
    reading = asyncio.Lock()

    async def find_armed(source: str) -> Sequence[str]:
        async with reading:
            files = await asyncio.to_thread(workflows.files.list)
        found = [each for each in files if each.definition is not None]
        return [each.name for each in found if each.definition and source in each.definition.triggers.webhook]

    async def start(source: str, runs: Sequence[RunId], commit: Commit) -> bool:
        if not runs:
            return await commit() is not None
        return await start_run.committed(f"webhook:{source}", commit, begin)

    return ReceiveDelivery(
        sources={name: _source(each) for name, each in config.webhooks.items()},
        resolve=local.secrets.chain.resolve,
        deliveries=local.records.storage.deliveries,
        tell=tell,
        limiter=start_run.limits.known,
        task_for=tasks,
        first_event=local.execute_task.first_event,
        start=start,
        clock=SystemClock(),
        find_armed=find_armed,
    )


def _source(config: WebhookConfig) -> DeliverySource:
    return DeliverySource(
        signing=Signing(
            scheme=Scheme(config.scheme),
            header=config.header.lower(),
            timestamp_header=(config.timestamp_header or "").lower(),
        ),
        secret=config.secret,
        workflow=config.workflow or "",
        events=frozenset(config.events),
        rate=None if config.rate is None else Rate(*how_often(config.rate)),
    )
