"""`fabric schedules`: what is started by itself, and why it was or was not."""

import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.plural import counted
from agent_fabric.interfaces.cli.automation.schedule_import import import_crontab
from agent_fabric.interfaces.cli.automation.schedule_places import at_schedules, planned_by, rule_from, with_schedules
from agent_fabric.interfaces.cli.automation.schedule_texts import (
    Target,
    line,
    moment_of,
    shown_in_full,
    told_firing,
    wish_from,
)
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Folder, Place
from agent_fabric.wire.shape import Json

app = new_app("Start things at set times: add, import, list, show, set, pause, resume, fire, backfill, why, ….")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name or id of a schedule.")]
Cron = Annotated[
    str | None, typer.Option("--cron", metavar="RULE", help="Minute, hour, day, month, weekday: '0 3 * * *'; @daily.")
]
Every = Annotated[str | None, typer.Option("--every", metavar="TIME", help="Instead: an interval, such as 90s or 5m.")]
Zone = Annotated[str | None, typer.Option("--timezone", metavar="ZONE", help="Such as Europe/Berlin.")]
Do = Annotated[str | None, typer.Option("--do", metavar="TASK", help="What is to be done, for an agent or a pack.")]
Workflow = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="The workflow that is run.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="The agent or pack that does it.")]
ChatIn = Annotated[
    str | None,
    typer.Option("--chat", metavar="SESSION", help="Say the task in a session: new, same, an id, or USER@CHANNEL."),
]
Node = Annotated[
    str | None, typer.Option("--node", metavar="MACHINE", help="Run --do as a command on a machine of the fleet.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="KEY=VALUE", help="An input; VALUE is JSON, or else text. Repeatable."),
]
More = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="KEY=VALUE",
        help="Another setting: misfire, overlap, on_doubt, max_late_s, max_catch_up, jitter_s, required_model, "
        "pause_after_failures, daily_runs, starts_at, ends_at. Repeatable.",
    ),
]


Write = Callable[[str, dict[str, Any], Place], Json]
"""Writes what was typed to a schedule, in a folder or at a server; returns the schedule."""


def _settings(write: Write) -> Callable[..., int]:
    """Return a command that takes the settings of a schedule. `add` and `set` differ in what they do with them."""

    def command(  # noqa: PLR0913, PLR0917 - what a schedule consists of
        name: Name,
        cron: Cron = None,
        every: Every = None,
        timezone: Zone = None,
        do: Do = None,
        workflow: Workflow = None,
        agent: Agent = None,
        chat: ChatIn = None,
        node: Node = None,
        inputs: Inputs = None,
        more: More = None,
        *,
        at: Place,
    ) -> int:
        require_a_person()
        wish = wish_from(cron, every, timezone, do, Target(workflow, agent, chat, node), inputs, more)
        _show(write(name, wish, at), as_json=at.as_json)
        return COMPLETED

    command.__doc__ = write.__doc__
    return command


def _add(name: str, wish: dict[str, Any], at: Place) -> Json:
    """Add a schedule. `fabric serve` fires it; so does `fabric schedules tick`."""
    wish = {**wish, "name": name}
    return at_schedules(at, lambda place: place.add(wish), lambda client: client.schedules.add(wish))


def _set(name: str, wish: dict[str, Any], at: Place) -> Json:
    """Change a schedule; the rest stays as it is. The next instant is computed from now."""
    if not wish:
        raise ConfigError("Nothing is to be changed", hint="Give what is, such as --cron '0 4 * * *'.")
    return at_schedules(
        at,
        lambda place: place.change(name, wish),
        lambda client: client.schedules.change(name, wish),
    )


app.command("add")(_settings(_add))
app.command("set")(_settings(_set))
app.command("import")(import_crontab)


@app.command("list")
def list_(*, at: Place) -> int:
    """List schedules, with what each does next and did last."""
    found = at_schedules(at, lambda place: place.list(), lambda client: client.schedules.list())
    return at.print(found, "".join(line(each) for each in found) or "There are no schedules.\n")


@app.command()
def show(name: Name, *, at: Place) -> int:
    """Show a schedule: its rule, the next five instants, and its last firings."""

    async def here(place: Any) -> tuple[Json, Sequence[Json]]:
        return await place.show(name), await place.firings(name, limit=5)

    async def there(client: Any) -> tuple[Json, Sequence[Json]]:
        return await client.schedules.show(name), await client.schedules.firings(name, limit=5)

    found, firings = at_schedules(at, here, there)
    return at.print({**found, "firings": firings}, shown_in_full(found, firings))


@app.command()
def pause(name: Name, *, at: Place) -> int:
    """Pause a schedule: it fires no more until it is resumed."""
    return _change(name, {"is_active": False}, at, as_json=at.as_json)


@app.command()
def resume(name: Name, *, at: Place) -> int:
    """Resume a schedule. What was due meanwhile is not made up for."""
    return _change(name, {"is_active": True}, at, as_json=at.as_json)


def _change(name: str, wish: dict[str, Any], at: Place, *, as_json: bool) -> int:
    require_a_person()
    _show(_set(name, wish, at), as_json=as_json)
    return COMPLETED


@app.command()
def remove(name: Name, *, at: Place) -> int:
    """Remove a schedule. What it has started goes on; its firings stay."""
    require_a_person()
    removed = at_schedules(at, lambda place: place.remove(name), lambda client: client.schedules.remove(name))
    return at.print(removed, f"The schedule {plain(removed['name'])} is removed.\n")


@app.command()
def fire(name: Name, *, at: Place) -> int:
    """Fire a schedule now. On this machine its run is seen through; a server sees to it by itself."""
    require_a_person()
    run_id = at_schedules(at, lambda place: place.fire(name), lambda client: client.schedules.fire(name))
    return at.print({"run_id": run_id}, f"run {run_id}\n")


@app.command()
def backfill(
    name: Name,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Beginning: 2026-11-01, or with a time.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="End.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take back what waits to be made up for.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which instants there are.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=10, help="Runs under way at a time.")] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="Start more than 100 runs without being asked.")] = False,
    *,
    at: Place,
) -> int:
    """Make up for the instants of a period that were not fired, one after another."""
    require_a_person()
    if withdraw:
        return _withdraw(name, at, as_json=at.as_json)
    if start is None or end is None:
        raise ConfigError("A backfill needs --from and --to", hint="Such as: --from 3d --to 1d.")
    wish: dict[str, Any] = {"dry_run": dry_run, "concurrency": concurrency, "confirmed": yes}

    async def go(schedules: Any) -> Json:
        zone = (await schedules.show(name))["timezone"]
        found: Json = await schedules.backfill(
            name, {**wish, "from": moment_of(start, zone), "to": moment_of(end, zone)}
        )
        return found

    done = at_schedules(at, go, lambda client: go(client.schedules))
    if at.as_json:
        print_json(done)
    else:
        verb = "would be" if dry_run else "are"
        already = f"; {len(done['already'])} were fired before" if done["already"] else ""
        sys.stdout.write(f"{counted(len(done['queued']), 'instant')} {verb} made up for{already}.\n")
    return COMPLETED


def _withdraw(name: str, at: Place, *, as_json: bool) -> int:
    done = at_schedules(at, lambda place: place.withdraw(name), lambda client: client.schedules.withdraw(name))
    if as_json:
        print_json(done)
    else:
        sys.stdout.write(f"{counted(done['withdrawn'], 'instant')} of {plain(done['name'])} are taken back.\n")
    return COMPLETED


@app.command()
def why(
    name: Name,
    instant: Annotated[
        str, typer.Option("--at", metavar="TIME", help="2026-11-17T03:00: in the schedule's zone; now, if not given.")
    ] = "",
    *,
    at: Place,
) -> int:
    """Say why a schedule did or did not do something at a time, from what was recorded."""
    when = instant or str(time.time())
    found = at_schedules(at, lambda place: place.why(name, when), lambda client: client.schedules.why(name, when))
    if at.as_json:
        return print_json(found)
    sys.stdout.write(f"{plain(found['answer'])}: {plain(found['text'])}\n")
    for key in ("before", "after"):
        if found.get(key) is not None:
            sys.stdout.write(f"  nearest {key}: {datetime.fromtimestamp(found[key], ZoneInfo('UTC')).isoformat()}\n")
    return COMPLETED


@app.command()
def simulate(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A schedule; or give a rule that is none yet.")
    ] = None,
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = None,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="The usual: now.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="The usual: a year later.")] = None,
    year: Annotated[int | None, typer.Option(min=1970, max=3000, help="Instead: a whole year.")] = None,
    *,
    at: Place,
) -> int:
    """Show when a schedule will be due, or a rule would be, and what is odd about it."""
    if year is not None:
        start, end = f"{year}-01-01", f"{year + 1}-01-01"
    rule = rule_from(cron, every, timezone, at.workspace)
    if (name is None) == (rule is None):
        raise ConfigError(
            "Name a schedule, or give a rule", hint="Such as: --cron '0 3 * * *' --timezone Europe/Berlin"
        )

    async def go(schedules: Any) -> Sequence[Json]:
        zone = (await schedules.show(name))["timezone"]
        found: Sequence[Json] = await schedules.simulate(name, moment_of(start, zone), moment_of(end, zone))
        return found

    if rule is not None:
        planned = planned_by(rule, moment_of(start, rule.timezone), moment_of(end, rule.timezone))
    else:
        planned = at_schedules(at, go, lambda client: go(client.schedules))
    if at.as_json:
        return print_json(planned)
    sys.stdout.write("".join(told_firing(each).lstrip() for each in planned))
    sys.stdout.write(f"{counted(len(planned), 'instant')}.\n")
    return COMPLETED


@app.command()
def tick(*, at: Folder) -> int:
    """Fire what is due, see the runs through, and exit: for the crontab of a machine without `fabric serve`."""
    started = with_schedules(at.workspace, lambda place: place.tick())
    return at.print({"runs": started}, "".join(f"run {run_id}\n" for run_id in started) or "Nothing is due.\n")


def _show(schedule: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(schedule)
    else:
        sys.stdout.write(line(schedule))
        for each in schedule.get("next", ()):
            sys.stdout.write(told_firing(each))
