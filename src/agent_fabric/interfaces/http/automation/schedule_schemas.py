"""Bodies of requests about schedules and dead letters."""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat, StringConstraints

from agent_fabric.domain.automation.crontab import MAX_CHARACTERS
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody

Name = Annotated[str, StringConstraints(max_length=200)]
Instruction = Annotated[str, StringConstraints(max_length=100_000)]
Seconds = Annotated[FiniteFloat, Field(ge=0, le=400 * 86_400)]
Moment = Annotated[FiniteFloat, Field(ge=0, le=32_503_680_000)]


class ScheduleChange(RequestBody, json_schema_extra={"examples": [{"cron_expression": "0 4 * * *"}]}):
    """What is changed of a schedule; the rest stays as it is. The next instant is computed from now."""

    cron_expression: Name | None = None
    """Minute, hour, day, month and weekday, such as `0 3 * * *`; or a shortcut such as `@daily`."""
    every: Annotated[FiniteFloat, Field(ge=1, le=31_622_400)] | Name | None = None
    """Instead of a cron expression: an interval, in seconds or such as `5m`."""
    timezone: Name | None = None
    """An IANA name such as `Europe/Berlin`; not set: `automation.timezone`."""
    target_kind: Name | None = None
    """`agent` (the usual), `workflow`, `chat`, `channel` or `node_command`."""
    target: Name | None = None
    """The workflow, the agent, the pack, or with `channel` such as `telegram`, or `ann@telegram`."""
    task_instruction: Instruction | None = None
    """What is to be done, for an agent or a pack."""
    inputs: dict[str, Any] | None = None
    """Inputs of the workflow or agent."""
    agent_id: Name | None = None
    """The pack that does it; not set: recruitment chooses."""
    required_model: Name | None = None
    """Key of the model that it needs."""
    misfire: Name | None = None
    """What becomes of missed instants: `skip`, `once` (the usual) or `all`."""
    overlap: Name | None = None
    """What happens while the run before is under way: `skip` (the usual), `queue` or `cancel`."""
    on_doubt: Name | None = None
    """What its runs do about a step that a crash has cut off: `ask` a person (the usual), `skip` it, or `retry`, for
    which every step of its workflow has to be idempotent."""
    max_late_s: Seconds | None = None
    """How late a missed instant may be made up for."""
    max_catch_up: Annotated[int, Field(ge=1, le=1_000), WHOLE] | None = None
    """How many missed instants are made up for at most, with `all`."""
    jitter_s: Seconds | None = None
    """Delays each firing by up to so many seconds, the same on every server."""
    pause_after_failures: Annotated[int, Field(ge=0, le=1_000), WHOLE] | None = None
    """Failed runs in a row after which it is paused; 0: never."""
    daily_runs: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = None
    """How many runs it may start on one day of its zone."""
    starts_at: Moment | None = None
    """Nothing is due before, in seconds since 1970."""
    ends_at: Moment | None = None
    """Nothing is due after."""
    is_active: bool | None = None
    """Whether it fires at all."""
    use_persistent_chat: bool | None = None
    """With `chat`: whether all turns go into one session."""
    chat_session_id: Name | None = None
    """With `chat`: the session."""


class ScheduleRequest(
    ScheduleChange,
    json_schema_extra={
        "examples": [
            {
                "name": "nightly",
                "cron_expression": "0 3 * * *",
                "timezone": "Europe/Berlin",
                "task_instruction": "Summarize what happened today.",
            }
        ]
    },
):
    """A new schedule."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    """How it is called; a schedule that is removed and made again does not fire an instant twice."""


class CrontabRequest(RequestBody, json_schema_extra={"examples": [{"crontab": "0 3 * * * fabric run 'Tidy up.'"}]}):
    """A crontab, whose lines become schedules."""

    crontab: Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)]
    """Its text, as `crontab -l` prints it."""
    timezone: Name | None = None
    """The zone of its times, unless it says so with `CRON_TZ`; not set: `automation.timezone`."""
    system: bool = False
    """Whether its lines name a user, as `/etc/crontab` does."""
    dry_run: bool = False
    """Whether only to tell what would become of it."""


class BackfillRequest(RequestBody, json_schema_extra={"examples": [{"from": 1_794_700_000, "to": 1_794_800_000}]}):
    """A period whose instants are made up for."""

    start: Annotated[Moment, Field(alias="from")]
    """Its beginning, in seconds since 1970."""
    to: Moment
    """Its end."""
    dry_run: bool = False
    """Whether only to tell what would be fired."""
    concurrency: Annotated[int, Field(ge=1, le=10), WHOLE] = 1
    """How many of the runs are under way at a time."""
    confirmed: bool = False
    """More than 100 instants need this."""


class ReplayRequest(RequestBody, json_schema_extra={"examples": [{"again": True}]}):
    """How a dead letter is carried out."""

    again: bool = False
    """Whether as something new, instead of under the id that it had."""


class SubscriptionRequest(
    RequestBody,
    json_schema_extra={
        "examples": [{"name": "ops", "url": "https://example.com/hook", "subjects": ["agent33.workflow.completed"]}]
    },
):
    """A receiver of messages."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=80, pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    """How it is called."""
    url: Annotated[str, StringConstraints(min_length=8, max_length=2_000, pattern="^https?://")]
    """Where messages are sent. Private addresses have to be listed in `web.allow_hosts`."""
    subjects: Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(min_length=1)]
    """Such as `agent33.workflow.completed`; `*` stands for one part, a final `>` for all that follow."""
    secret: Annotated[str, StringConstraints(max_length=200)] | None = None
    """Where the secret is that signs messages, such as `env:NAME`."""


class RotateRequest(RequestBody, json_schema_extra={"examples": [{"secret": "env:HOOK_SECRET_2"}]}):
    """The secret that signs from now on."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """Where it is, such as `env:NAME`."""
