"""Cron expressions, read by cronsim: times on the wall, without any zone."""

import zoneinfo
from collections.abc import Iterator
from datetime import datetime

from cronsim import CronSim, CronSimError

from agent_fabric.domain.automation.timing import WallTimes, plain_expression
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.workflows.checks.triggers import cron_problem


@dataclass(frozen=True, slots=True)
class CronWalls:
    """WallTimes of one expression.

    cronsim's own care for day-light saving leaves out some expressions, so it is given times without a zone.
    """

    expression: str

    def __call__(self, after: datetime) -> Iterator[datetime]:
        return CronSim(self.expression, after)


def read_cron(expression: str) -> WallTimes:
    """Return the times of a cron expression with five fields, or of a shortcut such as `@daily`.

    Raises:
        ConfigError: it is none, or it is never due.
    """
    shown = expression.strip()[:60]
    problem = cron_problem(expression.strip().lower())
    plain = plain_expression(expression)
    if not problem:
        try:
            next(CronSim(plain, datetime(2024, 1, 1)), None)  # noqa: DTZ001 - on the wall
        except CronSimError as wrong:
            problem = str(wrong).lower()
    if problem:
        raise ConfigError(
            f"{shown!r} is no cron expression: {problem}",
            hint="Write minute, hour, day, month and weekday, as in: 0 3 * * * (every night at three)",
        )
    return CronWalls(plain)


def use_own_zones() -> str:
    """Read zones from the package from now on, in this process; return its version."""
    from importlib.metadata import version  # noqa: PLC0415 - takes its time, and lists fire nothing

    zoneinfo.reset_tzpath(to=())
    return version("tzdata")
