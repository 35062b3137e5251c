"""`fabric schedules`: what is started by itself, and why it was or was not."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from agent_fabric.domain.automation.crontab import MAX_CHARACTERS
from agent_fabric.domain.automation.schedule import shown_interval
from agent_fabric.domain.automation.timing import shown_instant
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.cli.automation.local_automation import SCHEDULES, Schedules, planned_by, rule_from
from agent_fabric.interfaces.cli.automation.schedule_texts import (
    Target,
    firing_line,
    line,
    moment_of,
    shown_in_full,
    wish_from,
)
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Folder, Place, work_within
from agent_fabric.wire.shape import Json

_ZONES = "zoneinfo/"
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
        "pause_after_failures, daily_runs, require_proof, max_cost, starts_at, ends_at. Repeatable.",
    ),
]


Write = Callable[[str, dict[str, Any], Place], Json]
"""Writes what was typed to a schedule; returns the schedule."""


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
        return _print(write(name, wish, at), at)

    command.__doc__ = write.__doc__
    return command


def _add(name: str, wish: dict[str, Any], at: Place) -> Json:
    """Add a schedule. `fabric serve` fires it; so does `fabric schedules tick`."""
    return SCHEDULES(at, lambda schedules: schedules.add({**wish, "name": name}))


def _set(name: str, wish: dict[str, Any], at: Place) -> Json:
    """Change a schedule; the rest stays as it is. The next instant is computed from now."""
    if not wish:
        raise ConfigError("Nothing is to be changed", hint="Give what is, such as --cron '0 4 * * *'.")
    return SCHEDULES(at, lambda schedules: schedules.change(name, wish))


app.command("add")(_settings(_add))
app.command("set")(_settings(_set))


@app.command("import")
def import_crontab(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A crontab; `-`: standard input, as of `crontab -l`.")],
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Zone of its times; the usual: this machine's.")
    ] = None,
    system: Annotated[bool, typer.Option("--system", help="Its lines name a user, as in /etc/crontab.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would become of it.")] = False,
    *,
    at: Place,
) -> int:
    """Take over a crontab. A line that calls `fabric` becomes what it calls, any other a workflow of one command.

    What cannot be taken over is listed with the reason. Once imported, remove the lines from the crontab.
    """
    require_a_person()
    wish = {"crontab": _read(file), "timezone": timezone or zone_here(), "system": system, "dry_run": dry_run}
    done = SCHEDULES(at, lambda schedules: schedules.import_crontab(wish))
    at.print(done, _text(done))
    return FAILED if done["refused"] else COMPLETED


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read(4 * MAX_CHARACTERS) if file == "-" else Path(file).expanduser().read_bytes()
    except OSError as problem:
        raise ConfigError(f"{file!r} cannot be read: {problem.strerror}", hint="Or: crontab -l | … -") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def zone_here() -> str:
    """Return the time zone of this machine, in which its cron counts."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named
    link = os.path.realpath("/etc/localtime")
    if _ZONES in link:
        return link.rpartition(_ZONES)[2]
    try:
        return Path("/etc/timezone").read_text(encoding="utf-8").strip() or "UTC"
    except OSError:
        return "UTC"


def _text(done: Json) -> str:
    lines = []
    for each in done["imported"]:
        rule = f"every {shown_interval(each['every'])}" if each["every"] is not None else each["cron_expression"]
        at = each["next_at"]
        zone = ZoneInfo(each["timezone"])
        due = "never" if at is None else datetime.fromtimestamp(at, zone).isoformat(timespec="seconds")
        target = f"  {each['target']}" if each["target"] else ""
        lines.append(f"line {each['line']}: {each['name']}  {rule} ({each['timezone']})  next {due}{target}")
        if each.get("note"):
            lines.append(f"    does not run by itself: {each['note']}")
    for each in done["refused"]:
        lines += [f"line {each['line']}: not taken over: {each['reason']}", f"    {each['text']}"]
    verb = "would be" if done["dry_run"] else "are"
    lines.append(f"{count_of(len(done['imported']), 'line')} {verb} schedules, {len(done['refused'])} not.")
    return "".join(plain(line) + "\n" for line in lines)


@app.command("list")
def list_(*, at: Place) -> int:
    """List schedules, with what each does next and did last."""
    found = SCHEDULES(at, lambda schedules: schedules.list())
    return at.print(found, "".join(line(each) for each in found) or "There are no schedules.\n")


@app.command()
def show(name: Name, *, at: Place) -> int:
    """Show a schedule: its rule, the next five instants, and its last firings."""

    async def read(schedules: Schedules) -> tuple[Json, Sequence[Json]]:
        return await schedules.show(name), await schedules.firings(name, limit=5)

    found, firings = SCHEDULES(at, read)
    return at.print({**found, "firings": firings}, shown_in_full(found, firings))


@app.command()
def pause(name: Name, *, at: Place) -> int:
    """Pause a schedule: it fires no more until it is resumed."""
    require_a_person()
    return _print(_set(name, {"is_active": False}, at), at)


@app.command()
def resume(name: Name, *, at: Place) -> int:
    """Resume a schedule. What was due meanwhile is not made up for."""
    require_a_person()
    return _print(_set(name, {"is_active": True}, at), at)


@app.command()
def remove(name: Name, *, at: Place) -> int:
    """Remove a schedule. What it has started goes on; its firings stay."""
    require_a_person()
    removed = SCHEDULES(at, lambda schedules: schedules.remove(name))
    return at.print(removed, f"The schedule {plain(removed['name'])} is removed.\n")


@app.command()
def fire(name: Name, *, at: Place) -> int:
    """Fire a schedule now. On this machine its run is seen through; a server sees to it by itself."""
    require_a_person()
    run_id = SCHEDULES(at, lambda schedules: schedules.fire(name))
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
        taken = SCHEDULES(at, lambda schedules: schedules.withdraw(name))
        return at.print(taken, f"{count_of(taken['withdrawn'], 'instant')} of {plain(taken['name'])} are taken back.\n")
    if start is None or end is None:
        raise ConfigError("A backfill needs --from and --to", hint="Such as: --from 3d --to 1d.")
    wish: dict[str, Any] = {"dry_run": dry_run, "concurrency": concurrency, "confirmed": yes}

    async def go(schedules: Schedules) -> Json:
        zone = (await schedules.show(name))["timezone"]
        return await schedules.backfill(name, {**wish, "from": moment_of(start, zone), "to": moment_of(end, zone)})

    done = SCHEDULES(at, go)
    verb = "would be" if dry_run else "are"
    already = f"; {len(done['already'])} were fired before" if done["already"] else ""
    return at.print(done, f"{count_of(len(done['queued']), 'instant')} {verb} made up for{already}.\n")


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
    found = SCHEDULES(at, lambda schedules: schedules.why(name, when))
    nearest = [
        f"  nearest {key}: {shown_instant(found[key], found['timezone'])}\n"
        for key in ("before", "after")
        if found.get(key) is not None
    ]
    answer = "future" if found["reason"] == "future" else plain(found["answer"])
    return at.print(found, f"{answer}: {plain(found['text'])}\n" + "".join(nearest))


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
    rule = rule_from(cron, every, timezone, at)
    if (name is None) == (rule is None):
        raise ConfigError(
            "Name a schedule, or give a rule", hint="Such as: --cron '0 3 * * *' --timezone Europe/Berlin"
        )

    async def go(schedules: Schedules) -> Sequence[Json]:
        known = name or ""
        zone = (await schedules.show(known))["timezone"]
        return await schedules.simulate(known, moment_of(start, zone), moment_of(end, zone))

    if rule is not None:
        planned = planned_by(rule, moment_of(start, rule.timezone), moment_of(end, rule.timezone))
    else:
        planned = SCHEDULES(at, go)
    lines = [firing_line(each).lstrip() for each in planned]
    return at.print(planned, "".join(lines) + f"{count_of(len(planned), 'instant')}.\n")


@app.command()
def tick(*, at: Folder) -> int:
    """Fire what is due, see the runs through, and exit: for the crontab of a machine without `fabric serve`."""
    started = work_within(SCHEDULES.here(at), lambda schedules: schedules.tick())
    return at.print({"runs": started}, "".join(f"run {run_id}\n" for run_id in started) or "Nothing is due.\n")


def _print(schedule: Json, at: Place) -> int:
    return at.print(schedule, line(schedule) + "".join(map(firing_line, schedule.get("next", ()))))
