"""Plans: one call on many machines, approved as a whole, rolled out in waves."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, Path, Query, Request
from pydantic import Field, StringConstraints
from starlette.responses import Response

from agent_fabric.application.fleet.roll_out_plan import PlanWish
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound
from agent_fabric.domain.fleet.node_tools import UPGRADE
from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlanStatus
from agent_fabric.domain.fleet.protocol import MAX_LIFETIME_S
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody, body_of
from agent_fabric.interfaces.http.fleet.node_schemas import SELECTOR
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import gives, operation, takes
from agent_fabric.interfaces.http.runs.starting import begun
from agent_fabric.wire.plans import ASKED_PLAN, PLAN, PLANS, AskedPlan

BASE: Final = "/api/v1/fleet/plans"
ASKED_TIMEOUT_S: Final = 20.0
PAUSE_S: Final = 0.02
_APPLY: Final = {
    "name": "fleet-plan",
    "description": "one command on many machines of the fleet",
    "inputs": {"plan": {"type": "object", "required": True}},
    "steps": [
        {
            "id": "apply",
            "action": "fleet-plan",
            "inputs": {
                name: f"{{{{ inputs.plan.{name} }}}}"
                for name in ("plan_id", "hash", "tool_name", "arguments", "nodes", "waves", "check")
            },
            "idempotent": True,
        }
    ],
}
PlanPath = Annotated[str, Path(description="The id of a plan.", max_length=64)]


class PlanRequest(
    RequestBody,
    strict=False,
    json_schema_extra={
        "examples": [{"selector": "role=web", "tool_name": "run_command", "arguments": {"command": "uptime"}}]
    },
):
    """One call on many machines."""

    selector: Annotated[str, StringConstraints(pattern=SELECTOR, max_length=500)]
    tool_name: Annotated[str, StringConstraints(max_length=100)] = "run_command"
    arguments: dict[str, Any] = Field(default={})
    name: Annotated[str, StringConstraints(max_length=200)] = ""
    canary: Annotated[int, Field(ge=0, le=1_000)] = 1
    """How many machines go first."""
    waves: Annotated[list[str], Field(min_length=1, max_length=20)] = Field(default=["10%", "50%", "100%"])
    max_errors: Annotated[int, Field(ge=0, le=100_000)] = 0
    """One more halts the plan."""
    pause_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.0
    """Between waves."""
    on_offline: Literal["skip", "queue", "fail"] = "skip"
    check: Annotated[str, StringConstraints(max_length=4_000)] = ""
    """A command that only reads, and must succeed on each machine after the call."""
    expires_in_s: Annotated[float, Field(gt=0, le=MAX_LIFETIME_S, allow_inf_nan=False)] = MAX_LIFETIME_S


def add_fleet_plans(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes."""
    fleet = fabric.fleet
    fails = [404, 409, 503, 507]

    @app.post(
        BASE, **operation("fleet", Scope.NODES, "Freeze a plan", PLAN, status=201, body=takes(PlanRequest), fails=fails)
    )
    async def freeze(request: Request) -> Response:
        """Nodes, exact calls, versions and limits are written down; nothing is sent before the plan is applied."""
        wish = await body_of(request, PlanRequest)
        if too_deep(wish.arguments, await request.body()):
            raise InvalidInputs("The arguments are nested too deep")
        if wish.tool_name == UPGRADE and wish.arguments.get("sha256") != (await fleet.archive()).sha256:
            raise InvalidInputs("The release is not of the program that this hub has", hint="Sign that of its version.")
        plan, _ = await fleet.freeze(
            PlanWish(
                selector=wish.selector,
                tool_name=wish.tool_name,
                arguments=wish.arguments,
                by=who_asks(request).name,
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
        await fleet.plans.save(plan)
        return json_answer(PLAN.dump(plan), 201)

    @app.get(BASE, **operation("fleet", Scope.RUNS_READ, "List plans", PLANS))
    async def plans(limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Response:
        """Plans, the newest first."""
        return json_answer(PLANS.dump(await fleet.plans.list(limit=limit)))

    @app.get(f"{BASE}/{{plan_id}}", **operation("fleet", Scope.RUNS_READ, "Show a plan", PLAN, fails=[404]))
    async def show(plan_id: PlanPath) -> Response:
        """What was frozen, and how far it has come."""
        return json_answer(PLAN.dump(await find(plan_id)))

    async def find(plan_id: str) -> Plan:
        found = await fleet.plans.find(plan_id)
        if found is None:
            raise NodeNotFound(f"There is no plan {plan_id!r}", hint="See them with: fabric fleet list")
        return found

    workflows = open_workflows(fabric.records.layout.root, fabric.config)

    @app.post(
        f"{BASE}/{{plan_id}}/apply",
        **operation(
            "fleet",
            Scope.NODES,
            "Apply a plan",
            ASKED_PLAN,
            also=gives(ASKED_PLAN, status=202, text="It waits for a person: see `approval_id`."),
            fails=fails,
        ),
    )
    async def apply(plan_id: PlanPath, request: Request) -> Response:
        """One approval shows all of it. Where nothing changes anything, it begins at once."""
        plan = await find(plan_id)
        if plan.status is not PlanStatus.WAITING or plan.run_id:
            raise InvalidInputs(f"The plan is {plan.status.value}, or waits for its approval already")
        if not await fleet.asks(plan):
            begun_plan = await fleet.roll_out.change(plan.id, PlanStatus.RUNNING, since=(PlanStatus.WAITING,))
            return json_answer(ASKED_PLAN.dump(_told(begun_plan, "")))
        shown = {
            "plan_id": plan.id,
            "hash": plan.hash,
            "tool_name": plan.tool_name,
            "arguments": dict(plan.arguments),
            "nodes": [call.node for call in plan.calls],
            "check": plan.check,
            "waves": [sum(call.wave == number for call in plan.calls) for number in range(plan.waves)],
        }
        workflow = SoundWorkflow(plain=_APPLY, definition=definition_from(_APPLY), source="")
        drive = await begun(fabric, request, workflows.task(workflow, {"plan": shown}).asked_by(who_asks(request)))
        await fleet.plans.save(replace(plan, run_id=drive.run_id))
        async with asyncio.timeout(ASKED_TIMEOUT_S):
            while not (  # noqa: ASYNC110 - another process may drive the run
                cards := await fabric.records.approvals.list(run_id=drive.run_id, pending_only=False)
            ):
                await asyncio.sleep(PAUSE_S)
        return json_answer(ASKED_PLAN.dump(_told(replace(plan, run_id=drive.run_id), cards[-1].approval_id)), 202)

    def add_change(word: str, summary: str, text: str, status: PlanStatus, since: tuple[PlanStatus, ...]) -> None:
        async def change(plan_id: PlanPath, request: Request) -> Response:
            note = f"{word} by {who_asks(request).name}"
            return json_answer(PLAN.dump(await fleet.roll_out.change(plan_id, status, since=since, note=note)))

        change.__doc__ = text
        app.post(f"{BASE}/{{plan_id}}/{word}", **operation("fleet", Scope.NODES, summary, PLAN, fails=fails))(change)

    running, halted, waiting = PlanStatus.RUNNING, PlanStatus.HALTED, PlanStatus.WAITING
    add_change("halt", "Halt a plan", "Nothing more is sent, within a second.", halted, (running,))
    add_change("resume", "Resume a plan", "It goes on in the same wave.", running, (halted,))
    add_change("abort", "Abort a plan", "For good.", PlanStatus.ABORTED, (waiting, running, halted))


def _told(plan: Plan, approval_id: str) -> AskedPlan:
    return AskedPlan(plan.id, plan.status.value, plan.hash, approval_id, plan.run_id)
