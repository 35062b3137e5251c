"""Per-caller limits of the server."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings
from agent_fabric.config.schema.values import SECTION, matching

_RATE: Final = re.compile(r"([1-9][0-9]{0,8}) ?/ ?(?:([1-9][0-9]{0,3}) ?)?(second|minute|hour|day)s?")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}


class Often(NamedTuple):
    """A rate in numbers."""

    amount: int
    per_s: int


def how_often(text: str) -> Often:
    """Read a rate such as `600/minute` or `100/5 minutes`.

    Raises:
        ConfigProblem: it is none.
    """
    found = _RATE.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigProblem(
            "must be a number and a time, such as '600/minute' or '100/5 minutes'",
            hint="Times are second, minute, hour and day.",
        )
    amount, times, unit = found.groups()
    return Often(int(amount), int(times or 1) * _SECONDS[unit])


def _rate(text: str) -> str:
    how_often(text)
    return text


RateText = Annotated[str, AfterValidator(_rate)]
"""So many in such a time: `600/minute`."""

Endpoint = Annotated[
    str,
    matching(
        r"(GET|POST|PUT|PATCH|DELETE) /(?:[A-Za-z0-9._~-]+|\{[a-z_]+\}|\*)?(?:/(?:[A-Za-z0-9._~-]+|\{[a-z_]+\}|\*))*",
        "must be a method and a path, such as 'POST /run' or 'GET /runs/{run_id}/events'",
        hint="A part in braces, or *, stands for any one part. The paths are in docs/reference/http.md.",
    ),
]
"""A method and a path: `POST /run`, `GET /runs/{run_id}`."""


class RunLimitsConfig(Settings):
    """Maximum budget of one run. A request without a budget is lowered to it."""

    max_steps: int | None = Field(default=None, ge=1, le=1000)
    """Model answers; not set: as many as may be asked for."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens read and written; not set: as `budget` says."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds spent in model and tool calls; not set: as `budget` says."""
    max_cost: float | None = Field(default=None, gt=0, le=1_000_000_000)
    """What the answers of models with a price may cost together; not set: as `budget` says."""


class LimitsConfig(Settings):
    """Per-caller limits. A request beyond them gets status 429 and a `Retry-After` header."""

    storage: Literal["memory", "sqlite", "redis"] = "memory"
    """Where it is counted: in `memory`, until the server stops; `sqlite`, with the runs, so that it outlives the
    server; or in `redis`, exactly, for all servers that use the same one."""
    requests: RateText | None = "600/minute"
    """Requests of one user or key that read, and as many that change something; null: any number."""
    starts: RateText | None = "60/minute"
    """Runs that one user, key or webhook may start or resume, through whichever door; null: any number."""
    endpoints: Mapping[Endpoint, RateText] = {}
    """Further rates for single endpoints, counted for each user or key and endpoint: `"POST /run": 10/minute`,
    `"GET /runs/{run_id}/events": 100/minute`. They hold beside `requests` and `starts`."""
    login: RateText | None = "10/minute"
    """Logins that may fail from one address; null: any number."""
    failures: RateText | None = "20/minute"
    """Wrong credentials that may come from one address; null: any number."""
    concurrent_runs: int | None = Field(default=16, ge=1)
    """Runs that one user or key may have under way at the same time; null: any number."""
    streams: int | None = Field(default=32, ge=1)
    """Streams of events that one user or key may have open at the same time; null: any number."""
    run: RunLimitsConfig = SECTION
    """The most that one run may be asked to use."""
    local: bool = False
    """Whether this holds for the local token, too, and wrong credentials from this machine count."""
