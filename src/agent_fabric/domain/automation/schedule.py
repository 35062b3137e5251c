"""A schedule: what is started, when, and what happens if that is late or overlaps."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.automation.timing import BoundedTiming, CronTiming, EveryTiming, Timing, WallTimes, names_hours
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, InvalidInputs
from agent_fabric.domain.identity.ownership import LOCAL_OWNER

MIN_EVERY_S: Final = 1.0
MAX_EVERY_S: Final = 366 * 86_400.0
DEFAULT_MAX_LATE_S: Final = 86_400.0
DEFAULT_MAX_CATCH_UP: Final = 100
MAX_QUEUED: Final = 10
"""Firings of one schedule that wait for the run before."""
FILE_PREFIX: Final = "workflow:"
"""Begins the names of schedules that files of workflows declare."""
SET_BACK: Final = "clock set back"
"""Begins who changed a rule whose interval counts anew, because the clock was set back."""
_NAME: Final = re.compile(r"(?:workflow:)?[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_EVERY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d|w)?\s*", re.ASCII)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class TargetKind(StrEnum):
    """What a schedule starts."""

    WORKFLOW = "workflow"
    AGENT = "agent"
    """An agent or a pack, with an instruction."""
    CHAT = "chat"
    """A turn in a session."""
    CHANNEL = "channel"
    """A turn in the chat of a person on a channel, where its answer arrives."""
    NODE_COMMAND = "node_command"
    """A command on an enrolled machine."""


class Misfire(StrEnum):
    """What becomes of due instants that were missed."""

    SKIP = "skip"
    ONCE = "once"
    """The newest of them is made up for."""
    ALL = "all"
    """Each of them is made up for, one after another."""


class Overlap(StrEnum):
    """What becomes of a due instant while the run before is under way."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"
    """The run before is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a schedule is due. Each revision of a schedule keeps its own, so that the past can be explained."""

    cron_expression: str = ""
    every_s: float | None = None
    """Instead of a cron expression: seconds between two instants."""
    anchor: float = 0.0
    """An instant of the interval, which keeps its phase."""
    timezone: str = "UTC"
    starts_at: float | None = None
    ends_at: float | None = None

    def timing(self, read_cron: Callable[[str], WallTimes]) -> Timing:
        """Return the due instants.

        Raises:
            ConfigError: the expression or the zone cannot be read.
        """
        inner: Timing
        if self.every_s is not None:
            inner = EveryTiming(self.every_s, self.anchor)
        else:
            walls = read_cron(self.cron_expression)
            inner = CronTiming(walls, zone_of(self.timezone), names_hours(self.cron_expression))
        return BoundedTiming(inner, self.starts_at, self.ends_at)

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.every_s is not None:
            return f"every {shown_interval(self.every_s)}"
        return f"{self.cron_expression} ({self.timezone})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is started by itself, and when."""

    id: str
    name: str
    target_kind: TargetKind = TargetKind.AGENT
    target: str = ""
    """The workflow, the agent or pack, the channel or the machine; empty: the instruction decides."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    task_instruction: str = ""
    agent_id: str = ""
    required_model: str = ""
    rule: Rule
    misfire: Misfire = Misfire.ONCE
    overlap: Overlap = Overlap.SKIP
    on_doubt: OnDoubt = OnDoubt.ASK
    """What its runs do about a step that a crash has cut off: ask a person, skip it, or never have to ask."""
    max_late_s: float = DEFAULT_MAX_LATE_S
    max_catch_up: int = DEFAULT_MAX_CATCH_UP
    jitter_s: float = 0.0
    pause_after_failures: int = 5
    """Failed runs in a row after which it is paused; 0: never."""
    daily_runs: int | None = None
    """How many runs it may start on a day of its zone."""
    require_proof: bool = False
    """Whether its runs fail where nothing bears their result out."""
    max_cost: float | None = None
    """What the answers of models in one of its runs may cost; None: as configured."""
    is_active: bool = True
    paused_by: str = ""
    use_persistent_chat: bool = False
    chat_session_id: str = ""
    owner: str = LOCAL_OWNER
    requested_by: str = ""
    user_scopes: tuple[str, ...] = ()
    source: str = ""
    """The machine and file that declare it; empty: a person made it."""
    created_at: float = 0.0
    revision: int = 1
    next_at: float | None = None

    @property
    def is_said(self) -> bool:
        """Whether it is a turn of a session, which makes its own run."""
        return self.target_kind in (TargetKind.CHAT, TargetKind.CHANNEL)

    @property
    def is_from_file(self) -> bool:
        """Whether the file of a workflow declares it."""
        return self.name.startswith(FILE_PREFIX)

    def after_change(self, read_cron: Callable[[str], WallTimes], now: float) -> "Schedule":
        """Return the schedule with the next due instant after now; a change never makes up for the past.

        Raises:
            ConfigError: the rule cannot be read.
        """
        timing = self.rule.timing(read_cron)
        return replace(self, next_at=next(timing.after(now), None) if self.is_active else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVersion:
    """The rule of a schedule from some time on."""

    since: float
    revision: int
    rule: Rule
    is_active: bool = True
    changed_by: str = ""
    """Who changed it, paused it or removed it."""
    removed: bool = False


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of a name, such as `Europe/Berlin`.

    Raises:
        ConfigError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"There is no time zone {name[:60]!r}", hint="Use an IANA name such as Europe/Berlin, or UTC."
        ) from None


def interval_from(value: object) -> float:
    """Return the seconds of an interval: a number, or text such as `90s`, `5m`, `2h`, `1d`.

    Raises:
        ConfigError: it is none, or is out of range.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        found = _EVERY.fullmatch(str(value))
        if found is None:
            raise ConfigError(f"{str(value)[:60]!r} is no interval", hint="Write such as 90s, 5m, 2h or 1d.")
        seconds = float(found[1]) * _UNITS[found[2] or "s"]
    if not MIN_EVERY_S <= seconds <= MAX_EVERY_S:
        raise ConfigError("An interval is between one second and a year", hint="Write such as 90s, 5m, 2h or 1d.")
    return seconds


def shown_interval(seconds: float) -> str:
    """Return an interval in the largest unit that fits."""
    for unit in ("w", "d", "h", "m"):
        if seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


def require_name(name: str) -> str:
    """Check the name of a schedule.

    Raises:
        InvalidInputs: it cannot be one.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInputs(
            f"{name[:80]!r} cannot be the name of a schedule", hint="Use letters, digits, '-', '_' and '.'."
        )
    return name
