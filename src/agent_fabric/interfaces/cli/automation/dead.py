"""`fabric dead`: what could not be carried out."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from agent_fabric.bootstrap.automation import Automation
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.interfaces.cli.automation.schedule_places import LocalSchedules, at_schedules
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.wire.automation import LETTER
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient

T = TypeVar("T")
app = new_app("Look after what could not be carried out: list, show, replay, drop.")

LetterId = Annotated[str, typer.Argument(metavar="LETTER", help="The id of a dead letter, or the beginning of it.")]


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Include those that were settled.")] = False, *, at: Place
) -> int:
    """List dead letters, the newest first."""

    async def here(automation: Automation) -> Sequence[Json]:
        return [LETTER.dump(each) for each in await automation.store.letters.list(limit=1_000, everything=everything)]

    found = _at(at, here, lambda client: client.dead_letters.list(everything=everything))
    return at.print(found, "".join(map(_line, found)) or "There are no dead letters.\n")


@app.command()
def show(letter: LetterId, *, at: Place) -> int:
    """Show a dead letter with what is needed to carry it out."""

    async def here(automation: Automation) -> Json:
        found = await automation.store.letters.find(letter)
        return {**LETTER.dump(found), "payload": dict(found.payload)}

    return _shown(_at(at, here, lambda client: client.dead_letters.show(letter)), as_json=at.as_json)


@app.command()
def replay(
    letter: LetterId,
    again: Annotated[bool, typer.Option("--again", help="As something new, under a new id.")] = False,
    *,
    at: Place,
) -> int:
    """Carry a dead letter out, under the id that it had, so that it happens once."""
    require_a_person()

    async def here(automation: Automation) -> Json:
        found = await automation.store.letters.find(letter)
        done = await automation.settle_letters.replay(found, by=owner_here(), again=again)
        return {**LETTER.dump(done), "payload": dict(done.payload)}

    done = _at(at, here, lambda client: client.dead_letters.replay(letter, again=again))
    return _shown(done, as_json=at.as_json)


@app.command()
def drop(letter: LetterId, *, at: Place) -> int:
    """Decide that a dead letter is not carried out."""
    require_a_person()

    async def here(automation: Automation) -> Json:
        found = await automation.settle_letters.drop(await automation.store.letters.find(letter), by=owner_here())
        return {**LETTER.dump(found), "payload": dict(found.payload)}

    return _shown(_at(at, here, lambda client: client.dead_letters.drop(letter)), as_json=at.as_json)


def _at(at: Place, here: Callable[[Automation], Awaitable[T]], there: "Callable[[FabricClient], Awaitable[T]]") -> T:
    async def go(place: LocalSchedules) -> T:
        done = await here(place.automation)
        await place.drive_created()
        return done

    return at_schedules(at, go, there)


def _line(letter: Json) -> str:
    at = moment(letter["created_at"])
    return (
        f"{plain(letter['id'][:8])}  {at}  {plain(letter['kind']):<12}  {plain(letter['source'])}  "
        f"{plain(letter['status'])}  {plain(letter['reason'])}\n"
    )


def _shown(letter: Json, *, as_json: bool) -> int:
    if as_json:
        print_json(letter)
        return COMPLETED
    sys.stdout.write(_line(letter))
    for key in ("settled_by", "outcome", "payload"):
        if letter.get(key):
            sys.stdout.write(f"  {key}: {plain(str(letter[key]))}\n")
    return COMPLETED
