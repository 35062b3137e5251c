"""Schedules: what is started by itself, and why it was or was not."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import Field, FiniteFloat, StringConstraints
from starlette.responses import Response

from agent_fabric.application.automation.backfill_schedule import Backfilled, Withdrawn
from agent_fabric.application.automation.explain_schedule import PlannedFiring
from agent_fabric.application.automation.import_crontab import CrontabImport
from agent_fabric.application.runs.start_run import StartRequest, StartRun
from agent_fabric.bootstrap.automation import Automation
from agent_fabric.domain.automation.crontab import MAX_CHARACTERS
from agent_fabric.domain.automation.firing import Firing
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.automation.why import Explanation
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody
from agent_fabric.interfaces.http.routing import Answerer, Routes
from agent_fabric.interfaces.http.schemas import CostLimit
from agent_fabric.interfaces.views.automation import schedule_object, schedule_objects
from agent_fabric.wire.automation import BACKFILL, CRONTAB, EXPLANATION, FIRINGS, PLAN, SCHEDULE, SCHEDULES, WITHDRAWN
from agent_fabric.wire.runs import STATUS

Name = Annotated[str, StringConstraints(max_length=200)]
Instruction = Annotated[str, StringConstraints(max_length=100_000)]
Seconds = Annotated[FiniteFloat, Field(ge=0, le=400 * 86_400)]
Moment = Annotated[FiniteFloat, Field(ge=0, le=32_503_680_000)]


class ScheduleChange(RequestBody, example={"cron_expression": "0 4 * * *"}):
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
    require_proof: bool | None = None
    """Whether its runs fail, as `result_unproven`, where nothing bears their result out."""
    max_cost: CostLimit | None = None
    """What the answers of models in one of its runs may cost; null: as configured."""
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
    example={
        "name": "nightly",
        "cron_expression": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "task_instruction": "Summarize what happened today.",
    },
):
    """A new schedule."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    """How it is called; a schedule that is removed and made again does not fire an instant twice."""


class CrontabRequest(RequestBody, example={"crontab": "0 3 * * * fabric run 'Tidy up.'"}):
    """A crontab, whose lines become schedules."""

    crontab: Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)]
    """Its text, as `crontab -l` prints it."""
    timezone: Name | None = None
    """The zone of its times, unless it says so with `CRON_TZ`; not set: `automation.timezone`."""
    system: bool = False
    """Whether its lines name a user, as `/etc/crontab` does."""
    dry_run: bool = False
    """Whether only to tell what would become of it."""


class BackfillRequest(RequestBody, example={"from": 1_794_700_000, "to": 1_794_800_000}):
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


class ReplayRequest(RequestBody, example={"again": True}):
    """How a dead letter is carried out."""

    again: bool = False
    """Whether as something new, instead of under the id that it had."""


class SubscriptionRequest(
    RequestBody, example={"name": "ops", "url": "https://example.com/hook", "subjects": ["agent33.workflow.completed"]}
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


class RotateRequest(RequestBody, example={"secret": "env:HOOK_SECRET_2"}):
    """The secret that signs from now on."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """Where it is, such as `env:NAME`."""


BASE = "/api/v1/schedules"
ONE = f"{BASE}/{{name}}"
NamePath = Annotated[str, Path(max_length=200, description="The name or the id of a schedule.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Most firings to list.")]
Before = Annotated[float | None, Query(description="Only those that were due before, in seconds since 1970.")]
At = Annotated[
    str, Query(max_length=60, description="ISO 8601, or seconds since 1970; without an offset, in the schedule's zone.")
]
From = Annotated[float | None, Query(alias="from", ge=0, le=32_503_680_000, description="The usual: now.")]
To = Annotated[float | None, Query(ge=0, le=32_503_680_000, description="The usual: a year later.")]
PageLimit = Annotated[int, Query(ge=1, le=1_000, description="Most schedules on one page.")]
After = Annotated[str, Query(max_length=200, description="Where the page before ended; take it from `next`.")]
Words = Annotated[str, Query(max_length=200, description="Only those in whose name, target or task this stands.")]
Count = Annotated[int, Query(ge=1, le=100, description="How many instants to return.")]


def add_schedules(routes: Routes, automation: Automation, start_run: StartRun) -> None:
    """Add the routes. Each calls one use case, the same that the command line calls."""
    _add_reading(routes.below(BASE), automation)
    _add_changing(routes.below(BASE), automation, start_run)
    _add_firing(routes.below(ONE), automation, start_run)


def _add_reading(routes: Routes, automation: Automation) -> None:
    find, explain = automation.find, automation.explain

    @routes.get("", Scope.RUNS_READ, "List schedules", SCHEDULES)
    async def list_schedules(by: Principal, limit: PageLimit = 200, after: After = "", q: Words = "") -> Response:
        """One's own and, where runs are shared with the team, those of others."""
        found = await find.list(by=by, words=q.strip(), after=after, limit=limit + 1)
        shown = await schedule_objects(found[:limit], explain)
        return json_answer({"schedules": shown, "next": found[limit - 1].name if len(found) > limit else None})

    @routes.post("/preview", Scope.RUNS_READ, "Show when a rule would be due", PLAN)
    async def preview(
        wish: ScheduleChange, count: Count = 5, start: From = None, to: To = None
    ) -> Iterable[PlannedFiring]:
        """Nothing is kept. Odd instants, such as those that day-light saving moves, say so; `to`: all until then."""
        draft = automation.manage.draft(wish.model_dump(exclude_unset=True))
        if to is not None:
            return explain.simulate(draft.rule, draft.created_at if start is None else start, to)
        return explain.upcoming(draft.rule, draft.created_at, count)

    @routes.get("/{name}", Scope.RUNS_READ, "Show a schedule", SCHEDULE, fails=[404])
    async def show(name: NamePath, by: Principal) -> Response:
        """With the next five instants, and what became of the newest one."""
        return json_answer(await schedule_object(await find(name, by=by), explain))

    @routes.get("/{name}/firings", Scope.RUNS_READ, "List the firings of a schedule", FIRINGS, fails=[404])
    async def firings(name: NamePath, by: Principal, limit: Limit = 50, before: Before = None) -> Iterable[Firing]:
        """What became of each due instant, the newest first."""
        found = await find(name, by=by)
        return await automation.store.history.firings(found.name, limit=limit, before=before)

    @routes.get("/{name}/why", Scope.RUNS_READ, "Explain what a schedule did at a time", EXPLANATION, fails=[404])
    async def why(name: NamePath, at: At, by: Principal) -> Explanation:
        """Answer from the log: fired, skipped, not due, moved by day-light saving, or no server was alive."""
        return await explain(await find.find_name(name, by=by), at)

    @routes.get("/{name}/simulate", Scope.RUNS_READ, "Show when a schedule will be due", PLAN, fails=[404])
    async def simulated(name: NamePath, by: Principal, start: From = None, to: To = None) -> Iterable[PlannedFiring]:
        """At most 20,000 instants, each with what is odd about it."""
        return explain.simulate((await find(name, by=by)).rule, start, to)


def _add_changing(routes: Routes, automation: Automation, start_run: StartRun) -> None:
    find, manage, explain = automation.find, automation.manage, automation.explain

    @routes.post("", Scope.RUNS, "Add a schedule", SCHEDULE, status=201, fails=[404, 409, 503, 507])
    async def add(wish: ScheduleRequest, by: Answerer) -> Response:
        """It fires from now on. Its runs belong to the caller, with the rights that the caller has now."""
        start_run.require_store()
        made = await manage.add(wish.model_dump(exclude_unset=True), by=by)
        return json_answer(await schedule_object(made, explain), 201, {"location": f"{BASE}/{made.id}"})

    @routes.post("/import", Scope.RUNS, "Take over a crontab", CRONTAB, status=201, fails=[503, 507])
    async def import_crontab(wish: CrontabRequest, by: Answerer) -> CrontabImport:
        """Each line becomes a schedule, or is listed with the reason why not. Commands need an admin."""
        start_run.require_store()
        return await automation.import_crontab(
            wish.crontab, by=by, timezone=wish.timezone or "", system=wish.system, dry_run=wish.dry_run
        )

    async def change(by: Principal, name: str, wish: dict[str, Any]) -> Response:
        changed = await manage.change(await find(name, by=by), wish, by=by)
        return json_answer(await schedule_object(changed, explain))

    @routes.patch("/{name}", Scope.RUNS, "Change a schedule", SCHEDULE, fails=[404, 409, 503, 507])
    async def set_(wish: ScheduleChange, name: NamePath, by: Answerer) -> Response:
        """The next instant is computed from now; what was missed before is not made up for."""
        return await change(by, name, wish.model_dump(exclude_unset=True))

    @routes.post("/{name}/pause", Scope.RUNS, "Pause a schedule", SCHEDULE, fails=[404, 503, 507])
    async def pause(name: NamePath, by: Answerer) -> Response:
        """It fires no more, until it is resumed."""
        return await change(by, name, {"is_active": False})

    @routes.post("/{name}/resume", Scope.RUNS, "Resume a schedule", SCHEDULE, fails=[404, 503, 507])
    async def resume(name: NamePath, by: Answerer) -> Response:
        """It fires from now on; what was due meanwhile is not made up for."""
        return await change(by, name, {"is_active": True})

    @routes.delete("/{name}", Scope.RUNS, "Remove a schedule", SCHEDULE, fails=[404, 503, 507])
    async def remove(name: NamePath, by: Answerer) -> Schedule:
        """What it has started goes on. Its firings stay."""
        found = await find(name, by=by)
        await manage.remove(found, by=by)
        return found


def _add_firing(routes: Routes, automation: Automation, start_run: StartRun) -> None:
    find = automation.find

    @routes.post("/fire", Scope.RUNS, "Fire a schedule now", STATUS, status=202, fails=[404, 409, 503, 507])
    async def fire(name: NamePath, by: Answerer) -> Response:
        """Whatever its rule says, and also while it is paused."""
        found = await find(name, by=by)
        await start_run.admit(StartRequest(by))
        run_id = await automation.manage.fire(found, by=by)
        return json_answer({"run_id": run_id, "status": "running"}, 202, {"location": f"/runs/{run_id}"})

    @routes.post("/backfill", Scope.RUNS, "Make up for a period", BACKFILL, status=202, fails=[404, 503, 507])
    async def backfill(wish: BackfillRequest, name: NamePath, by: Answerer) -> Backfilled:
        """Queue every instant of the period that was not fired; they are started one after another."""
        found = await find(name, by=by)
        await start_run.admit(StartRequest(by))
        confirmed, at_once = wish.confirmed, wish.concurrency
        return await automation.backfill(
            found, wish.start, wish.to, by=by, dry_run=wish.dry_run, at_once=at_once, confirmed=confirmed
        )

    @routes.delete("/backfill", Scope.RUNS, "Take back a backfill", WITHDRAWN, fails=[404, 503, 507])
    async def withdraw(name: NamePath, by: Answerer) -> Withdrawn:
        """What waits to be made up for is skipped. Runs that were started go on."""
        return await automation.backfill.withdraw(await find(name, by=by), by=by)
