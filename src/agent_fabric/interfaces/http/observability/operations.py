"""For those who run the server: whether it is ready, what it counts, alerts, the store and its backups."""

import asyncio
import os
from collections.abc import Iterable
from typing import Any

from pydantic import Field
from starlette.responses import Response

from agent_fabric import __version__
from agent_fabric.application.observability.change_settings import ShownSetting, StoredSettings
from agent_fabric.application.observability.check_health import can_run
from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.bootstrap.records import configured_address, service_findings
from agent_fabric.bootstrap.runs import policy_of
from agent_fabric.bootstrap.server import Operations, ServedRuns, ServerFabric
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.observability.findings import HealthFinding, Level
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.errors import RETRY_AFTER_S
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Answerer, Open, OptionalBody, Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.schemas import BackupRequest
from agent_fabric.wire.operations import (
    ALERTS,
    BACKUP,
    DIAGNOSIS,
    HEALTH,
    READINESS,
    STORE,
    AlertStatus,
    BackupMade,
    Diagnosis,
)
from agent_fabric.wire.shape import Listing, Shape


def add_health(routes: Routes, runs: ServedRuns) -> None:
    """Add the route that must always answer at once."""
    dispatch, execute, require_store = runs.dispatch, runs.execute_task, runs.start.require_store
    facts = f'"version":"{__version__}","sandbox":"{execute.sandbox_level}","policy_profile":"{execute.policy_profile}"'
    head = f',{facts},"runs":{{"running":'

    failing = gives(HEALTH, status=503, text="The store was deleted: restart the server.")

    @routes.get("/health", Open.PUBLIC, "Check that the server works", HEALTH, also=failing, head=True)
    async def health() -> Response:
        """`ok` is false when runs could not be kept: the store was deleted or replaced."""
        ok, status = "true", 200
        try:
            require_store()
        except StoreUnavailable:
            ok, status = "false", 503
        text = f'{{"ok":{ok}{head}{dispatch.running},"queued":{dispatch.queued}}}}}'
        return Response(text, status, media_type="application/json")


_METRICS = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics"}


def add_operations(routes: Routes, operations: Operations, live: LiveRuns) -> None:
    """Add the routes."""

    @routes.with_tag("health").get(
        "/ready",
        Open.PUBLIC,
        "Check whether new work is accepted",
        READINESS,
        also=gives(READINESS, status=503, text="Not now."),
        head=True,
    )
    async def ready() -> Response:
        """Return whether new work is accepted; `failing` names what is wrong: `store`, `disk`, `stopping`.

        This route is public, so it gives no details: see the metrics and the alerts.
        """
        failing = sorted(await operations.check_readiness())
        told = {"ready": not failing, "failing": failing}
        return json_answer(told, 503, {"retry-after": str(RETRY_AFTER_S)}) if failing else json_answer(told)

    @routes.get("/metrics", Scope.RUNS_READ, "Metrics for Prometheus", also={200: _METRICS})
    async def metrics() -> Response:
        """Return what this server has counted since it started, and how things stand now."""
        streams = sum(feed.readers for feed in live.feeds())
        return Response(await operations.metrics_text(streams), media_type=operations.metrics_type)

    @routes.get("/api/v1/alerts", Scope.ADMIN, "Show alerts", ALERTS)
    async def alerts() -> Iterable[AlertStatus]:
        """List all rules, and how each stands; those that fire come first."""
        standing = sorted(operations.watchers.alerts.standing(), key=lambda each: each[1].stage != "firing")
        return (
            AlertStatus(
                rule.name,
                alert.stage.value,
                rule.severity.value,
                str(rule.when),
                rule.for_s,
                alert.value,
                since,
            )
            for rule, alert, since in standing
        )

    @routes.get("/api/v1/db", Scope.ADMIN, "Show how the store stands", STORE, fails=[503])
    async def status(check: bool = False) -> StoreStatus:
        """Return its size and what is in it; with `check`, read the whole file and look for damage."""
        return await operations.status(check=check)

    @routes.post("/api/v1/db/backup", Scope.ADMIN, "Make a backup", BACKUP, status=201, fails=[503, 507])
    async def back_up(asked: OptionalBody[BackupRequest], by: Principal) -> BackupMade:
        """Write a backup into `.fabric/backups` at the server, while runs continue, and return its path.

        Keys and the local token are never in it.
        """
        made = await operations.back_up(by=by, workspaces=asked.workspaces)
        seconds = round(made.seconds, 3)
        return BackupMade(str(made.path), made.size_bytes, made.files, made.workspaces, len(made.changed), seconds)


def add_doctor(routes: Routes, fabric: ServerFabric) -> None:
    """Add the route. It is for administrators: it tells about the machine."""

    @routes.get("/api/v1/doctor", Scope.ADMIN, "Check whether a task could run", DIAGNOSIS)
    async def doctor() -> Diagnosis:
        """The same as `fabric doctor --json` at the server's own terminal. Looks only."""
        from agent_fabric.bootstrap.models import listing  # noqa: PLC0415 - as above
        from agent_fabric.bootstrap.records import store_findings  # noqa: PLC0415 - few servers are ever asked
        from agent_fabric.interfaces.views import examination as look  # noqa: PLC0415 - as above

        root, config, stack = fabric.records.layout.root, fabric.config, fabric.local.models.stack
        findings = [
            await asyncio.to_thread(look.python_finding),
            HealthFinding(about="configuration", level=Level.OK, text="valid; as it was when the server started"),
            *look.policy_findings(policy_of(fabric.records, config)),
            *await asyncio.to_thread(store_findings, root, configured_address(config.store, os.environ)),
            await asyncio.to_thread(look.encryption_finding, root, config),
            *await fabric.operations.find_unmet(),
            *await service_findings(config, root),
        ]
        try:
            findings += await look.model_findings(root, config, listing(config, stack))
        except ConfigError as problem:
            findings.append(HealthFinding(about="models", level=Level.FAIL, text=problem.message, fix=problem.hint))
        return Diagnosis(can_run(findings), findings)


SETTINGS = Listing(
    "settings", Shape(ShownSetting), name="SettingList", about="Settings that may be changed while the server runs."
)


class SettingsChange(RequestBody, example={"values": {"chat.max_turns": 20}}):
    """New values by the dotted name of their settings; null takes a change back."""

    values: dict[str, Any] = Field(default={}, max_length=50)


def add_settings(routes: Routes, stored: StoredSettings) -> None:
    """Add the routes."""

    @routes.get("/api/v1/settings", Scope.ADMIN, "List settings that may be changed", SETTINGS)
    async def list_settings() -> Iterable[ShownSetting]:
        """What counts, where it comes from, and whether it was changed here."""
        return await stored.show()

    @routes.patch("/api/v1/settings", Scope.ADMIN, "Change settings", SETTINGS)
    async def change(wish: SettingsChange, by: Answerer) -> Iterable[ShownSetting]:
        """They are kept in the fabric folder, over its files and below the environment, and count after a restart."""
        return await stored.change(wish.values, by=by)
