"""Sensors: what notices things, and why nothing was or something was started."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from agent_fabric.application.automation.manage_schedules import require_person
from agent_fabric.bootstrap.automation import Automation
from agent_fabric.domain.errors import ScheduleNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.automation import LOOKED, NOTICED_LIST, SENSORS, SensorLine

BASE = "/api/v1/sensors"
NamePath = Annotated[str, Path(max_length=200, description="The name of a sensor.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Most happenings to list.")]


def add_sensors(routes: Routes, automation: Automation) -> None:
    """Add the routes."""
    watch = automation.watch

    @routes.get(BASE, Scope.ADMIN, "List sensors", SENSORS)
    async def list_sensors() -> Iterable[SensorLine]:
        """Those that are armed on this server, and what their last look has found."""
        return await automation.sensors()

    @routes.post(f"{BASE}/{{name}}/look", Scope.ADMIN, "Let a sensor look now", LOOKED, fails=[404, 503, 507])
    async def look(name: NamePath, by: Principal) -> Response:
        """What it notices is started."""
        require_person(by)
        armed = watch.armed.get(name)
        if armed is None:
            raise ScheduleNotFound(f"There is no sensor {name!r}", hint="See them with `fabric sensors list`.")
        started = await watch.look(armed)
        state = await watch.store.state(name)
        return json_answer({"name": name, "reason": state.reason, "runs": list(started)})

    @routes.get(f"{BASE}/{{name}}/why", Scope.ADMIN, "List what a sensor has noticed", NOTICED_LIST, fails=[404])
    async def why(name: NamePath, limit: Limit = 50) -> Response:
        """Each with the run that it started, or why it started none; the newest first."""
        state = await watch.store.state(name)
        if state.looked_at is None and name not in watch.armed:
            raise ScheduleNotFound(f"There is no sensor {name!r}", hint="See them with `fabric sensors list`.")
        shown = NOTICED_LIST.dump(await watch.store.list_noticed(name, limit=limit))
        return json_answer({**shown, "reason": state.reason or None, "looked_at": state.looked_at})
