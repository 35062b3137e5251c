"""Schedules, their firings and explanations, and dead letters."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from agent_fabric.application.automation.backfill_schedule import Backfilled, Withdrawn
from agent_fabric.application.automation.explain_schedule import PlannedFiring
from agent_fabric.application.automation.import_crontab import CrontabImport, ImportedJob
from agent_fabric.application.ports.automation import DeadLetter, Noticed, SendOutcome
from agent_fabric.domain.automation.crontab import CrontabProblem
from agent_fabric.domain.automation.firing import AskedPerson, Firing
from agent_fabric.domain.automation.outgoing import Subscription
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.automation.why import Explanation
from agent_fabric.domain.ids import RunId
from agent_fabric.wire.shape import Listing, Shape


class SensorLine(NamedTuple):
    """A sensor that is armed, and what its last look has found."""

    name: str
    kind: str
    workflow: str
    subjects: Sequence[str]
    every_s: float
    looked_at: float | None
    reason: str


class ScheduleList(NamedTuple):
    """Some of the schedules, by name."""

    schedules: Sequence[Schedule]
    next: str | None
    """Where the list continues; null at its end."""


class SensorLook(NamedTuple):
    """What a look has found, and the runs that came of it."""

    name: str
    reason: str
    runs: Sequence[RunId]


FIRING = Shape(
    Firing,
    "due_at fired_at status run_id reason? late_s server? about? until_at count revision",
    name="ScheduleFiring",
    about="What became of a due instant, or of several in a row that were skipped.",
)
FIRINGS = Listing("firings", FIRING, name="FiringList", about="Firings, the newest first.")
PLANNED = Shape(PlannedFiring, "at local note?", name="PlannedFiring", about="An instant at which it will be due.")
ASKED_PERSON = Shape(
    AskedPerson,
    "run_id approval_id since expires_at decided_at decided_by?",
    name="ScheduleQuestion",
    about="What a run of a schedule asks a person. Answer it with `fabric approvals`, or under `/approvals/ID`.",
)
PLAN = Listing("planned", PLANNED, name="SchedulePlan", about="When it will be due, oldest first.")
SCHEDULE = Shape(
    Schedule,
    "id name target_kind target? inputs task_instruction? agent_id? required_model?"
    " cron_expression=rule.cron_expression? every=rule.every_s timezone=rule.timezone starts_at=rule.starts_at"
    " ends_at=rule.ends_at misfire overlap on_doubt max_late_s max_catch_up jitter_s pause_after_failures daily_runs"
    " require_proof max_cost"
    " is_active paused_by? use_persistent_chat chat_session_id? owner created_at revision next_at",
    name="ScheduleDetails",
    about="A schedule. Times are seconds since 1970.",
    also={
        "next?": Annotated[list[PlannedFiring], "The next five instants at which it is due."],
        "last?": Annotated[dict[str, Any] | None, "Its newest firing."],
        "queued?": Annotated[int, "Firings that wait: for the run before, for a model, or to be made up for."],
        "waits?": Annotated[AskedPerson | None, "What its run under way asks a person; null: nothing."],
    },
    parts=[PLANNED, ASKED_PERSON],
)
SCHEDULES = Shape(ScheduleList, parts=[SCHEDULE])
EXPLANATION = Shape(
    Explanation,
    "answer at text due_at reason? run_id fired_at late_s server? about? by? dead_from dead_until before after rule?"
    " revision approval_id? waits_since timezone",
    name="ScheduleExplanation",
    about="Why a schedule did or did not do something at a time.",
)
WITHDRAWN = Shape(Withdrawn, name="WithdrawnBackfill")
BACKFILL = Shape(Backfilled, name="Backfill", about="The instants that a backfill makes up for, in seconds since 1970.")
IMPORTED = Shape(
    ImportedJob,
    "line name=schedule.name target_kind=schedule.target_kind target=schedule.target?"
    " cron_expression=schedule.rule.cron_expression? every=schedule.rule.every_s timezone=schedule.rule.timezone"
    " next_at=schedule.next_at note?",
    name="ImportedSchedule",
    about="A line of a crontab that became a schedule.",
)
REFUSED = Shape(CrontabProblem, name="RefusedLine", about="A line of a crontab that became no schedule.")
CRONTAB = Shape(CrontabImport, name="CrontabImport", parts=[IMPORTED, REFUSED])
LETTER = Shape(
    DeadLetter,
    "id kind source reason created_at status settled_by? settled_at outcome?",
    name="DeadLetter",
    about="Something that could not be carried out.",
    also={"payload?": Annotated[dict[str, Any], "What is needed to carry it out."]},
)
LETTERS = Listing("dead_letters", LETTER, name="DeadLetterList", about="Dead letters, the newest first.")
SENSOR = Shape(SensorLine, "name kind workflow subjects every_s looked_at reason?", name="SensorDetails")
SENSORS = Listing("sensors", SENSOR, name="SensorList", about="Sensors that are armed, by name.")
LOOKED = Shape(SensorLook, name="SensorLook")
NOTICED = Shape(Noticed, "key at run_id reason? depth", name="Happening", about="Something that a sensor noticed.")
NOTICED_LIST = Listing("happenings", NOTICED, name="HappeningList", about="What a sensor noticed, the newest first.")
SUBSCRIPTION = Shape(
    Subscription,
    "name subjects url secret? old_until is_active disabled_because? failing_since owner created_at",
    name="SubscriptionDetails",
)
SUBSCRIPTIONS = Listing("subscriptions", SUBSCRIPTION, name="SubscriptionList", about="Receivers of messages, by name.")
SEND_OUTCOME = Shape(SendOutcome, "status problem?", name="SendOutcome")
