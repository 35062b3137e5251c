"""`fabric sensors`: what notices things, and what came of it."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agent_fabric.domain.errors import ScheduleNotFound
from agent_fabric.interfaces.cli.automation.schedule_places import LocalSchedules, at_schedules
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.wire.automation import NOTICED_LIST, SENSORS
from agent_fabric.wire.shape import Json

app = new_app("See what notices files and events: list, look, why.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a sensor.")]


@app.command("list")
def list_(*, at: Place) -> int:
    """List sensors, with what the last look of each has found."""

    async def here(place: LocalSchedules) -> Sequence[Json]:
        await place.automation.arm.arm()
        shown: Sequence[Json] = SENSORS.dump(await place.automation.sensors())["sensors"]
        return shown

    found = at_schedules(at, here, lambda client: client.sensors.list())
    if at.as_json:
        print_json(found)
    else:
        lines = [
            f"{plain(each['name'])}  {plain(each['kind'])}  starts {plain(each['workflow'])}  "
            f"{plain(each['reason'] or '')}".rstrip()
            + "\n"
            for each in found
        ]
        sys.stdout.write("".join(lines) or "There are no sensors.\n")
    return COMPLETED


@app.command()
def look(name: Name, *, at: Place) -> int:
    """Let a sensor look now; what it notices is started."""
    require_a_person()

    async def here(place: LocalSchedules) -> Json:
        await place.automation.arm.arm()
        armed = place.automation.watch.armed.get(name)
        if armed is None:
            raise ScheduleNotFound(f"There is no sensor {name!r}", hint="See them with `fabric sensors list`.")
        started = await place.automation.watch.look(armed)
        await place.drive_created()
        state = await place.automation.watch.store.state(name)
        return {"name": name, "reason": state.reason, "runs": list(started)}

    done = at_schedules(at, here, lambda client: client.sensors.look(name))
    return at.print(done, f"{plain(done['reason'])}\n" + "".join(f"run {plain(each)}\n" for each in done["runs"]))


@app.command()
def why(name: Name, *, at: Place) -> int:
    """Show what a sensor has noticed, and the run that it started or why it started none."""

    async def here(place: LocalSchedules) -> Json:
        store = place.automation.watch.store
        state = await store.state(name)
        if state.looked_at is None:
            raise ScheduleNotFound(f"The sensor {name!r} has never looked", hint="See them with `fabric sensors list`.")
        shown = NOTICED_LIST.dump(await store.noticed(name, limit=50))
        return {**shown, "reason": state.reason, "looked_at": state.looked_at}

    found = at_schedules(at, here, lambda client: client.sensors.why(name))
    if at.as_json:
        return print_json(found)
    if found["looked_at"] is not None:
        sys.stdout.write(f"last look {moment(found['looked_at'])}: {plain(found['reason'] or '')}\n")
    for each in found["happenings"]:
        sys.stdout.write(f"  {moment(each['at'])}  {plain(each['run_id'] or each['reason'] or '')}\n")
    return COMPLETED
