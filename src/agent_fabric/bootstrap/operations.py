"""Joins what operators need of a server: whether it is ready, what it counts, alerts, backups, retention."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_fabric.application.audit.apply_retention import ApplyRetention
from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.application.channels.post_alerts import AlertUsers
from agent_fabric.application.observability.alert_rules import alert_rules, webhooks_of
from agent_fabric.application.observability.check_readiness import CheckReadiness
from agent_fabric.application.observability.raise_alert import RaiseAlerts
from agent_fabric.application.observability.take_vitals import MEANINGS, TakeVitals
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.ports.vitals import StoreGauge, StoreStatus
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.bootstrap.records import Records, folder_backups, head_sender
from agent_fabric.bootstrap.runs import collect_garbage
from agent_fabric.config.schema.audit import AuditConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.runs import RetentionConfig
from agent_fabric.domain.errors import ServerBusy
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.infrastructure.backup.make import Backup
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.observability.alert_webhook import AlertWebhook
from agent_fabric.infrastructure.observability.metrics import Reading, RunMetrics
from agent_fabric.infrastructure.observability.operations_log import operations_log


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
        """Tells whether work is welcome."""
        return CheckReadiness(self._gauge, lambda: self.dispatch.stopping, SystemClock())

    @property
    def _gauge(self) -> StoreGauge:
        return self.records.storage.gauge

    async def metrics_text(self, streams: int) -> bytes:
        """Return all metrics as Prometheus reads them."""
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

    async def watched(self) -> dict[str, float]:
        """Return what alerts are about; unlike the vitals, it also finds out whether the store can be written."""
        values = await self.vitals()
        if "store" in await self.check_readiness():
            values["store_unavailable"] = 1.0
        return values

    async def status(self, *, check: bool) -> StoreStatus:
        """Tell how the store stands."""
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
        duties: list[Coroutine[Any, Any, None]] = [self.watchers.alerts(self.watched)]
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
        """Close connections."""
        await self.watchers.post.aclose()
