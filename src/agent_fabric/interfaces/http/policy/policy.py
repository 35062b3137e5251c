"""What may happen, and why. Nothing is run, and nothing changed."""

import time
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response

from agent_fabric.application.policy.simulate_policy import SimulatePolicy
from agent_fabric.bootstrap.lazy_outside import may_leave_box
from agent_fabric.bootstrap.local import policy_of
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.infrastructure.policy.rule_files import rules_from
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.interfaces.http.policy.policy_schemas import CommandToCheck, RulesToTry
from agent_fabric.interfaces.views.policy import check_command, with_added
from agent_fabric.wire.policy import CHECKED_COMMAND, POLICY, SIMULATION


def add_policy(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes. The policy is the one that the server has started with."""
    in_force = policy_of(fabric.records, fabric.config)
    may_leave = may_leave_box(fabric.config)
    simulate_policy = SimulatePolicy(fabric.catalogue, fabric.records.runs)

    @app.get("/api/v1/policy", **operation("policy", Scope.RUNS_READ, "Show the rules in force", POLICY))
    async def show() -> Response:
        """The same as `fabric policy show --json`."""
        return json_answer(POLICY.dump(in_force))

    @app.post(
        "/api/v1/policy/check",
        **operation(
            "policy",
            Scope.RUNS_READ,
            "Explain what the policy says about a command line",
            CHECKED_COMMAND,
            body=takes(CommandToCheck),
        ),
    )
    async def check(request: Request) -> Response:
        """The same as `fabric policy check --json`: every part, and each rule that fits it. Nothing is run."""
        wish = await body_of(request, CommandToCheck)
        checked = check_command(
            in_force, wish.command, agent=wish.agent, level=wish.level, scopes=wish.scopes, may_leave=may_leave
        )
        return json_answer(CHECKED_COMMAND.dump(checked))

    @app.post(
        "/api/v1/policy/simulate",
        **operation(
            "policy",
            Scope.RUNS_READ,
            "Judge past calls again, with more rules",
            SIMULATION,
            body=takes(RulesToTry),
            fails=[503],
        ),
    )
    async def simulate(request: Request) -> Response:
        """The same as `fabric policy simulate --json`: what would change in one's own and the team's runs."""
        wish = await body_of(request, RulesToTry)
        try:
            # Not here: whoever may only look must not hold up everybody else with a long text.
            after = await on_own_thread(lambda: with_added(in_force, rules_from(wish.text, Path(wish.file))))
        except ConfigProblem as problem:
            raise ConfigError(problem.message, hint=problem.hint) from None
        viewer = replace(Viewer.of(who_asks(request)), sees_all=False)
        result = await simulate_policy(in_force, after, since=time.time() - wish.since_s, viewer=viewer)
        return json_answer(SIMULATION.dump(result))
