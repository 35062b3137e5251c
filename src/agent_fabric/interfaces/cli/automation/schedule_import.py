"""`fabric schedules import`: take over a crontab."""

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from agent_fabric.domain.automation.crontab import MAX_CHARACTERS
from agent_fabric.domain.automation.schedule import shown_interval
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.plural import counted
from agent_fabric.interfaces.cli.automation.schedule_places import at_schedules
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.wire.shape import Json

_ZONES = "zoneinfo/"


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
    done = at_schedules(
        at,
        lambda place: place.import_crontab(wish),
        lambda client: client.schedules.import_crontab(wish),
    )
    at.print(done, _shown(done))
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


def _shown(done: Json) -> str:
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
    lines.append(f"{counted(len(done['imported']), 'line')} {verb} schedules, {len(done['refused'])} not.")
    return "".join(plain(line) + "\n" for line in lines)
