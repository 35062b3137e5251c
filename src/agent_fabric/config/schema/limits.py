"""How much whoever asks over the network may ask for."""

import re
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, Field

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import SETTINGS

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


class RunLimitsConfig(BaseModel):
    """The most that anybody may ask of one run. What is not asked for is lowered to it."""

    model_config = SETTINGS

    max_steps: int | None = Field(default=None, ge=1, le=1000)
    """Model answers; not set: as many as may be asked for."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens read and written; not set: as `budget` says."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds spent in model and tool calls; not set: as `budget` says."""


class LimitsConfig(BaseModel):
    """What each who asks over the network may ask for; more is refused with status 429 and when to come again."""

    model_config = SETTINGS

    storage: Literal["memory", "sqlite"] = "memory"
    """Where it is counted: in `memory`, until the server stops; or with the runs, so that it outlives the server."""
    requests: RateText | None = "600/minute"
    """Requests of one user or key that read, and as many that change something; null: any number."""
    starts: RateText | None = "60/minute"
    """Runs that one user or key may start or resume; null: any number."""
    login: RateText | None = "10/minute"
    """Logins that may fail from one address; null: any number."""
    failures: RateText | None = "20/minute"
    """Wrong credentials that may come from one address; null: any number."""
    concurrent_runs: int | None = Field(default=16, ge=1)
    """Runs that one user or key may have under way at the same time; null: any number."""
    streams: int | None = Field(default=32, ge=1)
    """Streams of events that one user or key may have open at the same time; null: any number."""
    run: RunLimitsConfig = RunLimitsConfig()
    """The most that one run may be asked to use."""
    local: bool = False
    """Whether this holds for the local token, too, and wrong credentials from this machine count."""
