"""For those who run the server: whether it is ready, what it counts, alerts, the store and its backups."""

from functools import partial

from fastapi import FastAPI, Request
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.infrastructure.observability.metrics import CONTENT_TYPE
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.errors import RETRY_AFTER_S
from agent_fabric.interfaces.http.locks import PUBLIC, needs, who_asks
from agent_fabric.interfaces.http.openapi import gives, operation, takes
from agent_fabric.interfaces.http.plain_route import PlainRoute
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.schemas import BackupRequest
from agent_fabric.wire.operations import ALERTS, BACKUP, READINESS, STORE, AlertStatus, BackupMade


def add_operations(app: FastAPI, fabric: ServerFabric, live: LiveRuns) -> None:
    """Add the routes."""
    _add_ready(app, fabric)
    _add_metrics(app, fabric, live)
    _add_alerts(app, fabric)
    _add_store(app, fabric)


def _add_ready(app: FastAPI, fabric: ServerFabric) -> None:
    async def ready(_: Request) -> Response:
        """Return whether new work is accepted; `failing` names what is wrong: `store`, `disk`, `stopping`.

        This route is public, so it gives no details: see the metrics and the alerts.
        """
        failing = sorted(await fabric.operations.check_readiness())
        told = {"ready": not failing, "failing": failing}
        return json_answer(told, 503, {"retry-after": str(RETRY_AFTER_S)}) if failing else json_answer(told)

    add = partial(
        app.router.add_api_route, "/ready", ready, route_class_override=PlainRoute, openapi_extra=needs(PUBLIC)
    )
    add(
        methods=["GET"],
        summary="Check whether new work is accepted",
        tags=["health"],
        response_model=None,
        responses=gives(READINESS) | gives(READINESS, status=503, text="Not now."),
    )
    add(methods=["HEAD"], include_in_schema=False)


def _add_metrics(app: FastAPI, fabric: ServerFabric, live: LiveRuns) -> None:
    @app.get(
        "/metrics",
        summary="Metrics for Prometheus",
        tags=["operations"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics"}},
        openapi_extra=needs(Scope.RUNS_READ),
    )
    async def metrics() -> Response:
        """Return what this server has counted since it started, and how things stand now."""
        streams = sum(feed.readers for feed in live.feeds())
        return Response(await fabric.operations.metrics_text(streams), media_type=CONTENT_TYPE)


def _add_alerts(app: FastAPI, fabric: ServerFabric) -> None:
    @app.get("/api/v1/alerts", **operation("operations", Scope.ADMIN, "Show alerts", ALERTS))
    async def alerts() -> Response:
        """List all rules, and how each stands; those that fire come first."""
        standing = sorted(fabric.operations.watchers.alerts.standing(), key=lambda each: each[1].stage != "firing")
        return json_answer(
            ALERTS.dump(
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
        )


def _add_store(app: FastAPI, fabric: ServerFabric) -> None:
    @app.get("/api/v1/db", **operation("operations", Scope.ADMIN, "Show how the store stands", STORE, fails=[503]))
    async def status(check: bool = False) -> Response:
        """Return its size and what is in it; with `check`, read the whole file and look for damage."""
        return json_answer(STORE.dump(await fabric.operations.status(check=check)))

    @app.post(
        "/api/v1/db/backup",
        **operation(
            "operations",
            Scope.ADMIN,
            "Make a backup",
            BACKUP,
            status=201,
            body=takes(BackupRequest, required=False),
            fails=[503, 507],
        ),
    )
    async def back_up(request: Request) -> Response:
        """Write a backup into `.fabric/backups` at the server, while runs continue, and return its path.

        Keys and the local token are never in it.
        """
        asked = await body_of(request, BackupRequest, absent=BackupRequest())
        made = await fabric.operations.back_up(by=who_asks(request), workspaces=asked.workspaces)
        seconds = round(made.seconds, 3)
        backup = BackupMade(str(made.path), made.size_bytes, made.files, made.workspaces, len(made.changed), seconds)
        return json_answer(BACKUP.dump(backup), 201)
