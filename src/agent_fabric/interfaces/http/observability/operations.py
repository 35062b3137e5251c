"""For those who run the server: whether it is ready, what it counts, alerts, the store and its backups."""

from collections.abc import Iterable

from fastapi import Request
from starlette.responses import Response

from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.infrastructure.observability.metrics import CONTENT_TYPE
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.errors import RETRY_AFTER_S
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Open, Routes
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.schemas import BackupRequest
from agent_fabric.wire.operations import ALERTS, BACKUP, READINESS, STORE, AlertStatus, BackupMade

_METRICS = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics"}


def add_operations(routes: Routes, fabric: ServerFabric, live: LiveRuns) -> None:
    """Add the routes."""
    _add_ready(routes, fabric)
    _add_metrics(routes, fabric, live)
    _add_alerts(routes, fabric)
    _add_store(routes, fabric)


def _add_ready(routes: Routes, fabric: ServerFabric) -> None:
    @routes.tagged("health").get(
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
        failing = sorted(await fabric.operations.check_readiness())
        told = {"ready": not failing, "failing": failing}
        return json_answer(told, 503, {"retry-after": str(RETRY_AFTER_S)}) if failing else json_answer(told)


def _add_metrics(routes: Routes, fabric: ServerFabric, live: LiveRuns) -> None:
    @routes.get("/metrics", Scope.RUNS_READ, "Metrics for Prometheus", also={200: _METRICS})
    async def metrics() -> Response:
        """Return what this server has counted since it started, and how things stand now."""
        streams = sum(feed.readers for feed in live.feeds())
        return Response(await fabric.operations.metrics_text(streams), media_type=CONTENT_TYPE)


def _add_alerts(routes: Routes, fabric: ServerFabric) -> None:
    @routes.get("/api/v1/alerts", Scope.ADMIN, "Show alerts", ALERTS)
    async def alerts() -> Iterable[AlertStatus]:
        """List all rules, and how each stands; those that fire come first."""
        standing = sorted(fabric.operations.watchers.alerts.standing(), key=lambda each: each[1].stage != "firing")
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


def _add_store(routes: Routes, fabric: ServerFabric) -> None:
    @routes.get("/api/v1/db", Scope.ADMIN, "Show how the store stands", STORE, fails=[503])
    async def status(check: bool = False) -> StoreStatus:
        """Return its size and what is in it; with `check`, read the whole file and look for damage."""
        return await fabric.operations.status(check=check)

    @routes.post(
        "/api/v1/db/backup",
        Scope.ADMIN,
        "Make a backup",
        BACKUP,
        status=201,
        body=BackupRequest,
        absent=BackupRequest(),
        fails=[503, 507],
    )
    async def back_up(asked: BackupRequest, request: Request) -> BackupMade:
        """Write a backup into `.fabric/backups` at the server, while runs continue, and return its path.

        Keys and the local token are never in it.
        """
        made = await fabric.operations.back_up(by=who_asks(request), workspaces=asked.workspaces)
        seconds = round(made.seconds, 3)
        return BackupMade(str(made.path), made.size_bytes, made.files, made.workspaces, len(made.changed), seconds)
