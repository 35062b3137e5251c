"""Plans: one call on many machines, approved as a whole, rolled out in waves."""

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_fabric.application.fleet.apply_plan import PlanOrder
from agent_fabric.application.fleet.ask_with_run import Caller
from agent_fabric.application.runs.start_run import StartRun
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlanStatus
from agent_fabric.domain.fleet.protocol import MAX_LIFETIME_S
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import WHOLE, LenientBody
from agent_fabric.interfaces.http.fleet.node_schemas import SELECTOR
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.runs.starting import start_for
from agent_fabric.wire.plans import ASKED_PLAN, PLAN, PLANS, AskedPlan

BASE: Final = "/api/v1/fleet/plans"
ONE: Final = f"{BASE}/{{plan_id}}"
PlanPath = Annotated[str, Path(description="The id of a plan.", max_length=64)]


class PlanRequest(
    LenientBody, example={"selector": "role=web", "tool_name": "run_command", "arguments": {"command": "uptime"}}
):
    """One call on many machines."""

    selector: Annotated[str, StringConstraints(pattern=SELECTOR, max_length=500)]
    tool_name: Annotated[str, StringConstraints(max_length=100)] = "run_command"
    arguments: dict[str, Any] = Field(default={})
    name: Annotated[str, StringConstraints(max_length=200)] = ""
    canary: Annotated[int, Field(strict=True, ge=0, le=1_000), WHOLE] = 1
    """How many machines go first."""
    waves: Annotated[list[str], Field(min_length=1, max_length=20)] = Field(default=["10%", "50%", "100%"])
    max_errors: Annotated[int, Field(strict=True, ge=0, le=100_000), WHOLE] = 0
    """One more halts the plan."""
    pause_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.0
    """Between waves."""
    on_offline: Literal["skip", "queue", "fail"] = "skip"
    check: Annotated[str, StringConstraints(max_length=4_000)] = ""
    """A command that only reads, and must succeed on each machine after the call."""
    expires_in_s: Annotated[float, Field(strict=True, gt=0, le=MAX_LIFETIME_S, allow_inf_nan=False)] = MAX_LIFETIME_S


def add_fleet_plans(routes: Routes, fleet: Fleet, start: StartRun) -> None:
    """Add the routes."""
    one, fails = routes.below(ONE), [404, 409, 503, 507]

    @routes.post(BASE, Scope.NODES, "Freeze a plan", PLAN, status=201, fails=fails)
    async def freeze(wish: PlanRequest, by: Principal, request: Request) -> Plan:
        """Nodes, exact calls, versions and limits are written down; nothing is sent before the plan is applied."""
        if too_deep(wish.arguments, await request.body()):
            raise InvalidInputs("The arguments are nested too deep")
        return await fleet.freeze(
            PlanOrder(
                selector=wish.selector,
                tool_name=wish.tool_name,
                arguments=wish.arguments,
                by=by.name,
                name=wish.name,
                canary=wish.canary,
                waves=wish.waves,
                max_errors=wish.max_errors,
                pause_s=wish.pause_s,
                on_offline=OnOffline(wish.on_offline),
                lifetime_s=wish.expires_in_s,
                check=wish.check,
            )
        )

    @routes.get(BASE, Scope.RUNS_READ, "List plans", PLANS)
    async def plans(limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Iterable[Plan]:
        """Plans, the newest first."""
        return await fleet.plans.list(limit=limit)

    @one.get("", Scope.RUNS_READ, "Show a plan", PLAN, fails=[404])
    async def show(plan_id: PlanPath) -> Plan:
        """What was frozen, and how far it has come."""
        return await fleet.roll_out.find(plan_id)

    @one.post(
        "/apply",
        Scope.NODES,
        "Apply a plan",
        ASKED_PLAN,
        also=gives(ASKED_PLAN, status=202, text="It waits for a person: see `approval_id`."),
        fails=fails,
    )
    async def apply(plan_id: PlanPath, by: Principal, request: Request) -> Response:
        """One approval shows all of it. Where nothing changes anything, it begins at once."""
        plan, approval_id = await fleet.apply(plan_id, Caller(by, partial(start_for, start, request)))
        told = AskedPlan(plan.id, plan.status.value, plan.hash, approval_id, plan.run_id)
        return json_answer(ASKED_PLAN.dump(told), 202 if approval_id else 200)

    def add_change(word: str, summary: str, text: str, status: PlanStatus, since: tuple[PlanStatus, ...]) -> None:
        async def change(plan_id: PlanPath, by: Principal) -> Plan:
            return await fleet.roll_out.change(plan_id, status, since=since, note=f"{word} by {by.name}")

        change.__doc__ = text
        one.post(f"/{word}", Scope.NODES, summary, PLAN, fails=fails)(change)

    running, halted, waiting = PlanStatus.RUNNING, PlanStatus.HALTED, PlanStatus.WAITING
    add_change("halt", "Halt a plan", "Nothing more is sent, within a second.", halted, (running,))
    add_change("resume", "Resume a plan", "It goes on in the same wave.", running, (halted,))
    add_change("abort", "Abort a plan", "For good.", PlanStatus.ABORTED, (waiting, running, halted))
