"""`fabric dead`: what could not be carried out."""

from collections.abc import Sequence
from typing import Annotated

import typer

from agent_fabric.application.ports.automation import DeadLetter
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.interfaces.cli.automation.local_automation import LocalAutomation, opens
from agent_fabric.interfaces.cli.durations import moment
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Noun, Place
from agent_fabric.wire.automation import LETTER
from agent_fabric.wire.shape import Json

app = new_app("Look after what could not be carried out: list, show, replay, drop.")

LetterId = Annotated[str, typer.Argument(metavar="LETTER", help="The id of a dead letter, or the beginning of it.")]


class _LocalLetters:
    """The dead letters of a fabric folder."""

    def __init__(self, here: LocalAutomation) -> None:
        self._letters, self._join, self._drive_created = here.store.letters, here.join, here.drive_created

    async def list(self, *, everything: bool) -> Sequence[Json]:
        return [LETTER.dump(each) for each in await self._letters.list(limit=1_000, everything=everything)]

    async def show(self, letter: str) -> Json:
        return _with_payload(await self._letters.find(letter))

    async def replay(self, letter: str, *, again: bool) -> Json:
        settle = (await self._join()).settle_letters
        done = await settle.replay(await self._letters.find(letter), by=owner_here(), again=again)
        await self._drive_created()
        return _with_payload(done)

    async def drop(self, letter: str) -> Json:
        settle = (await self._join()).settle_letters
        return _with_payload(await settle.drop(await self._letters.find(letter), by=owner_here()))


_letters = Noun(opens(_LocalLetters), lambda client: client.dead_letters)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Include those that were settled.")] = False, *, at: Place
) -> int:
    """List dead letters, the newest first."""
    found = _letters(at, lambda letters: letters.list(everything=everything))
    return at.print(found, "".join(map(_line, found)) or "There are no dead letters.\n")


@app.command()
def show(letter: LetterId, *, at: Place) -> int:
    """Show a dead letter with what is needed to carry it out."""
    return _print(_letters(at, lambda letters: letters.show(letter)), at)


@app.command()
def replay(
    letter: LetterId,
    again: Annotated[bool, typer.Option("--again", help="As something new, under a new id.")] = False,
    *,
    at: Place,
) -> int:
    """Carry a dead letter out, under the id that it had, so that it happens once."""
    require_a_person()
    return _print(_letters(at, lambda letters: letters.replay(letter, again=again)), at)


@app.command()
def drop(letter: LetterId, *, at: Place) -> int:
    """Decide that a dead letter is not carried out."""
    require_a_person()
    return _print(_letters(at, lambda letters: letters.drop(letter)), at)


def _with_payload(letter: DeadLetter) -> Json:
    return {**LETTER.dump(letter), "payload": dict(letter.payload)}


def _line(letter: Json) -> str:
    return (
        f"{plain(letter['id'][:8])}  {moment(letter['created_at'])}  {plain(letter['kind']):<12}  "
        f"{plain(letter['source'])}  {plain(letter['status'])}  {plain(letter['reason'])}\n"
    )


def _print(letter: Json, at: Place) -> int:
    more = (f"  {key}: {plain(str(letter[key]))}\n" for key in ("settled_by", "outcome", "payload") if letter.get(key))
    return at.print(letter, _line(letter) + "".join(more))
