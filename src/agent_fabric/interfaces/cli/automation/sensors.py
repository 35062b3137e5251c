"""`fabric sensors`: what notices things, and what came of it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from agent_fabric.domain.errors import ScheduleNotFound
from agent_fabric.interfaces.cli.automation.local_automation import LocalAutomation, opens
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Noun, Place
from agent_fabric.wire.automation import NOTICED_LIST, SENSORS
from agent_fabric.wire.shape import Json

app = new_app("See what notices files and events: list, look, why.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a sensor.")]


class _LocalSensors:
    """The sensors of a fabric folder."""

    def __init__(self, here: LocalAutomation) -> None:
        self._join, self._drive_created, self._store = here.join, here.drive_created, here.store.sensors

    async def list(self) -> Sequence[Json]:
        automation = await self._join()
        await automation.arm.arm()
        found: Sequence[Json] = SENSORS.dump(await automation.sensors())["sensors"]
        return found

    async def look(self, name: str) -> Json:
        automation = await self._join()
        await automation.arm.arm()
        armed = automation.watch.armed.get(name)
        if armed is None:
            raise ScheduleNotFound(f"There is no sensor {name!r}", hint="See them with `fabric sensors list`.")
        started = await automation.watch.look(armed)
        await self._drive_created()
        return {"name": name, "reason": (await self._store.state(name)).reason, "runs": list(started)}

    async def why(self, name: str) -> Json:
        state = await self._store.state(name)
        if state.looked_at is None:
            raise ScheduleNotFound(f"The sensor {name!r} has never looked", hint="See them with `fabric sensors list`.")
        noticed = NOTICED_LIST.dump(await self._store.list_noticed(name, limit=50))
        return {**noticed, "reason": state.reason, "looked_at": state.looked_at}


_sensors = Noun(opens(_LocalSensors), lambda client: client.sensors)


@app.command("list")
def list_(*, at: Place) -> int:
    """List sensors, with what the last look of each has found."""
    found = _sensors(at, lambda sensors: sensors.list())
    return at.print(found, "".join(map(_line, found)) or "There are no sensors.\n")


@app.command()
def look(name: Name, *, at: Place) -> int:
    """Let a sensor look now; what it notices is started."""
    require_a_person()
    done = _sensors(at, lambda sensors: sensors.look(name))
    return at.print(done, f"{plain(done['reason'])}\n" + "".join(f"run {plain(each)}\n" for each in done["runs"]))


@app.command()
def why(name: Name, *, at: Place) -> int:
    """Show what a sensor has noticed, and the run that it started or why it started none."""
    found = _sensors(at, lambda sensors: sensors.why(name))
    looked = found["looked_at"]
    last = "" if looked is None else f"last look {moment(looked)}: {plain(found['reason'] or '')}\n"
    noticed = (
        f"  {moment(each['at'])}  {plain(each['run_id'] or each['reason'] or '')}" for each in found["happenings"]
    )
    return at.print(found, last + "".join(f"{line}\n" for line in noticed))


def _line(each: Json) -> str:
    line = f"{plain(each['name'])}  {plain(each['kind'])}  starts {plain(each['workflow'])}  "
    return f"{line}{plain(each['reason'] or '')}".rstrip() + "\n"
